#include "formats/gguf_metadata.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/error.h"

namespace espalier {
namespace {

using T = GgufValueType;

template <class V>
V load(const char* bytes) {
  V value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

bool is_integer_type(T type) {
  return type == T::kU8 || type == T::kI8 || type == T::kU16 || type == T::kI16 || type == T::kU32 || type == T::kI32 ||
         type == T::kU64 || type == T::kI64;
}

bool is_number_type(T type) { return is_integer_type(type) || type == T::kF32 || type == T::kF64; }

/// An element at `bytes`; nothing where int64_t does not hold it.
std::optional<int64_t> integer_at(T type, const char* bytes) {
  switch (type) {
    case T::kU8:
    case T::kBool:
      return load<uint8_t>(bytes);
    case T::kI8:
      return load<int8_t>(bytes);
    case T::kU16:
      return load<uint16_t>(bytes);
    case T::kI16:
      return load<int16_t>(bytes);
    case T::kU32:
      return load<uint32_t>(bytes);
    case T::kI32:
      return load<int32_t>(bytes);
    case T::kI64:
      return load<int64_t>(bytes);
    case T::kU64: {
      const auto value = load<uint64_t>(bytes);
      return value <= uint64_t{INT64_MAX} ? std::optional(int64_t(value)) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

double number_at(T type, const char* bytes) {
  if (type == T::kF32) return double(load<float>(bytes));
  if (type == T::kF64) return load<double>(bytes);
  if (type == T::kU64) return double(load<uint64_t>(bytes));
  return double(*integer_at(type, bytes));
}

double shortest(float number) {
  const std::string text = fmt::format("{}", number);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

size_t size_of(T type) {
  constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[size_t(type)];
}

std::string described(const GgufValue& value) {
  if (value.type != T::kArray) return gguf_value_type_name(value.type);
  return fmt::format("an array of {} {}", value.count, gguf_value_type_name(value.element));
}

void append(std::string& bytes, const auto& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& bytes, std::string_view text) {
  append(bytes, uint64_t{text.size()});
  bytes += text;
}

}  // namespace

const char* gguf_value_type_name(T type) {
  constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                    "bool", "string", "array", "u64", "i64", "f64"};
  ESP_CHECK(uint32_t(type) < std::size(kNames), "GGUF value type {}", uint32_t(type));
  return kNames[uint32_t(type)];
}

bool GgufMetadata::add(std::string_view key, const GgufValue& value) {
  if (!values_.emplace(key, value).second) return false;
  keys_.push_back(key);
  return true;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const GgufValue* GgufMetadata::find(std::string_view key, const char* wanted, bool (*fits)(const GgufValue&)) const {
  const GgufValue* value = find(key);
  if (value && !fits(*value))
    throw error(Code::kBadData, "reading {}: metadata '{}' is {}; expected {}", what_, key, described(*value), wanted);
  return value;
}

void GgufMetadata::missing(std::string_view key) const {
  throw error(Code::kBadData, "reading {}: metadata '{}' is missing; the file is incomplete, convert the model again",
              what_, key);
}

std::optional<int64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key, "an integer", [](const GgufValue& v) {
    return is_integer_type(v.type) && integer_at(v.type, v.bytes.data()).has_value();
  });
  return value ? integer_at(value->type, value->bytes.data()) : std::nullopt;
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key, "a number", [](const GgufValue& v) { return is_number_type(v.type); });
  if (!value) return std::nullopt;
  const double number = number_at(value->type, value->bytes.data());
  return value->type == T::kF32 && std::isfinite(number) ? shortest(float(number)) : number;
}

std::optional<bool> GgufMetadata::boolean(std::string_view key) const {
  const GgufValue* value = find(key, "a bool", [](const GgufValue& v) { return v.type == T::kBool; });
  return value ? std::optional(value->bytes[0] != 0) : std::nullopt;
}

std::optional<std::string_view> GgufMetadata::text(std::string_view key) const {
  const GgufValue* value = find(key, "a string", [](const GgufValue& v) { return v.type == T::kString; });
  return value ? std::optional(value->bytes) : std::nullopt;
}

std::optional<std::vector<int64_t>> GgufMetadata::integers(std::string_view key) const {
  const GgufValue* value = find(key, "an array of integers", [](const GgufValue& v) {
    return v.type == T::kArray && (is_integer_type(v.element) || v.element == T::kBool) && v.element != T::kU64;
  });
  if (!value) return std::nullopt;
  std::vector<int64_t> list(value->count);
  for (size_t i = 0; i < list.size(); ++i)
    list[i] = *integer_at(value->element, value->bytes.data() + i * size_of(value->element));
  return list;
}

std::optional<std::vector<double>> GgufMetadata::numbers(std::string_view key) const {
  const GgufValue* value = find(key, "an array of numbers", [](const GgufValue& v) {
    return v.type == T::kArray && is_number_type(v.element);
  });
  if (!value) return std::nullopt;
  std::vector<double> list(value->count);
  for (size_t i = 0; i < list.size(); ++i)
    list[i] = number_at(value->element, value->bytes.data() + i * size_of(value->element));
  return list;
}

std::optional<std::vector<std::string_view>> GgufMetadata::texts(std::string_view key) const {
  const GgufValue* value = find(key, "an array of strings", [](const GgufValue& v) {
    return v.type == T::kArray && v.element == T::kString;
  });
  if (!value) return std::nullopt;
  std::vector<std::string_view> list(value->count);
  size_t at = 0;
  for (std::string_view& text : list) {
    const auto length = load<uint64_t>(value->bytes.data() + at);
    text = value->bytes.substr(at + sizeof length, length);
    at += sizeof length + length;
  }
  return list;
}

int64_t GgufMetadata::need_integer(std::string_view key) const {
  if (const auto value = integer(key)) return *value;
  missing(key);
}

double GgufMetadata::need_number(std::string_view key) const {
  if (const auto value = number(key)) return *value;
  missing(key);
}

std::string_view GgufMetadata::need_text(std::string_view key) const {
  if (const auto value = text(key)) return *value;
  missing(key);
}

void GgufMetadataBuilder::key(std::string_view key, T type) {
  append_text(bytes_, key);
  append(bytes_, uint32_t(type));
  ++count_;
}

void GgufMetadataBuilder::put(std::string_view name, std::string_view text) {
  key(name, T::kString);
  append_text(bytes_, text);
}

void GgufMetadataBuilder::put(std::string_view name, bool value) {
  key(name, T::kBool);
  append(bytes_, uint8_t(value));
}

void GgufMetadataBuilder::put(std::string_view name, uint32_t value) {
  key(name, T::kU32);
  append(bytes_, value);
}

void GgufMetadataBuilder::put(std::string_view name, float value) {
  key(name, T::kF32);
  append(bytes_, value);
}

void GgufMetadataBuilder::put(std::string_view name, const std::vector<std::string>& texts) {
  key(name, T::kArray);
  append(bytes_, uint32_t(T::kString));
  append(bytes_, uint64_t{texts.size()});
  for (const std::string& text : texts) append_text(bytes_, text);
}

void GgufMetadataBuilder::put(std::string_view name, const std::vector<int32_t>& values) {
  key(name, T::kArray);
  append(bytes_, uint32_t(T::kI32));
  append(bytes_, uint64_t{values.size()});
  bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t));
}

void GgufMetadataBuilder::put(std::string_view name, const std::vector<float>& values) {
  key(name, T::kArray);
  append(bytes_, uint32_t(T::kF32));
  append(bytes_, uint64_t{values.size()});
  bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

void GgufMetadataBuilder::put(std::string_view name, const GgufValue& value) {
  if (value.type == T::kString) return put(name, value.bytes);
  key(name, value.type);
  if (value.type == T::kArray) {
    append(bytes_, uint32_t(value.element));
    append(bytes_, value.count);
  }
  bytes_ += value.bytes;
}

}  // namespace espalier
