#include "report/run_report.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/human.h"
#include "base/json.h"
#include "base/json_value.h"
#include "report/html_page.h"
#include "report/series.h"
#include "report/svg_chart.h"
#include "report/table.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using Points = std::vector<MetricPoint>;

constexpr size_t kEventsShown = 200;

// ---- reading ----

void read_jsonl(const fs::path& path, RunData& run) {
  std::istringstream lines(read_file(path, size_t{1} << 30));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    if (lines.eof()) break;  // a run that was killed may leave half a line behind
    const std::string what = fmt::format("{}:{}", path.string(), number);
    const Json row = parse_json(line, what);
    const auto step = json_get<int64_t>(row, "step", what);
    const double wall_s = json_get_or<double>(row, "wall_s", 0, what);
    for (const auto& [name, value] : row.items())
      if (value.is_number() && name != "step" && name != "wall_s")
        run.metrics[name].push_back({step, value.get<double>(), wall_s});
  }
}

const Points& points_of(const RunData& run, const std::string& name) {
  static const Points kNone;
  const auto found = run.metrics.find(name);
  return found == run.metrics.end() ? kNone : found->second;
}

// ---- figures ----

struct Figure {
  std::string name, value, remark;
};

std::optional<double> median(const Points& points) {
  std::vector<double> values;
  for (const MetricPoint& p : points)
    if (std::isfinite(p.value)) values.push_back(p.value);
  if (values.empty()) return std::nullopt;
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double sum(const Points& points) {
  double total = 0;
  for (const MetricPoint& p : points)
    if (std::isfinite(p.value)) total += p.value;
  return total;
}

/// Time spent training: between logged steps, without the pauses before a resume.
double wall_time_s(const RunData& run) {
  const Points& loss = points_of(run, "loss");
  double total = 0;
  for (size_t i = 1; i < loss.size(); ++i) {
    const double begin = loss[i - 1].wall_s, end = loss[i].wall_s;
    const bool pause = std::any_of(run.runs.begin(), run.runs.end(),
                                   [&](const RunRow& row) { return row.started_s > begin && row.started_s < end; });
    if (!pause && end > begin) total += end - begin;
  }
  if (!loss.empty() && !run.runs.empty()) total += std::max(0.0, loss[0].wall_s - run.runs[0].started_s);
  return total;
}

/// What the run itself stated stands first, and instead of what is worked out here under the same name.
void add_facts(const RunData& run, std::vector<Figure>& figures) {
  std::vector<Figure> facts;
  for (const EventRow& event : run.events) {
    const size_t colon = event.text.find(": ");
    if (event.kind != "fact" || colon == std::string::npos) continue;
    Figure fact{event.text.substr(0, colon), event.text.substr(colon + 2), ""};
    const size_t bracket = fact.value.find(" (");
    if (bracket != std::string::npos && fact.value.back() == ')') {
      fact.remark = fact.value.substr(bracket + 2, fact.value.size() - bracket - 3);
      fact.value.resize(bracket);
    }
    const auto same = [&](const Figure& f) { return f.name == fact.name; };
    std::erase_if(facts, same);  // a resume states its facts again
    const auto known = std::find_if(figures.begin(), figures.end(), same);
    if (known != figures.end()) *known = fact;
    else facts.push_back(fact);
  }
  figures.insert(figures.begin(), facts.begin(), facts.end());
}

std::vector<Figure> figures_of(const RunData& run) {
  std::vector<Figure> figures;
  const Points &loss = points_of(run, "loss"), &val = points_of(run, "val_loss"), &tokens = points_of(run, "tokens");
  if (!loss.empty()) figures.push_back({"steps", std::to_string(loss.back().step), ""});
  if (!tokens.empty()) figures.push_back({"tokens", human_count(tokens.back().value), ""});
  if (!loss.empty()) {
    Series series;
    for (const MetricPoint& p : loss) series.y.push_back(p.value);
    figures.push_back({"train loss", fmt::format("{:.3f}", smoothed(series.y, 20).back()), "smoothed, at the end"});
  }
  if (!val.empty()) {
    const auto best = std::min_element(val.begin(), val.end(),
                                       [](const auto& a, const auto& b) { return a.value < b.value; });
    figures.push_back({"val loss", fmt::format("{:.3f}", val.back().value),
                       fmt::format("best {:.3f} at step {}; perplexity {:.1f}", best->value, best->step,
                                   std::exp(val.back().value))});
  }
  if (const auto rate = median(points_of(run, "tokens_per_s")))
    figures.push_back({"tokens/s", human_count(*rate), "median"});
  if (const auto mfu = median(points_of(run, "mfu")))
    figures.push_back({"MFU", fmt::format("{:.1f} %", 100 * *mfu), "median"});
  if (const double wall = wall_time_s(run); wall > 0) figures.push_back({"wall time", human_duration(wall), ""});
  if (const Points& stall = points_of(run, "loader_stall_ms"); !stall.empty())
    figures.push_back({"loader stall", human_duration(sum(stall) / 1e3), "in all"});
  if (const Points& stall = points_of(run, "checkpoint_stall_ms"); !stall.empty())
    figures.push_back({"checkpoint stall", human_duration(median(stall).value_or(0) / 1e3),
                       fmt::format("median of {} saves", stall.size())});
  if (const Points& skipped = points_of(run, "skipped"); !skipped.empty())
    figures.push_back({"skipped steps", human_count(skipped.back().value), "not finite, or spikes"});
  add_facts(run, figures);
  return figures;
}

// ---- charts ----

Series series_of(const RunData& run, const char* metric, const char* name) {
  Series series{name, {}, {}};
  for (const MetricPoint& p : points_of(run, metric)) {
    series.x.push_back(double(p.step));
    series.y.push_back(p.value);
  }
  return series;
}

/// The same series over tokens seen; steps without a token count are left out.
Series over_tokens(const RunData& run, const Series& by_step) {
  const Points& tokens = points_of(run, "tokens");
  Series out{by_step.name, {}, {}, by_step.faint, by_step.dots};
  size_t at = 0;
  for (size_t i = 0; i < by_step.x.size(); ++i) {
    while (at < tokens.size() && double(tokens[at].step) < by_step.x[i]) ++at;
    if (at == tokens.size() || double(tokens[at].step) != by_step.x[i]) continue;
    out.x.push_back(tokens[at].value);
    out.y.push_back(by_step.y[i]);
  }
  return out;
}

std::vector<Series> losses(const RunData& run) {
  const Series train = series_of(run, "loss", "train"), val = series_of(run, "val_loss", "val");
  std::vector<Series> lines = raw_and_smoothed(train);
  if (!val.x.empty()) lines.push_back(val);
  return lines;
}

std::string charts_html(const RunData& run) {
  std::string out = "<div class=\"charts\">\n";
  const auto add = [&](const SvgChart& chart, const std::vector<Series>& lines) {
    if (std::any_of(lines.begin(), lines.end(), [](const Series& s) { return !s.x.empty(); }))
      out += "<figure>" + svg_chart(chart, lines) + "</figure>\n";
  };
  const auto one = [&](const char* metric, SvgChart chart, bool smooth) {
    const Series line = series_of(run, metric, "");
    add(chart, smooth ? raw_and_smoothed(line) : std::vector{line});
  };
  const std::vector<Series> loss = losses(run);
  add({.title = "Loss", .x_label = "step"}, loss);
  std::vector<Series> by_tokens;
  for (const Series& s : loss) by_tokens.push_back(over_tokens(run, s));
  add({.title = "Loss over tokens", .x_label = "tokens", .log_x = true}, by_tokens);
  one("lr", {.title = "Learning rate", .x_label = "step", .from_zero = true}, false);
  one("grad_norm", {.title = "Gradient norm", .x_label = "step", .log_y = true}, true);
  one("tokens_per_s", {.title = "Speed", .x_label = "step", .y_label = "tokens/s", .from_zero = true}, true);
  one("mfu", {.title = "MFU", .x_label = "step", .y_label = "share of the peak", .from_zero = true}, true);
  Series saves = series_of(run, "checkpoint_stall_ms", "checkpoint");
  saves.dots = true;
  add({.title = "Stalls", .x_label = "step", .y_label = "ms", .from_zero = true},
      {saves, series_of(run, "loader_stall_ms", "loader")});
  if (sum(points_of(run, "skipped")) > 0)
    one("skipped", {.title = "Skipped steps", .x_label = "step", .from_zero = true}, false);
  return out + "</div>\n";
}

// ---- samples, events ----

void add_samples(const RunData& run, HtmlPage& page) {
  if (run.samples.empty()) return;
  page.heading("What it writes");
  const size_t n = run.samples.size();
  const std::set<size_t> shown = {0, n / 2, n - 1};
  for (const size_t i : shown) {
    const SampleRow& sample = run.samples[i];
    page.paragraph(fmt::format("Step {}", sample.step));
    page.preformatted(sample.prompt + sample.text);
  }
  std::string rest;
  for (size_t i = 0; i < n; ++i)
    if (!shown.contains(i))
      rest += fmt::format("--- step {} ---\n{}{}\n\n", run.samples[i].step, run.samples[i].prompt, run.samples[i].text);
  if (!rest.empty()) page.fold("All other samples", rest);
}

std::string date_text(double wall_s) {
  const auto seconds = std::time_t(wall_s);
  std::tm parts{};
  char text[32] = {};
  if (!::gmtime_r(&seconds, &parts) || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts) == 0) return "";
  return text;
}

