// What a server does with clients that are slow, broken, hostile or gone.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "net/http_server.h"
#include "net/test_client.h"

namespace espalier {
namespace {

constexpr const char* kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr double kSoonS = 0.1;

HttpServerOptions test_options() { return {.port = 0}; }

void answer(HttpRequest, HttpReply reply) { reply.send(text_response(200, "fine")); }

void expect_alive(HttpServer& server) {
  RawClient client(server.port());
  client.send(kGet);
  EXPECT_TRUE(client.read_response().ends_with("fine"));
}

/// What the server says to bytes, until it closes.
std::string said_to(HttpServer& server, const std::string& bytes) {
  RawClient client(server.port());
  client.send(bytes);
  return client.read_to_end();
}

TEST(HttpServerAbuse, SlowLoris) {
  HttpServerOptions options = test_options();
  options.header_s = options.body_s = kSoonS;
  HttpServer server(options, answer);
  for (const std::string begin : {"GET / HTTP/1.1\r\nHost: x\r\nX-", "POST / HTTP/1.1\r\nHost: x\r\n"
                                  "Content-Length: 100000\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\nFFFF\r\n"}) {
    RawClient client(server.port());
    client.send(begin);
    // A byte every now and then does not help: the deadline is of the whole.
    std::thread trickle([&] {
      while (client.send("a")) ::poll(nullptr, 0, 10);
    });
    EXPECT_TRUE(client.read_to_end().starts_with("HTTP/1.1 408 ")) << begin;
    client.close_sending_half();
    trickle.join();
  }
  EXPECT_EQ(server.stats().timed_out, 3);
  expect_alive(server);
}

TEST(HttpServerAbuse, SilentConnectionsAreClosed) {
  HttpServerOptions options = test_options();
  options.header_s = options.idle_s = kSoonS;
  HttpServer server(options, answer);
  EXPECT_EQ(said_to(server, ""), "");
  RawClient client(server.port());
  client.send(kGet);
  EXPECT_TRUE(client.read_response().ends_with("fine"));
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(HttpServerAbuse, TooLarge) {
  HttpServerOptions options = test_options();
  options.limits = {.max_header_bytes = 1000, .max_body_bytes = 1000};
  HttpServer server(options, answer);
  const std::string many(2000, 'a'), post = "POST / HTTP/1.1\r\nHost: x\r\n";
  EXPECT_TRUE(said_to(server, "GET /" + many + " HTTP/1.1\r\n").starts_with("HTTP/1.1 414 "));
  EXPECT_TRUE(said_to(server, post + "X: " + many + "\r\n\r\n").starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(said_to(server, post + "Content-Length: 1001\r\n\r\n" + many).starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(said_to(server, post + "Content-Length: 99999999999999999999\r\n\r\n").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(said_to(server, post + "Transfer-Encoding: chunked\r\n\r\n3E9\r\n").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(said_to(server, post + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n")
                  .starts_with("HTTP/1.1 413 "));
  expect_alive(server);
}

TEST(HttpServerAbuse, AHugeBodyIsRefusedWhileItComes) {
  HttpServer server(test_options(), answer);
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
  const std::string megabyte(1 << 20, 'x');
  // The answer arrives although the client does not look at it before it has sent a good part.
  for (int i = 0; i < 20 && client.send(megabyte); ++i) {
  }
  client.close_sending_half();
  EXPECT_TRUE(client.read_to_end().starts_with("HTTP/1.1 413 "));
  expect_alive(server);
}

TEST(HttpServerAbuse, Malformed) {
  HttpServer server(test_options(), answer);
  const std::string host = "Host: x\r\n";
  for (const std::string& request : std::vector<std::string>{
           "GET\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\n", "GET / HTTP/1.1\r\n" + host + host + "\r\n",
           "GET / FTP/1.1\r\n\r\n", "GET / / HTTP/1.1\r\n" + host + "\r\n", "GET x HTTP/1.1\r\n" + host + "\r\n",
           "GET /%zz HTTP/1.1\r\n" + host + "\r\n", "GET /%00 HTTP/1.1\r\n" + host + "\r\n",
           "GET / HTTP/1.1\r\n" + host + " folded\r\n\r\n", "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
           "GET / HTTP/1.1\r\n" + host + "no colon\r\n\r\n", "GET / HTTP/1.1\r\n" + host + "X: a\001b\r\n\r\n",
           "POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n",
           "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
           "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
           "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "\x16\x03\x01\x02\x00",
           "\xff\xfe\xfd", std::string("\0\0\0", 3), "{\"prompt\": 1}"})
    EXPECT_TRUE(said_to(server, request).starts_with("HTTP/1.1 400 ")) << request;
  EXPECT_TRUE(said_to(server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").starts_with("HTTP/1.1 505 "));
  EXPECT_TRUE(said_to(server, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n")
                  .starts_with("HTTP/1.1 501 "));
  EXPECT_TRUE(said_to(server, "POST / HTTP/1.1\r\n" + host + "Expect: tea\r\n\r\n").starts_with("HTTP/1.1 417 "));
  EXPECT_EQ(server.stats().requests, 0);
  expect_alive(server);
}

TEST(HttpServerAbuse, RandomBytes) {
  HttpServer server(test_options(), answer);
  const std::string seed = "POST /a?b=c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  for (uint64_t round = 0; round < 200; ++round) {
    const Rng rng(7, Purpose::kTest, round);
    std::string bytes = seed + seed;
    for (uint64_t i = 0; i < 4; ++i) bytes[rng.below(2 * i, bytes.size())] = char(rng.below(2 * i + 1, 256));
    bytes.resize(rng.below(100, bytes.size() + 1));
    RawClient client(server.port());
    client.send(bytes);
    client.close_sending_half();
    client.read_to_end();
    ASSERT_FALSE(client.was_reset()) << round;
  }
  expect_alive(server);
}

TEST(HttpServerAbuse, OneTooMany) {
  HttpServerOptions options = test_options();
  options.max_connections = 2;
  HttpServer server(options, answer);
  RawClient first(server.port()), second(server.port());
  for (RawClient* client : {&first, &second}) {
    client->send(kGet);
    EXPECT_TRUE(client->read_response().ends_with("fine"));
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(said_to(server, kGet).starts_with("HTTP/1.1 503 "));
  EXPECT_EQ(server.stats().refused, 5);
  first.close();
  EXPECT_TRUE(eventually([&] {
    RawClient next(server.port());
    next.send(kGet);
    return next.read_response().ends_with("fine");
  }));
}

/// A server whose replies wait for the test, and who says when one is cancelled.
struct Waiting {
  explicit Waiting(HttpServerOptions options = test_options(), bool streams = false)
      : server(options, [this, streams](HttpRequest, HttpReply given) {
          if (streams) given.start(text_response(200, "begun\n"), ": \n\n");
          given.on_cancelled([this] { cancelled.give(); });
          reply = given;
          began.give();
        }) {}
  Signal began, cancelled;
  std::optional<HttpReply> reply;
  HttpServer server;
};

TEST(HttpServerAbuse, AClientThatVanishesWhileItWaitsIsNoticed) {
  for (const bool streams : {false, true}) {
    Waiting waiting(test_options(), streams);
    RawClient client(waiting.server.port());
    client.send(kGet);
    ASSERT_TRUE(waiting.began.await());
    EXPECT_FALSE(waiting.reply->cancelled());
    client.close();
    // Nothing is written by the handler; the heartbeat of 15 s is not what brings it out.
    EXPECT_TRUE(waiting.cancelled.await());
    EXPECT_TRUE(waiting.reply->cancelled());
    EXPECT_TRUE(eventually([&] { return waiting.server.stats().connections == 0; }));
    EXPECT_EQ(waiting.server.stats().vanished, 1);
  }
}

TEST(HttpServerAbuse, AClientThatClosedOnlyItsSendingHalfIsAnswered) {
  for (const bool streams : {false, true}) {
    Waiting waiting(test_options(), streams);
    RawClient client(waiting.server.port());
    client.send(kGet);
    client.close_sending_half();
    ASSERT_TRUE(waiting.began.await());
    if (streams) {
      client.read_until("begun\n\r\n");
      EXPECT_EQ(client.read_until("\n\n\r\n"), "4\r\n: \n\n\r\n");  // it was asked whether it is there
      EXPECT_TRUE(waiting.reply->write("fine"));
      waiting.reply->finish();
    } else {
      EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
      waiting.reply->send(text_response(200, "fine"));
    }
    EXPECT_NE(client.read_to_end().find("fine"), std::string::npos);
    EXPECT_FALSE(waiting.reply->cancelled());
  }
}

TEST(HttpServerAbuse, AClientThatVanishesMidStreamIsNoticed) {
  Waiting waiting(test_options(), true);
  RawClient client(waiting.server.port());
  client.send(kGet);
  ASSERT_TRUE(waiting.began.await());
  client.read_until("begun");
  EXPECT_TRUE(waiting.reply->write("more"));
  client.close();
  EXPECT_TRUE(eventually([&] { return !waiting.reply->write("still there?"); }));
  EXPECT_TRUE(waiting.cancelled.await());
}

TEST(HttpServerAbuse, AReaderThatDoesNotReadFillsItsBufferAndIsDropped) {
  HttpServerOptions options = test_options();
  options.max_unsent_bytes = 100'000;
  Waiting waiting(options, true);
  RawClient client(waiting.server.port());
  client.send(kGet);
  ASSERT_TRUE(waiting.began.await());
  const std::string piece(1000, 'x');
  // The system's own buffers take some megabytes first.
  EXPECT_TRUE(eventually([&] {
    EXPECT_LE(waiting.reply->unsent_bytes(), 101'000u);
    return !waiting.reply->write(piece);
  }));
  EXPECT_TRUE(waiting.cancelled.await());
  EXPECT_EQ(waiting.server.stats().too_slow, 1);
  EXPECT_EQ(waiting.server.stats().vanished, 0);
  client.read_to_end();
  EXPECT_TRUE(client.was_reset());
}

TEST(HttpServerAbuse, AReaderThatDoesNotReadIsDroppedAtItsDeadline) {
  HttpServerOptions options = test_options();
  options.stall_s = kSoonS;
  HttpServer server(options, [](HttpRequest, HttpReply reply) {
    reply.send(text_response(200, std::string(size_t{64} << 20, 'x')));
  });
  RawClient client(server.port());
  client.send(kGet);
  EXPECT_TRUE(eventually([&] { return server.stats().too_slow == 1 && server.stats().connections == 0; }));
}

// A scale of 1 (ESP_SOAK_SCALE) is ten minutes or so: clients of every kind, 200 at once, and a server that is none the
// worse for it.
TEST(HttpServerAbuse, SoakOfAllKinds) {
  const char* scale = std::getenv("ESP_SOAK_SCALE");
  const int rounds = std::max(3, int(2000 * (scale ? std::atof(scale) : 0)));
  std::atomic<int> running{0};
  std::vector<HttpReply> open;  // of the server's thread
  HttpServer server(test_options(), [&](HttpRequest request, HttpReply reply) {
    if (request.path == "/now" || request.path == "/") return reply.send(text_response(200, "fine"));
    reply.start(text_response(200, ""), ": \n\n");
    for (int i = 0; i < 5; ++i) reply.write("piece");
    ++running;
    reply.on_cancelled([&] { --running; });
    if (request.path == "/ends") {
      reply.finish();
      --running;
    } else {
      std::erase_if(open, [](const HttpReply& r) { return r.cancelled(); });
      open.push_back(reply);
    }
  });
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 200; ++i) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      const char* paths[] = {"/now", "/ends", "/stays"};
      clients.back()->send(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n{}", paths[i % 3], i % 7 ? "\r\n" : ""));
    }
    for (int i = 0; i < 200; i += 2) {
      const bool waits_for_its_answer = i % 7 && i % 3 < 2;
      EXPECT_TRUE(!waits_for_its_answer || clients[size_t(i)]->read_until("\r\n").ends_with("200 OK\r\n"));
    }
  }
  EXPECT_TRUE(eventually([&] { return running == 0 && server.stats().connections == 0; }));
  expect_alive(server);
}

}  // namespace
}  // namespace espalier
