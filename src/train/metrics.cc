#include "train/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"

namespace espalier {
namespace {

/// The lines of steps up to `after_step`, as they are. A last line that a kill cut short is dropped.
std::string lines_until(const std::string& text, int64_t after_step) {
  std::string kept;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer() && json["step"] <= after_step)
      kept += line + "\n";
  }
  return kept;
}

}  // namespace

Metrics::Metrics(const std::string& folder, std::string_view config, int64_t after_step)
    : store_(RunStore::open(folder + "/run.sqlite")), path_(folder + "/metrics.jsonl") {
  store_.begin_run(config, after_step);
  const std::string old = path_exists(path_) ? read_file(path_) : "";
  if (!old.empty()) write_file_atomic(path_, lines_until(old, after_step));
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) throw errno_error("opening " + path_);
}

Metrics::~Metrics() {
  ::close(fd_);
  if (ended_) return;
  try {
    status("failed");
  } catch (const Error&) {  // a destructor's edge: the error that brings us here is the one to tell
  }
}

void Metrics::log(int64_t step, std::initializer_list<std::pair<std::string_view, double>> values) {
  std::string line = fmt::format("{{\"step\": {}", step);
  for (const auto& [name, value] : values)
    line += std::isfinite(value) ? fmt::format(", \"{}\": {}", name, value) : fmt::format(", \"{}\": null", name);
  line += "}\n";
  // One write of one line: readers never see half of it unless the disk is full.
  const ssize_t written = ::write(fd_, line.data(), line.size());
  if (written < 0) throw errno_error("writing " + path_);
  if (size_t(written) != line.size()) throw error(Code::kNoSpace, "writing {}: no space left on device", path_);
  store_.log_metrics(step, {values.begin(), values.size()});
}

void Metrics::event(int64_t step, std::string_view kind, std::string_view text) { store_.log_event(step, kind, text); }

void Metrics::sample(int64_t step, std::string_view prompt, std::string_view text) {
  store_.log_sample(step, prompt, text);
  store_.flush();
}

void Metrics::status(std::string_view status) {
  ended_ = true;
  store_.set_status(status);
  store_.flush();
}

}  // namespace espalier
