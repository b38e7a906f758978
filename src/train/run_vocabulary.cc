#include "train/run_vocabulary.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "text/extend_vocabulary.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

/// Where the tokenizer.json of the shards lies; empty where it is gone.
std::string tokenizer_folder_of(const TokenDataset& data) {
  const fs::path shard = fs::absolute(data.shards()[0].path());
  for (const fs::path& folder : {shard.parent_path(), shard.parent_path().parent_path()})
    if (is_file(folder / "tokenizer.json")) return folder;
  return "";
}

/// The shards' hash must be that of one of these.
void check_hash(const TokenDataset& data, const std::string& shards, const std::string& where,
                std::initializer_list<const Tokenizer*> tokenizers) {
  const uint64_t hash = data.vocab_hash();
  for (const Tokenizer* t : tokenizers)
    if (hash == 0 || t->vocab_hash() == hash) return;
  throw error(Code::kMismatch,
              "the shards of {} were made with another tokenizer (hash {}) than that of {} (hash {}); prepare the text "
              "again with this one",
              shards, hex64(hash), where, hex64((*tokenizers.begin())->vocab_hash()));
}

/// The model's tokenizer and the shards' may differ in how many tokens they have, not in what an id means.
void check_agree(const Tokenizer& of_model, const std::string& model, const Tokenizer& of_data,
                 const std::string& shards) {
  const int64_t both = std::min(of_model.vocab_size(), of_data.vocab_size());
  for (int64_t id = 0; id < both; ++id) {
    const auto i = int32_t(id);
    // One of them may leave out the names of rows that are in no text.
    if (of_model.token_bytes(i) == of_data.token_bytes(i) || of_model.token_bytes(i).empty() ||
        of_data.token_bytes(i).empty())
      continue;
    throw error(Code::kMismatch,
                "the shards of {} were made with another tokenizer than that of {}: token {} is '{}' there and '{}' "
                "here; prepare the text again with the model's (prepare --tokenizer)",
                shards, model, id, of_data.token_text(i), of_model.token_text(i));
  }
}

/// What the shards and the model bring, before new tokens.
struct Found {
  std::string data_folder;
  std::optional<Tokenizer> of_data, of_model;
};

void add_new_tokens(Context& ctx, const TrainConfig& config, const TokenDataset& data, const Found& found,
                    RunVocabulary& v) {
  const Tokenizer base = *v.tokenizer;
  v.tokenizer = with_added_tokens(base, config.model.new_tokens);
  v.companions.tokenizer = v.tokenizer;
  if (found.of_data)
    check_agree(*v.tokenizer, config.model.init + " with model.new_tokens", *found.of_data, config.data.train);
  else
    check_hash(data, config.data.train, config.model.init, {&base, &*v.tokenizer});
  if (data.vocab_hash() != 0 && data.vocab_hash() == base.vocab_hash())
    ctx.log.warn("the shards of {} were prepared without model.new_tokens and hold none of them; `espalier convert {} "
                 "DIR --new-tokens ...` makes a model whose tokenizer has them", config.data.train, config.model.init);
}

}  // namespace

RunVocabulary find_vocabulary(Context& ctx, const TrainConfig& config, const TokenDataset& data,
                              const std::string& init, int64_t stored_rows) {
  const std::string& shards = config.data.train;
  Found found{.data_folder = tokenizer_folder_of(data)};
  RunVocabulary v;
  if (!init.empty()) v.companions = Companions::of(init);
  found.of_model = v.companions.load_tokenizer();
  if (!found.data_folder.empty()) {
    found.of_data = Tokenizer::load(found.data_folder);
    check_hash(data, shards, found.data_folder + "/tokenizer.json", {&*found.of_data});
  }
  if (!found.of_model) v.companions.folder = found.data_folder;
  v.tokenizer = found.of_model ? found.of_model : found.of_data;

  const std::vector<std::string>& names = config.model.new_tokens;
  const int64_t known = v.tokenizer ? v.tokenizer->vocab_size() : stored_rows;
  if (!names.empty()) {
    if (!v.tokenizer)
      throw error(Code::kUsage, "model.new_tokens needs a tokenizer: neither {} nor {} has a tokenizer.json", init,
                  shards);
    add_new_tokens(ctx, config, data, found, v);
  } else if (found.of_model && found.of_data) {
    check_agree(*found.of_model, init, *found.of_data, shards);
    if (found.of_data->vocab_size() > found.of_model->vocab_size())
      v.tokenizer = v.companions.tokenizer = found.of_data;
  } else if (found.of_model) {
    check_hash(data, shards, init, {&*found.of_model});
  }
  if (init.empty()) return v;
  const int64_t tokens = names.empty() ? known : v.tokenizer->vocab_size();
  const VocabularyGrowth growth = grow_vocabulary(stored_rows, known, tokens, config.model.vocab_multiple);
  if (growth.changes()) v.growth = growth;
  return v;
}

}  // namespace espalier
