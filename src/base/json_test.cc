#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_value.h"

namespace espalier {
namespace {

std::string refusal(std::string_view text, Json (*parse)(std::string_view, const std::string&)) {
  try {
    parse(text, "a test");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadData);
    return e.what();
  }
  return "";
}

TEST(Json, ErrorsNameSourceAndPlace) {
  const std::string message = refusal("{\n  \"a\": 1,\n  b\n}", parse_json);
  EXPECT_NE(message.find("a test"), std::string::npos) << message;
  EXPECT_NE(message.find("line 3, column 3"), std::string::npos) << message;
}

TEST(Json, RefusesWhatTheLibraryReportsInOtherWays) {
  EXPECT_NE(refusal("[1e999]", parse_json), "");
  EXPECT_NE(refusal("[\"\xff\"]", parse_json), "");
  EXPECT_NE(refusal(std::string(100000, '['), parse_json), "");
  EXPECT_NE(refusal("", parse_json), "");
}

TEST(Json, SpeaksInItsOwnVoice) {
  for (const char* text : {"", "{", "[1e999]", "[\"\xff\"]", "nul"})
    EXPECT_EQ(refusal(text, parse_json).find("exception"), std::string::npos) << refusal(text, parse_json);
}

TEST(Json, UniqueRefusesARepeatedKeyAtAnyDepth) {
  EXPECT_EQ(parse_json_unique("{\"a\": {\"a\": 1}, \"b\": [{\"a\": 2}, {\"a\": 3}]}", "a test")["b"][1]["a"], 3);
  EXPECT_NE(refusal("{\"x\": 1, \"x\": 2}", parse_json_unique).find("\"x\""), std::string::npos);
  EXPECT_NE(refusal("[{\"b\": {\"y\": 1, \"z\": 0, \"y\": 2}}]", parse_json_unique), "");
  EXPECT_EQ(refusal("{\"x\": 1, \"x\": 2}", parse_json), "");
}

TEST(Json, ValuesOfTheWrongTypeAreNamed) {
  const Json json = parse_json("{\"n\": 512.0, \"s\": \"x\", \"null\": null}", "a test");
  EXPECT_EQ(json_get<int64_t>(json, "n", "a test"), 512);
  EXPECT_EQ(json_get_or<int64_t>(json, "null", 7, "a test"), 7);
  EXPECT_EQ(json_get_or<bool>(json, "absent", true, "a test"), true);
  EXPECT_THROW(json_get<int64_t>(json, "s", "a test"), Error);
  EXPECT_THROW(json_get<double>(json, "absent", "a test"), Error);
}

}  // namespace
}  // namespace espalier
