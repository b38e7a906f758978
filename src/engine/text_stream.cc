#include "engine/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace espalier {
namespace {

// The length of the longest end of `text` that is a beginning of `stop`, but not all of it.
size_t overlap(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n)
    if (text.ends_with(stop.substr(0, n))) return n;
  return 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop)
    : decoder_(tokenizer, true), stop_(std::move(stop)) {
  for (const std::string& s : stop_)
    if (s.empty()) throw Error(Code::kUsage, "generating: a stop string is empty; leave it out");
}

std::string TextStream::push(int32_t id) {
  if (stopped_) return "";
  held_ += decoder_.push(id);
  return release();
}

std::string TextStream::finish() {
  if (stopped_) return "";
  held_ += decoder_.finish();
  const std::string text = release();
  return stopped_ ? text : text + std::exchange(held_, "");
}

// What is held starts with the beginning of a stop string, or is empty; so a match can only lie in it.
std::string TextStream::release() {
  size_t match = std::string::npos, keep = 0;
  for (const std::string& s : stop_) {
    match = std::min(match, held_.find(s));
    keep = std::max(keep, overlap(held_, s));
  }
  stopped_ = match != std::string::npos;
  std::string free = held_.substr(0, stopped_ ? match : held_.size() - keep);
  held_.erase(0, stopped_ ? held_.size() : free.size());
  return free;
}

}  // namespace espalier
