#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"

namespace espalier {
namespace {

const std::string kFolder = std::string(ESP_SOURCE_DIR) + "/tests/golden/chat/";
const SpecialTokens kTokens = {
    {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};

JinjaOptions at_golden_time() {
  std::tm now{};
  now.tm_year = 124;
  now.tm_mon = 6;
  now.tm_mday = 26;
  return {.now = now};
}

/// A folder that goes away.
struct Folder {
  Folder() {
    path = (std::filesystem::temp_directory_path() / "espalier-chat-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path + "/" + name).parent_path());
    write_file_atomic(path + "/" + name, text);
  }
  std::string path;
};

const OrderedJson kHello = {{{"role", "user"}, {"content", "hello"}}};

std::string rendered(const Folder& folder, const OrderedJson* tools = nullptr) {
  const auto chat = ChatTemplate::load(folder.path);
  EXPECT_TRUE(chat.has_value());
  return chat ? chat->render({.messages = &kHello, .tools = tools}) : "";
}

TEST(ChatTemplate, PromptsAreTransformersOwn) {
  const OrderedJson golden = parse_ordered_json(read_file(kFolder + "cases.json"), "cases.json");
  int compared = 0;
  for (const auto& [name, prompts] : golden["prompts"].items()) {
    const ChatTemplate chat = ChatTemplate::parse(read_file(kFolder + name + ".jinja"), name, kTokens);
    for (const OrderedJson& entry : prompts) {
      OrderedJson conversation;
      for (const OrderedJson& candidate : golden["conversations"])
        if (candidate["name"] == entry[0]) conversation = candidate;
      ASSERT_TRUE(conversation.is_object()) << entry[0];
      const auto part = [&](const char* key) { return conversation.contains(key) ? &conversation[key] : nullptr; };
      OrderedJson more = conversation;
      for (const char* key : {"name", "messages", "tools", "documents", "add_generation_prompt"}) more.erase(key);
      const ChatInput input = {.messages = part("messages"), .tools = part("tools"), .documents = part("documents"),
                               .add_generation_prompt = !part("add_generation_prompt"), .variables = &more};
      try {
        EXPECT_EQ(OrderedJson(chat.render(input, at_golden_time())), entry[1]) << name << ": " << entry[0];
        ++compared;
      } catch (const Error& e) {
        EXPECT_TRUE(entry[1].is_null()) << name << ": " << entry[0] << ": " << e.what();
      }
    }
  }
  EXPECT_GT(compared, 45);
}

TEST(ChatTemplate, IsFoundWhereFoldersKeepIt) {
  const Folder folder;
  EXPECT_FALSE(ChatTemplate::load(folder.path).has_value());
  folder.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_FALSE(ChatTemplate::load(folder.path).has_value());
  folder.write("chat_template.json", R"({"chat_template": "processor {{ messages[0].content }}{{ eos_token }}"})");
  EXPECT_EQ(rendered(folder), "processor hello</s>");
  folder.write("tokenizer_config.json", R"({"chat_template": "config {{ bos_token }}{{ eos_token }}{{ pad_token }}",
      "bos_token": {"content": "<s>", "lstrip": false}, "eos_token": null})");
  folder.write("special_tokens_map.json", R"({"bos_token": "<other>", "pad_token": "<pad>"})");
  EXPECT_EQ(rendered(folder), "config <s><pad>");
  folder.write("chat_template.jinja", "file {{ tools is none }}");
  EXPECT_EQ(rendered(folder), "file True");
}

TEST(ChatTemplate, ToolsChooseTheirOwn) {
  const OrderedJson tools = OrderedJson::array();
  const Folder list;
  list.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools {{ tools }}"},
                                                             {"name": "default", "template": "plain"}]})");
  EXPECT_EQ(rendered(list), "plain");
  EXPECT_EQ(rendered(list, &tools), "tools []");
  const Folder files;
  files.write("chat_template.jinja", "plain");
  files.write("additional_chat_templates/tool_use.jinja", "tools");
  files.write("additional_chat_templates/rag.jinja", "{% not even read %}");
  EXPECT_EQ(rendered(files), "plain");
  EXPECT_EQ(rendered(files, &tools), "tools");
}

TEST(ChatTemplate, WhatIsNoConversationIsRefused) {
  const ChatTemplate chat = ChatTemplate::parse("{{ messages[0].content is defined }}{{ messages[0]|list }}", "t");
  const auto refuses = [&](const OrderedJson& messages, const std::string& part) {
    try {
      chat.render({.messages = &messages});
      ADD_FAILURE() << messages;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kUsage);
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refuses(OrderedJson::array(), "empty");
  refuses(OrderedJson("hello"), "list");
  refuses({"hello"}, "expected an object");
  const OrderedJson null_content = {{{"role", "user"}, {"content", nullptr}, {"thinking", "hm"}}};
  EXPECT_EQ(chat.render({.messages = &null_content}), "False['thinking', 'role', 'reasoning_content']");
  const Folder bad;
  bad.write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THROW(ChatTemplate::load(bad.path), Error);
  bad.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": ""}]})");
  EXPECT_THROW(ChatTemplate::load(bad.path), Error);
}

}  // namespace
}  // namespace espalier
