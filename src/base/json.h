// JSON: nlohmann's value type, parsed with bounds and with errors that name the file and the place. Include
// base/json_value.h in the .cc that touches values; it is too heavy for headers.
#pragma once
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace espalier {

using Json = nlohmann::json;
/// Keeps the order of keys; for files that people read.
using OrderedJson = nlohmann::ordered_json;

/// Parses UTF-8 JSON nested at most 64 deep. `what` names the source in errors ("config.json of DIR").
/// Throws Error kBadData with the line, column and reason.
Json parse_json(std::string_view text, const std::string& what);

/// The same with the keys in their order.
OrderedJson parse_ordered_json(std::string_view text, const std::string& what);

/// parse_json, and an Error where an object has a key twice, for formats in which the two could hide one another.
Json parse_json_unique(std::string_view text, const std::string& what);

/// Reads and parses a file of at most `max_bytes`.
Json read_json_file(const std::string& path, size_t max_bytes = size_t{1} << 30);

/// json[key] as T; Error kBadData naming key, the type wanted and the type found, where it is missing or of another
/// type. Instances: bool, int64_t, double, std::string.
template <class T>
T json_get(const Json& json, const char* key, const std::string& what);
/// The same with a default for a missing or null key.
template <class T>
T json_get_or(const Json& json, const char* key, T fallback, const std::string& what);

}  // namespace espalier
