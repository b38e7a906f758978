#include "engine/sampler_config.h"

#include "base/error.h"

namespace espalier {
namespace {

/// Holds each value against the range that its line of visit() gives.
class RangeCheck final : public Fields {
 public:
  using Fields::field;
  void field(const char*, bool&, const char*) override {}
  void field(const char*, std::string&, const char*) override {}
  void field(const char*, std::vector<std::string>&, const char*) override {}
  void choice(const char*, std::string&, std::initializer_list<const char*>, const char*) override {}
  void field(const char* name, int64_t& value, const char*, int64_t min, int64_t max) override {
    require(name, value, min, max, max == std::numeric_limits<int64_t>::max());
  }
  void field(const char* name, double& value, const char*, double min, double max) override {
    require(name, value, min, max, max >= 1e300);
  }

 private:
  void enter(const char*, const char*) override {}
  void leave() override {}

  template <class T>
  void require(const char* name, T value, T min, T max, bool open) {
    if (value >= min && value <= max) return;  // false for NaN
    if (open) throw error(Code::kUsage, "sampling: {} is {}; expected {} or more", name, value, min);
    throw error(Code::kUsage, "sampling: {} is {}; expected {} to {}", name, value, min, max);
  }
};

}  // namespace

void SamplerConfig::visit(Fields& f) {
  f.field("temperature", temperature, "0 takes the likeliest token; 1 draws from the model's own distribution", 0, 100);
  f.field("dynatemp_range", dynatemp_range,
          "let the temperature move by up to this much, with the entropy of the distribution; 0: it is fixed", 0, 100);
  f.field("dynatemp_exponent", dynatemp_exponent, "bends the way from entropy to temperature; 1: straight", 0, 100);
  f.field("top_n_sigma", top_n_sigma,
          "drop tokens this many standard deviations of the logits below the best one; 0: none", 0, 1000);
  f.field("top_k", top_k, "draw from the k likeliest tokens; 0: from all", 0, int64_t{1} << 31);
  f.field("typical_p", typical_p,
          "draw from the fewest tokens of the most typical surprise whose probabilities reach this sum", 0, 1);
  f.field("top_p", top_p, "draw from the fewest tokens whose probabilities reach this sum", 0, 1);
  f.field("min_p", min_p, "drop tokens below this share of the likeliest one's probability", 0, 1);
  f.field("xtc_probability", xtc_probability, "how often XTC drops all likely tokens but the least likely of them", 0,
          1);
  f.field("xtc_threshold", xtc_threshold, "the probability from which on a token is likely for XTC", 0, 1);
  f.field("mirostat", mirostat, "2: mirostat 2 in the place of all filters; 0: off", 0, 2);
  f.field("mirostat_tau", mirostat_tau, "the surprise that mirostat aims at, in bits a token", 0, 100);
  f.field("mirostat_eta", mirostat_eta, "how fast mirostat corrects itself", 0, 1);
  f.field("repetition_penalty", repetition_penalty,
          "divides positive logits of recent tokens, multiplies negative ones", 0.01, 100);
  f.field("frequency_penalty", frequency_penalty, "taken from the logit of a recent token as often as it occurs", -100,
          100);
  f.field("presence_penalty", presence_penalty, "taken from the logit of a recent token once", -100, 100);
  f.field("repetition_window", repetition_window, "how many last tokens are recent, the prompt's too; 0: all", 0);
  f.field("dry_multiplier", dry_multiplier, "DRY: penalty of a token that would go on with a repetition; 0: off", 0,
          100);
  f.field("dry_base", dry_base, "DRY: times this for every token that the repetition is longer", 1, 100);
  f.field("dry_allowed_length", dry_allowed_length, "DRY: repetitions shorter than this are free", 1, 1 << 20);
  f.field("dry_range", dry_range, "DRY: how many last tokens are searched; 0: all", 0);
  f.field("dry_sequence_breakers", dry_sequence_breakers,
          "DRY: texts that end a repetition; may be given several times");
  f.field("logit_bias", logit_bias,
          "ID=BIAS adds to the logit of a token, -inf bans it; may be given several times");
  f.field("seed", seed, "of the draws; the same seed gives the same text");
}

void check_sampler_config(const SamplerConfig& config) {
  SamplerConfig copy = config;
  RangeCheck check;
  copy.visit(check);
  if (config.mirostat == 1)
    throw Error(Code::kUsage, "sampling: mirostat is 1, which is not offered; expected 0 (off) or 2");
}

}  // namespace espalier
