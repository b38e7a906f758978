#include "models/gguf_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/gguf_blocks.h"
#include "kernels/kernels.h"
#include "models/panel_packing.h"

namespace espalier {
namespace {

// Numbers that a task dequantises: some rows of a matrix, which stay in the first caches.
constexpr int64_t kTile = 1 << 15;

bool finite(const float* x, int64_t count) {
  float sum = 0;  // 0 * x is 0 for every finite x, and NaN for the others
  for (int64_t i = 0; i < count; ++i) sum += 0 * x[i];
  return sum == 0;
}

class GgufSource : public WeightSource {
 public:
  GgufSource(const std::string& path, const ArchSpec& spec)
      : path_(path), file_(GgufFile::open(path)), arch_(need_gguf_arch(file_)), spec_(spec) {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (tensor.name == "rope_freqs.weight") continue;  // part of the configuration
      const auto name = gguf_to_config_name(arch_, tensor.name);
      names_.push_back(name.value_or(std::string(tensor.name)));
      tensors_.emplace(names_.back(), &tensor);
    }
  }

  const std::string& path() const override { return path_; }
  const char* config_name() const override { return "the metadata"; }
  const std::vector<std::string>& names() const override { return names_; }
  bool transposes_conv1d() const override { return arch_.conv1d; }
  const Shape* shape(const std::string& name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second->shape;
  }

  std::optional<BlockTensor> blocks(const std::string& name) const override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end() || found->second->shape.rank() != 2 || !panel_kind(found->second->type))
      return std::nullopt;
    const GgufTensor& tensor = *found->second;
    const GgmlTypeInfo& type = ggml_type_info(tensor.type);
    BlockTensor blocks{tensor.type, file_.data(tensor).data(), tensor.shape[1] / type.elements * type.bytes, {}};
    if (gguf_moves_rows(arch_, name))
      for (int64_t row = 0; row < tensor.shape[0]; ++row) blocks.rows.push_back(gguf_row(arch_, spec_, name, row));
    return blocks;
  }

  void read(Context& ctx, const std::string& name, int64_t row, Mat to) const override {
    const GgufTensor& tensor = *tensors_.at(name);
    if (tensor.shape.rank() == 1) return read_vector(ctx, tensor, name, row, to);
    const int64_t cols = tensor.shape[1];
    const int64_t rows_a_tile = std::max<int64_t>(1, kTile / std::max<int64_t>(cols, 1));
    std::atomic<bool> all_finite{true};
    parallel_ranges(ctx.pool, to.rows, rows_a_tile, [&](int64_t begin, int64_t end) {
      std::vector<float> tile(size_t((end - begin) * cols));
      read_rows(tensor, name, {row + begin, row + end}, tile.data());
      if (!finite(tile.data(), int64_t(tile.size()))) all_finite = false;
      const ConstMat from = mat(std::as_const(tile).data(), end - begin, cols);
      kernels(ctx).copy(ctx, {.src = from, .dst = sub_rows(to, begin, end - begin)});
    });
    if (!all_finite) throw_not_finite(path_, std::string(tensor.name));
  }

 private:
  struct Rows {
    int64_t begin, end;
  };

  std::string place_of(const GgufTensor& tensor) const { return fmt::format("tensor {} of {}", tensor.name, path_); }

  void read_rows(const GgufTensor& tensor, const std::string& name, Rows rows, float* out) const {
    const int64_t cols = tensor.shape[1];
    const GgmlTypeInfo& type = ggml_type_info(tensor.type);
    const int64_t row_bytes = cols / type.elements * type.bytes;
    const std::byte* blocks = file_.data(tensor).data();
    const std::string place = place_of(tensor);
    if (!gguf_moves_rows(arch_, name))
      return dequantise(tensor.type, blocks + rows.begin * row_bytes, (rows.end - rows.begin) * cols, out, place);
    for (int64_t row = rows.begin; row < rows.end; ++row, out += cols)
      dequantise(tensor.type, blocks + gguf_row(arch_, spec_, name, row) * row_bytes, cols, out, place);
  }

  void read_vector(Context& ctx, const GgufTensor& tensor, const std::string& name, int64_t begin, Mat to) const {
    std::vector<float> whole(size_t(tensor.shape[0])), wanted(size_t(to.cols));
    dequantise(tensor.type, file_.data(tensor).data(), tensor.shape[0], whole.data(), place_of(tensor));
    if (!finite(whole.data(), int64_t(whole.size()))) throw_not_finite(path_, std::string(tensor.name));
    const float shift = arch_.norms_plus_one && name.ends_with("norm.weight") ? 1 : 0;
    for (int64_t i = 0; i < to.cols; ++i)
      wanted[size_t(i)] = whole[size_t(gguf_row(arch_, spec_, name, begin + i))] - shift;
    kernels(ctx).copy(ctx, {.src = mat(std::as_const(wanted).data(), 1, to.cols), .dst = to});
  }

  std::string path_;
  GgufFile file_;
  const GgufArch& arch_;
  ArchSpec spec_;
  std::vector<std::string> names_;
  std::map<std::string, const GgufTensor*> tensors_;
};

}  // namespace

bool gguf_moves_rows(const GgufArch& arch, std::string_view name) {
  return (arch.rotary_pairs && (name.find(".q_proj.") != name.npos || name.find(".k_proj.") != name.npos)) ||
         (arch.joint_qkv && name.find(".query_key_value.") != name.npos);
}

int64_t gguf_row(const GgufArch& arch, const ArchSpec& spec, std::string_view name, int64_t row) {
  if (!gguf_moves_rows(arch, name)) return row;
  const int64_t size = spec.head_size, half = size / 2, in_head = row % size;
  if (arch.rotary_pairs) return row - in_head + in_head % half * 2 + in_head / half;
  const int64_t head = row / (3 * size), which = row / size % 3;
  return which * spec.heads * size + head * size + in_head;
}

std::unique_ptr<WeightSource> open_gguf_source(const std::string& path, const ArchSpec& spec) {
  return std::make_unique<GgufSource>(path, spec);
}

}  // namespace espalier
