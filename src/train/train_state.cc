#include "train/train_state.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"

namespace espalier {

Json state_to_json(const TrainState& s) {
  Json json = {{"step", s.step},
               {"samples", s.samples},
               {"updates", s.updates},
               {"trained_s", s.trained_s},
               {"dtype", s.dtype},
               {"guard", {{"window", s.guard.window}, {"skipped", s.guard.skipped}, {"in_row", s.guard.in_row}}}};
  json["data"] = {{"tokens", s.data.tokens},
                  {"vocab_hash", hex64(s.data.vocab_hash)},
                  {"fingerprint", hex64(s.data.fingerprint)}};
  if (s.best) json["best"] = {{"step", s.best->step}, {"val_loss", s.best->val_loss}};
  return json;
}

TrainState state_from_json(const Json& json, const std::string& what) {
  TrainState s;
  s.step = json_get<int64_t>(json, "step", what);
  s.samples = json_get<int64_t>(json, "samples", what);
  s.updates = json_get<int64_t>(json, "updates", what);
  s.trained_s = json_get<double>(json, "trained_s", what);
  s.dtype = json_get<std::string>(json, "dtype", what);
  const auto guard = json.find("guard");
  if (s.step < 0 || s.samples < 0 || s.updates < 0 || guard == json.end() || !guard->is_object())
    throw error(Code::kBadData, "{}: the state of a training run has a count below 0 or no guard", what);
  s.guard.skipped = json_get<int64_t>(*guard, "skipped", what);
  s.guard.in_row = json_get<int64_t>(*guard, "in_row", what);
  const auto window = guard->find("window");
  if (window == guard->end() || !window->is_array() || window->size() > size_t(Guard::kWindow))
    throw error(Code::kBadData, "{}: guard.window is not a list of at most {} losses", what, Guard::kWindow);
  for (const Json& loss : *window) {
    if (!loss.is_number()) throw error(Code::kBadData, "{}: guard.window holds what is no number", what);
    s.guard.window.push_back(loss.get<double>());
  }
  if (const auto data = json.find("data"); data != json.end())
    s.data = {json_get<int64_t>(*data, "tokens", what),
              parse_hex64(json_get<std::string>(*data, "vocab_hash", what), what),
              parse_hex64(json_get<std::string>(*data, "fingerprint", what), what)};
  if (const auto best = json.find("best"); best != json.end())
    s.best = {json_get<int64_t>(*best, "step", what), json_get<double>(*best, "val_loss", what)};
  return s;
}

std::vector<CheckpointGroup> checkpoint_groups(Optimizer& optimizer) {
  std::vector<CheckpointGroup> groups(optimizer.size());
  for (size_t i = 0; i < groups.size(); ++i)
    for (const StateTensor& t : optimizer.state_of(i))
      groups[i].push_back({t.name, t.tensor->dtype(), t.tensor->shape(), t.tensor->data()});
  return groups;
}

void restore(Context& ctx, const Checkpoint& checkpoint, const TrainState& state, Decoder& model,
             Optimizer& optimizer) {
  size_t used = 0;
  for (size_t i = 0; i < optimizer.size(); ++i)
    for (const StateTensor& t : optimizer.state_of(i)) {
      ++used;
      const TensorInfo* info = checkpoint.tensors().find(t.name);
      if (!info || !(info->shape == t.tensor->shape()) || info->dtype != t.tensor->dtype())
        throw error(Code::kMismatch,
                    "resuming from {}: tensor {} is {}; the recipe makes it {} {}. The checkpoint is of "
                    "another model or optimizer; use another --run.out, or --run.resume=never",
                    checkpoint.path(), t.name,
                    info ? fmt::format("{} {}", dtype_name(info->dtype), info->shape.text()) : "missing",
                    dtype_name(t.tensor->dtype()), t.tensor->shape().text());
      const Tensor saved = checkpoint.tensors().tensor(t.name);
      kernels(ctx).copy(ctx, {.src = saved.mat(), .dst = t.tensor->mat()});
    }
  if (used != checkpoint.tensors().names().size())
    throw error(Code::kMismatch,
                "resuming from {}: it holds {} tensors, the recipe makes {}. The checkpoint is of another model or "
                "optimizer; use another --run.out, or --run.resume=never",
                checkpoint.path(), checkpoint.tensors().names().size(), used);
  optimizer.set_updates(state.updates);
  model.refresh_copies(ctx);
}

}  // namespace espalier
