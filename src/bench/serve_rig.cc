#include "bench/serve_rig.h"

#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "formats/hf_folder.h"

namespace espalier {

ServeRig::ServeRig(Context& ctx, const std::string& model)
    : ctx_(ctx),
      model_(load_model(ctx_, one_process_mesh(), is_file(model) ? model : find_model(model),
                        {.blocks = Blocks::kPack})),
      cache_(model_->spec()), logits_(DType::kF32, {64, model_->spec().vocab}) {}

double ServeRig::pass(int64_t rows, int64_t scored) {
  const int64_t begin = cache_.length();
  cache_.reserve(begin + rows);
  std::vector<int32_t> ids, positions;
  for (int64_t i = 0; i < rows; ++i) {
    ids.push_back(int32_t((begin + i) * 7919 % model_->spec().vocab));
    positions.push_back(int32_t(begin + i));
  }
  const CacheSegment segment{&cache_, 0, rows};
  const Stopwatch watch;
  Tape tape(ctx_, buffers_, DType::kF32, TapeMode::kServe);
  const Var hidden = model_->hidden(tape, {1, rows, ids.data(), positions.data(), nullptr, {&segment, 1}});
  const Var last = tape.make(scored, hidden.cols());
  kernels(ctx_).copy(ctx_, {.src = sub_rows(hidden.value(), rows - scored, scored), .dst = last.value()});
  model_->logits(tape, last, sub_rows(logits_.mat(), 0, scored));
  const double seconds = watch.seconds();
  cache_.advance(rows);
  return seconds;
}

double ServeRig::weight_bytes() const {
  double bytes = 0;
  for (const Param& p : model_->params()) {
    if (!p.quantised) {
      if (!p.is_embedding) bytes += double(p.size()) * double(dtype_size(p.compute().dtype));
      continue;
    }
    for (const PanelRun& run : p.quantised->runs())
      bytes += double(run.count() * panel_bytes(run.kind, p.shape()[1]));
  }
  return bytes;
}

void for_each_cell(Context& ctx, const BenchOptions& options,
                   const std::function<void(ServeRig&, const std::string&)>& measure) {
  const std::vector<std::string> models = options.models.empty() ? std::vector{options.model} : options.models;
  const int threads = ctx.pool.size();
  for (const std::string& model : models) {
    ServeRig rig(ctx, model);
    const std::string name = std::filesystem::path(model).stem().string();
    measure(rig, fmt::format("{}, {} thread{}", name, threads, threads == 1 ? "" : "s"));
  }
}

}  // namespace espalier
