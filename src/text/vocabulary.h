// The vocabulary: ids and the bytes they stand for, both ways. Ids may have holes; bytes live in one block.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// Ids must be below this; it bounds what a lying file can make us allocate. The largest vocabularies in use have a
/// million entries.
constexpr int64_t kMaxVocabulary = int64_t{1} << 22;

class Vocabulary {
 public:
  /// How a token is written in tokenizer.json.
  enum Kind : uint8_t {
    kHole,   ///< no token has this id
    kBytes,  ///< bytes, written in the byte alphabet
    kText,   ///< literal text, written as it is (added tokens, and what the byte alphabet cannot spell)
  };

  /// Adds a token; `id` is below kMaxVocabulary. False where the id is taken.
  bool add(int32_t id, std::string_view bytes, Kind kind);
  void set_special(int32_t id) { tokens_[size_t(id)].special = true; }
  /// The token is an added one that the model does not have: pieces never become it.
  void set_outside(int32_t id) { tokens_[size_t(id)].outside = true; }
  /// Builds the index that find() uses; after the last add().
  void build_index();

  /// Largest id + 1.
  int64_t size() const { return int64_t(tokens_.size()); }
  bool has(int32_t id) const { return uint32_t(id) < tokens_.size() && tokens_[size_t(id)].kind != kHole; }
  Kind kind(int32_t id) const { return has(id) ? tokens_[size_t(id)].kind : kHole; }
  bool special(int32_t id) const { return has(id) && tokens_[size_t(id)].special; }
  bool outside(int32_t id) const { return has(id) && tokens_[size_t(id)].outside; }
  /// Empty for a hole and for an id out of range.
  std::string_view bytes(int32_t id) const;
  /// As tokenizer.json writes it.
  std::string text(int32_t id) const;

  enum Part { kAll, kOfModel };
  /// The id of these bytes among tokens of this kind, or -1; of several the smallest.
  int32_t find(std::string_view bytes, Kind kind, Part part = kAll) const;
  /// The id of a token as tokenizer.json writes it.
  std::optional<int32_t> find_text(std::string_view text) const;

  /// A hash of every (id, bytes, special): two vocabularies with equal hashes number their tokens alike.
  uint64_t hash() const;

 private:
  struct Token {
    uint32_t begin = 0, size = 0;
    Kind kind = kHole;
    bool special = false, outside = false;
  };
  std::vector<Token> tokens_;
  std::string bytes_;
  std::vector<int32_t> index_;  // open addressing, a power of two; -1 is free
};

}  // namespace espalier
