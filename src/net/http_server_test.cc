// What a server does with clients that keep to the protocol. Those that do not: http_abuse_test.cc. Both run under the
// address and the thread sanitizer too (test.sh).
#include "net/http_server.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "net/test_client.h"

namespace espalier {
namespace {

constexpr const char* kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

HttpServerOptions test_options() { return {.port = 0}; }

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"; }

/// Says what it was asked.
void echo(HttpRequest request, HttpReply reply) {
  reply.send(text_response(200, request.method + " " + request.path + " " + request.body));
}

/// The body of a response as bytes.
std::string body_of(const std::string& response) { return response.substr(response.find("\r\n\r\n") + 4); }

TEST(HttpServer, KeepsAConnection) {
  HttpServer server(test_options(), echo);
  RawClient client(server.port());
  for (const std::string path : {"/one", "/two"}) {
    client.send(get(path));
    const std::string response = client.read_response();
    EXPECT_TRUE(response.starts_with("HTTP/1.1 200 OK\r\nDate: ")) << response;
    EXPECT_EQ(body_of(response), "GET " + path + " ");
  }
  client.send("GET /three HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string response = client.read_to_end();
  EXPECT_NE(response.find("Connection: close\r\n"), std::string::npos) << response;
  EXPECT_EQ(body_of(response), "GET /three ");
  EXPECT_EQ(server.stats().accepted, 1);
  EXPECT_EQ(server.stats().requests, 3);
}

TEST(HttpServer, OldClients) {
  HttpServer server(test_options(), [](HttpRequest request, HttpReply reply) {
    if (request.path == "/whole") return reply.send(text_response(200, "all"));
    reply.start(text_response(200, "a"));
    reply.write("b");
    reply.finish();
  });
  RawClient old(server.port());
  old.send("GET /whole HTTP/1.0\r\n\r\n");
  EXPECT_EQ(body_of(old.read_to_end()), "all");
  RawClient streamed(server.port());
  streamed.send("GET /pieces HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string response = streamed.read_to_end();  // without chunks the end of the body is the connection's
  EXPECT_EQ(response.find("chunked"), std::string::npos) << response;
  EXPECT_EQ(body_of(response), "ab");
  RawClient kept(server.port());
  for (int i = 0; i < 2; ++i) {
    kept.send("GET /whole HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_NE(kept.read_response().find("Connection: keep-alive\r\n"), std::string::npos);
  }
}

TEST(HttpServer, AnswersPipelinedRequestsInTheirOrder) {
  std::mutex mutex;
  std::vector<std::pair<std::string, HttpReply>> waiting;
  HttpServer server(test_options(), [&](HttpRequest request, HttpReply reply) {
    if (request.path != "/late") return echo(request, reply);
    const std::lock_guard lock(mutex);
    waiting.emplace_back(request.path, reply);
  });
  RawClient client(server.port());
  client.send(get("/a") + get("/late") + get("/b") + "POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz");
  EXPECT_EQ(body_of(client.read_response()), "GET /a ");
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return waiting.size() == 1;
  }));
  EXPECT_EQ(server.stats().requests, 2);
  waiting[0].second.send(text_response(200, "late"));
  EXPECT_EQ(body_of(client.read_response()), "late");
  EXPECT_EQ(body_of(client.read_response()), "GET /b ");
  EXPECT_EQ(body_of(client.read_response()), "POST /c xyz");
}

TEST(HttpServer, ManyPipelinedRequests) {
  HttpServer server(test_options(), echo);
  RawClient client(server.port());
  std::string all;
  for (int i = 0; i < 3000; ++i) all += get("/" + std::to_string(i));
  std::thread sender([&] { client.send(all); });
  RawClient other(server.port());  // is not shut out meanwhile
  other.send(kGet);
  EXPECT_EQ(body_of(other.read_response()), "GET / ");
  sender.join();
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(body_of(client.read_response()), "GET /" + std::to_string(i) + " ");
}

TEST(HttpServer, ReadsBodiesInPieces) {
  HttpServer server(test_options(), echo);
  RawClient client(server.port());
  const std::string request =
      "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;ext=1\r\nabc\r\n0A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  for (const char byte : request) client.send(std::string_view(&byte, 1));
  EXPECT_EQ(body_of(client.read_response()), "POST /p abc0123456789");
  client.send(request);
  EXPECT_EQ(body_of(client.read_response()), "POST /p abc0123456789");
}

TEST(HttpServer, TellsAWaitingClientToContinue) {
  HttpServer server(test_options(), echo);
  RawClient client(server.port());
  client.send("POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_EQ(body_of(client.read_response()), "POST /p ok");
  client.send("POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
  EXPECT_TRUE(client.read_to_end().starts_with("HTTP/1.1 413 "));
}

TEST(HttpServer, HeadHasNoBodyAndOptionsIsTheHandlers) {
  HttpServer server(test_options(), [](HttpRequest request, HttpReply reply) {
    if (request.method == "OPTIONS") return reply.send({.status = 204, .headers = {{"Allow", "GET"}}, .body = "x"});
    if (request.path == "/whole") return reply.send(text_response(200, "body"));
    reply.start(text_response(200, "bo"));
    reply.write("dy");
    reply.finish();
  });
  RawClient client(server.port());
  client.send("HEAD /whole HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_until("\r\n\r\n").find("Content-Length: 4\r\n"), std::string::npos);
  client.send("HEAD /pieces HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_until("\r\n\r\n").find("chunked"), std::string::npos);
  client.send("OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string response = client.read_to_end();
  EXPECT_TRUE(response.starts_with("HTTP/1.1 204 No Content\r\n")) << response;
  EXPECT_NE(response.find("Allow: GET\r\n"), std::string::npos);
  EXPECT_EQ(response.find("Content-Length"), std::string::npos);
  EXPECT_EQ(body_of(response), "");
}

TEST(HttpServer, StreamsFromAnotherThread) {
  std::thread writer;
  HttpServer server(test_options(), [&](HttpRequest, HttpReply reply) {
    writer = std::thread([reply]() mutable {
      reply.start(text_response(200, ""));
      for (int i = 0; i < 1000; ++i) EXPECT_TRUE(reply.write(fmt::format("piece {}\n", i)));
      reply.finish();
    });
  });
  RawClient client(server.port());
  client.send(kGet);
  EXPECT_NE(client.read_until("\r\n\r\n").find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  const std::string body = client.read_until("\r\n0\r\n\r\n");
  writer.join();
  size_t at = 0;
  for (int i = 0; i < 1000; ++i) {
    at = body.find(fmt::format("piece {}\n", i), at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  client.send(kGet);  // the connection is as good as new
  EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
  writer.join();
}

TEST(HttpServer, TwoHundredStreamsAtOnce) {
  constexpr int kClients = 200, kPieces = 50;
  std::mutex mutex;
  std::vector<HttpReply> replies;
  HttpServer server(test_options(), [&](HttpRequest, HttpReply reply) {
    reply.start(text_response(200, ""));
    const std::lock_guard lock(mutex);
    replies.push_back(reply);
  });
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(kGet);
  }
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return replies.size() == kClients;
  }));
  for (int piece = 0; piece < kPieces; ++piece)
    for (HttpReply& reply : replies) ASSERT_TRUE(reply.write(fmt::format("<{}>", piece)));
  for (HttpReply& reply : replies) reply.finish();
  for (const auto& client : clients) {
    const std::string response = client->read_until("\r\n0\r\n\r\n");
    EXPECT_NE(response.find("<0>"), std::string::npos);
    EXPECT_NE(response.find(fmt::format("<{}>", kPieces - 1)), std::string::npos);
  }
  EXPECT_EQ(server.stats().connections, kClients);
}

TEST(HttpServer, SilentStreamsHaveAHeartbeat) {
  HttpServerOptions options = test_options();
  options.heartbeat_s = 0.01;
  std::optional<HttpReply> kept;
  HttpServer server(options, [&](HttpRequest, HttpReply reply) {
    reply.start(text_response(200, "begin"), ": \n\n");
    kept = reply;
  });
  RawClient client(server.port());
  client.send(kGet);
  client.read_until("begin\r\n");
  EXPECT_EQ(client.read_until("\n\n\r\n"), "4\r\n: \n\n\r\n");
  EXPECT_EQ(client.read_until("\n\n\r\n"), "4\r\n: \n\n\r\n");
}

TEST(HttpServer, ErrorsOfHandlersBecomeResponses) {
  HttpServerOptions options = test_options();
  options.refusal = [](int status, const std::string& message) { return text_response(status, "<" + message + ">"); };
  HttpServer server(options, [](HttpRequest request, HttpReply reply) {
    if (request.path == "/http") throw http_error(429, "busy");
    if (request.path == "/error") throw error(Code::kNotFound, "no such model");
    if (request.path == "/other") throw std::runtime_error("secret");
    if (request.path == "/inject") reply.send({.headers = {{"X", "a\r\nSet-Cookie: b"}}, .body = ""});
    // Otherwise the reply is forgotten.
  });
  RawClient client(server.port());
  const auto response_to = [&](const std::string& path) {
    client.send(get(path));
    return client.read_response();
  };
  EXPECT_TRUE(response_to("/http").starts_with("HTTP/1.1 429 Too Many Requests\r\n"));
  EXPECT_EQ(body_of(response_to("/http")), "<busy>");
  EXPECT_TRUE(response_to("/error").starts_with("HTTP/1.1 404 "));
  EXPECT_EQ(body_of(response_to("/other")), "<an error inside the server>");
  EXPECT_TRUE(response_to("/forgotten").starts_with("HTTP/1.1 500 "));
  EXPECT_NE(response_to("/inject").find("X: a  Set-Cookie: b\r\n"), std::string::npos);
}

TEST(HttpServer, ABodyThatCannotEndIsSeenToBeBroken) {
  HttpServer server(test_options(), [](HttpRequest request, HttpReply reply) {
    reply.start(text_response(200, "half"));
    if (request.path == "/thrown") throw error(Code::kInternal, "too late for a status");
  });
  for (const char* path : {"/forgotten", "/thrown"}) {
    RawClient client(server.port());
    client.send(get(path));
    EXPECT_EQ(client.read_to_end().find("\r\n0\r\n\r\n"), std::string::npos);
  }
}

TEST(HttpServer, DrainFinishesWhatRuns) {
  Signal began;
  std::optional<HttpReply> running;
  HttpServer server(test_options(), [&](HttpRequest request, HttpReply reply) {
    if (request.path == "/quick") return echo(request, reply);
    reply.start(text_response(200, "begun "));
    running = reply;
    began.give();
  });
  RawClient idle(server.port()), client(server.port());
  idle.send(get("/quick"));
  idle.read_response();
  client.send(get("/slow"));
  ASSERT_TRUE(began.await());
  bool all = false;
  std::thread drainer([&] { all = server.drain(kTestPatienceS); });
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_EQ(error_message([&] { RawClient late(server.port()); }).substr(0, 20), "connecting to 127.0.");
  running->write("done");
  running->finish();
  EXPECT_NE(client.read_to_end().find("done\r\n0\r\n\r\n"), std::string::npos);
  drainer.join();
  EXPECT_TRUE(all);
}

TEST(HttpServer, DrainGivesUpAtItsDeadline) {
  Signal began, cancelled;
  std::optional<HttpReply> running;
  HttpServer server(test_options(), [&](HttpRequest, HttpReply reply) {
    running = reply;
    reply.on_cancelled([&] { cancelled.give(); });
    began.give();
  });
  RawClient client(server.port());
  client.send(kGet);
  ASSERT_TRUE(began.await());
  EXPECT_FALSE(server.drain(0.01));
  EXPECT_TRUE(cancelled.await());
  EXPECT_TRUE(running->cancelled());
  running->send(text_response(200, "to nobody"));  // harmless
}

TEST(HttpServer, RepliesOutliveTheServer) {
  Signal began;
  std::optional<HttpReply> reply;
  {
    HttpServer server(test_options(), [&](HttpRequest, HttpReply given) {
      given.start(text_response(200, ""));
      reply = given;
      began.give();
    });
    RawClient client(server.port());
    client.send(kGet);
    ASSERT_TRUE(began.await());
  }
  EXPECT_TRUE(reply->cancelled());
  EXPECT_FALSE(reply->write("late"));
  bool called = false;
  reply->on_cancelled([&] { called = true; });
  EXPECT_TRUE(called);
  reply->finish();
}

TEST(HttpServer, ATakenPortIsNamedWithTheRemedy) {
  HttpServer first(test_options(), echo);
  HttpServerOptions same = test_options();
  same.port = first.port();
  const std::string message = error_message([&] { HttpServer second(same, echo); });
  EXPECT_NE(message.find(fmt::format("127.0.0.1:{}: the port is taken", first.port())), std::string::npos) << message;
  EXPECT_NE(message.find("choose another port"), std::string::npos) << message;
  HttpServerOptions foreign = test_options();
  foreign.host = "192.0.2.1";
  EXPECT_NE(error_message([&] { HttpServer server(foreign, echo); }).find("does not have that address"),
            std::string::npos);
  EXPECT_EQ(first.url(), fmt::format("http://127.0.0.1:{}", first.port()));
}

}  // namespace
}  // namespace espalier
