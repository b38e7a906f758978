// What the serving benchmarks share: a model with one cached sequence, whose passes are timed.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "bench/bench.h"
#include "engine/timed_pass.h"
#include "models/decoder.h"
#include "models/load.h"

namespace espalier {

class ServeRig {
 public:
  /// The quantised weights of a .gguf run from their blocks.
  ServeRig(Context& ctx, const std::string& model);

  /// Forgets all positions from `length` on.
  void truncate(int64_t length) { pass_.truncate(length); }
  /// Seconds of a pass over `rows` new tokens with the logits of the last `scored` of them.
  double pass(int64_t rows, int64_t scored) { return pass_.run(rows, scored); }

  Context& context() { return ctx_; }
  const ArchSpec& spec() const { return model_->spec(); }
  /// Bytes of weights that a pass over one token reads.
  double weight_bytes() const;

 private:
  Context& ctx_;
  std::unique_ptr<Decoder> model_;
  TimedPass pass_;
};

/// Runs `measure(rig, name)` for each of options.models, or options.model; `name` is "model, 2 threads".
void for_each_cell(Context& ctx, const BenchOptions& options,
                   const std::function<void(ServeRig& rig, const std::string& name)>& measure);

}  // namespace espalier
