#include <gtest/gtest.h>

#include <csignal>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/run_program.h"
#include "models/tiny_model.h"
#include "text/utf8.h"

namespace espalier {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('no ' + m.role) }}{% endif %}{{ m.role[0] ~ ':' ~ m.content ~ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a:' }}{% endif %}";

struct TinyChat : TinyModel {
  TinyChat() { write_file_atomic(path() + "/chat_template.jinja", kTemplate); }

  ProgramResult talk(const std::string& input, std::vector<std::string> flags = {}) const {
    flags.insert(flags.begin(), {"chat", path(), "--max-tokens", "8"});
    return run_program(flags, input);
  }
};

TEST(Chat, AnswersALineATurn) {
  const TinyChat model;
  const ProgramResult r = model.talk("Hello\nAnd now?\n", {"--system", "Be kind."});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_GE(std::count(r.out.begin(), r.out.end(), '\n'), 2) << "each answer ends its line";
  EXPECT_TRUE(is_utf8(r.out));
  EXPECT_EQ(model.talk("Hello\nAnd now?", {"--system", "Be kind."}).out, r.out) << "the last line needs no end";
  EXPECT_NE(model.talk("Hello\nAnd now?\n").out, r.out) << "the system prompt is part of the prompt";
  EXPECT_EQ(model.talk("\n\n/quit\nHello\n").out, "") << "empty lines are no turns, and nothing follows /quit";
}

TEST(Chat, HistoryIsSavedAndForgotten) {
  const TinyChat model;
  const std::string file = model.folder / "saved.json";
  const ProgramResult r = model.talk("One\n/reset\nTwo\nThree\n/save " + file + "\n/help\n", {"--system", "S"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("/reset"), std::string::npos) << "/help goes to standard error";
  const Json messages = read_json_file(file).at("messages");
  std::vector<std::string> seen;
  for (const Json& m : messages) seen.push_back(m.at("role").get<std::string>());
  EXPECT_EQ(seen, (std::vector<std::string>{"system", "user", "assistant", "user", "assistant"}));
  EXPECT_EQ(messages[1].at("content"), "Two") << "what was before /reset is gone";
  // What was printed is what is remembered: the last two answers, each with its line end.
  const std::string last = messages[2].at("content").get<std::string>() + "\n" +
                           messages[4].at("content").get<std::string>() + "\n";
  EXPECT_TRUE(r.out.ends_with(last)) << r.out;
}

TEST(Chat, DropsTheOldestTurnsWhereTheContextEnds) {
  const TinyChat model;  // its context is 128 tokens
  std::string input;
  for (int i = 0; i < 12; ++i) input += "This is turn number " + std::to_string(i) + "\n";
  const std::string file = model.folder / "saved.json";
  const ProgramResult r = model.talk(input + "/save " + file + "\n", {"--system", "S"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("outgrown the model's context of 128 tokens"), std::string::npos) << r.err;
  EXPECT_EQ(read_json_file(file).at("messages").size(), 25u) << "all of it is saved";

  std::string endless;
  for (int i = 0; i < 200; ++i) endless += "x ";
  const ProgramResult too_long = model.talk(endless + "\nHi\n");
  EXPECT_NE(too_long.err.find("context is 128"), std::string::npos) << too_long.err;
  EXPECT_EQ(too_long.out, model.talk("Hi\n").out) << "the turn that failed was not said";
  EXPECT_EQ(too_long.status, code_info(Code::kUsage).exit_status);
}

TEST(Chat, AGgufConversesAsItsFolderDoes) {
  const TinyChat model;
  const std::string file = model.folder / "m.gguf";
  ASSERT_EQ(run_program({"convert", model.path(), file}).status, 0);
  const ProgramResult r = run_program({"chat", file, "--max-tokens", "8", "--temperature", "0"}, "Hello\n");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_FALSE(r.out.empty());
  EXPECT_EQ(r.out, model.talk("Hello\n", {"--temperature", "0"}).out);
}

TEST(Chat, SaysWhatIsMissing) {
  const TinyModel plain;
  const ProgramResult none = run_program({"chat", plain.path()}, "Hi\n");
  EXPECT_EQ(none.status, code_info(Code::kUnsupported).exit_status);
  EXPECT_NE(none.err.find("espalier generate"), std::string::npos) << none.err;
  write_file_atomic(plain.path() + "/own.jinja", kTemplate);
  EXPECT_EQ(run_program({"chat", plain.path(), "--chat-template", plain.path() + "/own.jinja", "--max-tokens", "2"},
                        "Hi\n").status, 0);
  const TinyChat model;
  const ProgramResult command = model.talk("/sav x\n");
  EXPECT_NE(command.err.find("no command '/sav'"), std::string::npos) << command.err;
  EXPECT_NE(model.talk("/save /nowhere/x\n").status, 0);
}

TEST(Chat, EndsAtTheTokensThatEndATurn) {
  const TinyChat model;
  // Every token ends the turn: the answer is empty whatever is drawn.
  Json all = Json::array();
  for (int i = 0; i < 700; ++i) all.push_back(i);
  write_file_atomic(model.path() + "/generation_config.json", Json({{"eos_token_id", all}}).dump());
  EXPECT_EQ(model.talk("Hi\nHo\n").out, "\n\n");
}

TEST(Chat, RenderShowsThePrompt) {
  const TinyChat model;
  const std::string lines =
      R"({"messages": [{"role": "user", "content": "é \"q\""}], "add_generation_prompt": false})" "\n"
      R"({"messages": [{"role": "tool", "content": "x"}]})" "\n"
      R"({"messages": )" "\n";
  const ProgramResult r = run_program({"chat", model.path(), "--render"}, lines);
  EXPECT_EQ(r.status, 0) << r.err;
  std::istringstream out(r.out);
  std::string text, refused, broken;
  std::getline(out, text);
  std::getline(out, refused);
  std::getline(out, broken);
  EXPECT_EQ(Json::parse(text).at("text"), "u:é \"q\"\n");
  EXPECT_EQ(Json::parse(refused).at("code"), "usage");
  EXPECT_NE(Json::parse(refused).at("error").get<std::string>().find("no tool"), std::string::npos);
  EXPECT_EQ(Json::parse(broken).at("code"), "bad_data");
  const ProgramResult file = run_program({"chat", model.path() + "/chat_template.jinja", "--render"}, lines);
  EXPECT_EQ(file.out.substr(0, text.size()), text) << "a template needs no model";
}

