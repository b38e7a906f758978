// The readers of HTTP: any bytes give requests, a response, events, or an Error, and the same whether they come at once
// or byte by byte.
#include <cstdlib>

#include "base/error.h"
#include "fuzz.h"
#include "net/http_head.h"
#include "net/http_request_reader.h"
#include "net/http_write.h"
#include "net/sse.h"

namespace {

using espalier::HttpRequestReader;

constexpr espalier::HttpLimits kLimits = {.max_header_bytes = 4096, .max_body_bytes = 4096};

void require(bool holds) {
  if (!holds) std::abort();
}

/// All requests in `bytes`, given in pieces of `step`, and how it ended, as one text.
std::string requests_in(std::string_view bytes, size_t step) {
  HttpRequestReader reader(kLimits);
  std::string told;
  try {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, step);
      const size_t used = reader.feed(piece);
      require(used <= piece.size());
      require(used == piece.size() || reader.state() == HttpRequestReader::State::kDone);
      bytes.remove_prefix(used);
      if (reader.state() != HttpRequestReader::State::kDone) continue;
      const espalier::HttpRequest request = reader.take();
      require(request.body.size() <= kLimits.max_body_bytes);
      told += request.method + " " + request.path + "\n" + request.body + "\n";
      for (const auto& [name, value] : request.query) told += name + "=" + value + "\n";
      for (const auto& field : request.headers) told += field.name + ":" + field.value + "\n";
    }
  } catch (const espalier::HttpError& e) {  // the edge: an Error is a right answer to bad input
    require(e.status() >= 400 && e.status() < 600);
    told += std::to_string(e.status());
  }
  return told;
}

std::string events_in(std::string_view bytes, size_t step) {
  espalier::SseReader reader;
  std::string told;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    reader.push(bytes.substr(0, step));
    while (const auto event = reader.next()) told += event->name + "|" + event->data + "\n";
  }
  return told;
}

void read_response(std::string_view bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return;
  try {
    const espalier::ResponseHead head = espalier::parse_response_head(bytes.substr(0, end + 4));
    // What was understood can be said again: no value may begin another field.
    const std::string again = espalier::write_response_head(head.response, {});
    require(espalier::parse_response_head(again).response.status == head.response.status);
    espalier::BodyDecoder body(head.framing, 4096);
    std::string text;
    body.feed(bytes.substr(end + 4), text);
    require(text.size() <= 4096);
  } catch (const espalier::HttpError&) {  // the edge: an Error is a right answer to bad input
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  require(requests_in(bytes, bytes.size() + 1) == requests_in(bytes, 1));
  require(requests_in(bytes, 7) == requests_in(bytes, 1));
  require(events_in(bytes, bytes.size() + 1) == events_in(bytes, 1));
  read_response(bytes);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"GET /v1/models?a=b&c HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, x\r\n\r\nGET / HTTP/1.0\r\n\r\n",
          "POST /v1/%7Ea HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody",
          "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\nbody\r\n0\r\nT: r\r\n\r\n",
          "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n\r\n\nGET http://h/p HTTP/1.1\r\nHost: x\r\n\r\n",
          "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
          "HTTP/1.0 404 Not Found\r\nContent-Length: 3\r\n\r\nabc",
          "data: {\"a\": 1}\n\n: x\nevent: e\r\ndata: a\r\ndata: b\r\n\r\ndata\r\r"};
}
