#include "formats/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "formats/safetensors_writer.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "espalier-checkpoint";
constexpr int64_t kVersion = 1;
constexpr const char *kTensors = "tensors.safetensors", *kState = "state.json", *kManifest = "manifest.json";
constexpr size_t kMaxManifestBytes = size_t{1} << 20;
constexpr size_t kMaxManifestFiles = 1000;

/// A folder that is removed with all it holds unless it is kept.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {
    std::error_code failed;
    fs::remove_all(path_, failed);  // of a writer that was killed
    if (!fs::create_directories(path_, failed)) {
      errno = failed.value();
      throw errno_error("creating the folder " + path_);
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Writes the tensors, widest dtype first so that all are aligned, and returns the file's entry in the manifest.
CheckpointManifest::File write_tensors(const std::string& folder, std::span<const CheckpointTensor> tensors) {
  std::vector<const CheckpointTensor*> order;
  for (const CheckpointTensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const CheckpointTensor* a, const CheckpointTensor* b) {
    return dtype_size(a->dtype) > dtype_size(b->dtype);
  });
  std::vector<PlannedTensor> plan;
  for (const CheckpointTensor* tensor : order) plan.push_back({tensor->name, tensor->dtype, tensor->shape});
  SafetensorsWriter writer(folder + "/" + kTensors, plan, {.sync = true, .checksum = true});
  for (size_t i = 0; i < order.size(); ++i)
    if (plan[i].bytes() > 0) writer.write(plan[i].name, order[i]->data, plan[i].bytes());
  writer.finish();
  return {kTensors, writer.file_bytes(), writer.checksum()};
}

void write_synced(const std::string& path, std::string_view bytes) {
  FileWriter file(path);
  file.write(bytes);
  file.close(true);
}

std::string manifest_text(const CheckpointManifest& manifest) {
  OrderedJson json = {{"format", kFormat}, {"version", kVersion}, {"step", manifest.step}};
  json["files"] = OrderedJson::array();
  for (const CheckpointManifest::File& file : manifest.files)
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", hex64(file.checksum)}});
  return json.dump(2) + "\n";
}

/// Gives `temporary` the name `final`. Where that exists they are exchanged, so that there is no moment without either.
void put_in_place(const std::string& temporary, const std::string& final) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != ENOENT) {  // a file system without the exchange
    std::error_code ignored;
    fs::remove_all(final, ignored);
  }
  if (::rename(temporary.c_str(), final.c_str()) != 0) throw errno_error("renaming " + temporary + " to " + final);
}

CheckpointManifest read_manifest(const std::string& path) {
  const std::string file = path + "/" + kManifest;
  return parse_checkpoint_manifest(read_file(file, kMaxManifestBytes), file);
}

/// "step-12" to 12.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with("step-")) return std::nullopt;
  int64_t step = 0;
  const auto [end, failed] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  if (failed != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

/// All folders named step-N, whole or not, by ascending step.
std::vector<CheckpointEntry> candidates(const std::string& checkpoints) {
  std::vector<CheckpointEntry> entries;
  if (!path_exists(checkpoints)) return entries;
  for (const std::string& path : list_folder(checkpoints))
    if (const auto step = step_of(fs::path(path).filename())) entries.push_back({*step, path});
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return entries;
}

/// What is wrong with a checkpoint, judged by its manifest and the sizes of its files; empty where nothing is.
std::string fault_of(const CheckpointEntry& entry) {
  try {
    const CheckpointManifest manifest = read_manifest(entry.path);
    if (manifest.step != entry.step) return fmt::format("its manifest is that of step {}", manifest.step);
    for (const CheckpointManifest::File& file : manifest.files) {
      std::error_code failed;
      const uint64_t bytes = fs::file_size(entry.path + "/" + file.name, failed);
      if (failed || bytes != file.bytes) return fmt::format("{} is missing or not of {} bytes", file.name, file.bytes);
    }
  } catch (const Error& e) {  // the edge: a damaged checkpoint is an answer here, not a failure
    return e.what();
  }
  return "";
}

}  // namespace

