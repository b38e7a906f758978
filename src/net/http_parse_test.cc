// Heads, bodies, whole requests and events from bytes that come in any pieces.
#include <gtest/gtest.h>

#include "net/http_request_reader.h"
#include "net/http_write.h"
#include "net/sse.h"
#include "net/test_client.h"

namespace espalier {
namespace {

const std::string kPost =
    "POST /v1/chat%20a?model=x+y&empty&k=%26 HTTP/1.1\r\nHost: localhost:1\r\nX-Twice: a\r\nx-twice:\tb , c \r\n"
    "Content-Length: 5\r\n\r\nhello";

void expect_post(const HttpRequest& request) {
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/chat a");
  ASSERT_EQ(request.query.size(), 3u);
  EXPECT_EQ(request.query[0], std::make_pair(std::string("model"), std::string("x y")));
  EXPECT_EQ(request.query[1], std::make_pair(std::string("empty"), std::string()));
  EXPECT_EQ(request.query[2].second, "&");
  EXPECT_EQ(*request.headers.find("HOST"), "localhost:1");
  EXPECT_EQ(request.headers.count("X-Twice"), 2u);
  EXPECT_TRUE(request.headers.has_token("X-TWICE", "B"));
  EXPECT_TRUE(request.headers.has_token("x-twice", "c"));
  EXPECT_FALSE(request.headers.has_token("x-twice", "d"));
  EXPECT_EQ(request.body, "hello");
  EXPECT_TRUE(request.keep_alive);
}

TEST(HttpRequestReader, EverySplitPointGivesTheSame) {
  for (size_t split = 0; split <= kPost.size(); ++split) {
    HttpRequestReader reader({});
    const std::string_view all = kPost;
    EXPECT_EQ(reader.feed(all.substr(0, split)), split);
    EXPECT_EQ(reader.feed(all.substr(split)), kPost.size() - split);
    ASSERT_EQ(reader.state(), HttpRequestReader::State::kDone) << split;
    expect_post(reader.take());
    EXPECT_EQ(reader.state(), HttpRequestReader::State::kIdle);
  }
}

TEST(HttpRequestReader, StopsBehindARequest) {
  HttpRequestReader reader({});
  const std::string two = kPost + "\r\n" + kPost;
  const size_t used = reader.feed(two);
  EXPECT_EQ(used, kPost.size());
  expect_post(reader.take());
  EXPECT_EQ(reader.feed(std::string_view(two).substr(used)), kPost.size() + 2);
  expect_post(reader.take());
}

TEST(HttpRequestReader, Limits) {
  const size_t head = kPost.size() - 5;
  HttpRequestReader fits({.max_header_bytes = head, .max_body_bytes = 5});
  fits.feed(kPost);
  expect_post(fits.take());
  for (const HttpLimits limits : {HttpLimits{head - 1, 5}, HttpLimits{head, 4}, HttpLimits{10, 5}}) {
    HttpRequestReader reader(limits);
    EXPECT_NE(error_message([&] { reader.feed(kPost); }).find(" bytes"), std::string::npos);
  }
}

TEST(HttpRequestReader, Targets) {
  const auto path_of = [](const std::string& target, const std::string& method = "GET") {
    return parse_request_head(method + " " + target + " HTTP/1.1\r\nHost: x\r\n\r\n").request.path;
  };
  EXPECT_EQ(path_of("http://host:1/a?b"), "/a");
  EXPECT_EQ(path_of("HTTP://host"), "/");
  EXPECT_EQ(path_of("/a#b"), "/a");
  EXPECT_EQ(path_of("/a://b"), "/a://b");
  EXPECT_EQ(path_of("*", "OPTIONS"), "*");
  EXPECT_NE(error_message([&] { path_of("*"); }), "no error");
  EXPECT_NE(error_message([&] { path_of("/%4"); }), "no error");
  EXPECT_EQ(path_of("/%c3%A9"), "/\xc3\xa9");
}

TEST(BodyDecoder, ChunksAtEverySplitPoint) {
  const std::string chunks = "5\r\nhello\r\n1 ; x=\"y\"\r\n \r\n00005\r\nworld\r\n0\r\nA: b\r\nC: d\r\n\r\n";
  for (size_t split = 0; split <= chunks.size(); ++split) {
    BodyDecoder decoder({BodyFraming::Kind::kChunked, 0}, 11);
    std::string body;
    const std::string_view all = chunks;
    EXPECT_EQ(decoder.feed(all.substr(0, split), body), split);
    EXPECT_EQ(decoder.done(), split == chunks.size());
    EXPECT_EQ(decoder.feed(std::string(all.substr(split)) + "next", body), chunks.size() - split);
    EXPECT_TRUE(decoder.done());
    EXPECT_EQ(body, "hello world");
  }
}

TEST(BodyDecoder, RefusesWhatNeverEnds) {
  const auto message_for = [](const std::string& begin, const std::string& again) {
    BodyDecoder decoder({BodyFraming::Kind::kChunked, 0}, 100);
    std::string body;
    return error_message([&] {
      decoder.feed(begin, body);
      for (int i = 0; i < 100'000; ++i) decoder.feed(again, body);
    });
  };
  EXPECT_NE(message_for("1;", "x").find("a line longer"), std::string::npos);
  EXPECT_NE(message_for("0\r\n", "A: b\r\n").find("trailer"), std::string::npos);
  EXPECT_NE(message_for("", "a\r\n0123456789\r\n").find("100 bytes"), std::string::npos);
}

TEST(HttpWrite, Head) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");  // RFC 9110's example
  const std::string head =
      write_response_head({.status = 404, .headers = {{"content-length", "9"}, {"X", "y\nz"}}, .body = "abc"}, {});
  EXPECT_TRUE(head.starts_with("HTTP/1.1 404 Not Found\r\nDate: ")) << head;
  EXPECT_TRUE(head.ends_with(" GMT\r\nX: y z\r\nContent-Length: 3\r\n\r\n")) << head;
}

TEST(Sse, EverySplitPointGivesTheSame) {
  const std::string stream =
      ": comment\n\ndata: one\n\ndata: two\r\ndata:2\r\n\r\nevent: end\rdata\r\rid: 7\n\ndata: last\n\n";
  for (size_t split = 0; split <= stream.size(); ++split) {
    SseReader reader;
    std::vector<SseEvent> events;
    for (const std::string& part : {stream.substr(0, split), stream.substr(split)}) {
      reader.push(part);
      while (const auto event = reader.next()) events.push_back(*event);
    }
    ASSERT_EQ(events.size(), 4u) << split;
    EXPECT_EQ(events[0].data, "one");
    EXPECT_EQ(events[1].data, "two\n2");
    EXPECT_EQ(events[2].data, "");
    EXPECT_EQ(events[2].name, "end");
    EXPECT_EQ(events[3].data, "last");
    EXPECT_EQ(events[3].name, "");
  }
}

TEST(Sse, WhatIsWrittenIsRead) {
  for (const std::string text : {"", "a", "a\nb", "\n", "{\"a\": 1}"}) {
    SseReader reader;
    reader.push(sse_data(text) + kSseHeartbeat);
    const auto event = reader.next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->data, text);
    EXPECT_FALSE(reader.next());
  }
  SseReader small(10);
  EXPECT_NE(error_message([&] { small.push("data: 12345\n\n"); }).find("10 bytes"), std::string::npos);
}

}  // namespace
}  // namespace espalier
