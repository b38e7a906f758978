// The tokenizer: text to ids and back, from and to the Hugging Face tokenizer.json, with the ids that the `tokenizers`
// library gives. A text is cut at added tokens (text/added_tokens.h), changed (text/normalizer.h), cut into pieces
// (text/pre_tokenizer.h), and each piece is spelled in tokens (text/bpe.h, text/unigram.h) or remembered
// (text/piece_cache.h); tokens become text by text/token_decoder.h. What it cannot do is listed in
// text/tokenizer_json.h; training is text/bpe_trainer.h.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_decoder.h"

namespace espalier {

struct EncodeOptions {
  bool add_special = false;   ///< put around the text what the file's post-processor does (BOS, EOS)
  bool parse_special = true;  ///< special tokens written in the text become their ids
};

/// A token of a text and the bytes of the text it covers. Tokens may end inside a character. Ill-formed bytes are
/// covered by the tokens of the U+FFFD that replaces them; a token of add_special covers nothing. Where a normalizer or
/// pre-tokenizer changed the text, tokens cover what the library says (text/tracked_text.h): several may cover one
/// character, and some bytes none.
struct TokenPiece {
  int32_t id;
  uint32_t begin, end;
};

/// The tokens that begin and end a text, and fill up a batch.
struct SpecialIds {
  std::optional<int32_t> bos, eos, pad;
};

/// Cheap to copy; copies share everything. Const functions may be called from any thread.
class Tokenizer {
 public:
  /// Reads a tokenizer.json, a tokenizer.model of SentencePiece, or a folder that has one of them. BOS, EOS and PAD
  /// come from tokenizer_config.json or special_tokens_map.json beside it; without them, from the usual names. Errors:
  /// kNotFound, kBadData, kUnsupported.
  static Tokenizer load(const std::string& path);
  /// The same from the text of a tokenizer.json; `what` names it in errors.
  static Tokenizer from_json(std::string_view json, const std::string& what);
  /// The same with BOS, EOS and PAD as given.
  static Tokenizer from_json(std::string_view json, const std::string& what, const SpecialIds& ids);

  /// The tokenizer.json it was made from.
  std::string to_json() const;
  /// Writes tokenizer.json and tokenizer_config.json into a folder, which it creates.
  void save(const std::string& folder) const;

  /// Largest id + 1.
  int64_t vocab_size() const;

  /// Appends the ids of a text of less than 1 GiB. Ill-formed UTF-8 is read as U+FFFD, as Python's errors="replace".
  void encode(std::string_view text, std::vector<int32_t>& ids, const EncodeOptions& options = {}) const;
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// The same ids with what they cover; slower.
  std::vector<TokenPiece> encode_pieces(std::string_view text, const EncodeOptions& options = {}) const;

  /// The last place at which the text may be cut such that the ids of the parts, one after the other, are those of
  /// the whole (last_safe_cut in text/split.h). 0: there is none, or the pattern is not known to allow it.
  size_t safe_cut(std::string_view text) const;

  /// The text of some tokens; ill-formed bytes become U+FFFD. Ids that are no tokens vanish.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  /// The bytes that one token stands for inside a text; empty where there is none. Lives as long as this tokenizer.
  std::string_view token_bytes(int32_t id) const;
  /// As written in tokenizer.json.
  std::string token_text(int32_t id) const;
  /// The id of a token as written in tokenizer.json.
  std::optional<int32_t> id_of(std::string_view token) const;

  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  std::optional<int32_t> pad() const;
  bool is_special(int32_t id) const;

  /// A stable hash of every (id, bytes, special): equal where two tokenizers number the same tokens alike.
  uint64_t vocab_hash() const;

 private:
  friend class DecodeStream;
  struct State;
  explicit Tokenizer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// What Tokenizer::load reads: the path itself, or tokenizer.json or tokenizer.model of a folder. Nothing where the
/// folder has neither.
std::optional<std::string> tokenizer_file(const std::string& path);

/// Decodes tokens as they come. What push() has returned is the start of what decode() gives for all ids so far, and
/// never ends inside a character; the rest comes with the next token or with finish().
class DecodeStream {
 public:
  /// With skip_special, special tokens give nothing.
  explicit DecodeStream(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  /// The text that the token completes; empty inside a character.
  std::string push(int32_t id);
  /// What is left, as U+FFFD for a character that was never completed. The stream is then as new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string pending_;         // bytes, where tokens are bytes
  TokenDecoder::State state_;   // where they are not
};

}  // namespace espalier
