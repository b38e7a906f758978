// The model that a server serves: everything that requests need of it besides passes.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/decoder.h"
#include "serve/grammars.h"
#include "serve/openai_reply.h"
#include "serve/openai_request.h"
#include "serve/tool_calls.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace espalier {

/// The tokens between which a model fills in the middle; ids of the vocabulary.
struct MiddleTokens {
  int32_t prefix = 0, suffix = 0, middle = 0;
};

/// A change of the model that requests ask for, by its name as their model or by its number.
struct ServedAdapter {
  std::string name;
  std::shared_ptr<const LoraAdapter> adapter;
};

struct ModelFacts {
  /// `path` is find_model's. Throws as reading tokenizer and template does.
  ModelFacts(const std::string& path, const ArchSpec& spec, std::string alias);

  std::string id;
  ArchSpec spec;
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat;        ///< nothing: the model was not taught to converse
  std::vector<int32_t> turn_ends;          ///< ids that end an answer
  std::optional<ToolFormat> tools;         ///< how it calls tools; nothing: it does not
  std::optional<MiddleTokens> middle;      ///< nothing: it does not fill in
  int64_t created_s = 0;                   ///< of the file
  std::shared_ptr<Grammars> grammars;
  std::vector<ServedAdapter> adapters;

  /// The model, and behind it each of its adapters as a model.
  std::vector<ServedModel> served() const;
  /// What a request changes of the model. ApiError 400 where it names an adapter that there is not.
  std::vector<LoraUse> lora_of(const GenerationRequest& asked) const;
};

}  // namespace espalier
