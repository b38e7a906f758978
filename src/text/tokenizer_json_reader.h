// What the files that read tokenizer.json share: the file being read, for errors, and access to its members.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer_json.h"

namespace espalier {

/// The file being read, and the ids of its tokens as written.
struct JsonReader {
  const std::string& what;
  std::unordered_map<std::string_view, int32_t> ids = {};

  template <class... Args>
  Error bad(fmt::format_string<Args...> format, Args&&... args) const {
    return error(Code::kBadData, "reading {}: {}", what, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  Error unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    return error(Code::kUnsupported, "reading {}: {} is not supported", what,
                 fmt::format(format, std::forward<Args>(args)...));
  }
};

/// object[key], or null where it is missing.
const Json& member(const Json& object, const char* key);
/// The member "type" of the part called `name`.
std::string type_of(const JsonReader& reader, const Json& part, const char* name);
/// The parts of a Sequence, whose own Sequences are opened too, or the part itself; none where it is null.
std::vector<const Json*> sequence(const JsonReader& reader, const Json& part, const char* name, const char* list);
/// A token's id.
int32_t read_id(const JsonReader& reader, const Json& value, std::string_view token);
/// The error of a token's id that is `found`.
Error bad_id(const JsonReader& reader, std::string_view token, const std::string& found);

/// The steps of the file, each into parts; what we do not do is an Error. The post-processor needs reader.ids.
Normalizer read_normalizer(const JsonReader& reader, const Json& part);
void read_pre_tokenizer(const JsonReader& reader, const Json& part, TokenizerParts& parts);
TokenDecoder read_decoder(const JsonReader& reader, const Json& part, bool byte_level);
void read_post_processor(const JsonReader& reader, const Json& part, TokenizerParts& parts);

}  // namespace espalier
