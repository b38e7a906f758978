// The server as its clients meet it: real sockets, a small random model.
#include "serve/api_server.h"

#include <gtest/gtest.h>

#include <future>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/json_value.h"
#include "models/load.h"
#include "models/tiny_adapter.h"
#include "models/tiny_model.h"
#include "net/http_client.h"
#include "net/test_client.h"

namespace espalier {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if tools %}<tool_call>{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}";

class ApiServerThreads : public testing::Test {
 protected:
  void start(ApiOptions options = {}, bool chats = true) {
    if (chats) put_file(tiny_.path() + "/chat_template.jinja", kTemplate);
    model_ = load_model(tiny_.ctx, one_process_mesh(), tiny_.path(), {});
    options.http.port = 0;
    ModelFacts facts(tiny_.path(), model_->spec(), "tiny");
    facts.adapters = adapters_;
    server_ = std::make_unique<ApiServer>(tiny_.ctx, *model_, std::move(facts), std::move(options));
  }
  HttpClient client(HttpHeaders headers = {}) const { return HttpClient(server_->url(), {.headers = headers}); }
  Json post(const std::string& path, const std::string& body, int status = 200) const {
    const HttpResponse response = client().post_json(path, body);
    EXPECT_EQ(response.status, status) << body.substr(0, 200) << "\n" << response.body;
    return parse_json(response.body, "the answer");
  }
  /// The events of a stream, the last of which must be [DONE].
  std::vector<Json> stream(const std::string& path, const std::string& body) const {
    std::vector<Json> events;
    bool done = false;
    HttpClient http = client();
    const HttpResponse response = http.stream_json(path, body, [&](const SseEvent& event) {
      EXPECT_FALSE(done) << "behind the end: " << event.data;
      done = event.data == "[DONE]";
      if (!done) events.push_back(parse_json(event.data, "an event"));
      return true;
    });
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_TRUE(done);
    return events;
  }

  TinyModel tiny_;
  std::unique_ptr<Decoder> model_;
  std::vector<ServedAdapter> adapters_;
  std::unique_ptr<ApiServer> server_;
};

const std::string kAsk = R"({"messages": [{"role": "user", "content": "Hello there"}], "max_tokens": 12, "seed": 5,
                            "temperature": 1, "ignore_eos": true)";

TEST_F(ApiServerThreads, AChatAnswersWholeAndStreamedAlike) {
  start();
  const Json whole = post("/v1/chat/completions", kAsk + "}");
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_EQ(whole["model"], "tiny");
  const Json& choice = whole["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(whole["usage"]["completion_tokens"], 12);
  const auto events =
      stream("/v1/chat/completions", kAsk + R"(, "stream": true, "stream_options": {"include_usage": true}})");
  std::string text;
  for (const Json& event : events) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    if (!event["choices"].empty()) text += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, choice["message"]["content"].get<std::string>());
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 12);
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
}

TEST_F(ApiServerThreads, ChoicesDifferAndASeedRepeatsThem) {
  start();
  const std::string body = R"({"prompt": "One", "n": 3, "max_tokens": 8, "seed": 11, "temperature": 1.5,
                              "ignore_eos": true})";
  const Json first = post("/v1/completions", body), second = post("/v1/completions", body);
  ASSERT_EQ(first["choices"].size(), 3u);
  EXPECT_EQ(first["choices"], second["choices"]);
  std::set<std::string> texts;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(first["choices"][i]["index"], i);
    texts.insert(first["choices"][i]["text"].get<std::string>());
  }
  EXPECT_EQ(texts.size(), 3u);
  EXPECT_EQ(first["usage"]["completion_tokens"], 24);
  const Json several = post("/v1/completions", R"({"prompt": ["One", [5, 6, 7]], "max_tokens": 3, "echo": false})");
  EXPECT_EQ(several["choices"].size(), 2u);
  const int64_t one = post("/v1/completions", R"({"prompt": "One", "max_tokens": 1})")["usage"]["prompt_tokens"];
  EXPECT_EQ(several["usage"]["prompt_tokens"], one + 3);
  EXPECT_EQ(first["usage"]["prompt_tokens"], one);
}

