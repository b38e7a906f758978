// The limits of the machine. oneDNN measures the products, as a judge that had no part in our kernels; it runs here
// with its own threads, as many as the pool has.
#include "kernels/peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

#include "base/error.h"
#include "kernels/gemm.h"
#include "tensor/tensor.h"

// OpenMP's two functions that are needed. Its header comes with the compiler, and clang's is a package of its own.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
}

namespace espalier {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The shortest of several runs that together take some `budget` seconds, at least three.
template <class F>
double shortest(double budget, F&& run) {
  run();  // untimed: pages, code, frequency
  double best = 1e30;
  const double begin = seconds();
  for (int i = 0; i < 3 || seconds() - begin < budget; ++i) {
    const double start = seconds();
    run();
    best = std::min(best, seconds() - start);
  }
  return best;
}

/// oneDNN's threads for the life of this object.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~OpenMpThreads() { omp_set_num_threads(before_); }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

 private:
  int before_;
};

struct ProductTypes {
  dnnl::memory::data_type a, b, c;
};

ProductTypes product_types(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::kF32:
      return {Type::f32, Type::f32, Type::f32};
    case DType::kBF16:
      return {Type::bf16, Type::bf16, Type::f32};
    case DType::kU8:
      return {Type::u8, Type::s8, Type::s32};
    default:
      throw error(Code::kUnsupported, "measuring products of {}: f32, bf16 and u8 can be measured", dtype_name(dtype));
  }
}

/// Seconds of one product of two square matrices.
double product_seconds(int64_t size, const ProductTypes& types, double budget) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl::memory::dims dims{size, size};
  const auto describe = [&](dnnl::memory::data_type type) {
    return dnnl::memory::desc(dims, type, dnnl::memory::format_tag::ab);
  };
  const Tensor a(DType::kF32, {size, size}), b(DType::kF32, {size, size}), c(DType::kF32, {size, size});
  const auto place = [&](const dnnl::memory::desc& desc, const Tensor& t) {
    return dnnl::memory(desc, engine, const_cast<void*>(t.data()));
  };
  const auto a_desc = describe(types.a), b_desc = describe(types.b), c_desc = describe(types.c);
  const dnnl::matmul product(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a_desc, b_desc, c_desc), engine));
  const std::unordered_map<int, dnnl::memory> operands{
      {DNNL_ARG_SRC, place(a_desc, a)}, {DNNL_ARG_WEIGHTS, place(b_desc, b)}, {DNNL_ARG_DST, place(c_desc, c)}};
  return shortest(budget, [&] {
    product.execute(stream, operands);
    stream.wait();
  });
}

constexpr int64_t kPiece = int64_t{1} << 20;

/// Bytes that no cache holds.
int64_t big(bool quick) { return int64_t{quick ? 256 : 1024} << 20; }

/// Sum of the words of n bytes, a multiple of 1 KiB. Asking for them ahead gives one thread up to a third more.
uint64_t sum_words(const char* bytes, int64_t n) {
  constexpr int64_t kChunk = 1024, kAhead = 8192;
  uint64_t sums[16] = {}, words[16];
  for (int64_t chunk = 0; chunk < n; chunk += kChunk) {
    for (int64_t i = 0; i < kChunk; i += 64) __builtin_prefetch(bytes + chunk + kAhead + i);
    for (int64_t i = chunk; i < chunk + kChunk; i += int64_t(sizeof words)) {
      std::memcpy(words, bytes + i, sizeof words);
      for (int j = 0; j < 16; ++j) sums[j] += words[j];
    }
  }
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

double gemm_peak_gflops(Context& ctx, DType dtype, bool quick) {
  // A pinned ISA is the limit's ISA too. oneDNN takes this before its first product only: the pin of the process.
  const bool avx2 = ctx.isa == Isa::kAvx2;
  if (avx2) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
  if (dtype == DType::kBF16 && (avx2 || !has_native_bf16())) return 0;
  const ProductTypes types = product_types(dtype);
  const OpenMpThreads threads(ctx.pool.size());
  double best = 0;
  for (int64_t size : {1024, 2048, 4096}) {
    if (quick && size == 4096) continue;
    try {
      const double flops = 2.0 * double(size) * double(size) * double(size);
      best = std::max(best, flops / product_seconds(size, types, quick ? 0.15 : 0.5) * 1e-9);
    } catch (const dnnl::error& failure) {  // the edge of oneDNN
      if (failure.status == dnnl_unimplemented) return 0;
      throw error(Code::kInternal, "measuring products of {}: oneDNN says '{}'", dtype_name(dtype), failure.what());
    }
  }
  return best;
}

double read_bandwidth_gb_s(Context& ctx, bool quick) {
  const Tensor memory(DType::kU8, {big(quick)});
  const char* bytes = static_cast<const char*>(memory.data());
  std::vector<uint64_t> sums(size_t(memory.bytes() / kPiece));
  const double time = shortest(quick ? 0.1 : 0.5, [&] {
    ctx.pool.parallel_for(memory.bytes() / kPiece,
                          [&](int64_t i, int) { sums[size_t(i)] = sum_words(bytes + i * kPiece, kPiece); });
  });
  return double(memory.bytes()) / time * 1e-9;
}

double copy_bandwidth_gb_s(Context& ctx, bool quick) {
  const Tensor from(DType::kU8, {big(quick)});
  Tensor to(DType::kU8, {big(quick)});
  const char* source = static_cast<const char*>(from.data());
  char* target = static_cast<char*>(to.data());
  const double time = shortest(quick ? 0.1 : 0.5, [&] {
    ctx.pool.parallel_for(from.bytes() / kPiece,
                          [&](int64_t i, int) { std::memcpy(target + i * kPiece, source + i * kPiece, kPiece); });
  });
  return 2 * double(from.bytes()) / time * 1e-9;
}

const char* machine_class() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512f")) return "B";
  return has_native_bf16() && __builtin_cpu_supports("avx512vnni") ? "A" : "other";
}

}  // namespace espalier
