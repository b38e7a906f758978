#include "formats/hf_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "formats/gguf.h"
#include "formats/pickle.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

std::string from_environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

bool is_model_folder(const std::string& path) {
  return is_file(path + "/config.json") || is_file(path + "/tokenizer.json") || is_file(path + "/tokenizer.model");
}

/// "gpt2" or "org/name", of the characters that the hub allows.
bool is_id(const std::string& model) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-' || c == '/';
  };
  return !model.empty() && model.front() != '/' && model.back() != '/' && model.front() != '.' &&
         std::count(model.begin(), model.end(), '/') <= 1 && std::all_of(model.begin(), model.end(), allowed);
}

bool has_safetensors(const std::string& folder) {
  return is_file(folder + "/model.safetensors") || is_file(folder + "/model.safetensors.index.json");
}

/// 1 for m-00001-of-00003.gguf; nothing for a name of another kind.
std::optional<int> part_number(const std::string& name) {
  if (!gguf_part_path(name, 0, 1)) return std::nullopt;
  constexpr size_t kDigitsFromEnd = std::string_view("00001-of-00003.gguf").size();
  return std::stoi(name.substr(name.size() - kDigitsFromEnd, 5));
}

/// The .gguf models that `folder` holds under names that begin with `stem`; of a split one its first part. Those of
/// pictures ("mmproj-...") are no models by themselves.
std::vector<std::string> ggufs_in(const std::string& folder, const std::string& stem = "") {
  std::vector<std::string> models;
  for (const std::string& path : list_folder(folder)) {
    const std::string name = fs::path(path).filename();
    if (!name.starts_with(stem) || name.starts_with("mmproj") || !is_file(path) || !name.ends_with(".gguf")) continue;
    if (part_number(name).value_or(1) == 1) models.push_back(path);
  }
  return models;
}

/// The model in an existing folder; nothing where it holds none.
std::optional<std::string> model_in(const std::string& folder) {
  const bool described = is_model_folder(folder);
  if (described && (has_safetensors(folder) || pickle_in(folder))) return folder;
  const std::vector<std::string> ggufs = ggufs_in(folder);
  if (ggufs.size() == 1) return ggufs[0];
  if (described) return folder;
  if (ggufs.empty()) return std::nullopt;
  throw error(Code::kUsage, "finding the model {}: the folder holds {} models; name one of them: {}", folder,
              ggufs.size(), fmt::join(ggufs, ", "));
}

/// "m" for m.gguf, "m" or "m.gguf" for m-00001-of-00003.gguf.
std::optional<std::string> gguf_of_name(const std::string& model) {
  if (is_file(model + ".gguf")) return model + ".gguf";
  const std::string stem = model.ends_with(".gguf") ? model.substr(0, model.size() - 5) : model;
  const fs::path path(stem);
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".", name = path.filename();
  if (name.empty() || !is_folder(folder)) return std::nullopt;
  constexpr size_t kEnding = std::string_view("-00001-of-00003.gguf").size();
  for (const std::string& found : ggufs_in(folder, name + "-"))
    if (const std::string part = fs::path(found).filename(); part_number(part) && part.size() == name.size() + kEnding)
      return found;
  return std::nullopt;
}

/// The model in the snapshot that refs/main names, or in the newest that has one.
std::optional<std::string> snapshot_of(const std::string& repository) {
  if (::access(repository.c_str(), R_OK | X_OK) != 0) return std::nullopt;  // where a cache was only guessed
  const std::string snapshots = repository + "/snapshots";
  if (is_file(repository + "/refs/main")) {
    std::string commit = read_file(repository + "/refs/main", 1024);
    commit.resize(std::min(commit.find_first_of("\n/"), commit.size()));
    if (!commit.empty() && commit != "." && commit != ".." && is_folder(snapshots + "/" + commit))
      if (const auto model = model_in(snapshots + "/" + commit)) return model;
  }
  std::optional<std::string> newest;
  fs::file_time_type newest_time;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(snapshots, ignored)) {
    const fs::file_time_type time = entry.last_write_time(ignored);
    if (!entry.is_directory(ignored) || (newest && time <= newest_time)) continue;
    if (const auto model = model_in(entry.path())) {
      newest = model;
      newest_time = time;
    }
  }
  return newest;
}

