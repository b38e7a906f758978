// `espalier chat MODEL`: a conversation in the terminal, or a line a turn from standard input.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/open_model.h"
#include "cli/render_chats.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "engine/draft_setup.h"
#include "engine/generator.h"
#include "engine/turn_end.h"
#include "formats/hf_folder.h"
#include "models/gguf_tokenizer.h"
#include "text/chat_template.h"

namespace espalier {

extern const Verb kChat;

namespace {

struct Options {
  std::string model, system, chat_template;
  int64_t max_tokens = 2048;
  WriterMemory memory;
  std::vector<std::string> lora;
  DraftConfig draft;
  SamplerConfig sampler;
  bool render = false;
  void visit(Fields& f) {
    f.field("model", model, "Hugging Face folder, run folder, .gguf, or the id of a model in the cache");
    f.field("system", system, "what the model is told before the conversation");
    f.field("chat_template", chat_template, "file with a Jinja template to use instead of the model's");
    f.field("max_tokens", max_tokens, "most tokens of one answer", 1);
    sampler.visit(f);
    memory.visit(f);
    f.field("lora", lora, kLoraHelp);
    draft.visit(f);
    f.field("render", render,
            "talk to nobody: read a JSON object a line with messages, tools and further variables, print the prompt");
  }
};

constexpr const char* kHelp =
    "/reset       forget the conversation\n"
    "/save FILE   write it as JSON\n"
    "/quit        leave; so does the end of the input (Ctrl-D)\n"
    "Ctrl-C       stop the answer";

ChatTemplate template_of(const Options& options, const std::string& model) {
  if (!options.chat_template.empty()) return open_chat_template(options.chat_template);
  if (auto found = load_chat_template(model)) return *std::move(found);
  throw error(Code::kUnsupported,
              "chatting with {}: it has no chat template (chat_template.jinja, \"chat_template\" in "
              "tokenizer_config.json, or metadata 'tokenizer.chat_template'), so it was not trained to converse; "
              "continue a text with `espalier generate`, or give a template with --chat-template",
              model);
}

/// Lines of standard input, such that Ctrl-C at the prompt gives an empty line.
class LineReader {
 public:
  explicit LineReader(const Terminal& terminal) : terminal_(terminal) {}

  /// Nothing at the end of the input.
  std::optional<std::string> next() {
    for (;;) {
      if (const size_t end = held_.find('\n'); end != std::string::npos) {
        std::string line = held_.substr(0, end);
        held_.erase(0, end + 1);
        return line;
      }
      // A signal may come just before a read would block, so none blocks for long.
      pollfd input = {STDIN_FILENO, POLLIN, 0};
      const int ready = ::poll(&input, 1, 200);
      if (terminal_.interrupted()) return "";
      if (ready <= 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw errno_error("reading standard input");
      if (n == 0) return held_.empty() ? std::nullopt : std::optional(std::exchange(held_, ""));
      held_.append(buffer, size_t(n));
    }
  }

 private:
  const Terminal& terminal_;
  std::string held_;
};

class Conversation {
 public:
  Conversation(Terminal& terminal, const Options& options, const std::string& path)
      : terminal_(terminal), options_(options), chat_(template_of(options, path)), tokenizer_(open_tokenizer(path)),
        model_(open_model(terminal, path, options.memory)),
        draft_(terminal.context(), options.draft, *model_, tokenizer_),
        generator_(draft_.context(), *model_, &tokenizer_,
                   {.max_batch = 1, .remember = 1,
                    .cache_type = options.memory.cache_type(), .speculation = draft_.options()}),
        lora_(open_adapters(terminal, options.lora, model_->spec())),
        ends_(turn_end_ids(path, tokenizer_, chat_)) {
    reset();
  }

  /// One line of the user's. False: leave.
  bool take(const std::string& line) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string command = line.substr(0, space);
    if (line.empty()) return true;
    if (command == "/quit" || command == "/exit") return false;
    if (command == "/help")
      terminal_.log().info("{}", kHelp);
    else if (command == "/reset")
      reset();
    else if (command == "/save")
      save(line.substr(std::min(space + 1, line.size())));
    else if (command[0] == '/' && command.find('/', 1) == std::string::npos)
      throw error(Code::kUsage, "there is no command '{}'; /help lists them", command);
    else
      answer(line);
    return true;
  }

 private:
  void reset() {
    messages_ = OrderedJson::array();
    if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
    dropped_ = 0;
  }

