#include "text/token_decoder.h"

#include <algorithm>
#include <optional>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace espalier {
namespace {

bool fuses(const TokenDecoder::Step& step) {
  return std::holds_alternative<DecodeFuse>(step) || std::holds_alternative<DecodeByteLevel>(step);
}

/// Whether the step works on a token that comes in parts.
bool takes_parts(const TokenDecoder::Step& step) {
  return std::holds_alternative<DecodeFuse>(step) || std::holds_alternative<DecodeStrip>(step);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// The byte of "<0xE4>".
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  return high < 0 || low < 0 ? std::nullopt : std::optional(char(high << 4 | low));
}

std::string text_of_bytes(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) text += "\uFFFD";
  return text;
}

std::string spelled_bytes(std::string_view token) {
  const std::optional<std::string> bytes = chars_to_bytes(token);
  return bytes ? *bytes : std::string(token);
}

std::string replaced(std::string_view token, const Pattern& pattern, std::string_view content) {
  return replace_all(TrackedText(token, 0, false), pattern, content).text;
}

std::string without_marks(std::string_view token, const DecodeMetaspace& step, bool first) {
  return replaced(token, Pattern(step.mark), first && step.strip_first ? "" : " ");
}

size_t count_at_start(std::string_view text, std::string_view content, size_t most) {
  size_t count = 0;
  while (count < most && text.substr(count * content.size()).starts_with(content)) ++count;
  return count;
}

size_t count_at_end(std::string_view text, std::string_view content, size_t most) {
  size_t count = 0;
  while (count < most && text.substr(0, text.size() - count * content.size()).ends_with(content)) ++count;
  return count;
}

}  // namespace

struct TokenDecoder::Run {
  const TokenDecoder& decoder;
  State& state;
  std::string out;

  bool fused(size_t at) const { return at >= decoder.fused_; }

  /// Gives a token, or the next part of the only one, to step `at`.
  void push(size_t at, std::string_view token) {
    if (at == decoder.steps_.size()) {
      out += token;
      return;
    }
    std::visit([&](const auto& step) { take(step, at, token); }, decoder.steps_[at]);
    state.steps[at].started = true;
  }

  void take(const DecodeReplace& step, size_t at, std::string_view token) {
    push(at + 1, replaced(token, step.pattern, step.content));
  }

  void take(const DecodeByteFallback& step, size_t at, std::string_view token) {
    if (const std::optional<char> byte = byte_of(token)) {
      state.steps[at].pending += *byte;
      return;
    }
    flush(step, at);
    push(at + 1, token);
  }

  void take(const DecodeFuse&, size_t at, std::string_view token) {
    if (decoder.streams_) return push(at + 1, token);
    state.steps[at].pending += token;
  }

  void take(const DecodeStrip& step, size_t at, std::string_view token) {
    if (fused(at)) return take_part(step, at, token);
    token.remove_prefix(count_at_start(token, step.content, step.start) * step.content.size());
    token.remove_suffix(count_at_end(token, step.content, step.stop) * step.content.size());
    push(at + 1, token);
  }

  /// Holds back what may turn out to stand at the end.
  void take_part(const DecodeStrip& step, size_t at, std::string_view part) {
    State::OfStep& mine = state.steps[at];
    if (mine.count < step.start && mine.pending.empty()) {
      const size_t count = count_at_start(part, step.content, step.start - mine.count);
      part.remove_prefix(count * step.content.size());
      mine.count = part.empty() ? mine.count + count : step.start;
    }
    std::string text = std::move(mine.pending);
    text += part;
    const size_t keep = text.size() - count_at_end(text, step.content, step.stop) * step.content.size();
    mine.pending = text.substr(keep);
    push(at + 1, std::string_view(text).substr(0, keep));
  }

  void take(const DecodeMetaspace& step, size_t at, std::string_view token) {
    push(at + 1, without_marks(token, step, !state.steps[at].started));
  }

  void take(const DecodeByteLevel&, size_t at, std::string_view token) {
    state.steps[at].pending += spelled_bytes(token);
    if (decoder.streams_) push(at + 1, take_characters(state.steps[at].pending));
  }

  void take(const DecodeJoin&, size_t at, std::string_view token) {
    if (state.steps[at].started) push(at + 1, " ");
    push(at + 1, token);
  }

  /// Passes on what a step holds, at the end of the tokens.
  void flush(const DecodeByteFallback&, size_t at) {
    if (state.steps[at].pending.empty()) return;
    push(at + 1, text_of_bytes(state.steps[at].pending));
    state.steps[at].pending.clear();
  }
  void flush(const DecodeFuse&, size_t at) {
    if (!decoder.streams_) push(at + 1, state.steps[at].pending);
  }
  void flush(const DecodeByteLevel&, size_t at) { push(at + 1, repair_utf8(state.steps[at].pending).text); }
  template <class OtherStep>
  void flush(const OtherStep&, size_t) {}
};

TokenDecoder::TokenDecoder(std::vector<Step> steps) : steps_(std::move(steps)), fused_(steps_.size()) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (i > fused_ && !takes_parts(steps_[i])) streams_ = false;
    if (i < fused_ && fuses(steps_[i])) fused_ = i;
  }
}

std::string TokenDecoder::push(State& state, std::string_view token) const {
  state.steps.resize(steps_.size());
  Run run{*this, state, {}};
  run.push(0, token);
  return std::move(run.out);
}

std::string TokenDecoder::finish(State& state) const {
  state.steps.resize(steps_.size());
  Run run{*this, state, {}};
  for (size_t i = 0; i < steps_.size(); ++i)
    std::visit([&](const auto& step) { run.flush(step, i); }, steps_[i]);
  state.steps.clear();
  return std::move(run.out);
}

std::string TokenDecoder::token_bytes(std::string_view token) const {
  std::string bytes(token);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (const auto* replace = std::get_if<DecodeReplace>(&steps_[i])) {
      bytes = replaced(bytes, replace->pattern, replace->content);
    } else if (const auto* metaspace = std::get_if<DecodeMetaspace>(&steps_[i])) {
      bytes = without_marks(bytes, *metaspace, false);
    } else if (std::holds_alternative<DecodeByteFallback>(steps_[i])) {
      if (const std::optional<char> byte = byte_of(bytes)) return std::string(1, *byte);
    } else if (std::holds_alternative<DecodeByteLevel>(steps_[i])) {
      return spelled_bytes(bytes);
    } else if (const auto* strip = std::get_if<DecodeStrip>(&steps_[i]); strip && i < fused_) {
      bytes.erase(0, count_at_start(bytes, strip->content, strip->start) * strip->content.size());
      bytes.resize(bytes.size() - count_at_end(bytes, strip->content, strip->stop) * strip->content.size());
    }
  }
  return bytes;
}

}  // namespace espalier
