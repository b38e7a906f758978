#include "models/diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <type_traits>

namespace espalier {
namespace {

template <class T>
void widen(const void* data, int64_t begin, int64_t count, double* out) {
  const T* x = static_cast<const T*>(data) + begin;
  for (int64_t i = 0; i < count; ++i)
    if constexpr (std::is_arithmetic_v<T>)
      out[i] = double(x[i]);
    else
      out[i] = double(float(x[i]));
}

// Numbers [begin, begin + count) of a tensor.
void numbers(const Tensor& t, int64_t begin, int64_t count, double* out) {
  switch (t.dtype()) {
    case DType::kF32:
      return widen<float>(t.data(), begin, count, out);
    case DType::kBF16:
      return widen<bf16>(t.data(), begin, count, out);
    case DType::kF16:
      return widen<f16>(t.data(), begin, count, out);
    case DType::kF64:
      return widen<double>(t.data(), begin, count, out);
    case DType::kI32:
      return widen<int32_t>(t.data(), begin, count, out);
    case DType::kI64:
      return widen<int64_t>(t.data(), begin, count, out);
    case DType::kU16:
      return widen<uint16_t>(t.data(), begin, count, out);
    case DType::kU8:
    case DType::kBool:
      return widen<uint8_t>(t.data(), begin, count, out);
  }
}

// Sums over a pair of tensors, or over a piece of them.
struct Sums {
  double difference = 0, a = 0, b = 0, dot = 0, max_abs = 0;

  void add(double x, double y) {
    const double d = y - x;
    difference += d * d;
    a += x * x;
    b += y * y;
    dot += x * y;
    if (std::abs(d) > max_abs || std::isnan(d)) max_abs = std::abs(d);  // a NaN stays: nothing is above it
  }
  void add(const Sums& s) {
    difference += s.difference;
    a += s.a;
    b += s.b;
    dot += s.dot;
    if (s.max_abs > max_abs || std::isnan(s.max_abs)) max_abs = s.max_abs;
  }
};

Sums sums_of(Context& ctx, const Tensor& a, const Tensor& b) {
  constexpr int64_t kPiece = int64_t{1} << 13;  // both sides in f64 fit a core's cache
  std::vector<Sums> pieces(size_t((a.size() + kPiece - 1) / kPiece));
  parallel_ranges(ctx.pool, a.size(), kPiece, [&](int64_t begin, int64_t end) {
    double x[kPiece], y[kPiece];
    numbers(a, begin, end - begin, x);
    numbers(b, begin, end - begin, y);
    Sums s;
    for (int64_t i = 0; i < end - begin; ++i) s.add(x[i], y[i]);
    pieces[size_t(begin / kPiece)] = s;
  });
  Sums total;
  for (const Sums& s : pieces) total.add(s);
  return total;
}

TensorDiff compare(Context& ctx, const Tensor& a, const Tensor& b, Sums& whole) {
  TensorDiff d;
  d.shape_a = a.shape();
  d.shape_b = b.shape();
  d.dtype_a = a.dtype();
  d.dtype_b = b.dtype();
  if (!(a.shape() == b.shape())) {
    d.kind = DiffKind::kShape;
    return d;
  }
  const Sums s = sums_of(ctx, a, b);
  whole.add(s);
  const bool same_bits = a.dtype() == b.dtype() && std::memcmp(a.data(), b.data(), size_t(a.bytes())) == 0;
  d.kind = same_bits                                      ? DiffKind::kSame
           : s.difference == 0 && a.dtype() != b.dtype() ? DiffKind::kDType
                                                          : DiffKind::kValues;
  if (same_bits) return d;
  d.max_abs = s.max_abs;
  d.relative_l2 = s.difference == 0 ? 0 : std::sqrt(s.difference / s.a);
  d.cosine = s.difference == 0 ? 1 : s.dot / std::sqrt(s.a * s.b);
  return d;
}

TensorDiff missing(const SafetensorsFolder& files, const std::string& name, bool in_a) {
  TensorDiff d;
  d.kind = in_a ? DiffKind::kOnlyA : DiffKind::kOnlyB;
  (in_a ? d.shape_a : d.shape_b) = files.find(name)->shape;
  (in_a ? d.dtype_a : d.dtype_b) = files.find(name)->dtype;
  return d;
}

// NaN counts as farther than any number.
double distance(const TensorDiff& d) {
  const bool comparable = d.kind == DiffKind::kSame || d.kind == DiffKind::kDType || d.kind == DiffKind::kValues;
  if (!comparable || std::isnan(d.relative_l2)) return INFINITY;
  return d.relative_l2;
}

}  // namespace

const char* diff_kind_name(DiffKind kind) {
  constexpr const char* kNames[] = {"same", "dtype", "values", "shape", "only A", "only B"};
  return kNames[int(kind)];
}

ModelDiff diff_models(Context& ctx, const SafetensorsFolder& a, const SafetensorsFolder& b) {
  std::set<std::string> names(a.names().begin(), a.names().end());
  names.insert(b.names().begin(), b.names().end());
  ModelDiff diff;
  Sums whole;
  for (const std::string& name : names) {
    TensorDiff d = a.find(name) && b.find(name) ? compare(ctx, a.tensor(name), b.tensor(name), whole)
                   : a.find(name)               ? missing(a, name, true)
                                                : missing(b, name, false);
    d.name = name;
    diff.same += d.kind == DiffKind::kSame;
    diff.tensors.push_back(std::move(d));
  }
  std::stable_sort(diff.tensors.begin(), diff.tensors.end(), [](const TensorDiff& x, const TensorDiff& y) {
    if (distance(x) != distance(y)) return distance(x) > distance(y);
    return int(x.kind) > int(y.kind);
  });
  diff.relative_l2 = whole.difference == 0 ? 0 : std::sqrt(whole.difference / whole.a);
  return diff;
}

}  // namespace espalier
