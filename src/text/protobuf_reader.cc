#include "text/protobuf_reader.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace espalier {
namespace {

enum WireType { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t(uint8_t(bytes[i])) << (8 * i);
  return value;
}

}  // namespace

uint64_t ProtobufReader::take_varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = uint8_t(take(1)[0]);
    value |= uint64_t(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  throw error(Code::kBadData, "reading {}: a number of more than 64 bits; the file is damaged or of another format",
              what_);
}

std::string_view ProtobufReader::take(uint64_t count) {
  if (count > rest_.size())
    throw error(Code::kBadData, "reading {}: a field of {} bytes where {} are left; the file is cut off or of another "
                "format", what_, count, rest_.size());
  const std::string_view bytes = rest_.substr(0, size_t(count));
  rest_.remove_prefix(size_t(count));
  return bytes;
}

std::optional<ProtobufReader::Field> ProtobufReader::next() {
  if (rest_.empty()) return std::nullopt;
  const uint64_t key = take_varint();
  Field field{key >> 3, int(key & 7), 0, {}};
  switch (field.type) {
    case kVarint:
      field.value = take_varint();
      return field;
    case kEight:
      field.value = little_endian(take(8));
      return field;
    case kBytes:
      field.bytes = take(take_varint());
      return field;
    case kFour:
      field.value = little_endian(take(4));
      return field;
    default:
      throw error(Code::kBadData, "reading {}: field {} is of the unknown type {}; the file is damaged or of another "
                  "format", what_, field.number, field.type);
  }
}

void ProtobufReader::expect(const Field& field, int type) const {
  if (field.type != type)
    throw error(Code::kBadData, "reading {}: field {} is of type {}, expected {}; the file is damaged or of another "
                "format", what_, field.number, field.type, type);
}

uint64_t ProtobufReader::varint(const Field& field) const {
  expect(field, kVarint);
  return field.value;
}

float ProtobufReader::f32(const Field& field) const {
  expect(field, kFour);
  return std::bit_cast<float>(uint32_t(field.value));
}

std::string_view ProtobufReader::bytes(const Field& field) const {
  expect(field, kBytes);
  return field.bytes;
}

}  // namespace espalier
