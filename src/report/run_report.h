// The report of a run: one self-contained page made from a run folder (run.sqlite and config.toml, or metrics.jsonl
// where there is no store): headline figures, curves, stalls, incidents, samples, the resolved config.
//
// Metrics it knows: loss, val_loss, lr, grad_norm, tokens (cumulative), tokens_per_s, mfu, step_ms, loader_stall_ms,
// checkpoint_stall_ms, skipped. Events of kind "fact" with the text "NAME: VALUE" or "NAME: VALUE (REMARK)" become
// headline figures as they stand ("parameters: 10.8M").
#pragma once
#include <map>
#include <string>
#include <vector>

#include "store/run_store.h"

namespace espalier {

/// What a run folder tells.
struct RunData {
  std::string name, config;
  std::vector<RunRow> runs;
  std::map<std::string, std::vector<MetricPoint>> metrics;
  std::vector<EventRow> events;
  std::vector<SampleRow> samples;
};

/// Reads a run folder. Throws kNotFound where it holds neither run.sqlite nor metrics.jsonl.
RunData load_run(const std::string& folder);

/// The page.
std::string run_report_html(const RunData& run);

/// A few lines for the terminal: the same figures.
std::string run_report_text(const RunData& run);

}  // namespace espalier
