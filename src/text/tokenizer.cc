#include "text/tokenizer.h"

#include <filesystem>
#include <mutex>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "text/piece_cache.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace espalier {
namespace {

/// What one encoding call needs of memory, kept between calls.
struct Workspace {
  PieceCache cache;
  BpeScratch bpe;
  std::vector<Segment> segments;
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

  void encode_segment(std::string_view text, Workspace& workspace, std::vector<int32_t>& ids) const;
  void piece_symbols(std::string_view piece, BpeScratch& scratch) const;
  /// The text of a segment as the pre-tokenizer sees it: with a space before it, where the file asks for that.
  std::string_view prefixed(std::string_view text, std::string& buffer) const;
};

std::string_view Tokenizer::State::prefixed(std::string_view text, std::string& buffer) const {
  if (!parts.add_prefix_space || text.starts_with(' ')) return text;
  buffer.assign(1, ' ');
  return buffer += text;
}

/// The tokens of a piece, into scratch.symbols.
void Tokenizer::State::piece_symbols(std::string_view piece, BpeScratch& scratch) const {
  if (parts.ignore_merges) {
    const int32_t id = parts.vocabulary.find(piece, Vocabulary::kBytes);
    if (id >= 0) {
      scratch.symbols.assign(1, {id, 0});
      return;
    }
  }
  parts.bpe.encode(piece, scratch);
}

void Tokenizer::State::encode_segment(std::string_view segment, Workspace& workspace,
                                      std::vector<int32_t>& ids) const {
  const std::string_view text = prefixed(segment, workspace.prefixed);
  std::vector<int32_t> fresh;
  parts.pre_tokenizer.split(text, [&](size_t begin, size_t end) {
    const std::string_view piece = text.substr(begin, end - begin);
    const PieceCache::Key key = PieceCache::key(piece, text.size() - begin);
    if (workspace.cache.append(key, piece, ids)) return;
    piece_symbols(piece, workspace.bpe);
    fresh.clear();
    for (const Symbol& symbol : workspace.bpe.symbols) fresh.push_back(symbol.id);
    workspace.cache.insert(key, piece, fresh.data(), fresh.size());
    ids.insert(ids.end(), fresh.begin(), fresh.end());
  });
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& what) {
  auto state = std::make_shared<State>();
  state->parts = parse_tokenizer_json(json, what);
  state->json = json;
  state->bos = state->usual(kUsualBos);
  state->eos = state->usual(kUsualEos);
  state->pad = state->usual(kUsualPad);
  state->hash = state->parts.vocabulary.hash();
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

Tokenizer Tokenizer::load(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr size_t kMaxBytes = size_t{1} << 28;
  std::error_code ignored;  // a path that cannot be looked at is reported by the read below
  const fs::path file = fs::is_directory(path, ignored) ? fs::path(path) / "tokenizer.json" : fs::path(path);
  Tokenizer tokenizer = from_json(read_file(file.string(), kMaxBytes), file.string());
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
  state.parts.added.split(text, options.parse_special, workspace->segments);
  for (const Segment& segment : workspace->segments) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
    } else {
      state.encode_segment(text.substr(segment.begin, segment.end - segment.begin), *workspace, ids);
    }
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
  const auto add = [&](int32_t id, size_t begin, size_t end) {
    pieces.push_back({id, repaired.source_offset(uint32_t(begin)), repaired.source_offset(uint32_t(end))});
  };
  if (options.add_special)
    for (const int32_t id : state.parts.prefix) pieces.push_back({id, 0, 0});
  std::vector<Segment> segments;
  state.parts.added.split(repaired.text, options.parse_special, segments);
  BpeScratch scratch;
  std::string buffer;
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      add(segment.id, segment.begin, segment.end);
      continue;
    }
    const std::string_view plain =
        std::string_view(repaired.text).substr(segment.begin, segment.end - segment.begin);
    const std::string_view text = state.prefixed(plain, buffer);
    const size_t extra = text.size() - plain.size();  // the space before the text covers nothing
    const auto place = [&](size_t at) { return segment.begin + (at < extra ? 0 : at - extra); };
    state.parts.pre_tokenizer.split(text, [&](size_t begin, size_t end) {
      state.piece_symbols(text.substr(begin, end - begin), scratch);
      for (size_t i = 0; i < scratch.symbols.size(); ++i) {
        const size_t next = i + 1 < scratch.symbols.size() ? begin + scratch.symbols[i + 1].begin : end;
        add(scratch.symbols[i].id, place(begin + scratch.symbols[i].begin), place(next));
      }
    });
  }
  const auto size = uint32_t(source.size());
  if (options.add_special)
    for (const int32_t id : state.parts.suffix) pieces.push_back({id, size, size});
  return pieces;
}

size_t Tokenizer::safe_cut(std::string_view text) const {
  const TokenizerParts& parts = state_->parts;
  // A part may not gain a space at its start, and no added token may swallow one across the cut.
  if (!parts.pre_tokenizer.pattern() || parts.add_prefix_space || !parts.added.allow_cuts()) return 0;
  return last_safe_cut(text);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids)
    if (!skip_special || !is_special(id)) bytes += token_bytes(id);
  return is_utf8(bytes) ? bytes : repair_utf8(bytes).text;
}

std::string_view Tokenizer::token_bytes(int32_t id) const { return state_->parts.vocabulary.bytes(id); }
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
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  pending_ += tokenizer_.token_bytes(id);
  std::string text;
  size_t at = 0;
  while (at < pending_.size()) {
    const Utf8Step step = utf8_step(std::string_view(pending_).substr(at));
    if (step.kind == Utf8Step::kIncomplete) break;
    if (step.kind == Utf8Step::kValid) {
      text.append(pending_, at, size_t(step.length));
    } else {
      text += "\uFFFD";
    }
    at += size_t(step.length);
  }
  pending_.erase(0, at);
  return text;
}

std::string DecodeStream::finish() {
  const std::string text = pending_.empty() ? "" : "\uFFFD";
  pending_.clear();
  return text;
}

}  // namespace espalier
