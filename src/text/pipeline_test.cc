// Every construct of tokenizer.json against what the `tokenizers` library makes of hard strings: ids, the text they
// decode to, and offsets. tests/golden/tokenizer/pipeline.json, see tools/make_pipeline_golden.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace espalier {
namespace {

/// What the library makes of a string.
struct Expected {
  std::vector<int32_t> ids;
  std::vector<size_t> offsets;  // begin, end, begin, end, ...
  std::optional<std::string> text;
};

struct Row {
  Tokenizer tokenizer;
  Json cases;
};

const Json& golden() {
  static const Json json = read_json_file(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/pipeline.json");
  return json;
}

/// RFC 7396, but steps (objects with a type) are replaced as a whole, and null is a value where it means no step.
Json merged(Json target, const Json& patch) {
  for (const auto& [key, value] : patch.items()) {
    const bool step = key == "normalizer" || key == "pre_tokenizer" || key == "decoder" || key == "unk_token" ||
                      key == "unk_id";
    if (value.is_null() && !step) {
      target.erase(key);
    } else if (value.is_object() && !value.contains("type")) {
      target[key] = merged(target.value(key, Json::object()), value);
    } else {
      target[key] = value;
    }
  }
  return target;
}

const std::map<std::string, Row>& rows() {
  static const std::map<std::string, Row> all = [] {
    std::map<std::string, Row> map;
    std::map<std::string, Json> files;
    for (const Json& row : golden()["tokenizers"]) {
      const auto name = row["name"].get<std::string>();
      files[name] = row.contains("like") ? merged(files.at(row["like"]), row["json"]) : row["json"];
      map.emplace(name, Row{Tokenizer::from_json(files[name].dump(), name), row["cases"]});
    }
    return map;
  }();
  return all;
}

Expected expected_of(const Json& entry, const std::string& text) {
  Expected expected{.ids = entry[0], .text = text};
  size_t behind = 0;
  for (const Json& offset : entry[1]) {
    expected.offsets.push_back(offset.is_array() ? offset[0].get<size_t>() : behind);
    behind = offset.is_array() ? offset[1].get<size_t>() : offset.get<size_t>();
    expected.offsets.push_back(behind);
  }
  if (entry.size() > 2) expected.text = entry[2].is_null() ? std::nullopt : std::optional(entry[2].get<std::string>());
  return expected;
}

/// Calls check(row name, tokenizer, string, expected) for each case that the library could do.
template <class F>
void for_each_case(F&& check) {
  const Json& strings = golden()["strings"];
  for (const auto& [name, row] : rows()) {
    for (size_t i = 0; i < strings.size(); ++i) {
      const Json& own = row.cases[i];
      const Json& entry = own.is_number() ? golden()["tokenizers"].at(size_t(own.get<int>()))["cases"][i] : own;
      const auto text = strings[i].get<std::string>();
      if (!entry.is_null()) check(name, row.tokenizer, text, expected_of(entry, text));
    }
  }
}

TEST(Pipeline, IdsEqualTheLibrarys) {
  int compared = 0;
  for_each_case([&](const std::string& name, const Tokenizer& tokenizer, const std::string& text,
                    const Expected& expected) {
    EXPECT_EQ(tokenizer.encode(text), expected.ids) << name << ": " << Json(text);
    ++compared;
  });
  EXPECT_GT(compared, 1000);
}

TEST(Pipeline, DecodedTextsEqualTheLibrarys) {
  for_each_case([](const std::string& name, const Tokenizer& tokenizer, const std::string& text,
                   const Expected& expected) {
    const std::vector<int32_t>& ids = expected.ids;
    if (expected.text) {
      EXPECT_EQ(tokenizer.decode(ids), *expected.text) << name << ": " << Json(text);
    }
    DecodeStream stream(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string more = stream.push(id);
      EXPECT_TRUE(is_utf8(more)) << name << ": " << Json(text);
      streamed += more;
    }
    EXPECT_EQ(streamed + stream.finish(), tokenizer.decode(ids)) << name << ": " << Json(text);
  });
}

/// Where the characters of a text start, and its end.
std::vector<uint32_t> character_starts(const std::string& text) {
  std::vector<uint32_t> starts;
  for (uint32_t i = 0; i < text.size(); ++i)
    if ((uint8_t(text[i]) & 0xC0) != 0x80) starts.push_back(i);
  starts.push_back(uint32_t(text.size()));
  return starts;
}

// The library's offsets are of whole characters; ours may lie inside one.
TEST(Pipeline, OffsetsEqualTheLibrarys) {
  for_each_case([](const std::string& name, const Tokenizer& tokenizer, const std::string& text,
                   const Expected& expected) {
    const std::vector<uint32_t> starts = character_starts(text);
    std::vector<int32_t> ids;
    std::vector<size_t> offsets;
    for (const TokenPiece& piece : tokenizer.encode_pieces(text)) {
      ids.push_back(piece.id);
      const auto begin = std::upper_bound(starts.begin(), starts.end(), piece.begin) - starts.begin() - 1;
      const auto end = std::lower_bound(starts.begin(), starts.end(), piece.end) - starts.begin();
      offsets.push_back(size_t(begin));
      offsets.push_back(size_t(end));
    }
    EXPECT_EQ(ids, tokenizer.encode(text)) << name << ": " << Json(text);
    EXPECT_EQ(offsets, expected.offsets) << name << ": " << Json(text);
  });
}

TEST(Pipeline, WrittenAndReadBackIsTheSame) {
  for (const auto& [name, row] : rows()) {
    const Tokenizer again = Tokenizer::from_json(row.tokenizer.to_json(), name);
    EXPECT_EQ(again.vocab_hash(), row.tokenizer.vocab_hash()) << name;
    // The one without an unknown token refuses the accent.
    const std::string text = name == "unigram_no_unknown" ? " hello  aba" : " hello  e\u0301 aba";
    EXPECT_EQ(again.encode(text), row.tokenizer.encode(text)) << name;
  }
}

TEST(Pipeline, LosslessOnesGiveTextsBack) {
  for (const char* name : {"llama", "gemma"}) {
    const Tokenizer& tokenizer = rows().at(name).tokenizer;
    for (const Json& entry : golden()["strings"]) {
      std::string text = entry.get<std::string>();
      // The visible mark is what spaces are written as, and a text that spells a byte's token is that byte.
      if (text.find("\u2581") != text.npos || text.find("<0x") != text.npos) continue;
      if (name == std::string("llama") && text.find('<') != text.npos) continue;  // a space before each segment
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << name << ": " << Json(text);
    }
  }
}

TEST(Pipeline, IllFormedTextIsReadAsReplacementCharacters) {
  const Tokenizer& gemma = rows().at("gemma").tokenizer;
  for (const std::string bytes : {"\xff", "a\xe2\x96", "\xe2\x96\x81 \xf0\x9f", "ab\x80" "ba  \xc3"}) {
    EXPECT_EQ(gemma.encode(bytes), gemma.encode(repair_utf8(bytes).text));
    uint32_t end = 0;
    for (const TokenPiece& piece : gemma.encode_pieces(bytes)) {
      EXPECT_LE(piece.begin, piece.end);
      EXPECT_LE(end, piece.end);
      end = piece.end;
    }
    EXPECT_EQ(end, bytes.size());
  }
}

TEST(Pipeline, ByteTokensAreBytes) {
  const Tokenizer& llama = rows().at("llama").tokenizer;
  EXPECT_EQ(llama.token_bytes(*llama.id_of("<0xE4>")), "\xe4");
  EXPECT_EQ(llama.token_bytes(*llama.id_of("\u2581world")), " world");
  EXPECT_EQ(llama.token_bytes(-1), "");
  EXPECT_EQ(llama.token_bytes(1 << 20), "");
  // A row of bytes is text only as a whole; each of them is U+FFFD where it is not.
  std::vector<int32_t> ids;
  for (const char* token : {"<0xC3>", "<0xA9>", "<0xC3>"}) ids.push_back(*llama.id_of(token));
  EXPECT_EQ(llama.decode(std::span(ids).first(2)), "é");
  EXPECT_EQ(llama.decode(ids), "\uFFFD\uFFFD\uFFFD");
}

TEST(Pipeline, ALongTextIsOnePiece) {
  // Quadratic work would be 10^12 steps.
  std::string text;
  while (text.size() < (size_t{1} << 20)) text += "hello world aba " + std::string(text.size() % 37, 'a') + "日本\n";
  const Tokenizer& llama = rows().at("llama").tokenizer;
  EXPECT_EQ(llama.decode(llama.encode(text)), text);
}

}  // namespace
}  // namespace espalier
