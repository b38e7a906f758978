#include "engine/text_embedding.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace espalier {
namespace {

constexpr int64_t kRows = 128;  // a pass

void check(const ArchSpec& spec, std::span<const int32_t> ids) {
  if (ids.empty()) throw Error(Code::kUsage, "embedding: the text is empty; give at least one token");
  if (int64_t(ids.size()) > spec.positions)
    throw error(Code::kUsage, "embedding: the text has {} tokens and the model's context is {}; shorten the text",
                ids.size(), spec.positions);
  for (const int32_t id : ids)
    if (id < 0 || id >= spec.vocab)
      throw error(Code::kMismatch, "embedding: token {} is outside the model's vocabulary of {}", id, spec.vocab);
}

}  // namespace

std::vector<float> embed_text(Context& ctx, Decoder& model, std::span<const int32_t> ids) {
  check(model.spec(), ids);
  BufferPool buffers;
  KvCache cache(model.spec());
  cache.reserve(int64_t(ids.size()));
  std::vector<double> sums(size_t(model.spec().width));
  for (size_t at = 0; at < ids.size(); at += size_t(kRows)) {
    const auto part = ids.subspan(at, std::min(size_t(kRows), ids.size() - at));
    const int64_t rows = int64_t(part.size());
    std::vector<int32_t> positions(part.size());
    for (size_t i = 0; i < part.size(); ++i) positions[i] = int32_t(at + i);
    Tape tape(ctx, buffers, DType::kF32, TapeMode::kServe);
    const CacheSegment segment{&cache, 0, rows};
    const Var hidden = model.hidden(tape, {1, rows, part.data(), positions.data(), nullptr, {&segment, 1}});
    cache.advance(rows);
    for (int64_t i = 0; i < rows; ++i)
      for (size_t c = 0; c < sums.size(); ++c) sums[c] += double(hidden.value().row<float>(i)[c]);
  }
  double squares = 0;
  for (const double x : sums) squares += x * x;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> vector(sums.size());
  for (size_t c = 0; c < sums.size(); ++c) vector[c] = float(sums[c] * scale);
  return vector;
}

}  // namespace espalier
