#include "formats/gguf_quantise.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "formats/gguf_layouts.h"
#include "formats/gguf_search.h"
#include "tensor/dtype.h"

namespace espalier {
namespace {

using namespace gguf_layouts;

constexpr int kBlock = 32;  // elements of the types packed here

/// 1 / d; 0 where a block has nothing to say, or so little that 1 / d is not a number (d is 0 as f16 long before).
float inverse_of(float d) { return std::abs(d) >= FLT_MIN ? 1 / d : 0; }

/// The number of largest magnitude, with its sign; the first of equals.
float largest_of(const float* x) {
  return *std::max_element(x, x + kBlock, [](float a, float b) { return std::abs(a) < std::abs(b); });
}

struct Span {
  float least, most;
};
Span span_of(const float* x) {
  const auto [least, most] = std::minmax_element(x, x + kBlock);
  return {*least, *most};
}

/// q = floor(x inverse + shift) where that is not negative, at most `top`.
void levels_of(const float* x, float zero, float inverse, float shift, int top, uint8_t* q) {
  for (int i = 0; i < kBlock; ++i) q[i] = uint8_t(std::min(top, int((x[i] - zero) * inverse + shift)));
}

/// The lower four bits of all, and the fifth.
void put_low(const uint8_t* q, uint8_t (&qs)[16]) {
  for (int i = 0; i < 16; ++i) qs[i] = uint8_t((q[i] & 15) | q[i + 16] << 4);
}
void put_fifth(const uint8_t* q, uint8_t (&qh)[4]) {
  for (int i = 0; i < kBlock; ++i) qh[i / 8] |= uint8_t(q[i] >> 4 << i % 8);
}

void pack(const float* x, Q8_0& b) {
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(x[i]));
  const float d = largest / 127, inverse = inverse_of(d);
  b.d = half_of(d);
  // Nearest, ties away from zero, as std::round() but without a call: what is added is the number below one half.
  for (int i = 0; i < kBlock; ++i) {
    const float q = x[i] * inverse;
    b.qs[i] = int8_t(q + std::copysign(0x1.fffffep-2f, q));
  }
}

// The number of largest magnitude becomes the lowest level, of which there is one more than of positive ones; hence the
// sign of d.
void pack(const float* x, Q4_0& b) {
  const float d = largest_of(x) / -8;
  uint8_t q[kBlock];
  levels_of(x, 0, inverse_of(d), 8.5f, 15, q);
  b.d = half_of(d);
  put_low(q, b.qs);
}

void pack(const float* x, Q5_0& b) {
  const float d = largest_of(x) / -16;
  uint8_t q[kBlock];
  levels_of(x, 0, inverse_of(d), 16.5f, 31, q);
  b.d = half_of(d);
  put_low(q, b.qs);
  put_fifth(q, b.qh);
}

void pack(const float* x, Q4_1& b) {
  const Span span = span_of(x);
  const float d = (span.most - span.least) / 15;
  uint8_t q[kBlock];
  levels_of(x, span.least, inverse_of(d), 0.5f, 15, q);
  b.d = half_of(d);
  b.m = half_of(span.least);
  put_low(q, b.qs);
}

void pack(const float* x, Q5_1& b) {
  const Span span = span_of(x);
  const float d = (span.most - span.least) / 31;
  uint8_t q[kBlock];
  levels_of(x, span.least, inverse_of(d), 0.5f, 31, q);
  b.d = half_of(d);
  b.m = half_of(span.least);
  put_low(q, b.qs);
  put_fifth(q, b.qh);
}

template <class Block>
void pack_all(const float* numbers, int64_t elements, std::byte* out) {
  for (int64_t at = 0; at < elements; at += kBlock, out += sizeof(Block)) {
    Block b{};
    pack(numbers + at, b);
    std::memcpy(out, &b, sizeof b);
  }
}

template <class T>
void narrow(const float* numbers, int64_t elements, std::byte* out) {
  for (int64_t i = 0; i < elements; ++i) {
    const T value(numbers[i]);
    std::memcpy(out + i * int64_t(sizeof value), &value, sizeof value);
  }
}

struct Packer {
  GgmlType type;
  void (*run)(const float*, int64_t, std::byte*);
};

constexpr Packer kPackers[] = {
    {GgmlType::kF32, narrow<float>},       {GgmlType::kF16, narrow<f16>},        {GgmlType::kBF16, narrow<bf16>},
    {GgmlType::kQ8_0, pack_all<Q8_0>},     {GgmlType::kQ4_0, pack_all<Q4_0>},    {GgmlType::kQ4_1, pack_all<Q4_1>},
    {GgmlType::kQ5_0, pack_all<Q5_0>},     {GgmlType::kQ5_1, pack_all<Q5_1>},    {GgmlType::kIQ4_NL, search_iq4_nl},
    {GgmlType::kQ2_K, search_q2_k},        {GgmlType::kQ3_K, search_q3_k},       {GgmlType::kQ4_K, search_q4_k},
    {GgmlType::kQ5_K, search_q5_k},        {GgmlType::kQ6_K, search_q6_k},
};

const Packer* find_packer(GgmlType type) {
  for (const Packer& packer : kPackers)
    if (packer.type == type) return &packer;
  return nullptr;
}

}  // namespace

bool can_quantise(GgmlType type) { return find_packer(type) != nullptr; }

float largest_quantisable(GgmlType type) {
  return type == GgmlType::kF32 || type == GgmlType::kBF16 ? FLT_MAX : 65504.0f;
}

void quantise(GgmlType type, const float* numbers, int64_t elements, std::byte* out) {
  const Packer* packer = find_packer(type);
  ESP_CHECK(packer != nullptr && elements % ggml_type_info(type).elements == 0, "{} elements into {}", elements,
            ggml_type_name(type));
  packer->run(numbers, elements, out);
}

void quantise(Context& ctx, GgmlType type, const float* numbers, int64_t elements, std::byte* out) {
  constexpr int64_t kTask = 1 << 13;  // elements; whole blocks of every type, and about a fifth of a millisecond
  const GgmlTypeInfo& info = ggml_type_info(type);
  parallel_ranges(ctx.pool, elements, kTask, [&](int64_t begin, int64_t end) {
    quantise(type, numbers + begin, end - begin, out + begin / info.elements * info.bytes);
  });
}

}  // namespace espalier
