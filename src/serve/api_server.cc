#include "serve/api_server.h"

#include <ctime>
#include <random>

#include "engine/prompt.h"
#include "engine/text_embedding.h"
#include "serve/answer.h"
#include "serve/api_error.h"
#include "serve/web_files.h"

namespace espalier {
namespace {

/// Text of which nothing is a special token.
std::vector<int32_t> encode_plain(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.parse_special = false});
}

// The order of Qwen and StarCoder: prefix, suffix, and the model writes the middle (Bavarian et al. 2022, PSM).
std::vector<int32_t> middle_prompt(const ModelFacts& model, const std::vector<int32_t>& prefix,
                                   std::string_view suffix) {
  if (!model.middle)
    throw ApiError(501, "this model does not fill in the middle: its vocabulary has no tokens for prefix and suffix",
                   "suffix");
  std::vector<int32_t> ids = {model.middle->prefix};
  ids.insert(ids.end(), prefix.begin(), prefix.end());
  ids.push_back(model.middle->suffix);
  for (const int32_t id : encode_plain(model.tokenizer, suffix)) ids.push_back(id);
  ids.push_back(model.middle->middle);
  return ids;
}

}  // namespace

struct ApiServer::Route {
  const char *method, *path;
  void (ApiServer::*handler)(const HttpRequest&, HttpReply&);
};

std::span<const ApiServer::Route> ApiServer::routes() {
  static constexpr Route kRoutes[] = {
      {"POST", "/v1/chat/completions", &ApiServer::chat}, {"POST", "/v1/completions", &ApiServer::completion},
      {"POST", "/v1/embeddings", &ApiServer::embeddings}, {"POST", "/infill", &ApiServer::infill},
      {"GET", "/v1/models", &ApiServer::models},          {"GET", "/lora-adapters", &ApiServer::adapters},
      {"GET", "/health", &ApiServer::health},             {"GET", "/v1/health", &ApiServer::health},
      {"GET", "/metrics", &ApiServer::metrics},           {"POST", "/tokenize", &ApiServer::tokenize},
      {"POST", "/detokenize", &ApiServer::detokenize}};
  return kRoutes;
}

ApiServer::ApiServer(Context& ctx, Decoder& model, ModelFacts facts, ApiOptions options)
    : ctx_(ctx), model_(model), facts_(std::move(facts)), options_(std::move(options)),
      hosts_(options_.http.host, options_.allowed_hosts), ids_(std::random_device()()),
      scheduler_(ctx, model, &facts_.tokenizer, options_.scheduler) {
  count_metrics();
  options_.http.refusal = [](int status, const std::string& message) { return error_response(status, message); };
  http_ = std::make_unique<HttpServer>(
      options_.http, [this](HttpRequest request, HttpReply reply) { handle(std::move(request), std::move(reply)); },
      ctx.log);
}

ApiServer::~ApiServer() = default;

bool ApiServer::drain(double seconds) {
  const std::time_t begin = std::time(nullptr);
  const bool done = scheduler_.drain(seconds);
  return http_->drain(std::max(1.0, seconds - double(std::time(nullptr) - begin))) && done;
}

void ApiServer::handle(HttpRequest request, HttpReply reply) {
  try {
    dispatch(request, reply);
  } catch (const std::exception& failure) {  // the edge of a request: what failed is its answer
    // One of several answers may have begun when another found no place.
    if (reply.started())
      reply.abort();
    else
      reply.send(with_cors(error_response(failure)));
  }
}

HttpHeaders ApiServer::cors_headers() const {
  return options_.cors.empty() ? HttpHeaders{} : HttpHeaders{{"Access-Control-Allow-Origin", options_.cors}};
}

HttpResponse ApiServer::with_cors(HttpResponse response) const {
  for (const HttpHeaders::Field& field : cors_headers()) response.headers.set(field.name, field.value);
  return response;
}

