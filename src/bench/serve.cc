// `bench serve` and `bench ttft`: the server as its clients meet it, over sockets: what eight of them get together
// beside one alone, and how long a short question waits for its first token while a long prompt is being read.
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "bench/bench.h"
#include "bench/median.h"
#include "formats/hf_folder.h"
#include "models/load.h"
#include "net/http_client.h"
#include "serve/api_server.h"

namespace espalier {
namespace {

struct Rig {
  std::unique_ptr<Decoder> model;
  std::unique_ptr<ApiServer> server;

  Rig(Context& ctx, const BenchOptions& options) {
    const std::string path = is_file(options.model) ? options.model : find_model(options.model);
    model = load_model(ctx, one_process_mesh(), path, {.blocks = Blocks::kPack});
    ApiOptions api;
    api.http.port = 0;
    api.scheduler.generator = {.max_batch = 16, .prefill_rows = 32, .remember = 0};
    server = std::make_unique<ApiServer>(ctx, *model, ModelFacts(path, model->spec(), ""), std::move(api));
  }

  /// Seconds to the first token of a streamed completion of `tokens` tokens, and to its end.
  struct Times {
    double first_s = 0, all_s = 0;
  };
  Times ask(const std::string& prompt, int64_t tokens) const {
    const OrderedJson body = {{"prompt", prompt}, {"max_tokens", tokens}, {"temperature", 0}, {"ignore_eos", true},
                              {"stream", true}};
    HttpClient client(server->url(), {.total_s = 600});
    Times times;
    const Stopwatch watch;
    const HttpResponse response = client.stream_json("/v1/completions", body.dump(), [&](const SseEvent&) {
      if (times.first_s == 0) times.first_s = watch.seconds();
      return true;
    });
    if (response.status != 200) throw error(Code::kInternal, "bench: the server said {}", response.body);
    times.all_s = watch.seconds();
    return times;
  }
};

/// Tokens a second of so many clients together, 64 tokens each.
double together(const Rig& rig, int64_t clients) {
  constexpr int64_t kTokens = 64;
  const Stopwatch watch;
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < clients; ++i)
    threads.push_back(start_thread([&rig, i] { rig.ask(fmt::format("Request number {} is about", i), kTokens); }));
  for (std::thread& thread : threads) thread.join();
  return double(clients * kTokens) / watch.seconds();
}

BenchResult run_serve(Context& ctx, Progress& progress, const BenchOptions& options) {
  const Rig rig(ctx, options);
  std::vector<double> one, eight;
  progress.begin("serving", options.repeats, "rounds");
  together(rig, 2);  // untimed: pages, scratch memory
  for (int64_t i = 0; i < options.repeats; ++i) {
    one.push_back(together(rig, 1));
    eight.push_back(together(rig, 8));
    progress.update(i + 1, "");
  }
  progress.end();
  BenchResult result{.name = "serve", .unit = "times one client's tokens/s, 8 clients together"};
  result.value = median(eight) / median(one);
  result.cells = {{"1 client, tokens/s", median(one)}, {"8 clients, tokens/s", median(eight)}};
  return result;
}

BenchResult run_ttft(Context& ctx, Progress& progress, const BenchOptions& options) {
  const Rig rig(ctx, options);
  std::string text;  // about 4,000 tokens
  for (int i = 0; i < (options.quick ? 80 : 800); ++i) text += fmt::format("Item {} is listed. ", i % 10);
  std::vector<double> idle, busy;
  progress.begin("first tokens", options.repeats, "rounds");
  rig.ask("Hello", 2);
  for (int64_t i = 0; i < options.repeats; ++i) {
    idle.push_back(rig.ask(fmt::format("Question {}:", i), 4).first_s);
    std::thread reader = start_thread([&] { rig.ask(fmt::format("{} {}", i, text), 2); });
    while (rig.server->counters().running == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    busy.push_back(rig.ask(fmt::format("Asked {}:", i), 4).first_s);
    reader.join();
    progress.update(i + 1, "");
  }
  progress.end();
  BenchResult result{.name = "ttft", .unit = "times the idle server's, first token during a long prefill"};
  result.value = median(busy) / median(idle);
  result.cells = {{"idle, ms", 1e3 * median(idle)}, {"during a prefill, ms", 1e3 * median(busy)}};
  return result;
}

}  // namespace

extern const Bench kServeBench, kTtftBench;
const Bench kServeBench = {"serve", "8 clients of the server together beside one alone (--model)", run_serve};
const Bench kTtftBench = {"ttft", "a short request's first token while a long prompt is read (--model)", run_ttft};

}  // namespace espalier
