// Base64 (RFC 4648), in which tokenizer.json carries bytes.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

/// With padding.
std::string to_base64(std::string_view bytes);

/// Padding may be missing. Nothing for a text with other characters.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace espalier
