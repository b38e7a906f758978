// Python's str: operations on well-formed UTF-8 that count, cut and class code points as Python does.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::jinja {

/// str.isspace of one code point.
bool is_space(uint32_t code_point);

/// The byte at which code point number `index` starts; the text's size where there are fewer.
size_t byte_of(std::string_view text, int64_t index);
/// Code points `begin` to `end`, or every `step`th of them (a negative step walks down from `begin` to above `end`).
std::string slice_text(std::string_view text, int64_t begin, int64_t end, int64_t step);

/// strip, lstrip, rstrip: of white space where chars is null, otherwise of these code points.
std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right);
/// split and rsplit: at white space where separator is null (runs count once). A separator must not be empty.
/// max_splits < 0: all.
std::vector<std::string_view> split(std::string_view text, const std::string* separator, int64_t max_splits);
std::vector<std::string_view> split_right(std::string_view text, const std::string* separator, int64_t max_splits);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// Case by Unicode's simple mappings, and the full ones of Latin (the sharp s).
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
/// str.title: a letter behind a letter is lower.
std::string title(std::string_view text);
std::string swap_case(std::string_view text);

/// isalpha, isdigit, isalnum, isspace, isupper, islower, by these names; false for an empty text.
bool is_all(std::string_view text, std::string_view what);
/// Whether repr() shows the code point as it is.
bool is_printable(uint32_t code_point);

/// markupsafe.escape: & < > " ' as HTML entities.
std::string escape_html(std::string_view text);

}  // namespace espalier::jinja
