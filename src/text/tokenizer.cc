#include "text/tokenizer.h"

#include <filesystem>
#include <mutex>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "text/piece_cache.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace espalier {
namespace {

/// What one encoding call needs of memory, kept between calls.
struct Workspace {
  PieceCache cache;
  BpeScratch bpe;
  std::vector<Segment> segments;
  std::vector<int32_t> fresh;
  std::string prefixed;
};

// Files without tokenizer_config.json (GPT-2's, Llama's, Qwen's, ours) name these.
constexpr const char* kUsualBos[] = {"<|begin_of_text|>", "<s>", "<bos>", "<|startoftext|>", "<|endoftext|>"};
constexpr const char* kUsualEos[] = {"<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", "<|endoftext|>"};
constexpr const char* kUsualPad[] = {"<pad>", "[PAD]", "<|pad|>"};

}  // namespace

struct Tokenizer::State {
  TokenizerParts parts;
  std::string json;
  std::optional<int32_t> bos, eos, pad;
  uint64_t hash = 0;
  // What each token stands for, one after the other, where the decoder is more than their bytes.
  std::string spelled;
  std::vector<size_t> spelled_ends;

  // Idle workspaces. A call takes one and gives it back: there are as many as calls at one time, and each stays warm.
  std::mutex mutex;
  std::vector<std::unique_ptr<Workspace>> idle;

  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<Workspace>();
    std::unique_ptr<Workspace> workspace = std::move(idle.back());
    idle.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(workspace));
  }

  template <class Names>
  std::optional<int32_t> usual(const Names& names) const {
    for (const char* name : names) {
      const std::optional<int32_t> id = parts.vocabulary.find_text(name);
      if (id && parts.vocabulary.special(*id)) return id;
    }
    return std::nullopt;
  }

  void piece_symbols(std::string_view piece, BpeScratch& scratch) const;
  void encode_piece(std::string_view piece, size_t readable, Workspace& workspace, std::vector<int32_t>& ids) const;
  void encode_segment(std::string_view text, Workspace& workspace, std::vector<int32_t>& ids) const;
  /// The text of a segment as the pre-tokenizer sees it: with a space before it, where the file asks for that.
  std::string_view prefixed(std::string_view text, std::string& buffer) const;

  /// The way of any text through all steps. Calls on_token(id, source) for added tokens and on_piece(text, piece) for
  /// pieces, which the model is to spell; sources are empty if not tracked.
  template <class OnToken, class OnPiece>
  void walk(std::string_view text, bool parse_special, bool tracked, OnToken&& on_token, OnPiece&& on_piece) const;
  template <class OnPiece>
  void walk_segment(TrackedText text, OnPiece&& on_piece) const;
  /// The tokens of a piece and the parts of the text they cover.
  template <class Add>
  void place_piece(const TrackedText& text, Span piece, BpeScratch& scratch, Add&& add) const;
  void spell_tokens();
};

std::string_view Tokenizer::State::prefixed(std::string_view text, std::string& buffer) const {
  if (!parts.add_prefix_space || text.starts_with(' ')) return text;
  buffer.assign(1, ' ');
  return buffer += text;
}

/// The tokens of a piece, into scratch.symbols.
void Tokenizer::State::piece_symbols(std::string_view piece, BpeScratch& scratch) const {
  if (parts.ignore_merges) {
    const int32_t id = parts.vocabulary.find(piece, parts.piece_kind(), Vocabulary::kOfModel);
    if (id >= 0) {
      scratch.symbols.assign(1, {id, 0});
      return;
    }
  }
  if (parts.is_unigram) return parts.unigram.encode(piece, scratch);
  parts.bpe.encode(piece, scratch);
}

