#include "cli/describe.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "formats/gguf.h"
#include "formats/hf_folder.h"
#include "formats/pickle.h"
#include "formats/token_shards.h"

namespace espalier {
namespace {

bool has(const std::string& folder, const char* name) { return path_exists(folder + "/" + name); }

/// The first bytes of a file, fewer where it is shorter; nothing of a folder.
std::string head_of(const std::string& path, size_t bytes) {
  if (!is_file(path)) return "";  // reading a pipe would wait for who writes to it
  std::string head(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), std::streamsize(bytes));
  head.resize(size_t(std::max<std::streamsize>(in.gcount(), 0)));
  return head;
}

bool is_json_with(const std::string& path, const char* key) {
  if (!is_file(path) || !path.ends_with(".json")) return false;
  const Json json = read_json_file(path);
  return json.is_object() && json.contains(key);
}

bool holds_shards(const std::string& path) {
  if (!is_folder(path)) return false;
  const std::vector<std::string> inside = list_folder(path);
  return std::any_of(inside.begin(), inside.end(),
                     [](const std::string& file) { return file.ends_with(kTokenShardExtension); });
}

bool is_run(const std::string& path) {
  return has(path, "config.toml") && (has(path, "metrics.jsonl") || has(path, "checkpoints") || has(path, "model"));
}
bool is_checkpoint(const std::string& path) { return has(path, "manifest.json"); }
bool is_model(const std::string& path) {
  constexpr const char* kFiles[] = {"config.json", "tokenizer.json", "tokenizer.model", "model.safetensors",
                                    "model.safetensors.index.json"};
  return std::any_of(std::begin(kFiles), std::end(kFiles), [&](const char* name) { return has(path, name); });
}
bool is_safetensors(const std::string& path) {
  const std::string head = head_of(path, 9);
  return is_json_with(path, "weight_map") || path.ends_with(".safetensors") || (head.size() == 9 && head[8] == '{');
}
bool is_tokenizer(const std::string& path) {
  return is_json_with(path, "added_tokens") || (is_file(path) && path.ends_with(".model"));
}
bool is_config(const std::string& path) { return is_json_with(path, "model_type"); }
bool is_shard(const std::string& path) {
  const std::string head = head_of(path, 8);
  const bool named = path.ends_with(kTokenShardExtension) || path.ends_with(".bin");
  const bool llmc = head.starts_with("\x88\xd8\x34\x01") || head.starts_with("\xa1\xd9\x34\x01");
  return is_file(path) && (named || llmc || head == "ESPTOKEN");
}
bool is_recipe(const std::string& path) { return is_file(path) && path.ends_with(".toml"); }

// A new format is one row here.
constexpr FileKind kKinds[] = {
    {"run", "run folders", is_run, describe_run},
    {"checkpoint", "checkpoints (checkpoints/step-N)", is_checkpoint, describe_checkpoint},
    {"token shards", "folders of token shards", holds_shards, describe_shards},
    {"model", "Hugging Face model folders", is_model, describe_model},
    {"tokenizer", "tokenizer.json and tokenizer.model", is_tokenizer, describe_tokenizer},
    {"config", "config.json", is_config, describe_config},
    {"recipe", "recipes (.toml)", is_recipe, describe_recipe},
    {"token shard", "token shards (.tokens, nanoGPT's and llm.c's .bin)", is_shard, describe_shard},
    {"gguf", ".gguf models", is_gguf, describe_gguf},
    {"safetensors", ".safetensors and their index", is_safetensors, describe_safetensors},
};

}  // namespace

std::span<const FileKind> file_kinds() { return kKinds; }

namespace {

const FileKind* kind_of(const std::string& path) {
  for (const FileKind& kind : kKinds)
    if (kind.matches(path)) return &kind;
  return nullptr;
}

bool holds_gguf(const std::string& path) {
  if (!is_folder(path)) return false;
  const std::vector<std::string> inside = list_folder(path);
  return std::any_of(inside.begin(), inside.end(), [](const std::string& file) { return file.ends_with(".gguf"); });
}

}  // namespace

OrderedJson describe(Terminal& terminal, const std::string& given, const DescribeOptions& options) {
  std::string path = path_exists(given) ? given : find_model(given);
  if (is_pickle(path)) throw pickle_refusal(path);
  const FileKind* kind = kind_of(path);
  if (!kind && holds_gguf(path)) kind = kind_of(path = find_model(path));
  if (kind) {
    OrderedJson object = {{"kind", kind->name}, {"path", path}};
    object.update(kind->describe(terminal, path, options));
    return object;
  }
  std::vector<std::string> known;
  for (const FileKind& each : kKinds) known.emplace_back(each.summary);
  throw error(Code::kUnsupported, "inspecting {}: its contents are of no format that Espalier reads; those are {}",
              path, fmt::join(known, ", "));
}

}  // namespace espalier
