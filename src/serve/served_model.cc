#include "serve/served_model.h"

#include <filesystem>

#include "engine/turn_end.h"
#include "models/gguf_tokenizer.h"
#include "serve/api_error.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

std::string name_of(const std::string& path) {
  const fs::path name = fs::path(path).lexically_normal();
  const std::string stem = name.extension() == ".gguf" ? name.stem().string() : name.filename().string();
  return stem.empty() ? "model" : stem;
}

int64_t changed_s(const std::string& path) {
  std::error_code ignored;
  const auto time = fs::last_write_time(path, ignored);
  const auto system = std::chrono::file_clock::to_sys(time);
  return ignored ? 0 : std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

// Under the names of Qwen, StarCoder, DeepSeek and CodeLlama.
std::optional<MiddleTokens> middle_tokens(const Tokenizer& tokenizer) {
  constexpr const char* kNames[][3] = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                       {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                       {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
                                       {"▁<PRE>", "▁<SUF>", "▁<MID>"}};
  for (const auto& names : kNames) {
    const auto prefix = tokenizer.id_of(names[0]), suffix = tokenizer.id_of(names[1]);
    const auto middle = tokenizer.id_of(names[2]);
    if (prefix && suffix && middle) return MiddleTokens{*prefix, *suffix, *middle};
  }
  return std::nullopt;
}

}  // namespace

ModelFacts::ModelFacts(const std::string& path, const ArchSpec& arch, std::string alias)
    : id(alias.empty() ? name_of(path) : std::move(alias)), spec(arch), tokenizer(load_tokenizer(path)),
      chat(load_chat_template(path)), middle(middle_tokens(tokenizer)), created_s(changed_s(path)),
      grammars(std::make_shared<Grammars>(tokenizer)) {
  if (!chat) return;
  turn_ends = turn_end_ids(path, tokenizer, *chat);
  tools = tool_format(chat->source());
}

std::vector<ServedModel> ModelFacts::served() const {
  std::vector<ServedModel> models = {{id, created_s, parameter_count(spec), spec.positions, spec.vocab}};
  for (const ServedAdapter& adapter : adapters) {
    models.push_back(models[0]);
    models.back().id = adapter.name;
  }
  return models;
}

std::vector<LoraUse> ModelFacts::lora_of(const GenerationRequest& asked) const {
  std::vector<LoraUse> uses;
  if (!asked.lora) {
    for (const ServedAdapter& a : adapters)
      if (a.name == asked.model) uses.push_back({a.adapter, 1});
    return uses;
  }
  for (const auto& [number, scale] : *asked.lora) {
    if (number >= int64_t(adapters.size()))
      throw ApiError(400, fmt::format("'lora' asks for adapter {}; there are {}, see /lora-adapters", number,
                                      adapters.size()), "lora");
    if (scale != 0) uses.push_back({adapters[size_t(number)].adapter, float(scale)});
  }
  return uses;
}

}  // namespace espalier
