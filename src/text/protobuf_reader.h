// One message of Protocol Buffers' wire format (https://protobuf.dev/programming-guides/encoding), field by field: a
// varint of (number << 3 | type), then a varint (type 0), 8 bytes (1), a varint of a length and so many bytes (2), or 4
// bytes (5). Every read is bounded by the message.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

class ProtobufReader {
 public:
  struct Field {
    uint64_t number;
    int type;
    uint64_t value;          ///< of a varint, or the 4 or 8 bytes
    std::string_view bytes;  ///< of a length and its bytes
  };

  /// `what` names the file in errors. Both outlive the reader.
  ProtobufReader(std::string_view message, const std::string& what) : rest_(message), what_(what) {}

  /// Nothing at the end. Error kBadData where the message is cut off or of another format.
  std::optional<Field> next();

  /// The value of a field, where it is of this type; otherwise Error kBadData.
  uint64_t varint(const Field& field) const;
  float f32(const Field& field) const;
  std::string_view bytes(const Field& field) const;

 private:
  uint64_t take_varint();
  std::string_view take(uint64_t count);
  void expect(const Field& field, int type) const;

  std::string_view rest_;
  const std::string& what_;
};

}  // namespace espalier
