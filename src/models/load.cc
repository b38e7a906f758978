#include "models/load.h"

#include <atomic>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/hf_folder.h"
#include "models/registry.h"

namespace espalier {
namespace {

// What one part of a weight goes through on its way in.
struct Source {
  std::string name;  // as found in the file
  Tensor tensor;
  int64_t row = 0, rows = 0;
  bool transposed = false;
  int64_t their_row = 0;

  // The rows of the tensor that are meant, all of it but for tensors that several parts share.
  ConstMat from() const {
    const ConstMat all = tensor.mat();
    if (transposed) return all;
    return tensor.shape().rank() == 1 ? sub_cols(all, their_row, rows) : sub_rows(all, their_row, rows);
  }
};

// GPT-2's first files name tensors without the prefix that transformers writes today.
std::string name_in(const SafetensorsFolder& files, const std::string& name) {
  constexpr std::string_view kPrefix = "transformer.";
  if (!files.find(name) && name.starts_with(kPrefix) && files.find(name.substr(kPrefix.size())))
    return name.substr(kPrefix.size());
  return name;
}

Source find_source(const SafetensorsFolder& files, const TensorPart& part, const Shape& whole,
                   const std::string& path) {
  Source s{name_in(files, part.name), {}, part.row, part.rows, part.transposed, part.their_row};
  const int64_t cols = whole.rank() == 2 ? whole[1] : 1;
  if (s.rows == 0) s.rows = whole[0];
  const TensorInfo* info = files.find(s.name);
  if (!info)
    throw error(Code::kBadData, "reading {}: tensor {} is missing; config.json promises it. Fetch the model again",
                path, s.name);
  const int64_t rows = part.their_rows > 0 ? part.their_rows : s.rows;
  const Shape expected = whole.rank() == 1 ? Shape{rows} : s.transposed ? Shape{cols, rows} : Shape{rows, cols};
  if (!(info->shape == expected))
    throw error(Code::kMismatch, "reading {}: tensor {} is {}; config.json makes it {}", path, s.name,
                info->shape.text(), expected.text());
  if (info->dtype != DType::kF32 && info->dtype != DType::kBF16 && info->dtype != DType::kF16)
    throw error(Code::kUnsupported, "reading {}: tensor {} is {}; weights are f32, bf16 or f16", path, s.name,
                dtype_name(info->dtype));
  s.tensor = files.tensor(s.name);
  return s;
}

// Rows [row, row + rows) of `target` from the part, converting on the way.
void copy_in(Context& ctx, const Source& s, Tensor& target) {
  const bool vector = target.shape().rank() == 1;
  Mat to = target.mat();
  to = vector ? sub_cols(to, s.row, s.rows) : sub_rows(to, s.row, s.rows);
  const ConstMat from = s.from();
  if (!s.transposed) return kernels(ctx).copy(ctx, {.src = from, .dst = to});
  Tensor wide(DType::kF32, {from.rows, from.cols});
  kernels(ctx).copy(ctx, {.src = from, .dst = wide.mat()});
  Tensor turned(DType::kF32, {to.rows, to.cols});
  const float* w = wide.as<float>();
  float* t = turned.as<float>();
  parallel_ranges(ctx.pool, to.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < to.cols; ++c)
      for (int64_t r = begin; r < end; ++r) t[r * to.cols + c] = w[c * to.rows + r];
  });
  kernels(ctx).copy(ctx, {.src = std::as_const(turned).mat(), .dst = to});
}

template <class T>
bool all_finite(Context& ctx, ConstMat tensor) {
  std::atomic<bool> finite{true};
  const T* x = tensor.row<T>(0);
  parallel_ranges(ctx.pool, tensor.rows * tensor.cols, 1 << 18, [&](int64_t begin, int64_t end) {
    float sum = 0;  // 0 * x is 0 for every finite x, and NaN for the others
    for (int64_t i = begin; i < end; ++i) sum += 0 * float(x[i]);
    if (sum != 0) finite = false;
  });
  return finite;
}

void check_finite(Context& ctx, const Source& s, const std::string& path) {
  const ConstMat from = s.from();  // whole rows: contiguous
  const bool finite = from.dtype == DType::kF32    ? all_finite<float>(ctx, from)
                      : from.dtype == DType::kBF16 ? all_finite<bf16>(ctx, from)
                                                   : all_finite<f16>(ctx, from);
  if (!finite)
    throw error(Code::kBadData, "reading {}: tensor {} holds NaN or infinity; the file is damaged or its training "
                "diverged", path, s.name);
}

std::vector<Source> sources_of(const SafetensorsFolder& files, const ArchSpec& spec, const WeightInfo& w,
                               const std::string& path) {
  const Shape whole = w.rows > 0 ? Shape{w.rows, w.cols} : Shape{w.cols};
  std::vector<Source> sources;
  for (const TensorPart& part : family(spec.family, path).parts(spec, w.name))
    sources.push_back(find_source(files, part, whole, path));
  return sources;
}

// The files hold what the spec asks for, and nothing else. Asked before memory is taken: a config.json may lie.
void check_names_and_shapes(const SafetensorsFolder& files, const ArchSpec& spec, const std::string& path) {
  std::set<std::string> used;
  for (const WeightInfo& w : weight_list(spec))
    for (const Source& source : sources_of(files, spec, w, path)) used.insert(source.name);
  for (const std::string& name : files.names()) {
    if (used.contains(name) || family(spec.family, path).ignored(name)) continue;
    if (spec.tied_head && name == "lm_head.weight") continue;  // some writers keep the tied copy
    throw error(Code::kUnsupported, "reading {}: tensor {} has no place in the {} architecture that config.json "
                "describes", path, name, spec.family);
  }
}

void fill(Context& ctx, Decoder& model, const SafetensorsFolder& files, const std::string& path) {
  for (Param& p : model.params()) {
    const bool vector = p.shape().rank() == 1;
    const WeightInfo info{p.name, vector ? 0 : p.shape()[0], p.shape()[vector ? 0 : 1]};
    for (const Source& source : sources_of(files, model.spec(), info, path)) {
      check_finite(ctx, source, path);
      copy_in(ctx, source, p.master ? p.master : p.compute_copy);
    }
  }
  model.refresh_copies(ctx);
}

}  // namespace

ArchSpec load_spec(const std::string& path) {
  const std::string file = path + "/config.json";
  return read_config(read_json_file(file, size_t{16} << 20), file);
}

std::unique_ptr<Decoder> load_model(Context& ctx, const Mesh& mesh, const std::string& path,
                                    const LoadOptions& options) {
  const ArchSpec spec = load_spec(path);
  const SafetensorsFolder files = open_weights(path);
  check_names_and_shapes(files, spec, path);
  auto model = std::make_unique<Decoder>(spec, mesh, options.dtype, options.train);
  fill(ctx, *model, files, path);
  return model;
}

void load_weights(Context& ctx, Decoder& model, const std::string& path) {
  const SafetensorsFolder files = open_weights(path);
  check_names_and_shapes(files, model.spec(), path);
  fill(ctx, model, files, path);
}

}  // namespace espalier
