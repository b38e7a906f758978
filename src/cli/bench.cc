// `espalier bench NAME`: a figure of this program on this machine, beside the machine's own limit.
#include "bench/bench.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "kernels/peak.h"

namespace espalier {

extern const Verb kBench;

namespace {

struct Options {
  std::string name;
  bool json = false;
  BenchOptions bench;
  void visit(Fields& f) {
    f.field("name", name, "which benchmark; `espalier list benches` shows them");
    f.field("json", json, "one JSON object");
    bench.visit(f);
  }
};

void print_result(Terminal& terminal, const BenchResult& r) {
  terminal.print("{}: {:.4g} {}\n", r.name, r.value, r.unit);
  if (r.limit > 0)
    terminal.print("  {:.1f} % of this machine's {:.4g} {} (class {}, measured in this run)\n",
                   100 * r.fraction_of_limit, r.limit, r.limit_unit, machine_class());
  for (const BenchCell& cell : r.cells) terminal.print("  {:<28} {:.4g}\n", cell.name, cell.value);
  for (const std::string& note : r.notes) terminal.print("  {}\n", note);
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kBench, args, ESP_CONFIG(options))) return 0;
  const BenchResult result = find_bench(options.name).run(terminal.context(), terminal.progress(), options.bench);
  if (options.json)
    terminal.print("{}\n", bench_json(result));
  else
    print_result(terminal, result);
  return 0;
}

}  // namespace

const Verb kBench = {"bench", "Look", "measure this program against this machine", "name",
                     "espalier bench train --json\nespalier bench train-small --dtype f32", run};

}  // namespace espalier