  void save(const std::string& path) {
    if (path.empty()) throw Error(Code::kUsage, "/save needs the name of a file");
    const OrderedJson whole = {{"messages", messages_}};
    write_file_atomic(path, whole.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
    terminal_.log().info("{} messages in {}", messages_.size(), path);
  }

  size_t first_turn() const { return options_.system.empty() ? 0 : 1; }

  /// The ids of the conversation without its `dropped_` oldest messages.
  std::vector<int32_t> prompt() const {
    OrderedJson kept = OrderedJson::array();
    for (size_t i = 0; i < messages_.size(); ++i)
      if (i < first_turn() || i >= first_turn() + dropped_) kept.push_back(messages_[i]);
    return tokenizer_.encode(chat_.render({.messages = &kept}));
  }

  /// The prompt, with room for an answer: where there is none, the oldest question and its answer are left out, again
  /// and again.
  std::vector<int32_t> fitting_prompt() {
    const int64_t context = model_->spec().positions, room = std::min<int64_t>(options_.max_tokens, context / 4);
    const size_t before = dropped_;
    std::vector<int32_t> ids = prompt();
    while (int64_t(ids.size()) + room > context && first_turn() + dropped_ + 2 < messages_.size()) {
      dropped_ += 2;
      ids = prompt();
    }
    if (dropped_ > before)
      terminal_.log().warn("the conversation has outgrown the model's context of {} tokens: its {} oldest messages are "
                           "left out from now on", context, dropped_);
    return ids;
  }

  void answer(const std::string& question) {
    messages_.push_back({{"role", "user"}, {"content", question}});
    try {
      const GenerateResult result = generate(fitting_prompt());
      messages_.push_back({{"role", "assistant"}, {"content", result.text}});
      if (result.finish_reason == FinishReason::kLength || result.finish_reason == FinishReason::kContext)
        terminal_.log().info("the answer was cut: {}", result.finish_reason == FinishReason::kLength
                                                           ? "--max-tokens is reached" : "the context is full");
    } catch (const Error&) {  // the edge: a turn that failed was not said
      messages_.erase(messages_.size() - 1);
      generator_.forget();
      throw;
    }
  }

  /// Streams the answer. Ctrl-C ends it where it is.
  GenerateResult generate(std::vector<int32_t> prompt) {
    const auto on_token = [&](int32_t, std::string_view piece) {
      terminal_.write(piece);
      if (!piece.empty()) terminal_.flush();
      return !terminal_.interrupted();
    };
    const size_t number = generator_.submit({.prompt = std::move(prompt), .max_tokens = options_.max_tokens,
                                             .sampler = options_.sampler, .id = turn_, .stop_ids = ends_,
                                             .lora = lora_, .on_token = on_token});
    ++turn_;
    while (!terminal_.interrupted() && generator_.step()) {
    }
    generator_.cancel(number);  // where Ctrl-C came before the first token
    terminal_.write("\n");
    terminal_.flush();
    terminal_.forget_interrupts();
    return *generator_.take(number);
  }

  Terminal& terminal_;
  const Options& options_;
  ChatTemplate chat_;
  Tokenizer tokenizer_;
  std::unique_ptr<Decoder> model_;
  DraftSetup draft_;
  Generator generator_;  // remembers the conversation, so that a turn reads what is new in it alone
  std::vector<LoraUse> lora_;
  std::vector<int32_t> ends_;
  OrderedJson messages_;
  size_t dropped_ = 0;  // messages behind the system's that no longer fit
  uint64_t turn_ = 0;  // answers begun: each draws its own numbers
};

/// A turn that fails is reported and the next one may follow; the exit status remembers the last failure.
int talk(Terminal& terminal, Conversation& conversation) {
  const bool asks = ::isatty(STDIN_FILENO) && terminal.out_is_tty();
  LineReader lines(terminal);
  int status = 0;
  if (asks) terminal.log().info("/help lists the commands");
  for (;;) {
    if (asks) terminal.write("> ");
    terminal.flush();
    const std::optional<std::string> line = lines.next();
    if (terminal.told_to_end()) return code_info(Code::kInterrupted).exit_status;
    if (terminal.interrupted()) {
      terminal.forget_interrupts();
      if (line && line->empty()) {
        terminal.log().info("/quit or Ctrl-D leaves");
        continue;
      }
    }
    if (!line) break;
    try {
      if (!conversation.take(*line)) break;
    } catch (const Error& e) {  // the edge: a turn
      terminal.report_error(e.what());
      status = code_info(e.code()).exit_status;
    }
    if (terminal.told_to_end()) return code_info(Code::kInterrupted).exit_status;
  }
  if (asks) terminal.write("\n");
  return status;
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kChat, args, ESP_CONFIG(options))) return 0;
  if (options.render) {
    const std::string& file = options.chat_template.empty() ? options.model : options.chat_template;
    const bool is_file = file.ends_with(".jinja") || !options.chat_template.empty();
    return render_chats(terminal, is_file ? open_chat_template(file)
                                          : template_of(options, find_model(options.model)));
  }
  Conversation conversation(terminal, options, find_model(options.model));
  terminal.own_interrupts();
  return talk(terminal, conversation);
}

}  // namespace

const Verb kChat = {"chat", "Use", "talk with a model that was trained to converse", "model",
                    "espalier chat Qwen/Qwen2.5-0.5B-Instruct --system \"Answer in one sentence.\"\n"
                    "echo 'What is an espalier?' | espalier chat runs/tuned --temperature 0\n"
                    "espalier chat runs/tuned --render < conversations.jsonl", run};

}  // namespace espalier