TEST_F(ApiServerThreads, AnEchoComesBeforeTheTextStreamedToo) {
  start();
  const std::string body = R"({"prompt": "Once", "max_tokens": 4, "seed": 2, "echo": true, "ignore_eos": true)";
  const std::string whole = post("/v1/completions", body + "}")["choices"][0]["text"].get<std::string>();
  EXPECT_TRUE(whole.starts_with("Once"));
  std::string streamed;
  for (const Json& event : stream("/v1/completions", body + R"(, "stream": true})"))
    streamed += event["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(streamed, whole);
  post("/v1/completions", R"({"prompt": ["a", "b"], "echo": true})", 501);
}

TEST_F(ApiServerThreads, LogProbabilitiesBelongToTheTokens) {
  start();
  const Json answer = post("/v1/chat/completions", kAsk + R"(, "logprobs": true, "top_logprobs": 3})");
  const Json& content = answer["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 12u);
  for (const Json& token : content) {
    EXPECT_LE(token["logprob"].get<double>(), 0);
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_GE(token["top_logprobs"][0]["logprob"].get<double>(), token["logprob"].get<double>());
  }
  const auto events =
      stream("/v1/chat/completions", kAsk + R"(, "logprobs": true, "top_logprobs": 3, "stream": true})");
  size_t streamed = 0;
  for (const Json& event : events)
    if (const Json scores = event["choices"][0].value("logprobs", Json()); scores.is_object())
      streamed += scores["content"].size();
  EXPECT_EQ(streamed, 12u);
}

TEST_F(ApiServerThreads, WhatIsWrongIsSaidWithItsField) {
  start({.scheduler = {}, .api_key = "secret"});
  EXPECT_EQ(client().post_json("/v1/completions", "{}").status, 401);
  EXPECT_EQ(client().get("/health").status, 200);
  HttpClient http = client({{"Authorization", "Bearer secret"}});
  const auto refuse = [&](const char* path, const std::string& body, int status, const char* word) {
    const HttpResponse response = http.post_json(path, body);
    EXPECT_EQ(response.status, status) << body.substr(0, 100);
    EXPECT_NE(response.body.find(word), std::string::npos) << response.body;
  };
  refuse("/v1/completions", "{\"prompt\": ", 400, "JSON");
  refuse("/v1/completions", R"({"prompt": 3})", 400, "prompt");
  refuse("/v1/completions", R"({"prompt": "x", "max_tokens": -4})", 400, "max_tokens");
  refuse("/v1/completions", R"({"prompt": "x", "temperature": 1e300})", 400, "temperature");
  refuse("/v1/completions", R"({"prompt": [700]})", 409, "vocabulary");
  refuse("/v1/chat/completions", R"({"messages": []})", 400, "messages");
  refuse("/v1/completions", "{\"prompt\": \"" + std::string(4000, 'x') + "\"}", 400, "context_length_exceeded");
  refuse("/v1/nothing", "{}", 404, "nothing");
  refuse("/infill", R"({"input_prefix": "a", "input_suffix": "b"})", 501, "middle");
  refuse("/v1/completions", R"({"prompt": "x", "grammar": "root ::= nothing"})", 400, "nothing");
  refuse("/v1/completions", R"({"prompt": "x", "suffix": "y"})", 501, "middle");
  EXPECT_EQ(http.get("/v1/completions").status, 405);
  refuse("/v1/completions", R"({"prompt": "x", "max_tokens": 2, "unknown_field": {"deep": [1]}})", 200, "text");
}

// Three tokens of the vocabulary become those that models fill in with.
TEST_F(ApiServerThreads, ASuffixIsFilledInAsByInfill) {
  const std::string path = tiny_.path() + "/tokenizer.json";
  Json tokenizer = read_json_file(path);
  Json& merges = tokenizer["model"]["merges"];
  merges.erase(merges.end() - 3, merges.end());
  const char* names[] = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};
  Json& vocab = tokenizer["model"]["vocab"];
  for (int id = 697; id < 700; ++id) {
    for (auto entry = vocab.begin(); entry != vocab.end();) entry = entry.value() == id ? vocab.erase(entry) : ++entry;
    tokenizer["added_tokens"].push_back({{"id", id}, {"content", names[id - 697]}, {"single_word", false},
                                         {"lstrip", false}, {"rstrip", false}, {"normalized", false},
                                         {"special", true}});
  }
  put_file(path, tokenizer.dump());
  start();
  const std::string more = R"(, "max_tokens": 9, "seed": 3, "temperature": 1, "ignore_eos": true})";
  const Json filled = post("/infill", R"({"input_prefix": "One <|fim_suffix|>", "input_suffix": " three")" + more);
  const Json completed = post("/v1/completions", R"({"prompt": "One <|fim_suffix|>", "suffix": " three")" + more);
  EXPECT_EQ(completed["choices"][0]["text"], filled["choices"][0]["text"]);
  EXPECT_EQ(completed["usage"]["prompt_tokens"], filled["usage"]["prompt_tokens"]);
  const Json ids = post("/tokenize", R"({"content": "One", "add_special": false})")["tokens"];
  const Json by_ids = post("/v1/completions", Json{{"prompt", ids}, {"suffix", "x"}, {"max_tokens", 1}}.dump());
  EXPECT_EQ(by_ids["usage"]["prompt_tokens"], 3 + ids.size() + 1);
}

TEST_F(ApiServerThreads, AnotherHostsNameIsRefused) {
  start({.allowed_hosts = {"model.lan"}});
  const auto said = [&](const std::string& host, const char* path) {
    RawClient raw(server_->port());
    raw.send(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", path, host));
    return raw.read_to_end();
  };
  EXPECT_TRUE(said("localhost:1", "/health").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(said("model.lan", "/").starts_with("HTTP/1.1 200"));
  for (const char* path : {"/health", "/", "/v1/models", "/nothing"}) {
    const std::string refused = said("evil.example", path);
    EXPECT_TRUE(refused.starts_with("HTTP/1.1 403")) << refused;
    EXPECT_NE(refused.find("--allowed-hosts"), std::string::npos) << refused;
  }
}

TEST_F(ApiServerThreads, AModelWithoutATemplateDoesNotChat) {
  start({}, false);
  const Json refused = post("/v1/chat/completions", kAsk + "}", 400);
  EXPECT_NE(refused["error"]["message"].get<std::string>().find("/v1/completions"), std::string::npos);
}

TEST_F(ApiServerThreads, ManyClientsGetTheirAnswers) {
  start({.scheduler = {.generator = {.max_batch = 4, .remember = 4}}});
  std::vector<std::string> texts(24);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < texts.size(); ++i)
    threads.push_back(start_thread([&, i] {
      const Json answer = post("/v1/completions", fmt::format(R"({{"prompt": "Number {}", "max_tokens": 9, "seed": 1,
                                                               "ignore_eos": true}})", i % 6));
      texts[i] = answer["choices"][0]["text"].get<std::string>();
    }));
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 6; i < texts.size(); ++i) EXPECT_EQ(texts[i], texts[i - 6]) << i;
  EXPECT_EQ(server_->counters().finished, 24);
}

