#include "formats/gguf_blocks.h"

#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "formats/gguf_layouts.h"
#include "tensor/dtype.h"

namespace espalier {
namespace {

using namespace gguf_layouts;

void unpack(const Q8_0& b, float* x) {
  const float d = b.d;
  for (int i = 0; i < 32; ++i) x[i] = d * float(b.qs[i]);
}

void unpack(const Q4_0& b, float* x) {
  const float d = b.d;
  for (int i = 0; i < 16; ++i) {
    x[i] = d * float((b.qs[i] & 15) - 8);
    x[i + 16] = d * float((b.qs[i] >> 4) - 8);
  }
}

void unpack(const Q4_1& b, float* x) {
  const float d = b.d, m = b.m;
  for (int i = 0; i < 16; ++i) {
    x[i] = d * float(b.qs[i] & 15) + m;
    x[i + 16] = d * float(b.qs[i] >> 4) + m;
  }
}

void unpack(const Q5_0& b, float* x) {
  const float d = b.d;
  for (int i = 0; i < 16; ++i) {
    x[i] = d * float(((b.qs[i] & 15) | fifth(b.qh, i)) - 16);
    x[i + 16] = d * float(((b.qs[i] >> 4) | fifth(b.qh, i + 16)) - 16);
  }
}

void unpack(const Q5_1& b, float* x) {
  const float d = b.d, m = b.m;
  for (int i = 0; i < 16; ++i) {
    x[i] = d * float((b.qs[i] & 15) | fifth(b.qh, i)) + m;
    x[i + 16] = d * float((b.qs[i] >> 4) | fifth(b.qh, i + 16)) + m;
  }
}

void unpack(const IQ4_NL& b, float* x) {
  const float d = b.d;
  for (int i = 0; i < 16; ++i) {
    x[i] = d * float(kLevels[b.qs[i] & 15]);
    x[i + 16] = d * float(kLevels[b.qs[i] >> 4]);
  }
}

// In the K types, sub-block s of 16 elements reads bytes (s / 8) * 32 + (s % 2) * 16 on, shifted by 2 * (s % 8 / 2).
void unpack(const Q2_K& b, float* x) {
  const float d = b.d, dmin = b.dmin;
  for (int s = 0; s < 16; ++s) {
    const uint8_t* q = b.qs + s / 8 * 32 + s % 2 * 16;
    const int shift = s % 8 / 2 * 2;
    const float scale = d * float(b.scales[s] & 15), least = dmin * float(b.scales[s] >> 4);
    for (int i = 0; i < 16; ++i) x[16 * s + i] = scale * float(q[i] >> shift & 3) - least;
  }
}

void unpack(const Q3_K& b, float* x) {
  const float d = b.d;
  for (int s = 0; s < 16; ++s) {
    const uint8_t *q = b.qs + s / 8 * 32 + s % 2 * 16, *high = b.hmask + s % 2 * 16;
    const int shift = s % 8 / 2 * 2, bit = s / 2;
    const float scale = d * float(scale_of(b, s));
    for (int i = 0; i < 16; ++i) x[16 * s + i] = scale * float((q[i] >> shift & 3) - (high[i] >> bit & 1 ? 0 : 4));
  }
}

struct ScaledBy {
  float scale, least;
  ScaledBy(const uint8_t (&packed)[12], int s, float d, float dmin) {
    const ScaleMin f = scale_min(packed, s);
    scale = d * float(f.scale);
    least = dmin * float(f.least);
  }
};

void unpack(const Q4_K& b, float* x) {
  const float d = b.d, dmin = b.dmin;
  for (int s = 0; s < 8; ++s) {
    const ScaledBy f(b.scales, s, d, dmin);
    const uint8_t* q = b.qs + s / 2 * 32;
    const int shift = s % 2 * 4;
    for (int i = 0; i < 32; ++i) x[32 * s + i] = f.scale * float(q[i] >> shift & 15) - f.least;
  }
}

void unpack(const Q5_K& b, float* x) {
  const float d = b.d, dmin = b.dmin;
  for (int s = 0; s < 8; ++s) {
    const ScaledBy f(b.scales, s, d, dmin);
    const uint8_t* q = b.qs + s / 2 * 32;
    const int shift = s % 2 * 4;
    for (int i = 0; i < 32; ++i)
      x[32 * s + i] = f.scale * float((q[i] >> shift & 15) | (b.qh[i] >> s & 1) << 4) - f.least;
  }
}

void unpack(const Q6_K& b, float* x) {
  const float d = b.d;
  for (int s = 0; s < 16; ++s) {
    const int quarter = s % 8 / 2;  // of 128 elements, which share 64 bytes of ql and 32 of qh
    const uint8_t* low = b.ql + s / 8 * 64 + quarter % 2 * 32 + s % 2 * 16;
    const uint8_t* high = b.qh + s / 8 * 32 + s % 2 * 16;
    const int low_shift = quarter / 2 * 4, high_shift = quarter * 2;
    const float scale = d * float(b.scales[s]);
    for (int i = 0; i < 16; ++i)
      x[16 * s + i] = scale * float(((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
  }
}

void unpack(const IQ4_XS& b, float* x) {
  const float d = b.d;
  for (int s = 0; s < 8; ++s) {
    const float scale = d * float(scale_of(b, s));
    const uint8_t* q = b.qs + s * 16;
    for (int i = 0; i < 16; ++i) {
      x[32 * s + i] = scale * float(kLevels[q[i] & 15]);
      x[32 * s + i + 16] = scale * float(kLevels[q[i] >> 4]);
    }
  }
}

template <class Block, int Elements>
void unpack_all(const std::byte* bytes, int64_t elements, float* out) {
  static_assert(alignof(Block) == 1);
  const auto* blocks = reinterpret_cast<const Block*>(bytes);
  for (int64_t i = 0; i < elements / Elements; ++i) unpack(blocks[i], out + i * Elements);
}

template <class T>
void widen(const std::byte* bytes, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) {
    T value;
    std::memcpy(&value, bytes + i * int64_t(sizeof value), sizeof value);
    out[i] = float(value);
  }
}

struct Unpacker {
  GgmlType type;
  void (*run)(const std::byte*, int64_t, float*);
  size_t block_bytes;
};

constexpr Unpacker kUnpackers[] = {
    {GgmlType::kF32, widen<float>, 4},
    {GgmlType::kF16, widen<f16>, 2},
    {GgmlType::kBF16, widen<bf16>, 2},
    {GgmlType::kQ8_0, unpack_all<Q8_0, 32>, sizeof(Q8_0)},
    {GgmlType::kQ4_0, unpack_all<Q4_0, 32>, sizeof(Q4_0)},
    {GgmlType::kQ4_1, unpack_all<Q4_1, 32>, sizeof(Q4_1)},
    {GgmlType::kQ5_0, unpack_all<Q5_0, 32>, sizeof(Q5_0)},
    {GgmlType::kQ5_1, unpack_all<Q5_1, 32>, sizeof(Q5_1)},
    {GgmlType::kIQ4_NL, unpack_all<IQ4_NL, 32>, sizeof(IQ4_NL)},
    {GgmlType::kQ2_K, unpack_all<Q2_K, 256>, sizeof(Q2_K)},
    {GgmlType::kQ3_K, unpack_all<Q3_K, 256>, sizeof(Q3_K)},
    {GgmlType::kQ4_K, unpack_all<Q4_K, 256>, sizeof(Q4_K)},
    {GgmlType::kQ5_K, unpack_all<Q5_K, 256>, sizeof(Q5_K)},
    {GgmlType::kQ6_K, unpack_all<Q6_K, 256>, sizeof(Q6_K)},
    {GgmlType::kIQ4_XS, unpack_all<IQ4_XS, 256>, sizeof(IQ4_XS)},
};

const Unpacker* find_unpacker(GgmlType type) {
  for (const Unpacker& unpacker : kUnpackers)
    if (unpacker.type == type) return &unpacker;
  return nullptr;
}

}  // namespace

bool can_dequantise(GgmlType type) { return find_unpacker(type) != nullptr; }

void dequantise(GgmlType type, const std::byte* blocks, int64_t elements, float* out, const std::string& what) {
  const Unpacker* unpacker = find_unpacker(type);
  if (!unpacker) {
    std::string known;
    for (const Unpacker& u : kUnpackers) known += (known.empty() ? "" : ", ") + std::string(ggml_type_name(u.type));
    throw error(Code::kUnsupported, "reading {}: weights of type {} are not read; those of {} are", what,
                ggml_type_name(type), known);
  }
  const GgmlTypeInfo& info = ggml_type_info(type);
  ESP_CHECK(elements % info.elements == 0 && unpacker->block_bytes == size_t(info.bytes), "{} elements of {}, {} bytes",
            elements, info.name, unpacker->block_bytes);
  unpacker->run(blocks, elements, out);
}

}  // namespace espalier
