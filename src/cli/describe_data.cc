#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "cli/describe.h"
#include "formats/checkpoint.h"
#include "formats/token_dataset.h"
#include "text/tokenizer.h"
#include "train/train_config.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

/// The tokenizer that lies beside a shard, if it is the shard's.
std::optional<Tokenizer> tokenizer_beside(const std::string& folder, uint64_t vocab_hash) {
  if (!path_exists(folder + "/tokenizer.json")) return std::nullopt;
  const Tokenizer tokenizer = Tokenizer::load(folder);
  return vocab_hash == 0 || tokenizer.vocab_hash() == vocab_hash ? std::optional(tokenizer) : std::nullopt;
}

OrderedJson summary_of(const TokenShard& shard) {
  const TokenShardLayout& l = shard.layout();
  OrderedJson object = {{"format", token_shard_kind_name(l.kind)},
                        {"dtype", dtype_name(l.dtype)},
                        {"tokens", l.token_count},
                        {"documents", l.document_count}};
  if (l.document_count == 0) object["documents"] = nullptr;
  if (l.vocab_size > 0) object["vocab_size"] = l.vocab_size;
  if (l.vocab_hash != 0) object["vocab_hash"] = fmt::format("{:016x}", l.vocab_hash);
  return object;
}

/// The first tokens, and what they say where a tokenizer tells.
OrderedJson start_of(const TokenShard& shard) {
  std::vector<int32_t> ids(size_t(std::min<int64_t>(shard.token_count(), 32)));
  shard.read(0, int64_t(ids.size()), ids.data());
  OrderedJson object = {{"first_tokens", ids}};
  if (const auto tokenizer = tokenizer_beside(folder_of(shard.path()), shard.vocab_hash()))
    object["first_text"] = tokenizer->decode(ids);
  return object;
}

}  // namespace

OrderedJson describe_shard(Terminal&, const std::string& path, const DescribeOptions& options) {
  const TokenShard shard = TokenShard::open(path);
  OrderedJson object = summary_of(shard);
  object["bytes"] = MappedFile(path).size();
  object.update(start_of(shard));
  if (options.verify) {
    shard.verify();
    object["verified"] = true;
  }
  return object;
}

OrderedJson describe_shards(Terminal&, const std::string& folder, const DescribeOptions& options) {
  const TokenDataset data = TokenDataset::open(folder);
  OrderedJson object = {{"tokens", data.token_count()}, {"vocab_size", data.vocab_size()},
                        {"vocab_hash", fmt::format("{:016x}", data.vocab_hash())}};
  object.update(start_of(data.shards()[0]));
  if (options.verify) {
    data.verify();
    object["verified"] = true;
  }
  for (const TokenShard& shard : data.shards())
    object["shards"].push_back({{"name", fs::path(shard.path()).filename().string()},
                                {"dtype", dtype_name(shard.layout().dtype)},
                                {"tokens", shard.token_count()},
                                {"documents", shard.layout().document_count}});
  return object;
}

OrderedJson describe_checkpoint(Terminal& terminal, const std::string& folder, const DescribeOptions& options) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  OrderedJson object = {{"step", checkpoint.step()}, {"verified", true}};
  object["state"] = OrderedJson::parse(checkpoint.state().dump());
  object.update(describe_safetensors(terminal, checkpoint.tensors().path(), options));
  return object;
}

OrderedJson describe_run(Terminal& terminal, const std::string& folder, const DescribeOptions& options) {
  OrderedJson object;
  OrderedJson checkpoints = OrderedJson::array();
  for (const CheckpointEntry& entry : find_checkpoints(folder + "/checkpoints")) checkpoints.push_back(entry.step);
  object["checkpoints"] = checkpoints;
  if (path_exists(folder + "/metrics.jsonl")) {
    const MappedFile metrics(folder + "/metrics.jsonl");
    std::string_view text = metrics.text();
    while (text.ends_with('\n')) text.remove_suffix(1);
    object["metric_lines"] = std::count(text.begin(), text.end(), '\n') + !text.empty();
    const std::string last(text.substr(text.rfind('\n') + 1));
    // A run that is being written may end in half a line.
    if (const auto json = OrderedJson::parse(last, nullptr, false); json.is_object()) object["last_metrics"] = json;
  }
  object["config"] = describe_recipe(terminal, folder + "/config.toml", options)["settings"];
  if (path_exists(folder + "/model/config.json"))
    object["model"] = OrderedJson{{"path", folder + "/model"}, {"see", "espalier inspect " + folder + "/model"}};
  return object;
}

OrderedJson describe_recipe(Terminal&, const std::string& path, const DescribeOptions&) {
  TrainConfig config, defaults;
  config_from_toml_file(path, ESP_CONFIG(config));
  const auto before = config_fields(ESP_CONFIG(defaults)), after = config_fields(ESP_CONFIG(config));
  OrderedJson settings;  // what differs from the defaults
  for (size_t i = 0; i < after.size(); ++i)
    if (after[i].value != before[i].value) settings[after[i].path] = after[i].value;
  return {{"settings", settings}};
}

}  // namespace espalier