void add_events(const RunData& run, HtmlPage& page) {
  Table table({{"step", true}, {"when (UTC)"}, {"kind"}, {"what"}});
  size_t count = 0;
  for (const EventRow& event : run.events)
    if (event.kind != "fact" && count++ < kEventsShown)
      table.row({std::to_string(event.step), date_text(event.wall_s), event.kind, event.text});
  if (count == 0) return;
  page.heading("What happened");
  if (count > kEventsShown) page.paragraph(fmt::format("The first {} of {}.", kEventsShown, count));
  page.raw(table.html());
}

}  // namespace

RunData load_run(const std::string& folder) {
  const fs::path root(folder);
  RunData run;
  std::error_code ignored;  // it serves the title alone
  run.name = fs::weakly_canonical(root, ignored).filename();
  if (path_exists(root / "config.toml")) run.config = read_file(root / "config.toml", size_t{1} << 24);
  if (path_exists(root / "run.sqlite")) {
    RunStore store = RunStore::open_existing(root / "run.sqlite");
    for (const std::string& name : store.metric_names()) run.metrics[name] = store.metrics(name);
    run.runs = store.runs();
    run.events = store.events();
    run.samples = store.samples();
    std::stable_sort(run.samples.begin(), run.samples.end(),
                     [](const SampleRow& a, const SampleRow& b) { return a.step < b.step; });
  } else if (path_exists(root / "metrics.jsonl")) {
    read_jsonl(root / "metrics.jsonl", run);
  } else {
    throw error(Code::kNotFound,
                "reading the run {}: neither run.sqlite nor metrics.jsonl is there; is it a run folder?", folder);
  }
  if (run.config.empty() && !run.runs.empty()) run.config = run.runs.back().config;
  return run;
}

std::string run_report_html(const RunData& run) {
  HtmlPage page("Run " + run.name);
  if (!run.runs.empty()) {
    const RunRow& last = run.runs.back();
    page.paragraph(fmt::format("Started {} UTC on {}{}; {}.", date_text(run.runs[0].started_s), last.host,
                               run.runs.size() > 1 ? fmt::format(", resumed {} times", run.runs.size() - 1) : "",
                               last.status));
  }
  for (const Figure& figure : figures_of(run)) page.figure(figure.name, figure.value, figure.remark);
  page.heading("Curves");
  page.raw(charts_html(run));
  add_samples(run, page);
  add_events(run, page);
  if (!run.config.empty()) {
    page.heading("Config");
    page.fold("The resolved config, as the run used it", run.config);
  }
  return page.html();
}

std::string run_report_text(const RunData& run) {
  Table table({{"figure"}, {"value"}, {"remark"}});
  for (const Figure& figure : figures_of(run)) table.row({figure.name, figure.value, figure.remark});
  return table.text(false);
}

}  // namespace espalier