// What all endpoints that generate share.
AnswerOptions ApiServer::answer_options(const GenerationRequest& asked) const {
  AnswerOptions options;
  options.chat = false;
  options.stream = asked.stream;
  options.include_usage = asked.include_usage;
  options.top_logprobs = asked.top_logprobs;
  options.headers = cors_headers();
  return options;
}

void ApiServer::dispatch(const HttpRequest& request, HttpReply& reply) {
  check_host(request);
  if (request.method == "OPTIONS") {
    HttpResponse allowed{204, {{"Access-Control-Allow-Methods", "GET, POST"},
                               {"Access-Control-Allow-Headers", "Content-Type, Authorization"},
                               {"Access-Control-Max-Age", "86400"}}, ""};
    return reply.send(with_cors(std::move(allowed)));
  }
  std::string methods;
  for (const Route& route : routes()) {
    if (request.path != route.path) continue;
    if (request.method == route.method || (request.method == "HEAD" && std::string_view(route.method) == "GET")) {
      check_key(request);
      return (this->*route.handler)(request, reply);
    }
    methods += (methods.empty() ? "" : ", ") + std::string(route.method);
  }
  if (methods.empty() && (request.method == "GET" || request.method == "HEAD") && page(request, reply)) return;
  if (!methods.empty()) throw ApiError(405, fmt::format("{} takes {}, not {}", request.path, methods, request.method));
  throw ApiError(404, fmt::format("there is nothing at {}; see /v1/models, /v1/chat/completions, /v1/completions, "
                                  "/v1/embeddings, /infill, /tokenize, /detokenize, /health, /metrics", request.path));
}

// Browsers always say a host; who says none is none.
void ApiServer::check_host(const HttpRequest& request) const {
  const std::string* host = request.headers.find("Host");
  if (host && !hosts_.allows(*host))
    throw ApiError(403, fmt::format("the request is for the host '{}', which is no name of this server; ask for "
                                    "localhost, or start the server with --allowed-hosts NAME", *host),
                   "", "host_not_allowed");
}

// /health stays open: those who watch a server have no key.
void ApiServer::check_key(const HttpRequest& request) const {
  if (options_.api_key.empty() || request.path == "/health" || request.path == "/v1/health") return;
  const std::string* given = request.headers.find("Authorization");
  const std::string wanted = "Bearer " + options_.api_key;
  const bool same = given && given->size() == wanted.size();
  // To the end, so that the time says nothing of where they differ.
  unsigned difference = 0;
  for (size_t i = 0; same && i < wanted.size(); ++i) difference |= unsigned((*given)[i] ^ wanted[i]);
  if (!same || difference != 0)
    throw ApiError(401, "the API key is missing or wrong; send it as 'Authorization: Bearer KEY'", "",
                   "invalid_api_key");
}