TEST_F(ApiServerThreads, AClientThatLeavesFreesItsPlace) {
  start({.scheduler = {.generator = {.max_batch = 1}}});
  for (int i = 0; i < 5; ++i) {
    HttpClient http = client();
    http.stream_json("/v1/completions", R"({"prompt": "x", "max_tokens": 100, "stream": true, "ignore_eos": true})",
                     [](const SseEvent&) { return false; });
  }
  const Json next = post("/v1/completions", R"({"prompt": "y", "max_tokens": 3, "ignore_eos": true})");
  EXPECT_EQ(next["usage"]["completion_tokens"], 3);
  EXPECT_EQ(server_->counters().running, 0);
}

// The first choices may be streaming already when a later one finds the queue full.
TEST_F(ApiServerThreads, MoreChoicesThanPlacesAreRefused) {
  start({.scheduler = {.generator = {.max_batch = 1}, .max_waiting = 2}});
  for (int i = 0; i < 20; ++i) {
    HttpClient http = client();
    try {
      const HttpResponse response = http.stream_json(
          "/v1/completions", R"({"prompt": "x", "n": 9, "max_tokens": 4, "stream": true, "ignore_eos": true})",
          [](const SseEvent&) { return true; });
      EXPECT_EQ(response.status, 429);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kPeer) << e.what();  // the stream was cut
    }
  }
  // What was taken of the refused requests leaves the queue with the next pass.
  while (server_->counters().waiting + server_->counters().running > 0) std::this_thread::yield();
  const Json next = post("/v1/completions", R"({"prompt": "y", "max_tokens": 3, "ignore_eos": true})");
  EXPECT_EQ(next["usage"]["completion_tokens"], 3);
}

