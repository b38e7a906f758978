// The program: the array of verbs, the dispatch, the help that teaches, and the one catch.
#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace espalier {

extern const Verb kPrepare, kTrain, kGenerate, kChat, kServe, kEval, kTokenize, kConvert, kInspect, kDiff, kReport,
    kBench, kPlan, kDoctor, kList;

namespace {

// A new verb is one row here.
constexpr const Verb* kVerbs[] = {
    &kPrepare, &kTrain, &kGenerate, &kChat, &kServe, &kEval,   &kTokenize, &kConvert, &kInspect,
    &kDiff,    &kReport, &kBench,   &kPlan, &kDoctor, &kList,
};

constexpr const char* kIntroduction = R"(espalier {}: the whole life of a language model in one program.

The road, from text to talk:
  espalier prepare FOLDER --out data           text files to a tokenizer and token shards
  espalier train RECIPE.toml                   tokens to a model, in a run folder with its curves
  espalier generate runs/demo --prompt "def "  the model speaks
  espalier chat MODEL                          it answers, if it was trained to converse
  espalier serve MODEL                         it answers over HTTP, as OpenAI's API does
  espalier eval perplexity runs/demo --text F  how well it predicts a text
  espalier report runs/demo                    one HTML page of all that happened

)";

constexpr const char* kClosing = R"(
Start with ./demo.sh: it walks the whole road in ten minutes. `espalier VERB --help` lists every flag with its
default and an example. A model is a Hugging Face folder, a .gguf or a run folder. Data goes to standard output,
progress and log to standard error; the exit status says what went wrong (`espalier list errors`).
)";

void print_help(Terminal& terminal) {
  terminal.write(fmt::format(fmt::runtime(kIntroduction), ESP_VERSION));
  size_t width = 0;
  for (const Verb* verb : kVerbs) width = std::max(width, std::string(verb->name).size());
  for (const std::string_view group : {"Make", "Use", "Look"}) {
    terminal.print("{}:\n", group);
    for (const Verb* verb : kVerbs)
      if (verb->group == group) terminal.print("  {:<{}}  {}\n", verb->name, width, verb->summary);
  }
  terminal.write(kClosing);
}

const Verb& find_verb(const std::string& name) {
  std::vector<std::string> names;
  for (const Verb* verb : kVerbs) {
    if (verb->name == name) return *verb;
    names.push_back(verb->name);
  }
  throw error(Code::kUsage, "unknown verb '{}'{}; the verbs are {}", name, did_you_mean(name, names),
              fmt::join(names, ", "));
}

int dispatch(Terminal& terminal, std::span<const std::string> args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || (args[0] == "help" && args.size() == 1)) {
    print_help(terminal);
    return args.empty() ? code_info(Code::kUsage).exit_status : 0;
  }
  if (args[0] == "--version") {
    terminal.print("espalier {}\n", ESP_VERSION);
    return 0;
  }
  if (args[0] == "help") {
    const std::vector<std::string> help = {"--help"};
    return find_verb(args[1]).run(terminal, help);
  }
  const int status = find_verb(args[0]).run(terminal, args.subspan(1));
  if (!terminal.owns_interrupts()) terminal.check_interrupt();
  return status;
}

/// The one catch of the program: what went wrong becomes one line and an exit status.
int run_program(std::span<const std::string> args) {
  Terminal terminal;
  Code code = Code::kInternal;
  try {
    const int status = dispatch(terminal, args);
    terminal.flush();
    return status;
  } catch (const Error& e) {
    code = e.code();
    terminal.report_error(e.what());
  } catch (const std::bad_alloc&) {
    code = Code::kNoSpace;
    terminal.report_error("out of memory; use a smaller model, batch or context");
  } catch (const std::system_error& e) {
    const bool full = e.code() == std::errc::no_space_on_device || e.code() == std::errc::not_enough_memory;
    code = full ? Code::kNoSpace : Code::kIo;
    const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&e);
    const std::string what = file ? file->path1().string() : "asking the system";
    terminal.report_error(fmt::format("{}: {}", what, e.code().message()));
  } catch (const std::exception& e) {
    terminal.report_error(fmt::format("{} (a fault of ours; please report it with the output of `espalier doctor`)",
                                      e.what()));
  }
  return code_info(code).exit_status;
}

}  // namespace

std::span<const Verb* const> all_verbs() { return kVerbs; }

}  // namespace espalier

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  return espalier::run_program(args);
}
