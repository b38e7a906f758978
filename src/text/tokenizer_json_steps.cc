// The normalizer, pre-tokenizer and decoder of tokenizer.json. A step that is read is a function and a row of one of
// the three tables below.

#include "base/json_value.h"
#include "text/tokenizer_json_reader.h"
#include "text/utf8.h"

namespace espalier {
namespace {

/// A step and its place, for errors.
struct StepJson {
  const JsonReader& reader;
  const Json& json;
  std::string what;  // "tokenizer.json (Split)"

  template <class T>
  T get(const char* key) const {
    return json_get<T>(json, key, what);
  }
  template <class T>
  T get_or(const char* key, T fallback) const {
    return json_get_or<T>(json, key, std::move(fallback), what);
  }
};

/// {"String": "..."} or {"Regex": "..."}.
Pattern read_pattern(const StepJson& step) {
  const Json& pattern = member(step.json, "pattern");
  if (!member(pattern, "String").is_null()) return Pattern(json_get<std::string>(pattern, "String", step.what));
  if (!member(pattern, "Regex").is_null())
    return Pattern(RegexSplitter(json_get<std::string>(pattern, "Regex", step.what), step.reader.what));
  throw step.reader.unsupported("the pattern {}", pattern.dump());
}

SplitBehavior read_behavior(const StepJson& step, const char* fallback) {
  const std::string name = step.get_or<std::string>("behavior", fallback);
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw step.reader.unsupported("the behavior {}", name);
}

/// A member that must be one character.
std::string read_char(const StepJson& step, const char* key, const char* fallback) {
  const std::string text = step.get_or<std::string>(key, fallback);
  int length = 0;
  if (!text.empty()) utf8_decode(reinterpret_cast<const uint8_t*>(text.data()), length);
  if (text.empty() || size_t(length) != text.size())
    throw step.reader.bad("{}: \"{}\" is \"{}\"; expected one character", step.what, key, text);
  return text;
}

constexpr const char* kMark = "\u2581";

// Whether a mark goes before texts. Old files say add_prefix_space instead.
MetaspaceStep::Scheme read_scheme(const StepJson& step) {
  const std::string name = step.get_or<std::string>("prepend_scheme", "always");
  if (name == "never" || !step.get_or("add_prefix_space", true)) return MetaspaceStep::kNever;
  if (name == "first") return MetaspaceStep::kFirst;
  if (name == "always") return MetaspaceStep::kAlways;
  throw step.reader.unsupported("the prepend_scheme {}", name);
}

// Normalizers.

using NormalizerSteps = std::vector<Normalizer::Step>;

void normalize_replace(const StepJson& step, NormalizerSteps& steps) {
  steps.push_back(ReplaceStep{read_pattern(step), step.get<std::string>("content")});
}
void normalize_prepend(const StepJson& step, NormalizerSteps& steps) {
  steps.push_back(PrependStep{step.get<std::string>("prepend")});
}
template <UnicodeForm form>
void normalize_form(const StepJson&, NormalizerSteps& steps) {
  steps.push_back(form);
}
void normalize_lowercase(const StepJson&, NormalizerSteps& steps) { steps.push_back(LowercaseStep{}); }
void normalize_strip_accents(const StepJson&, NormalizerSteps& steps) { steps.push_back(StripAccentsStep{}); }
void normalize_nmt(const StepJson&, NormalizerSteps& steps) { steps.push_back(NmtStep{}); }
void normalize_strip(const StepJson& step, NormalizerSteps& steps) {
  steps.push_back(StripStep{step.get_or("strip_left", true), step.get_or("strip_right", true)});
}
void normalize_charsmap(const StepJson& step, NormalizerSteps& steps) {
  const auto map = step.get_or<std::string>("precompiled_charsmap", "");
  // A field of ours, for what was a SentencePiece file (text/sentencepiece_model.h).
  const bool longest = step.get_or("longest_match", false);
  const auto matching = longest ? Charsmap::Matching::kLongest : Charsmap::Matching::kClusters;
  if (!map.empty()) steps.push_back(Charsmap::from_base64(map, matching, step.what));
}
void normalize_bert(const StepJson& step, NormalizerSteps& steps) {
  const bool lowercase = step.get_or("lowercase", true);
  steps.push_back(BertStep{.clean_text = step.get_or("clean_text", true),
                           .chinese_chars = step.get_or("handle_chinese_chars", true),
                           .strip_accents = step.get_or("strip_accents", lowercase),
                           .lowercase = lowercase});
}

struct NormalizerRow {
  const char* type;
  void (*read)(const StepJson&, NormalizerSteps&);
};
constexpr NormalizerRow kNormalizers[] = {
    {"Replace", normalize_replace},
    {"Prepend", normalize_prepend},
    {"NFC", normalize_form<UnicodeForm::kNfc>},
    {"NFD", normalize_form<UnicodeForm::kNfd>},
    {"NFKC", normalize_form<UnicodeForm::kNfkc>},
    {"NFKD", normalize_form<UnicodeForm::kNfkd>},
    {"Lowercase", normalize_lowercase},
    {"Strip", normalize_strip},
    {"StripAccents", normalize_strip_accents},
    {"Nmt", normalize_nmt},
    {"Precompiled", normalize_charsmap},
    {"BertNormalizer", normalize_bert},
};

// Pre-tokenizers.

using PreSteps = std::vector<PreTokenizer::Step>;

void pre_split(const StepJson& step, PreSteps& steps) {
  const SplitBehavior behavior = read_behavior(step, "Isolated");
  const bool invert = step.get_or("invert", false);
  const Json& regex = member(member(step.json, "pattern"), "Regex");
  const SplitPattern* const known = regex.is_string() ? find_split_by_regex(regex.get<std::string>()) : nullptr;
  if (known && behavior == SplitBehavior::kIsolated) {  // inverted or not: matches and gaps are pieces alike
    steps.emplace_back(known);
  } else {
    steps.emplace_back(SplitStep{read_pattern(step), behavior, invert});
  }
}

void pre_metaspace(const StepJson& step, PreSteps& steps) {
  steps.emplace_back(
      MetaspaceStep{read_char(step, "replacement", kMark), read_scheme(step), step.get_or("split", true)});
}

void pre_byte_level(const StepJson& step, PreSteps& steps) {
  if (step.get_or("add_prefix_space", true)) steps.emplace_back(PrefixSpaceStep{});
  if (step.get_or("use_regex", true)) steps.emplace_back(&kGpt2Split);
}

int number_class(uint32_t c) { return class_of(char_classes(), c) == kNumber ? 1 : 2; }
int digit_class(uint32_t c) { return class_of(char_classes(), c) == kNumber ? CharRunsStep::kAlone : 2; }

void pre_digits(const StepJson& step, PreSteps& steps) {
  steps.emplace_back(CharRunsStep{step.get_or("individual_digits", false) ? digit_class : number_class});
}

int word_class(uint32_t c) { return is_white_space(c) ? CharRunsStep::kRemoved : is_word_character(c) ? 1 : 2; }
int visible_class(uint32_t c) { return is_white_space(c) ? CharRunsStep::kRemoved : 1; }
int bert_class(uint32_t c) {
  return is_white_space(c) ? CharRunsStep::kRemoved : is_punctuation(c) ? CharRunsStep::kAlone : 1;
}

void pre_whitespace(const StepJson&, PreSteps& steps) { steps.emplace_back(CharRunsStep{word_class}); }
void pre_whitespace_split(const StepJson&, PreSteps& steps) { steps.emplace_back(CharRunsStep{visible_class}); }
void pre_bert(const StepJson&, PreSteps& steps) { steps.emplace_back(CharRunsStep{bert_class}); }
void pre_punctuation(const StepJson& step, PreSteps& steps) {
  steps.emplace_back(SplitStep{Pattern(is_punctuation), read_behavior(step, "Isolated"), false});
}
void pre_delimiter(const StepJson& step, PreSteps& steps) {
  steps.emplace_back(SplitStep{Pattern(read_char(step, "delimiter", "")), SplitBehavior::kRemoved, false});
}

struct PreRow {
  const char* type;
  void (*read)(const StepJson&, PreSteps&);
};
constexpr PreRow kPreTokenizers[] = {
    {"ByteLevel", pre_byte_level},
    {"Split", pre_split},
    {"Digits", pre_digits},
    {"Metaspace", pre_metaspace},
    {"Whitespace", pre_whitespace},
    {"WhitespaceSplit", pre_whitespace_split},
    {"Punctuation", pre_punctuation},
    {"BertPreTokenizer", pre_bert},
    {"CharDelimiterSplit", pre_delimiter},
};

// Decoders.

using DecoderSteps = std::vector<TokenDecoder::Step>;

void decode_replace(const StepJson& step, DecoderSteps& steps) {
  steps.push_back(DecodeReplace{read_pattern(step), step.get<std::string>("content")});
}
void decode_byte_fallback(const StepJson&, DecoderSteps& steps) { steps.push_back(DecodeByteFallback{}); }
void decode_fuse(const StepJson&, DecoderSteps& steps) { steps.push_back(DecodeFuse{}); }
void decode_byte_level(const StepJson&, DecoderSteps& steps) { steps.push_back(DecodeByteLevel{}); }

void decode_strip(const StepJson& step, DecoderSteps& steps) {
  const auto count = [&](const char* key) {
    const auto value = step.get_or<int64_t>(key, 0);
    if (value < 0) throw step.reader.bad("{}: \"{}\" is {}; expected 0 or more", step.what, key, value);
    return size_t(value);
  };
  steps.push_back(DecodeStrip{read_char(step, "content", " "), count("start"), count("stop")});
}

void decode_metaspace(const StepJson& step, DecoderSteps& steps) {
  steps.push_back(
      DecodeMetaspace{read_char(step, "replacement", kMark), read_scheme(step) != MetaspaceStep::kNever});
}

struct DecoderRow {
  const char* type;
  void (*read)(const StepJson&, DecoderSteps&);
};
constexpr DecoderRow kDecoders[] = {
    {"ByteLevel", decode_byte_level}, {"Replace", decode_replace}, {"ByteFallback", decode_byte_fallback},
    {"Fuse", decode_fuse},            {"Strip", decode_strip},     {"Metaspace", decode_metaspace},
};

/// Reads one step by its row.
template <class Rows, class Steps>
void read_step(const JsonReader& reader, const Rows& rows, const std::string& type, const Json& json, Steps& steps,
               const char* kind) {
  for (const auto& row : rows)
    if (type == row.type) return row.read({reader, json, reader.what + " (" + type + ")"}, steps);
  throw reader.unsupported("the {} {}", kind, type);
}

}  // namespace

Normalizer read_normalizer(const JsonReader& reader, const Json& part) {
  NormalizerSteps steps;
  for (const Json* step : sequence(reader, part, "normalizer", "normalizers"))
    read_step(reader, kNormalizers, type_of(reader, *step, "normalizer"), *step, steps, "normalizer");
  return Normalizer(std::move(steps));
}

void read_pre_tokenizer(const JsonReader& reader, const Json& part, TokenizerParts& parts) {
  PreSteps steps;
  for (const Json* step : sequence(reader, part, "pre_tokenizer", "pretokenizers")) {
    const std::string type = type_of(reader, *step, "pre_tokenizer");
    // Behind it the library sees the byte alphabet, and we bytes.
    if (parts.byte_level) throw reader.unsupported("the pre-tokenizer {} behind ByteLevel", type);
    read_step(reader, kPreTokenizers, type, *step, steps, "pre-tokenizer");
    parts.byte_level = type == "ByteLevel";
  }
  // The usual place of a prefix space is done without a copy of the text's alignment.
  if (!steps.empty() && std::holds_alternative<PrefixSpaceStep>(steps.front())) {
    parts.add_prefix_space = true;
    steps.erase(steps.begin());
  }
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
}

TokenDecoder read_decoder(const JsonReader& reader, const Json& part, bool byte_level) {
  DecoderSteps steps;
  for (const Json* step : sequence(reader, part, "decoder", "decoders"))
    read_step(reader, kDecoders, type_of(reader, *step, "decoder"), *step, steps, "decoder");
  if (!byte_level && part.is_null()) return TokenDecoder({DecodeJoin{}});
  const bool only_bytes = steps.size() == 1 && std::holds_alternative<DecodeByteLevel>(steps[0]);
  if (byte_level && (only_bytes || steps.empty())) return {};
  return TokenDecoder(std::move(steps));
}

}  // namespace espalier
