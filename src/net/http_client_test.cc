#include "net/http_client.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "net/http_server.h"
#include "net/test_client.h"

namespace espalier {
namespace {

HttpServerOptions test_options() { return {.port = 0}; }

/// A server that answers anything with bytes of the test's choice, and hangs up.
class Canned {
 public:
  explicit Canned(std::string bytes)
      : listener_(listen_tcp("127.0.0.1", 0, 8)), thread_([this, bytes] {
          wait_ready(listener_.fd(), POLLIN, now_s() + kTestPatienceS);
          const Socket peer(::accept(listener_.fd(), nullptr, nullptr));
          char request[4096];
          [[maybe_unused]] const ssize_t got = ::recv(peer.fd(), request, sizeof request, 0);
          [[maybe_unused]] const ssize_t sent = ::send(peer.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        }) {}
  ~Canned() { thread_.join(); }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", local_port(listener_)); }

 private:
  Socket listener_;
  std::thread thread_;
};

TEST(HttpClient, ReadsUrls) {
  const HttpUrl url = parse_http_url("http://example:8080/v1/x?y=1");
  EXPECT_EQ(url.host, "example");
  EXPECT_EQ(url.port, 8080);
  EXPECT_EQ(url.path, "/v1/x?y=1");
  EXPECT_EQ(parse_http_url("http://[::1]:99").host, "::1");
  EXPECT_EQ(parse_http_url("http://[::1]:99").port, 99);
  EXPECT_EQ(parse_http_url("http://a").port, 80);
  for (const char* wrong : {"", "ftp://a", "http://", "http://a:0", "http://a:65536", "http://a:b", "http://a b",
                            "http://a\r\nX: y", "http://:80"})
    EXPECT_NE(error_message([&] { parse_http_url(wrong); }), "no error") << wrong;
  EXPECT_NE(error_message([] { parse_http_url("https://a"); }).find("TLS"), std::string::npos);
}

TEST(HttpClient, KeepsItsConnection) {
  HttpServer server(test_options(), [](HttpRequest request, HttpReply reply) {
    const std::string* key = request.headers.find("authorization");
    reply.send(text_response(request.path == "/v1/none" ? 404 : 200,
                             request.method + request.path + request.body + (key ? *key : "")));
  });
  HttpClient client(server.url() + "/v1/", {.headers = {{"Authorization", "Bearer k"}}});
  EXPECT_EQ(client.get("/a").body, "GET/v1/aBearer k");
  EXPECT_EQ(client.post_json("/b", "{}").body, "POST/v1/b{}Bearer k");
  EXPECT_EQ(client.call("HEAD", "/c", {}, "").body, "");
  EXPECT_EQ(client.get("/none").status, 404);
  EXPECT_EQ(server.stats().accepted, 1);
}

TEST(HttpClient, ConnectsAgainWhenTheServerHasHungUp) {
  HttpServerOptions options = test_options();
  options.idle_s = 0.01;
  HttpServer server(options, [](HttpRequest, HttpReply reply) { reply.send(text_response(200, "fine")); });
  HttpClient client(server.url());
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(client.get("/").body, "fine");
    ::poll(nullptr, 0, 200);
    return server.stats().accepted >= 3;
  }));
}

TEST(HttpClient, StreamsEvents) {
  std::vector<std::thread> writers;
  HttpServer server(test_options(), [&](HttpRequest request, HttpReply reply) {
    if (request.path == "/error") return reply.send(json_response(400, "{\"error\": 1}"));
    writers.emplace_back([reply]() mutable {
      reply.start({.headers = {{"Content-Type", "text/event-stream"}}});
      for (int i = 0; i < 100 && reply.write(sse_data(std::to_string(i))); ++i) {
      }
      reply.write(sse_data("[DONE]"));
      reply.finish();
    });
  });
  HttpClient client(server.url());
  std::vector<std::string> events;
  const auto keep = [&](const SseEvent& event) {
    events.push_back(event.data);
    return true;
  };
  EXPECT_EQ(client.stream_json("/", "{}", keep).status, 200);
  ASSERT_EQ(events.size(), 101u);
  EXPECT_EQ(events[99], "99");
  EXPECT_EQ(events[100], "[DONE]");
  const HttpResponse refused = client.stream_json("/error", "{}", keep);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.body, "{\"error\": 1}");
  EXPECT_EQ(server.stats().accepted, 1);
  client.stream_json("/", "{}", [](const SseEvent&) { return false; });  // hangs up
  EXPECT_EQ(client.get("/error").status, 400);
  EXPECT_EQ(server.stats().accepted, 2);
  for (std::thread& writer : writers) writer.join();
}

TEST(HttpClient, TotalDeadline) {
  std::vector<HttpReply> kept;
  HttpServer server(test_options(), [&](HttpRequest request, HttpReply reply) {
    kept.push_back(reply);
    if (request.path == "/begins") reply.start(text_response(200, "never ends"));
  });
  for (const char* path : {"/silent", "/begins"}) {
    HttpClient client(server.url(), {.total_s = 0.05});
    EXPECT_NE(error_message([&] { client.get(path); }).find("in time"), std::string::npos);
  }
}

TEST(HttpClient, SaysWhatIsWrongWithTheServer) {
  const int free_port = local_port(listen_tcp("127.0.0.1", 0, 1));
  HttpClient nobody(fmt::format("http://127.0.0.1:{}", free_port));
  EXPECT_NE(error_message([&] { nobody.get("/"); }).find("is the server running"), std::string::npos);
  const auto message_for = [](const std::string& bytes, size_t max = 1000) {
    const Canned server(bytes);
    HttpClient client(server.url(), {.max_response_bytes = max});
    return error_message([&] { client.get("/"); });
  };
  EXPECT_NE(message_for("").find("hung up without a response"), std::string::npos);
  EXPECT_NE(message_for("SSH-2.0\r\n\r\n").find("no 'HTTP/1.1 200 OK'"), std::string::npos);
  EXPECT_NE(message_for("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc").find("in the middle"), std::string::npos);
  EXPECT_NE(message_for("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", 4).find("more than"), std::string::npos);
  EXPECT_NE(message_for("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nq\r\n").find("hexadecimal"),
            std::string::npos);
}

TEST(HttpClient, BodiesThatEndWithTheConnection) {
  const Canned server("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil the end");
  HttpClient client(server.url());
  EXPECT_EQ(client.get("/").body, "until the end");
}

}  // namespace
}  // namespace espalier
