#include "models/weight_source.h"

#include <atomic>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/hf_folder.h"
#include "kernels/kernels.h"
#include "models/gguf_weights.h"

namespace espalier {
namespace {

template <class T>
bool all_finite(Context& ctx, const void* numbers, int64_t count) {
  std::atomic<bool> finite{true};
  const T* x = static_cast<const T*>(numbers);
  parallel_ranges(ctx.pool, count, 1 << 18, [&](int64_t begin, int64_t end) {
    float sum = 0;  // 0 * x is 0 for every finite x, and NaN for the others
    for (int64_t i = begin; i < end; ++i) sum += 0 * float(x[i]);
    if (sum != 0) finite = false;
  });
  return finite;
}

class SafetensorsSource : public WeightSource {
 public:
  explicit SafetensorsSource(const std::string& folder) : path_(folder), files_(open_weights(folder)) {}

  const std::string& path() const override { return path_; }
  const char* config_name() const override { return "config.json"; }
  const std::vector<std::string>& names() const override { return files_.names(); }
  const Shape* shape(const std::string& name) const override {
    const TensorInfo* info = files_.find(name);
    return info ? &info->shape : nullptr;
  }

  void read(Context& ctx, const std::string& name, int64_t row, Mat to) const override {
    const Tensor tensor = files_.tensor(name);
    ConstMat from = tensor.mat();
    from = tensor.shape().rank() == 1 ? sub_cols(from, row, to.cols) : sub_rows(from, row, to.rows);
    const int64_t count = from.rows * from.cols;
    bool finite = false;
    switch (from.dtype) {
      case DType::kF32:
        finite = all_finite<float>(ctx, from.data, count);
        break;
      case DType::kBF16:
        finite = all_finite<bf16>(ctx, from.data, count);
        break;
      case DType::kF16:
        finite = all_finite<f16>(ctx, from.data, count);
        break;
      default:
        throw error(Code::kUnsupported, "reading {}: tensor {} is {}; weights are f32, bf16 or f16", path_, name,
                    dtype_name(from.dtype));
    }
    if (!finite) throw_not_finite(path_, name);
    kernels(ctx).copy(ctx, {.src = from, .dst = to});
  }

 private:
  std::string path_;
  SafetensorsFolder files_;
};

}  // namespace

void throw_not_finite(const std::string& path, const std::string& name) {
  throw error(Code::kBadData, "reading {}: tensor {} holds NaN or infinity; the file is damaged or its training "
              "diverged", path, name);
}

std::unique_ptr<WeightSource> open_safetensors_source(const std::string& folder) {
  return std::make_unique<SafetensorsSource>(folder);
}

std::unique_ptr<WeightSource> open_weight_source(const std::string& path, const ArchSpec& spec) {
  if (is_gguf(path)) return open_gguf_source(path, spec);
  return open_safetensors_source(path);
}

}  // namespace espalier