// The chat page. It asks for the key itself where one is wanted, so it is open.
bool ApiServer::page(const HttpRequest& request, HttpReply& reply) const {
  const std::string_view name = request.path == "/" ? "index.html" : std::string_view(request.path).substr(1);
  for (const WebFile& file : web_files()) {
    if (file.name != name) continue;
    const char* type = name.ends_with(".js") ? "text/javascript" : name.ends_with(".css") ? "text/css" : "text/html";
    reply.send({200, {{"Content-Type", std::string(type) + "; charset=utf-8"}, {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy", "default-src 'self'; img-src data:"}},
                std::string(file.content)});
    return true;
  }
  return false;
}

ReplyWriter ApiServer::writer(const char* prefix) {
  return {ids_.next(prefix), facts_.id, int64_t(std::time(nullptr))};
}

void ApiServer::chat(const HttpRequest& request, HttpReply& reply) {
  ChatRequest asked = parse_chat_request(request.body);
  if (!facts_.chat)
    throw ApiError(400, "this model has no chat template, so it was not trained to converse; use /v1/completions");
  std::string prompt = facts_.chat->render({.messages = asked.messages.get(), .tools = asked.tools.get(),
                                            .variables = asked.template_variables.get()});
  AnswerOptions options = answer_options(asked.generation);
  options.chat = true;
  options.tools = expect_tool_calls(asked, facts_);
  options.thinking = opens_thinking(prompt);
  // The form that is asked for leaves no room to reason in.
  if (options.thinking && asked.generation.constraint.kind != OutputConstraint::Kind::kNone) {
    prompt += "\n</think>\n\n";
    options.thinking = false;
  }
  auto requests = requests_for(asked.generation, facts_.tokenizer.encode(prompt), facts_, options_.defaults);
  std::make_shared<Answer>(reply, writer("chatcmpl-"), options, facts_.tokenizer, requests.size())
      ->begin(scheduler_, std::move(requests));
}

void ApiServer::completion(const HttpRequest& request, HttpReply& reply) {
  const CompletionRequest asked = parse_completion_request(request.body);
  if (asked.echo && asked.prompts.size() > 1)
    throw ApiError(501, "echo is for one prompt at a time; send the prompts one by one", "echo");
  std::vector<GenerateRequest> all;
  std::string echo;
  for (const Prompt& prompt : asked.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    if (asked.echo)
      echo = text ? *text : facts_.tokenizer.decode(std::get<std::vector<int32_t>>(prompt));
    const bool infills = !asked.suffix.empty();
    auto ids = !text ? std::get<std::vector<int32_t>>(prompt)
               : infills ? encode_plain(facts_.tokenizer, *text) : encode_prompt(facts_.tokenizer, *text);
    if (infills) ids = middle_prompt(facts_, ids, asked.suffix);
    for (GenerateRequest& one : requests_for(asked.generation, std::move(ids), facts_, options_.defaults)) {
      one.id = all.size();
      if (!infills) one.stop_ids.clear();  // turns are a matter of conversations
      all.push_back(std::move(one));
    }
  }
  AnswerOptions options = answer_options(asked.generation);
  options.echo = echo;
  options.choices_a_prompt = size_t(asked.generation.n);
  std::make_shared<Answer>(reply, writer("cmpl-"), options, facts_.tokenizer, all.size())
      ->begin(scheduler_, std::move(all));
}

void ApiServer::infill(const HttpRequest& request, HttpReply& reply) {
  const InfillRequest asked = parse_infill_request(request.body);
  std::vector<int32_t> ids;
  const auto append = [&](const std::vector<int32_t>& more) { ids.insert(ids.end(), more.begin(), more.end()); };
  for (const auto& [name, text] : asked.extra) append(encode_plain(facts_.tokenizer, name + "\n" + text + "\n"));
  append(middle_prompt(facts_, encode_plain(facts_.tokenizer, asked.prefix), asked.suffix));
  append(encode_plain(facts_.tokenizer, asked.prompt));
  auto requests = requests_for(asked.generation, std::move(ids), facts_, options_.defaults);
  std::make_shared<Answer>(reply, writer("cmpl-"), answer_options(asked.generation), facts_.tokenizer, requests.size())
      ->begin(scheduler_, std::move(requests));
}

// Each text is a piece of work of its own, so that a hundred of them do not hold up the answers that run.
void ApiServer::embeddings(const HttpRequest& request, HttpReply& reply) {
  const EmbeddingsRequest asked = parse_embeddings_request(request.body);
  if (asked.dimensions && *asked.dimensions != facts_.spec.width)
    throw ApiError(400, fmt::format("this model's vectors have {} dimensions; they are not cut to {}",
                                    facts_.spec.width, *asked.dimensions), "dimensions");
  struct Vectors {
    std::vector<std::vector<float>> rows;
    int64_t tokens = 0;
  };
  const auto vectors = std::make_shared<Vectors>();
  for (size_t i = 0; i < asked.inputs.size(); ++i) {
    const Prompt& input = asked.inputs[i];
    const auto* text = std::get_if<std::string>(&input);
    auto ids = text ? encode_prompt(facts_.tokenizer, *text) : std::get<std::vector<int32_t>>(input);
    const bool last = i + 1 == asked.inputs.size();
    scheduler_.post([this, reply, vectors, ids = std::move(ids), last, base64 = asked.base64]() mutable {
      if (reply.cancelled() || reply.started()) return;
      try {
        vectors->rows.push_back(embed_text(ctx_, model_, ids));
        vectors->tokens += int64_t(ids.size());
        if (last)
          reply.send(with_cors(json_response(200, embeddings_json(facts_.id, vectors->rows, base64, vectors->tokens))));
      } catch (const std::exception& failure) {  // the edge of a request: what failed is its answer
        reply.send(with_cors(error_response(failure)));
      }
    });
  }
}

void ApiServer::models(const HttpRequest&, HttpReply& reply) {
  reply.send(with_cors(json_response(200, models_json(facts_.served()))));
}

void ApiServer::adapters(const HttpRequest&, HttpReply& reply) {
  std::vector<ListedAdapter> listed;
  for (const ServedAdapter& a : facts_.adapters) listed.push_back({a.name, a.adapter->path()});
  reply.send(with_cors(json_response(200, adapters_json(listed))));
}

void ApiServer::health(const HttpRequest&, HttpReply& reply) {
  reply.send(with_cors(json_response(200, R"({"status": "ok"})")));
}

void ApiServer::metrics(const HttpRequest&, HttpReply& reply) {
  reply.send({200, {{"Content-Type", MetricsRegistry::kContentType}}, metrics_.text()});
}

void ApiServer::tokenize(const HttpRequest& request, HttpReply& reply) {
  const TokenizeRequest asked = parse_tokenize_request(request.body);
  const std::vector<int32_t> ids = facts_.tokenizer.encode(
      asked.content, {.add_special = asked.add_special, .parse_special = asked.parse_special});
  std::vector<std::string> pieces;
  for (const int32_t id : ids)
    if (asked.with_pieces) pieces.emplace_back(facts_.tokenizer.token_bytes(id));
  reply.send(with_cors(json_response(200, tokens_json(ids, pieces))));
}

void ApiServer::detokenize(const HttpRequest& request, HttpReply& reply) {
  const std::vector<int32_t> ids = parse_detokenize_request(request.body);
  reply.send(with_cors(json_response(200, content_json(facts_.tokenizer.decode(ids)))));
}

void ApiServer::count_metrics() {
  const auto of = [this](auto get) { return [this, get] { return double(get(scheduler_.counters())); }; };
  using C = const SchedulerCounters&;
  metrics_.gauge_of("espalier_requests_running", "requests that are being read or answered",
                    of([](C c) { return c.running; }));
  metrics_.gauge_of("espalier_requests_waiting", "requests that wait for a place", of([](C c) { return c.waiting; }));
  metrics_.counter_of("espalier_requests_finished_total", "answers given", of([](C c) { return c.finished; }));
  metrics_.counter_of("espalier_requests_cancelled_total", "requests whose clients left",
                      of([](C c) { return c.cancelled; }));
  metrics_.counter_of("espalier_requests_failed_total", "requests that failed", of([](C c) { return c.failed; }));
  metrics_.counter_of("espalier_prompt_tokens_total", "tokens of prompts", of([](C c) { return c.prompt_tokens; }));
  metrics_.counter_of("espalier_prompt_tokens_cached_total", "tokens of prompts that an earlier request had read",
                      of([](C c) { return c.cached_tokens; }));
  metrics_.counter_of("espalier_generated_tokens_total", "tokens written", of([](C c) { return c.generated_tokens; }));
  metrics_.counter_of("espalier_prompt_seconds_total", "time in prompts", of([](C c) { return c.prefill_s; }));
  metrics_.counter_of("espalier_generated_seconds_total", "time in answers", of([](C c) { return c.decode_s; }));
  metrics_.counter_of("espalier_drafts_total", "tokens guessed", of([](C c) { return c.speculation.guessed; }));
  metrics_.counter_of("espalier_drafts_accepted_total", "guesses that were right",
                      of([](C c) { return c.speculation.accepted; }));
}

}  // namespace espalier