TEST_F(ApiServerThreads, StopsEndTheTextAndAreNoPartOfIt) {
  start();
  const std::string prompt = R"({"prompt": "Once", "max_tokens": 30, "seed": 4, "temperature": 1, "ignore_eos": true)";
  const std::string text = post("/v1/completions", prompt + "}")["choices"][0]["text"].get<std::string>();
  ASSERT_GT(text.size(), 12u);
  std::string stop;
  for (size_t at = 4; at + 3 < text.size() && stop.empty(); ++at)  // three letters of ASCII
    if (const std::string three = text.substr(at, 3);
        std::ranges::all_of(three, [](char c) { return c > 34 && c < 127; }))
      stop = three;
  ASSERT_FALSE(stop.empty()) << text;
  const Json cut = post("/v1/completions", prompt + ", \"stop\": [" + Json(stop).dump() + "]}");
  EXPECT_EQ(cut["choices"][0]["text"].get<std::string>(), text.substr(0, text.find(stop)));
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "stop");
}

TEST_F(ApiServerThreads, AdaptersAreAskedForByNameOrNumber) {
  write_tiny_adapter(tiny_.folder / "loud");
  adapters_ = {{"loud", LoraAdapter::load(tiny_.folder / "loud", tiny_.model.spec())}};
  start();
  EXPECT_EQ(parse_json(client().get("/v1/models").body, "models")["data"][1]["id"], "loud");
  const Json listed = parse_json(client().get("/lora-adapters").body, "adapters");
  EXPECT_EQ(listed[0]["id"], 0);
  EXPECT_EQ(listed[0]["name"], "loud");
  const auto text = [&](const std::string& more) {
    const std::string body = R"({"prompt": "Hello", "max_tokens": 12, "temperature": 0, "ignore_eos": true)";
    return post("/v1/completions", body + more + "}")["choices"][0]["text"].get<std::string>();
  };
  const std::string plain = text(""), loud = text(R"(, "model": "loud")");
  EXPECT_NE(loud, plain);
  EXPECT_EQ(text(R"(, "model": "tiny")"), plain);
  EXPECT_EQ(text(R"(, "lora": [{"id": 0}])"), loud);
  EXPECT_EQ(text(R"(, "lora": [{"id": 0, "scale": 0}])"), plain);
  EXPECT_EQ(text(R"(, "model": "loud", "lora": [])"), plain) << "the list says all";
  for (const char* wrong :
       {R"([{"id": 1}])", R"([{"id": -1}])", R"([{}])", R"("loud")", R"([{"id": 0, "scale": "x"}])"})
    post("/v1/completions", std::string(R"({"prompt": "x", "lora": )") + wrong + "}", 400);
}

TEST_F(ApiServerThreads, TokensModelsMetricsAndThePage) {
  start({.cors = "*"});
  const Json ids = post("/tokenize", R"({"content": "Hello there"})")["tokens"];
  EXPECT_EQ(post("/detokenize", Json{{"tokens", ids}}.dump())["content"], "Hello there");
  const HttpResponse models = client().get("/v1/models");
  EXPECT_EQ(parse_json(models.body, "models")["data"][0]["id"], "tiny");
  EXPECT_EQ(*models.headers.find("Access-Control-Allow-Origin"), "*");
  post("/v1/completions", R"({"prompt": "x", "max_tokens": 3, "ignore_eos": true})");
  const HttpResponse answer = client().post_json("/v1/completions", R"({"prompt": "x", "max_tokens": 0})");
  EXPECT_EQ(*answer.headers.find("Access-Control-Allow-Origin"), "*");
  EXPECT_NE(client().get("/metrics").body.find("espalier_generated_tokens_total 3\n"), std::string::npos);
  const HttpResponse page = client().get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_NE(page.body.find("chat.js"), std::string::npos);
  EXPECT_EQ(client().get("/chat.js").status, 200);
  EXPECT_EQ(client().get("/../api_server.cc").status, 404);
}

TEST_F(ApiServerThreads, AnswersHaveTheFormThatIsAsked) {
  start();
  const std::string schema = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5},
      "sex": {"enum": ["f", "m"]}}, "required": ["name", "sex"], "additionalProperties": false})";
  for (int seed = 1; seed <= 6; ++seed) {
    const Json answer = post("/v1/chat/completions", fmt::format(
        R"({{"messages": [{{"role": "user", "content": "Who?"}}], "max_tokens": 100, "seed": {}, "temperature": 1,
            "response_format": {{"type": "json_schema", "json_schema": {{"name": "person", "schema": {}}}}}}})", seed,
        schema));
    const Json person = parse_json(answer["choices"][0]["message"]["content"].get<std::string>(), "the answer");
    EXPECT_LE(person["name"].get<std::string>().size(), 20u);
    EXPECT_TRUE(person["sex"] == "f" || person["sex"] == "m");
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  }
  const Json yes = post("/v1/completions",
                        R"({"prompt": "x", "max_tokens": 20, "grammar": "root ::= \"yes\" | \"no\""})");
  const std::string text = yes["choices"][0]["text"].get<std::string>();
  EXPECT_TRUE(text == "yes" || text == "no") << text;
}