inline void Tokenizer::State::encode_piece(std::string_view piece, size_t readable, Workspace& workspace,
                                           std::vector<int32_t>& ids) const {
  if (!PieceCache::keeps(piece)) {
    piece_symbols(piece, workspace.bpe);
    for (const Symbol& symbol : workspace.bpe.symbols) ids.push_back(symbol.id);
    return;
  }
  const PieceCache::Key key = PieceCache::key(piece, readable);
  if (workspace.cache.append(key, piece, ids)) return;
  piece_symbols(piece, workspace.bpe);
  std::vector<int32_t>& fresh = workspace.fresh;
  fresh.clear();
  for (const Symbol& symbol : workspace.bpe.symbols) fresh.push_back(symbol.id);
  workspace.cache.insert(key, piece, fresh.data(), fresh.size());
  ids.insert(ids.end(), fresh.begin(), fresh.end());
}

void Tokenizer::State::encode_segment(std::string_view segment, Workspace& workspace, std::vector<int32_t>& ids) const {
  const std::string_view text = prefixed(segment, workspace.prefixed);
  parts.pre_tokenizer.split(text, [&](size_t begin, size_t end) {
    encode_piece(text.substr(begin, end - begin), text.size() - begin, workspace, ids);
  });
}

template <class OnPiece>
void Tokenizer::State::walk_segment(TrackedText text, OnPiece&& on_piece) const {
  if (text.text.empty()) return;
  if (parts.add_prefix_space && text.text[0] != ' ') prepend(text, " ");
  for (const Span& piece : parts.pre_tokenizer.apply(text)) on_piece(text, piece);
}

template <class OnToken, class OnPiece>
void Tokenizer::State::walk(std::string_view source, bool parse_special, bool tracked, OnToken&& on_token,
                            OnPiece&& on_piece) const {
  std::vector<Segment> segments, inner;
  parts.added.split_source(source, parse_special, segments);
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      on_token(segment.id, Span{segment.begin, segment.end});
      continue;
    }
    TrackedText text(source.substr(segment.begin, segment.end - segment.begin), segment.begin,
                     tracked || parts.pre_tokenizer.needs_origin());
    parts.normalizer.apply(text);
    parts.added.split_normalized(text.text, parse_special, inner);
    for (const Segment& part : inner) {
      if (part.id < 0) {
        walk_segment(text.slice({part.begin, part.end}), on_piece);
      } else {
        on_token(part.id, tracked ? text.source(part.begin, part.end) : Span{0, 0});
      }
    }
  }
}

template <class Add>
void Tokenizer::State::place_piece(const TrackedText& text, Span piece, BpeScratch& scratch, Add&& add) const {
  piece_symbols(std::string_view(text.text).substr(piece.begin, piece.end - piece.begin), scratch);
  const std::vector<Symbol>& symbols = scratch.symbols;
  for (size_t i = 0, behind = 0; i < symbols.size(); ++i) {
    // A token ends where the next one starts that does not start with it.
    behind = std::max(behind, i + 1);
    while (behind < symbols.size() && symbols[behind].begin <= symbols[i].begin) ++behind;
    const uint32_t begin = piece.begin + symbols[i].begin;
    const uint32_t end = behind < symbols.size() ? piece.begin + symbols[behind].begin : piece.end;
    add(symbols[i].id, text.source(begin, end));
  }
}

void Tokenizer::State::spell_tokens() {
  if (parts.decoder.empty()) return;
  for (int32_t id = 0; id < int32_t(parts.vocabulary.size()); ++id) {
    if (parts.vocabulary.has(id)) spelled += parts.decoder.token_bytes(parts.vocabulary.text(id));
    spelled_ends.push_back(spelled.size());
  }
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& what) {
  auto state = std::make_shared<State>();
  state->parts = parse_tokenizer_json(json, what);
  state->json = json;
  state->bos = state->usual(kUsualBos);
  state->eos = state->usual(kUsualEos);
  state->pad = state->usual(kUsualPad);
  state->hash = state->parts.vocabulary.hash();
  state->spell_tokens();
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& what, const SpecialIds& ids) {
  Tokenizer tokenizer = from_json(json, what);
  State& state = *tokenizer.state_;
  state.bos = ids.bos;
  state.eos = ids.eos;
  state.pad = ids.pad;
  return tokenizer;
}

