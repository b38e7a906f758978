#include "formats/hf_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"
#include "base/file.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

std::string from_environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

bool is_model_folder(const std::string& path) {
  return is_file(path + "/config.json") || is_file(path + "/tokenizer.json");
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

/// The snapshot that refs/main names, or the newest.
std::optional<std::string> snapshot_of(const std::string& repository) {
  if (::access(repository.c_str(), R_OK | X_OK) != 0) return std::nullopt;  // where a cache was only guessed
  if (is_file(repository + "/refs/main")) {
    std::string commit = read_file(repository + "/refs/main", 1024);
    commit.resize(std::min(commit.find_first_of("\n/"), commit.size()));
    if (!commit.empty() && is_model_folder(repository + "/snapshots/" + commit))
      return repository + "/snapshots/" + commit;
  }
  std::optional<std::string> newest;
  fs::file_time_type newest_time;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(repository + "/snapshots", ignored)) {
    const fs::file_time_type time = entry.last_write_time(ignored);
    if (!is_model_folder(entry.path()) || (newest && time <= newest_time)) continue;
    newest = entry.path();
    newest_time = time;
  }
  return newest;
}

}  // namespace

std::string hub_cache_folder() {
  if (const std::string cache = from_environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = from_environment("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string cache = from_environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/huggingface/hub";
  return from_environment("HOME") + "/.cache/huggingface/hub";
}

std::string find_model_folder(const std::string& model, const std::string& hub_cache) {
  if (is_model_folder(model)) return model;
  if (is_model_folder(model + "/model")) return model + "/model";
  if (is_folder(model + "/checkpoints"))
    throw error(Code::kNotFound,
                "finding the model {}: this run folder has no model/ yet; it gets one when the training ends or is "
                "stopped", model);
  std::string looked = is_folder(model) ? fmt::format("the folder has no config.json and no tokenizer.json")
                                        : fmt::format("there is no such folder");
  if (is_id(model)) {
    std::string name = "models--" + model;
    if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
    const std::string repository = hub_cache + "/" + name;
    if (const std::optional<std::string> snapshot = snapshot_of(repository)) return *snapshot;
    looked += fmt::format(", and no model in the Hugging Face cache at {}", repository);
  }
  throw error(Code::kNotFound,
              "finding the model {}: {}; expected a Hugging Face folder, a run folder, or the id of a model in the "
              "cache", model, looked);
}

std::string model_cache_folder() {
  if (const std::string folder = from_environment("ESP_MODELS"); !folder.empty()) return folder;
  return from_environment("HOME") + "/.cache/espalier/models";
}

std::string find_model(const std::string& model) {
  if (is_file(model) && (model.ends_with(".gguf") || is_gguf(model))) return model;
  const std::string fetched = model_cache_folder() + "/" + model + ".gguf";
  if (is_id(model) && !path_exists(model) && is_file(fetched)) return fetched;
  return find_model_folder(model);
}

SafetensorsFolder open_weights(const std::string& folder) {
  const bool safe = is_file(folder + "/model.safetensors") || is_file(folder + "/model.safetensors.index.json");
  if (!safe && (is_file(folder + "/pytorch_model.bin") || is_file(folder + "/pytorch_model.bin.index.json")))
    throw error(Code::kUnsupported,
                "reading the weights of {}: they are PyTorch pickles, which can run any program when they are read; if "
                "you trust them, convert them with: python3 -c \"from transformers import AutoModelForCausalLM as M; "
                "M.from_pretrained('{}').save_pretrained('{}', safe_serialization=True)\"", folder, folder, folder);
  return SafetensorsFolder::open(folder);
}

}  // namespace espalier
