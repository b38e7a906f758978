// `espalier report RUN`: the page of a run, and its figures and curve in the terminal.
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/loss_chart.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "report/run_report.h"

namespace espalier {

extern const Verb kReport;

namespace {

struct Options {
  std::string run, out;
  bool json = false;
  void visit(Fields& f) {
    f.field("run", run, "run folder, as `espalier train` leaves it");
    f.field("out", out, "the page to write; empty is report.html in the run folder");
    f.field("json", json, "print the last value of every metric as one object instead of the curve");
  }
};

std::string last_values(const RunData& run) {
  OrderedJson object;
  for (const auto& [name, points] : run.metrics)
    if (!points.empty()) object[name] = {{"step", points.back().step}, {"value", points.back().value}};
  return object.dump() + "\n";
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kReport, args, ESP_CONFIG(options))) return 0;
  const RunData data = load_run(options.run);
  const std::string path =
      options.out.empty() ? (std::filesystem::path(options.run) / "report.html").string() : options.out;
  write_file_atomic(path, run_report_html(data));
  if (options.json)
    terminal.write(last_values(data));
  else
    terminal.print("{}\n{}", loss_chart(terminal, data), run_report_text(data));
  terminal.log().info("wrote {}", path);
  return 0;
}

}  // namespace

const Verb kReport = {"report", "Look", "one self-contained page of a run: figures, curves, samples, config", "run",
                      "espalier report runs/demo\nespalier report runs/demo --out demo.html", run};

}  // namespace espalier