namespace {

/// What is put around the texts of a tokenizer.model: as tokenizer_config.json says, or as the classes that
/// transformers has for such models do.
SentencePieceOptions sentencepiece_options(const std::filesystem::path& folder) {
  const std::string path = (folder / "tokenizer_config.json").string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const Json config = read_json_file(path);
  const auto name = json_get_or<std::string>(config, "tokenizer_class", "", path);
  const bool begins = name.starts_with("Llama") || name.starts_with("CodeLlama") || name.starts_with("Gemma");
  return {.add_bos = json_get_or(config, "add_bos_token", begins, path),
          .add_eos = json_get_or(config, "add_eos_token", name.starts_with("T5"), path)};
}

/// The text of an entry like "eos_token": a string, or an added token as an object.
std::optional<std::string> named_token(const Json& config, const char* key) {
  const auto found = config.is_object() ? config.find(key) : config.end();
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
    return (*found)["content"].get<std::string>();
  return std::nullopt;
}

}  // namespace

std::optional<std::string> tokenizer_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // a path that cannot be looked at is no folder with a tokenizer
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (const fs::path file = fs::path(path) / name; fs::is_regular_file(file, ignored)) return file.string();
  return std::nullopt;
}

Tokenizer Tokenizer::load(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr size_t kMaxBytes = size_t{1} << 28;
  std::error_code ignored;  // a path that cannot be looked at is reported by the read below
  const fs::path file = tokenizer_file(path).value_or(fs::path(path) / "tokenizer.json");
  const std::string bytes = read_file(file.string(), kMaxBytes);
  Tokenizer tokenizer = file.extension() == ".model"
                            ? sentencepiece_tokenizer(bytes, file.string(), sentencepiece_options(file.parent_path()))
                            : from_json(bytes, file.string());
  State& state = *tokenizer.state_;
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const fs::path beside = file.parent_path() / name;
    if (!fs::exists(beside, ignored)) continue;
    const Json config = read_json_file(beside.string(), kMaxBytes);
    for (const auto& [key, id] : {std::pair{"bos_token", &state.bos}, std::pair{"eos_token", &state.eos},
                                  std::pair{"pad_token", &state.pad}}) {
      const std::optional<std::string> token = named_token(config, key);
      if (!token) continue;
      *id = tokenizer.id_of(*token);
      if (!*id)
        throw error(Code::kMismatch, "reading {}: {} is \"{}\", which {} lacks", beside.string(), key, *token,
                    file.string());
    }
  }
  return tokenizer;
}

std::string Tokenizer::to_json() const { return state_->json; }

void Tokenizer::save(const std::string& folder) const {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw error(Code::kIo, "creating the folder {}: {}", folder, failure.message());
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (bos()) config["bos_token"] = token_text(*bos());
  if (eos()) config["eos_token"] = token_text(*eos());
  if (pad()) config["pad_token"] = token_text(*pad());
  write_file_atomic(folder + "/tokenizer.json", state_->json);
  write_file_atomic(folder + "/tokenizer_config.json", config.dump(2) + "\n");
}

int64_t Tokenizer::vocab_size() const { return state_->parts.vocabulary.size(); }

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& ids, const EncodeOptions& options) const {
  const State& state = *state_;
  if (!is_utf8(text)) return encode(repair_utf8(text).text, ids, options);
  if (text.size() >= size_t{1} << 30)  // offsets have 32 bits
    throw error(Code::kUnsupported, "tokenizing a text of {} bytes at once: fewer than 1 GiB fit; cut it", text.size());
  std::unique_ptr<Workspace> workspace = state_->take();
  if (options.add_special) ids.insert(ids.end(), state.parts.prefix.begin(), state.parts.prefix.end());
  if (!state.parts.pre_tokenizer.rewrites() && state.parts.normalizer.leaves_alone(text)) {
    state.parts.added.split(text, options.parse_special, workspace->segments);
    for (const Segment& segment : workspace->segments) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
      } else {
        state.encode_segment(text.substr(segment.begin, segment.end - segment.begin), *workspace, ids);
      }
    }
  } else {
    state.walk(
        text, options.parse_special, false, [&](int32_t id, Span) { ids.push_back(id); },
        [&](const TrackedText& changed, Span piece) {
          const std::string_view rest = std::string_view(changed.text).substr(piece.begin);
          state.encode_piece(rest.substr(0, piece.end - piece.begin), rest.size(), *workspace, ids);
        });
  }
  if (options.add_special) ids.insert(ids.end(), state.parts.suffix.begin(), state.parts.suffix.end());
  state_->give_back(std::move(workspace));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  encode(text, ids, options);
  return ids;
}

