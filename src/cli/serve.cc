// `espalier serve MODEL`: an OpenAI-compatible server on this machine.
#include <thread>

#include "base/error.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "engine/draft_setup.h"
#include "formats/hf_folder.h"
#include "serve/api_server.h"

namespace espalier {

extern const Verb kServe;

namespace {

struct Options {
  std::string model, alias, host = "127.0.0.1", api_key, cors;
  std::vector<std::string> allowed_hosts;
  int64_t port = 8080, parallel = 8, queue = 256, prefill_rows = 32, remember = 8;
  double drain_s = 30;
  bool slide = false;
  WriterMemory memory;
  std::vector<std::string> lora;
  DraftConfig draft;
  SamplerConfig sampler;
  void visit(Fields& f) {
    f.field("model", model, "Hugging Face folder, .gguf, run folder, or the id of a model in the cache");
    f.field("alias", alias, "the model's name in the API; empty: that of its file");
    f.field("host", host, "address to listen on; 0.0.0.0 lets other machines in, and then wants an --api-key");
    f.field("port", port, "port to listen on; 0 takes a free one", 0, 65535);
    f.field("api_key", api_key, "what clients must send as 'Authorization: Bearer KEY'; empty: nothing");
    f.field("allowed_hosts", allowed_hosts,
            "names under which it may be asked (the Host header) beside localhost; empty: on a loopback address no "
            "other name, elsewhere any");
    f.field("cors", cors, "origin whose pages may ask, or *; empty: only pages of this server");
    f.field("parallel", parallel, "requests answered side by side", 1, 256);
    f.field("queue", queue, "requests that may wait beyond those; more get status 429", 0, 1 << 20);
    f.field("prefill_rows", prefill_rows,
            "prompt tokens a pass: few answer newcomers soon, many read long prompts a little faster", 1, 4096);
    f.field("remember", remember, "finished requests whose prompts need not be read again", 0, 256);
    f.field("drain_s", drain_s, "seconds that running answers get after Ctrl-C or SIGTERM", 0, 86400);
    f.field("slide", slide,
            "answers that reach the end of the context go on without the older half of the text; otherwise they end");
    memory.visit(f);
    f.field("lora", lora, "adapters that requests ask for, NAME=PATH each: as their model, or in llama.cpp's 'lora'");
    draft.visit(f);
    sampler.visit(f);
  }
};

ApiOptions api_options(const Options& options, const DraftSetup& draft) {
  ApiOptions api;
  api.http.host = options.host;
  api.http.port = int(options.port);
  api.scheduler.generator = {.max_batch = options.parallel,
                             .prefill_rows = options.prefill_rows,
                             .remember = options.remember,
                             .cache_type = options.memory.cache_type(),
                             .speculation = draft.options()};
  api.scheduler.max_waiting = options.queue;
  api.defaults = {.sampler = options.sampler, .slide = options.slide};
  api.api_key = options.api_key;
  api.cors = options.cors;
  api.allowed_hosts = options.allowed_hosts;
  return api;
}

std::vector<ServedAdapter> adapters_of(const std::vector<std::string>& given, const ArchSpec& spec) {
  std::vector<ServedAdapter> adapters;
  for (const std::string& text : given) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw error(Code::kUsage, "--lora {}: expected NAME=PATH, so that requests can ask for it", text);
    const std::string name = text.substr(0, equals);
    for (const ServedAdapter& other : adapters)
      if (other.name == name) throw error(Code::kUsage, "--lora: two adapters are named {}", name);
    adapters.push_back({name, LoraAdapter::load(text.substr(equals + 1), spec)});
  }
  return adapters;
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kServe, args, ESP_CONFIG(options))) return 0;
  const std::string path = find_model(options.model);
  const auto model = open_model(terminal, path, options.memory);
  ModelFacts facts(path, model->spec(), options.alias);
  facts.adapters = adapters_of(options.lora, model->spec());
  DraftSetup draft(terminal.context(), options.draft, *model, facts.tokenizer, options.parallel > 1);
  if (!is_loopback(options.host) && options.api_key.empty())
    terminal.log().warn("{} is open to other machines without an --api-key", options.host);
  terminal.own_interrupts();
  ApiServer server(draft.context(), *model, std::move(facts), api_options(options, draft));
  terminal.log().info("serving at {}/v1; try: curl {}/v1/models", server.url(), server.url());
  while (!terminal.interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  terminal.log().info("ending: running answers get {} s", options.drain_s);
  if (!server.drain(options.drain_s)) terminal.log().warn("some answers were cut off");
  return 0;
}

}  // namespace

const Verb kServe = {"serve", "Use", "answer over HTTP as OpenAI's API does", "model",
                     "espalier serve qwen2.5-coder-1.5b --draft qwen2.5-coder-0.5b\n"
                     "curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", "
                     "\"content\": \"Hello\"}]}'", run};

}  // namespace espalier
