#include "bench/serve_rig.h"

#include <filesystem>
#include <vector>

#include "base/file.h"
#include "formats/hf_folder.h"

namespace espalier {

ServeRig::ServeRig(Context& ctx, const std::string& model)
    : ctx_(ctx),
      model_(load_model(ctx_, one_process_mesh(), is_file(model) ? model : find_model(model),
                        {.blocks = Blocks::kPack})),
      pass_(ctx_, *model_, 64) {}

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
