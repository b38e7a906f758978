// GGUF metadata: keys and typed values, read in place and written.
//
// A value is a u32 type (GgufValueType) and its bytes, little-endian: a number; a bool of one byte, 0 or 1; a string as
// u64 length and UTF-8 bytes; an array as u32 element type, u64 count and the elements one after the other.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

enum class GgufValueType : uint32_t {
  kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64
};
/// "u8", "string", ...
const char* gguf_value_type_name(GgufValueType type);

/// A value in the memory of its file, checked: its bytes are all there.
struct GgufValue {
  GgufValueType type = GgufValueType::kU8;
  GgufValueType element = GgufValueType::kU8;  ///< of an array
  uint64_t count = 1;                          ///< elements of an array
  std::string_view bytes;                      ///< without type, count and a string's length
};

/// The metadata of a file. Getters return nothing where the key is missing, and throw Error kBadData naming file, key,
/// the type found and the type wanted where the value is something else. Views live as long as the file's memory.
class GgufMetadata {
 public:
  explicit GgufMetadata(std::string what = {}) : what_(std::move(what)) {}

  /// False where the key is there already.
  bool add(std::string_view key, const GgufValue& value);
  /// In the order of the file.
  const std::vector<std::string_view>& keys() const { return keys_; }
  /// nullptr where there is no such key.
  const GgufValue* find(std::string_view key) const;

  std::optional<int64_t> integer(std::string_view key) const;  ///< any integer type, of a value that int64_t holds
  /// Any integer or floating-point type; an f32 as the shortest decimal that names it, 1e-05 rather than its own value
  /// of 9.99999974738e-06, which nobody wrote.
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;  ///< an array of any integer type or bool
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;

  /// The same, and Error kBadData where the key is missing.
  int64_t need_integer(std::string_view key) const;
  double need_number(std::string_view key) const;
  std::string_view need_text(std::string_view key) const;

 private:
  const GgufValue* find(std::string_view key, const char* wanted, bool (*fits)(const GgufValue&)) const;
  [[noreturn]] void missing(std::string_view key) const;

  std::string what_;
  std::vector<std::string_view> keys_;
  std::map<std::string_view, GgufValue> values_;
};

/// Collects metadata to write, in order. Keys are unique.
class GgufMetadataBuilder {
 public:
  void put(std::string_view key, std::string_view text);
  void put(std::string_view key, const char* text) { put(key, std::string_view(text)); }
  void put(std::string_view key, bool value);
  void put(std::string_view key, uint32_t value);
  void put(std::string_view key, float value);
  void put(std::string_view key, const std::vector<std::string>& texts);
  void put(std::string_view key, const std::vector<int32_t>& values);
  void put(std::string_view key, const std::vector<float>& values);
  /// As it is in another file.
  void put(std::string_view key, const GgufValue& value);

  uint64_t count() const { return count_; }
  /// The pairs as the file has them.
  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::string_view key, GgufValueType type);
  std::string bytes_;
  uint64_t count_ = 0;
};

}  // namespace espalier
