#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "base/suggest.h"
#include "bench/bench.h"
#include "kernels/peak.h"

namespace espalier {

extern const Bench kTrainBench;
extern const Bench kTrainSmallBench;
extern const Bench kPrepareBench;
extern const Bench kBpeBench;
extern const Bench kCheckpointBench;
extern const Bench kTokenizerBench;
extern const Bench kDecodeBench, kPrefillBench, kVerifyBench, kSpecBench, kServeBench, kTtftBench;

namespace {

// A new benchmark is one row here.
constexpr const Bench* kBenches[] = {&kTrainBench, &kTrainSmallBench, &kPrepareBench,
                                     &kBpeBench,   &kTokenizerBench,  &kCheckpointBench,
                                     &kDecodeBench, &kPrefillBench,   &kVerifyBench,
                                     &kSpecBench,    &kServeBench,      &kTtftBench};

}  // namespace

std::span<const Bench* const> all_benches() { return kBenches; }

const Bench& find_bench(const std::string& name) {
  std::vector<std::string> names;
  for (const Bench* bench : kBenches) {
    if (name == bench->name) return *bench;
    names.emplace_back(bench->name);
  }
  throw error(Code::kUsage, "no benchmark '{}'{}; there are {}", name, did_you_mean(name, names),
              fmt::join(names, ", "));
}

std::string bench_json(const BenchResult& r) {
  OrderedJson json;
  json["name"] = r.name;
  json["machine_class"] = machine_class();
  json["value"] = r.value;
  json["unit"] = r.unit;
  json["limit"] = r.limit;
  json["limit_unit"] = r.limit_unit;
  json["fraction_of_limit"] = r.fraction_of_limit;
  json["cells"] = OrderedJson::object();
  for (const BenchCell& cell : r.cells) json["cells"][cell.name] = cell.value;
  json["notes"] = r.notes;
  return json.dump();
}

}  // namespace espalier
