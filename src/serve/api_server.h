// The server: OpenAI's API and llama.cpp's small endpoints over one model, on a scheduler (serve/scheduler.h) and an
// HTTP server (net/http_server.h). Handlers read a request, put it in line and return; answers are written by the
// scheduler's thread (serve/answer.h).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "net/http_server.h"
#include "serve/answer.h"
#include "serve/generation.h"
#include "serve/host_check.h"
#include "serve/metrics.h"
#include "serve/openai_request.h"
#include "serve/scheduler.h"
#include "serve/served_model.h"

namespace espalier {

struct ApiOptions {
  HttpServerOptions http;
  SchedulerOptions scheduler;
  GenerationDefaults defaults;  ///< what requests leave out
  std::vector<std::string> allowed_hosts = {};  ///< names under which it may be asked (serve/host_check.h)
  std::string api_key;         ///< empty: none is asked for
  std::string cors = "";       ///< Access-Control-Allow-Origin; empty: pages of other origins may not ask
};

class ApiServer {
 public:
  /// Listens and serves. Throws as HttpServer does. `model` and `ctx` are borrowed.
  ApiServer(Context& ctx, Decoder& model, ModelFacts facts, ApiOptions options);
  ~ApiServer();

  std::string url() const { return http_->url(); }
  int port() const { return http_->port(); }
  SchedulerCounters counters() const { return scheduler_.counters(); }
  /// Takes no more requests and ends when those that run are answered, or after so many seconds. True where all were.
  bool drain(double seconds);

 private:
  struct Route;
  void handle(HttpRequest request, HttpReply reply);
  void dispatch(const HttpRequest& request, HttpReply& reply);
  HttpHeaders cors_headers() const;
  HttpResponse with_cors(HttpResponse response) const;
  AnswerOptions answer_options(const GenerationRequest& asked) const;
  void check_host(const HttpRequest& request) const;
  void check_key(const HttpRequest& request) const;
  void chat(const HttpRequest& request, HttpReply& reply);
  void completion(const HttpRequest& request, HttpReply& reply);
  void infill(const HttpRequest& request, HttpReply& reply);
  void embeddings(const HttpRequest& request, HttpReply& reply);
  void models(const HttpRequest& request, HttpReply& reply);
  void adapters(const HttpRequest& request, HttpReply& reply);
  void health(const HttpRequest& request, HttpReply& reply);
  void metrics(const HttpRequest& request, HttpReply& reply);
  void tokenize(const HttpRequest& request, HttpReply& reply);
  bool page(const HttpRequest& request, HttpReply& reply) const;
  void detokenize(const HttpRequest& request, HttpReply& reply);
  void count_metrics();
  ReplyWriter writer(const char* prefix);
  static std::span<const Route> routes();

  Context& ctx_;
  Decoder& model_;
  ModelFacts facts_;
  ApiOptions options_;
  HostCheck hosts_;
  IdSource ids_;
  MetricsRegistry metrics_;
  Scheduler scheduler_;
  std::unique_ptr<HttpServer> http_;  // last: its handlers use all of the above
};

}  // namespace espalier
