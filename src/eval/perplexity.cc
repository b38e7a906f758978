#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"

namespace espalier {
namespace {

void check(const ArchSpec& spec, std::span<const int32_t> ids, const PerplexityOptions& options) {
  const int64_t n = options.context;
  if (n < 3 || n > spec.positions)
    throw error(Code::kUsage, "measuring perplexity: the context is {}; this model takes 3 to {}", n, spec.positions);
  if (int64_t(ids.size()) < n)
    throw error(Code::kUsage, "measuring perplexity: the text has {} tokens, one chunk is {}; give a longer text or a "
                "smaller context", ids.size(), n);
  for (const int32_t id : ids)
    if (id < 0 || id >= spec.vocab)
      throw error(Code::kMismatch, "measuring perplexity: token {} is outside the model's vocabulary of {}; is the "
                  "tokenizer another model's?", id, spec.vocab);
}

/// Some chunks side by side, as the decoder takes them.
struct Chunks {
  std::vector<int32_t> ids, positions, first_key, targets;
  std::vector<float> losses;

  Chunks(int64_t count, int64_t n)
      : ids(size_t(count * n)), positions(ids.size()), first_key(ids.size()), targets(ids.size(), -1),
        losses(ids.size()) {
    for (int64_t i = 0; i < count * n; ++i) positions[size_t(i)] = int32_t(i % n);
  }

  void fill(std::span<const int32_t> text, int64_t n, std::optional<int32_t> bos) {
    std::copy(text.begin(), text.end(), ids.begin());
    for (int64_t begin = 0; begin < int64_t(text.size()); begin += n) {
      for (int64_t j = n / 2; j < n - 1; ++j) targets[size_t(begin + j)] = text[size_t(begin + j + 1)];
      if (bos) ids[size_t(begin)] = *bos;
    }
  }
};

void collect(const Chunks& chunks, int64_t rows, int64_t origin, Perplexity& result) {
  for (int64_t i = 0; i < rows; ++i) {
    if (chunks.targets[size_t(i)] < 0) continue;
    const TokenScore score{origin + i + 1, chunks.targets[size_t(i)], chunks.losses[size_t(i)]};
    if (!std::isfinite(score.nll))
      throw error(Code::kBadData,
                  "measuring perplexity: the score of token {} is {}; the model's weights or activations "
                  "overflowed",
                  score.i, score.nll);
    result.nll += double(score.nll);
    result.tokens.push_back(score);
  }
}

}  // namespace

Perplexity perplexity(Context& ctx, Decoder& model, std::span<const int32_t> ids, const PerplexityOptions& options,
                      Progress& progress) {
  check(model.spec(), ids, options);
  const int64_t n = options.context, total = int64_t(ids.size()) / n;
  const int64_t at_once = std::clamp<int64_t>(options.rows / n, 1, total);
  Chunks chunks(at_once, n);
  BufferPool pool;
  Tape tape(ctx, pool, model.dtype(), TapeMode::kEval);
  Perplexity result;
  result.chunks = total;
  result.tokens.reserve(size_t(total * (n - 1 - n / 2)));
  progress.begin("perplexity", total, "chunks");
  for (int64_t begin = 0; begin < total; begin += at_once) {
    const int64_t count = std::min(at_once, total - begin);
    chunks.fill(ids.subspan(size_t(begin * n), size_t(count * n)), n, options.bos);
    model.loss(tape, {.sequences = count, .rows = n, .ids = chunks.ids.data(), .positions = chunks.positions.data(),
                      .first_key = chunks.first_key.data()},
               chunks.targets.data(), 1, chunks.losses.data());
    collect(chunks, count * n, begin * n, result);
    progress.update(begin + count, fmt::format("ppl {:.4f}", std::exp(result.nll / double(result.tokens.size()))));
  }
  progress.end();
  result.tokens_scored = int64_t(result.tokens.size());
  result.nll /= double(result.tokens_scored);
  result.ppl = std::exp(result.nll);
  return result;
}

}  // namespace espalier
