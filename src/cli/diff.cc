// `espalier diff A B...`: models tensor by tensor. Exit status 0 where all are the same, 1 where something differs.

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "formats/hf_folder.h"
#include "formats/pickle.h"
#include "models/diff.h"
#include "report/table.h"

namespace espalier {

extern const Verb kDiff;

namespace {

struct Options {
  std::vector<std::string> models;
  int64_t top = 20;
  bool json = false;
  void visit(Fields& f) {
    f.field("models", models, "two or more: model folders, checkpoints, .safetensors; each is compared with the first");
    f.field("top", top, "tensors shown, the farthest first; 0: all that differ", 0);
    f.field("json", json, "one object a pair: a, b, identical, relative_l2, same, tensors");
  }
};

SafetensorsFolder open_tensors(const std::string& path) {
  if (is_pickle(path)) throw pickle_refusal(path);
  if (is_file(path)) return SafetensorsFolder::open(path);
  if (is_file(path + "/tensors.safetensors"))  // a checkpoint
    return SafetensorsFolder::open(path + "/tensors.safetensors");
  if (is_file(path + "/model.safetensors") || is_file(path + "/model.safetensors.index.json"))
    return SafetensorsFolder::open(path);
  return open_weights(find_model_folder(path));
}

// JSON has no NaN and no infinity.
OrderedJson number(double x) { return std::isfinite(x) ? OrderedJson(x) : OrderedJson(fmt::format("{}", x)); }

OrderedJson dims(const Shape& shape) {
  OrderedJson list = OrderedJson::array();
  for (int i = 0; i < shape.rank(); ++i) list.push_back(shape[i]);
  return list;
}

OrderedJson as_json(const TensorDiff& t) {
  OrderedJson object = {{"name", t.name}, {"kind", diff_kind_name(t.kind)}};
  if (t.kind != DiffKind::kOnlyB) object.update({{"shape_a", dims(t.shape_a)}, {"dtype_a", dtype_name(t.dtype_a)}});
  if (t.kind != DiffKind::kOnlyA) object.update({{"shape_b", dims(t.shape_b)}, {"dtype_b", dtype_name(t.dtype_b)}});
  if (t.kind == DiffKind::kSame || t.kind == DiffKind::kDType || t.kind == DiffKind::kValues)
    object.update({{"max_abs", number(t.max_abs)},
                   {"relative_l2", number(t.relative_l2)},
                   {"cosine", number(t.cosine)}});
  return object;
}

std::string json_line(const std::string& a, const std::string& b, const ModelDiff& d) {
  OrderedJson object = {{"a", a}, {"b", b}, {"identical", d.identical()}, {"relative_l2", number(d.relative_l2)},
                        {"same", d.same}, {"tensors", OrderedJson::array()}};
  for (const TensorDiff& t : d.tensors) object["tensors"].push_back(as_json(t));
  return object.dump() + "\n";
}

std::string what_differs(const TensorDiff& t) {
  switch (t.kind) {
    case DiffKind::kShape:
      return t.shape_a.text() + " and " + t.shape_b.text();
    case DiffKind::kDType:
      return fmt::format("{} and {}", dtype_name(t.dtype_a), dtype_name(t.dtype_b));
    case DiffKind::kOnlyA:
      return t.shape_a.text();
    case DiffKind::kOnlyB:
      return t.shape_b.text();
    default:
      return "";
  }
}

void print(Terminal& terminal, const std::string& a, const std::string& b, const ModelDiff& d, int64_t top) {
  if (d.identical()) return terminal.print("{} and {}: all {} tensors are the same\n", a, b, d.same);
  Table table({{"tensor"}, {"differs in"}, {"relative L2", true}, {"max |b - a|", true}, {"cosine", true}, {""}});
  int64_t shown = 0;
  for (const TensorDiff& t : d.tensors) {
    if (t.kind == DiffKind::kSame || (top > 0 && shown == top)) break;
    ++shown;
    const bool measured = t.kind == DiffKind::kValues;
    table.row({t.name, diff_kind_name(t.kind), measured ? fmt::format("{:.3g}", t.relative_l2) : "",
               measured ? fmt::format("{:.3g}", t.max_abs) : "", measured ? fmt::format("{:.6f}", t.cosine) : "",
               what_differs(t)});
  }
  const int64_t differ = int64_t(d.tensors.size()) - d.same;
  terminal.print("{} and {}: {} of {} tensors differ, relative L2 of all numbers {:.3g}\n{}", a, b, differ,
                 d.tensors.size(), d.relative_l2, table.text());
  if (shown < differ) terminal.print("... and {} more (--top 0 shows all)\n", differ - shown);
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kDiff, args, ESP_CONFIG(options))) return 0;
  if (options.models.size() < 2) throw Error(Code::kUsage, "diff needs two models or more: espalier diff A B...");
  const SafetensorsFolder first = open_tensors(options.models[0]);
  bool identical = true;
  for (size_t i = 1; i < options.models.size(); ++i) {
    const ModelDiff d = diff_models(terminal.context(), first, open_tensors(options.models[i]));
    identical &= d.identical();
    if (options.json)
      terminal.write(json_line(options.models[0], options.models[i], d));
    else
      print(terminal, options.models[0], options.models[i], d, options.top);
  }
  return identical ? 0 : 1;
}

}  // namespace

const Verb kDiff = {"diff", "Look", "compare models tensor by tensor; exit status 0: the same, 1: they differ",
                    "models...", "espalier diff runs/a/model runs/b/model\nespalier diff runs/a/checkpoints/step-100 "
                    "runs/b/checkpoints/step-100 --json", run};

}  // namespace espalier