std::vector<TokenPiece> Tokenizer::encode_pieces(std::string_view source, const EncodeOptions& options) const {
  const State& state = *state_;
  const RepairedText repaired = is_utf8(source) ? RepairedText{std::string(source), {{0, 0}}} : repair_utf8(source);
  std::vector<TokenPiece> pieces;
  const auto add = [&](int32_t id, Span covered) {
    pieces.push_back({id, repaired.source_offset(covered.begin), repaired.source_offset(covered.end)});
  };
  if (options.add_special)
    for (const int32_t id : state.parts.prefix) add(id, {0, 0});
  BpeScratch scratch;
  state.walk(repaired.text, options.parse_special, true, add,
             [&](const TrackedText& text, Span piece) { state.place_piece(text, piece, scratch, add); });
  const auto size = uint32_t(source.size());
  if (options.add_special)
    for (const int32_t id : state.parts.suffix) pieces.push_back({id, size, size});
  return pieces;
}

size_t Tokenizer::safe_cut(std::string_view text) const {
  const TokenizerParts& parts = state_->parts;
  // A part may not gain a space at its start, no added token may swallow one across the cut, and what the normalizer
  // does there may not depend on what lies beyond.
  const bool known = parts.pre_tokenizer.pattern() && !parts.add_prefix_space && parts.added.allow_cuts() &&
                     parts.normalizer.works_char_by_char();
  return known ? last_safe_cut(text) : 0;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  const TokenizerParts& parts = state_->parts;
  std::string text;
  TokenDecoder::State decoding;
  for (const int32_t id : ids) {
    if (!parts.vocabulary.has(id) || (skip_special && is_special(id))) continue;
    if (parts.decoder.empty()) {
      text += parts.vocabulary.bytes(id);
    } else {
      text += parts.decoder.push(decoding, parts.vocabulary.text(id));
    }
  }
  if (!parts.decoder.empty()) return text + parts.decoder.finish(decoding);
  return is_utf8(text) ? text : repair_utf8(text).text;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  const State& state = *state_;
  if (state.parts.decoder.empty() || !state.parts.vocabulary.has(id)) return state.parts.vocabulary.bytes(id);
  const size_t begin = id > 0 ? state.spelled_ends[size_t(id) - 1] : 0;
  return std::string_view(state.spelled).substr(begin, state.spelled_ends[size_t(id)] - begin);
}
std::string Tokenizer::token_text(int32_t id) const { return state_->parts.vocabulary.text(id); }
std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  return is_utf8(token) ? state_->parts.vocabulary.find_text(token) : std::nullopt;
}
std::optional<int32_t> Tokenizer::bos() const { return state_->bos; }
std::optional<int32_t> Tokenizer::eos() const { return state_->eos; }
std::optional<int32_t> Tokenizer::pad() const { return state_->pad; }
bool Tokenizer::is_special(int32_t id) const { return state_->parts.vocabulary.special(id); }
uint64_t Tokenizer::vocab_hash() const { return state_->hash; }

std::string DecodeStream::push(int32_t id) {
  const TokenizerParts& parts = tokenizer_.state_->parts;
  if (!parts.vocabulary.has(id) || (skip_special_ && tokenizer_.is_special(id))) return {};
  if (!parts.decoder.empty()) return parts.decoder.push(state_, parts.vocabulary.text(id));
  pending_ += parts.vocabulary.bytes(id);
  return take_characters(pending_);
}

std::string DecodeStream::finish() {
  const TokenDecoder& decoder = tokenizer_.state_->parts.decoder;
  if (!decoder.empty()) return decoder.finish(state_);
  const std::string text = pending_.empty() ? "" : "\uFFFD";
  pending_.clear();
  return text;
}

}  // namespace espalier