TEST_F(ApiServerThreads, AToolThatMustBeCalledIsCalled) {
  start();
  const auto ask = [&](const std::string& choice, const std::string& more) {
    return R"({"messages": [{"role": "user", "content": "Go"}], "max_tokens": 110, "temperature": 1, "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties":
          {"sex": {"enum": ["f", "m"]}}, "required": ["sex"]}}},
        {"type": "function", "function": {"name": "g"}}], "tool_choice": )" + choice + more + "}";
  };
  const std::string named = R"({"type": "function", "function": {"name": "f"}})";
  for (int seed = 1; seed <= 4; ++seed) {
    const std::string body = ask(named, fmt::format(R"(, "seed": {})", seed));
    const Json answer = post("/v1/chat/completions", body)["choices"][0];
    EXPECT_EQ(answer["finish_reason"], "tool_calls");
    EXPECT_TRUE(answer["message"]["content"].is_null()) << answer;
    ASSERT_EQ(answer["message"]["tool_calls"].size(), 1u);
    const Json& function = answer["message"]["tool_calls"][0]["function"];
    EXPECT_EQ(function["name"], "f");
    const std::string arguments = function["arguments"].get<std::string>();
    EXPECT_TRUE(arguments == R"({"sex":"f"})" || arguments == R"({"sex":"m"})") << arguments;
    const Json any = post("/v1/chat/completions", ask("\"required\"", fmt::format(
                              R"(, "seed": {}, "parallel_tool_calls": false)", seed)))["choices"][0];
    EXPECT_EQ(any["finish_reason"], "tool_calls");
    EXPECT_EQ(any["message"]["tool_calls"].size(), 1u);
    std::string streamed;
    const auto events = stream("/v1/chat/completions",
                               ask(named, fmt::format(R"(, "seed": {}, "stream": true)", seed)));
    for (const Json& event : events)
      for (const Json& call : event["choices"][0]["delta"].value("tool_calls", Json::array()))
        streamed += call["function"]["arguments"].get<std::string>();
    EXPECT_EQ(streamed, arguments);
    EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "tool_calls");
  }
  const Json refused = post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "Go"}], "tools": [
      {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties":
        {"x": {"type": "number", "minimum": 1}}}}}], "tool_choice": "required"})", 400);
  EXPECT_EQ(refused["error"]["param"], "tools");
}

TEST_F(ApiServerThreads, EmbeddingsAreVectorsOfLengthOne) {
  start();
  const Json one = post("/v1/embeddings", R"({"input": "Hello there"})");
  const Json two = post("/v1/embeddings", R"({"input": ["Goodbye", "Hello there"]})");
  ASSERT_EQ(two["data"].size(), 2u);
  EXPECT_EQ(one["data"][0]["embedding"], two["data"][1]["embedding"]);
  EXPECT_NE(two["data"][0]["embedding"], two["data"][1]["embedding"]);
  double squares = 0;
  for (const Json& x : one["data"][0]["embedding"]) squares += x.get<double>() * x.get<double>();
  EXPECT_NEAR(squares, 1, 1e-5);
  EXPECT_EQ(one["data"][0]["embedding"].size(), 32u);
  post("/v1/embeddings", R"({"input": "x", "dimensions": 7})", 400);
  post("/v1/embeddings", R"({"input": [[1, 2], [900]]})", 409);
}

TEST_F(ApiServerThreads, DrainingAnswersWhatRunsAndTakesNoMore) {
  start();
  auto answer = std::async(std::launch::async, [&] {
    return post("/v1/completions", R"({"prompt": "x", "max_tokens": 60, "ignore_eos": true})");
  });
  while (server_->counters().running == 0 && server_->counters().finished == 0) std::this_thread::yield();
  EXPECT_TRUE(server_->drain(60));
  EXPECT_EQ(answer.get()["usage"]["completion_tokens"], 60);
  EXPECT_THROW(client().get("/health"), Error);
}

}  // namespace
}  // namespace espalier
