// `espalier doctor`: what this machine is and can do, measured now. Its output belongs into every report of a problem.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/human.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "kernels/peak.h"
#include "report/table.h"

namespace espalier {

extern const Verb kDoctor;

namespace {

struct Options {
  bool json = false, quick = false;
  std::string folder = ".";
  void visit(Fields& f) {
    f.field("json", json, "one JSON object");
    f.field("quick", quick, "smaller measurements: a second or two in all");
    f.field("folder", folder, "where to measure the disk; empty leaves it out");
  }
};

/// The value behind "KEY : VALUE" in a file of /proc, in one line; "" where there is none.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':'), begin = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

int64_t memory_bytes(const char* key) {
  return std::strtoll(proc_value("/proc/meminfo", key).c_str(), nullptr, 10) * 1024;  // the file counts KiB
}

/// "always", "madvise" or "never": the one in brackets.
std::string huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(file, text);
  const size_t open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos ? "none" : text.substr(open + 1, close - open - 1);
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  return "";
}

/// Bytes a second of writing and syncing a new file.
double disk_write_rate(const std::string& folder, size_t bytes) {
  struct Temporary {
    std::string path;
    ~Temporary() { ::unlink(path.c_str()); }
  } temporary{(std::filesystem::path(folder) / fmt::format(".espalier_doctor_{}", ::getpid())).string()};
  const std::string block(size_t{4} << 20, '\x5a');
  const Stopwatch watch;
  FileWriter file(temporary.path);
  for (size_t done = 0; done < bytes; done += block.size()) file.write(block);
  file.close(true);
  return double(bytes) / watch.seconds();
}

const char* class_meaning(const std::string& name) {
  return name == "A" ? "AVX-512 with bf16 and VNNI" : name == "B" ? "AVX2, no AVX-512" : "AVX-512 without bf16";
}

OrderedJson describe(Terminal& terminal) {
  Context& context = terminal.context();
  OrderedJson facts;
  facts["version"] = ESP_VERSION;
  facts["machine_class"] = machine_class();
  facts["processor"] = proc_value("/proc/cpuinfo", "model name");
  facts["isa"] = isa_name(context.isa);
  facts["cores"] = available_cores();
  facts["threads"] = context.pool.size();
  facts["memory_bytes"] = memory_bytes("MemTotal");
  facts["memory_available_bytes"] = memory_bytes("MemAvailable");
  facts["page_bytes"] = ::sysconf(_SC_PAGESIZE);
  facts["huge_pages"] = huge_pages();
  facts["mpirun"] = find_program("mpirun");
  return facts;
}

void measure(Terminal& terminal, const Options& options, OrderedJson& facts) {
  Context& context = terminal.context();
  Progress& progress = terminal.progress();
  progress.begin("measuring", 6, "limits");
  int64_t done = 0;
  const size_t disk_bytes = size_t{options.quick ? 64u : 256u} << 20;
  const auto step = [&](const char* name, auto&& act) {
    progress.update(done, name);
    facts[name] = act();
    progress.update(++done, name);
    terminal.check_interrupt();
  };
  step("gemm_f32_gflops", [&] { return gemm_peak_gflops(context, DType::kF32, options.quick); });
  step("gemm_bf16_gflops", [&] { return gemm_peak_gflops(context, DType::kBF16, options.quick); });
  step("gemm_int8_gops", [&] { return gemm_peak_gflops(context, DType::kU8, options.quick); });
  step("read_gb_s", [&] { return read_bandwidth_gb_s(context, options.quick); });
  step("copy_gb_s", [&] { return copy_bandwidth_gb_s(context, options.quick); });
  if (!options.folder.empty())
    step("disk_write_bytes_s", [&] { return disk_write_rate(options.folder, disk_bytes); });
  progress.end();
}

std::string as_text(const OrderedJson& facts) {
  const auto text = [&](const char* key) { return facts[key].get<std::string>(); };
  const auto number = [&](const char* key) { return facts[key].get<double>(); };
  const auto rate = [&](const char* key, const char* unit) {
    return number(key) > 0 ? fmt::format("{:.1f} {}", number(key), unit) : std::string("none on this machine");
  };
  Table table({{"what"}, {"value"}});
  table.row({"espalier", text("version")});
  table.row({"machine class", text("machine_class") + ", " + class_meaning(text("machine_class"))});
  table.row({"processor", text("processor")});
  table.row({"ISA", text("isa") + " (the environment variable ESP_ISA pins another)"});
  table.row({"threads", fmt::format("{} of {} cores", facts["threads"].get<int>(), facts["cores"].get<int>())});
  table.row({"memory", fmt::format("{}, {} available", human_bytes(number("memory_bytes")),
                                   human_bytes(number("memory_available_bytes")))});
  table.row({"pages", fmt::format("{}; huge pages: {}", human_bytes(number("page_bytes")), text("huge_pages"))});
  table.row({"MPI", text("mpirun").empty() ? "not installed" : text("mpirun")});
  table.row({"GEMM f32", rate("gemm_f32_gflops", "GFLOP/s")});
  table.row({"GEMM bf16", rate("gemm_bf16_gflops", "GFLOP/s")});
  table.row({"GEMM int8", rate("gemm_int8_gops", "GOP/s")});
  table.row({"training", number("gemm_bf16_gflops") > number("gemm_f32_gflops")
                             ? "in bf16, which is faster here (compute.dtype = \"auto\")"
                             : "in f32, which is no slower here than bf16 (compute.dtype = \"auto\")"});
  table.row({"memory, read", rate("read_gb_s", "GB/s")});
  table.row({"memory, copy", rate("copy_gb_s", "GB/s")});
  if (facts.contains("disk_write_bytes_s"))
    table.row({"disk, write", human_bytes(number("disk_write_bytes_s")) + "/s, synced"});
  return table.text(false);
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kDoctor, args, ESP_CONFIG(options))) return 0;
  if (!options.folder.empty() && !is_folder(options.folder))
    throw error(Code::kNotFound, "measuring the disk of {}: no such folder", options.folder);
  OrderedJson facts = describe(terminal);
  measure(terminal, options, facts);
  terminal.write(options.json ? facts.dump() + "\n" : as_text(facts));
  return 0;
}

}  // namespace

const Verb kDoctor = {"doctor", "Look", "this machine: class, ISA, memory, measured limits", "",
                      "espalier doctor\nespalier doctor --quick --json", run};

}  // namespace espalier