/// What tools/get_model.sh fetches.
const std::vector<std::string>& fetched_models() {
  static const std::vector<std::string> names = {"smollm2-135m", "gemma-3-270m", "qwen2.5-coder-0.5b",
                                                 "qwen2.5-coder-1.5b"};
  return names;
}

std::string how_to_get(const std::string& id) {
  const std::vector<std::string>& names = fetched_models();
  if (std::find(names.begin(), names.end(), id) != names.end())
    return fmt::format("`tools/get_model.sh {}` fetches it", id);
  return fmt::format("`hf download {}` fetches what the hub has, `tools/get_model.sh NAME` {}{}", id,
                     fmt::join(names, ", "), did_you_mean(id, names));
}

/// The caches' model of that id; says in `looked` where there is none.
std::optional<std::string> cached(const std::string& id, const std::string& hub_cache, std::string& looked) {
  const std::string fetched = model_cache_folder() + "/" + id + ".gguf";
  if (is_file(fetched)) return fetched;
  std::string name = "models--" + id;
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  const std::string repository = hub_cache + "/" + name;
  if (auto snapshot = snapshot_of(repository)) return snapshot;
  looked = fmt::format(", no {}, and no model in the Hugging Face cache at {}; {}", fetched, repository,
                       how_to_get(id));
  return std::nullopt;
}

/// The model in a folder of the user's own. Throws where it is one that should have a model.
std::optional<std::string> own(const std::string& folder) {
  if (is_model_folder(folder)) return model_in(folder);
  if (is_folder(folder + "/model") && is_model_folder(folder + "/model")) return folder + "/model";
  if (is_folder(folder + "/checkpoints"))
    throw error(Code::kNotFound,
                "finding the model {}: this run folder has no model/ yet; it gets one when the training ends or is "
                "stopped", folder);
  return model_in(folder);
}

}  // namespace

std::string hub_cache_folder() {
  if (const std::string cache = from_environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = from_environment("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string cache = from_environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/huggingface/hub";
  return from_environment("HOME") + "/.cache/huggingface/hub";
}

std::string model_cache_folder() {
  if (const std::string folder = from_environment("ESP_MODELS"); !folder.empty()) return folder;
  return from_environment("HOME") + "/.cache/espalier/models";
}

std::string find_model(const std::string& model, const std::string& hub_cache) {
  std::string looked = "there is no such file or folder";
  if (is_file(model)) {
    if (model.ends_with(".gguf") || is_gguf(model)) return model;
    if (is_pickle(model)) throw pickle_refusal(model);
    looked = "it is a file and no .gguf";
  } else if (is_folder(model)) {
    if (auto found = own(model)) return *found;
    looked = "the folder has no config.json, no tokenizer.json and no .gguf";
  } else if (auto found = gguf_of_name(model)) {
    return *found;
  }
  if (is_id(model)) {
    std::string elsewhere;
    if (auto found = cached(model, hub_cache, elsewhere)) return *found;
    looked += elsewhere;
  }
  throw error(Code::kNotFound,
              "finding the model {}: {}. Expected a Hugging Face folder, a .gguf, a run folder, or the id of a model "
              "in a cache", model, looked);
}

std::string find_model_folder(const std::string& model, const std::string& hub_cache) {
  const std::string found = find_model(model, hub_cache);
  if (is_folder(found)) return found;
  throw error(Code::kUnsupported, "finding the model {}: {} is a .gguf, and a folder of safetensors is needed here; "
              "`espalier convert` makes one", model, found);
}

SafetensorsFolder open_weights(const std::string& folder) {
  if (!has_safetensors(folder))
    if (const auto pickle = pickle_in(folder)) throw pickle_refusal(*pickle);
  return SafetensorsFolder::open(folder);
}

}  // namespace espalier