/// The program with pipes at both ends.
struct Talker {
  explicit Talker(const TinyChat& model) {
    int in[2], out[2];
    EXPECT_EQ(::pipe(in), 0);
    EXPECT_EQ(::pipe(out), 0);
    child = ::fork();
    if (child == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) ::close(fd);
      const std::string path = model.path();
      ::execl(ESP_BINARY, ESP_BINARY, "chat", path.c_str(), "--max-tokens", "100000", "--log-level", "error", nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to = in[1];
    from = out[0];
  }
  ~Talker() { ::close(from); }

  void say(const std::string& line) const { EXPECT_EQ(::write(to, line.data(), line.size()), ssize_t(line.size())); }
  std::string hear(bool whole_line) const {
    std::string heard;
    for (char c = 0; ::read(from, &c, 1) == 1;) {
      heard += c;
      if (!whole_line || c == '\n') break;
    }
    return heard;
  }
  int leave() const {
    ::close(to);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  pid_t child = 0;
  int to = -1, from = -1;
};

TEST(Chat, CtrlCStopsTheAnswerAndNotTheProgram) {
  const TinyChat model;
  const Talker talker(model);
  talker.say("Hello\n");
  EXPECT_FALSE(talker.hear(false).empty()) << "the answer has begun";
  ::kill(talker.child, SIGINT);
  talker.say("Again\n");
  EXPECT_FALSE(talker.hear(true).empty()) << "the first answer ended, by the signal or with the context";
  EXPECT_FALSE(talker.hear(true).empty()) << "the program lives";
  EXPECT_EQ(talker.leave(), 0);
}

TEST(Chat, SigtermEndsTheProgram) {
  const TinyChat model;
  const Talker talker(model);
  talker.say("Hello\n");
  EXPECT_FALSE(talker.hear(true).empty()) << "it is answered, and now waits for a line or the signal";
  ::kill(talker.child, SIGTERM);
  talker.hear(true);
  EXPECT_EQ(talker.leave(), code_info(Code::kInterrupted).exit_status);
}

}  // namespace
}  // namespace espalier