CheckpointManifest parse_checkpoint_manifest(std::string_view text, const std::string& what) {
  const Json json = parse_json_unique(text, what);
  if (json_get<std::string>(json, "format", what) != kFormat)
    throw error(Code::kBadData, "reading {}: not the manifest of a checkpoint", what);
  const int64_t version = json_get<int64_t>(json, "version", what);
  if (version != kVersion)
    throw error(Code::kUnsupported, "reading {}: version {}; this program reads version {}", what, version, kVersion);
  CheckpointManifest manifest;
  manifest.step = json_get<int64_t>(json, "step", what);
  const auto files = json.find("files");
  if (files == json.end() || !files->is_array() || files->size() > kMaxManifestFiles)
    throw error(Code::kBadData, "reading {}: \"files\" is no list of files", what);
  for (const Json& entry : *files) {
    const std::string name = json_get<std::string>(entry, "name", what);
    const int64_t bytes = json_get<int64_t>(entry, "bytes", what);
    if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos || bytes < 0)
      throw error(Code::kBadData, "reading {}: a file '{}' of {} bytes", what, name, bytes);
    manifest.files.push_back({name, uint64_t(bytes), parse_hex64(json_get<std::string>(entry, "xxh3", what), what)});
  }
  return manifest;
}

std::string write_checkpoint(const std::string& checkpoints, int64_t step, std::span<const CheckpointTensor> tensors,
                             const Json& state) {
  ESP_CHECK(step >= 0, "step {}", step);
  const std::string final = fmt::format("{}/step-{}", checkpoints, step);
  const TemporaryFolder temporary(fmt::format("{}/.step-{}.tmp", checkpoints, step));
  CheckpointManifest manifest{step, {}};
  manifest.files.push_back(write_tensors(temporary.path(), tensors));
  const std::string text = state.dump(2) + "\n";
  write_synced(temporary.path() + "/" + kState, text);
  manifest.files.push_back({kState, text.size(), hash64(text)});
  write_synced(temporary.path() + "/" + kManifest, manifest_text(manifest));
  sync_folder(temporary.path());
  put_in_place(temporary.path(), final);
  sync_folder(checkpoints);
  return final;
}

Checkpoint Checkpoint::open(const std::string& path) {
  const CheckpointManifest manifest = read_manifest(path);
  const std::optional<int64_t> step = step_of(fs::path(path).filename());
  if (step && *step != manifest.step)
    throw error(Code::kBadData, "reading the checkpoint {}: its manifest is that of step {}", path, manifest.step);
  std::string state;
  for (const CheckpointManifest::File& file : manifest.files) {
    const MappedFile mapped(path + "/" + file.name);
    if (mapped.size() != file.bytes || hash64(mapped.text()) != file.checksum)
      throw error(Code::kBadData,
                  "reading the checkpoint {}: {} is damaged ({} bytes, {} expected, or another checksum)", path,
                  file.name, mapped.size(), file.bytes);
    if (file.name == kState) state = mapped.text();
  }
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.step_ = manifest.step;
  checkpoint.state_ = std::make_shared<const Json>(parse_json(state, path + "/" + kState));
  checkpoint.tensors_ = std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path + "/" + kTensors));
  return checkpoint;
}

std::vector<CheckpointEntry> find_checkpoints(const std::string& checkpoints) {
  std::vector<CheckpointEntry> entries = candidates(checkpoints);
  std::erase_if(entries, [](const CheckpointEntry& entry) { return !fault_of(entry).empty(); });
  return entries;
}

std::optional<Checkpoint> newest_valid_checkpoint(const std::string& checkpoints, Log& log) {
  std::vector<CheckpointEntry> entries = candidates(checkpoints);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    try {
      return Checkpoint::open(entry->path);
    } catch (const Error& e) {  // the edge: a damaged checkpoint gives way to the one before it
      log.warn("{} is no whole checkpoint, trying the one before it: {}", entry->path, e.what());
    }
  }
  if (entries.empty()) return std::nullopt;
  throw error(Code::kBadData, "resuming from {}: none of its {} checkpoints is whole; remove that folder to begin anew",
              checkpoints, entries.size());
}

void prune_checkpoints(const std::string& checkpoints, int keep_last, const std::set<int64_t>& keep) {
  ESP_CHECK(keep_last >= 1, "keep_last {}", keep_last);
  const std::vector<CheckpointEntry> entries = find_checkpoints(checkpoints);
  std::error_code ignored;
  for (size_t i = 0; i + size_t(keep_last) < entries.size(); ++i) {
    if (keep.contains(entries[i].step)) continue;
    // Out of sight first: a kill amid the removal must not leave half a step-N.
    fs::rename(entries[i].path, fmt::format("{}/.step-{}.tmp", checkpoints, entries[i].step), ignored);
  }
  for (const auto& entry : fs::directory_iterator(checkpoints, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(".step-") && name.ends_with(".tmp")) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace espalier
