#include "text/pre_tokenizer.h"

#include "base/check.h"
#include "text/utf8.h"

namespace espalier {
namespace {

uint32_t char_at(std::string_view text, size_t at, int& length) {
  return utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + at, length);
}

// cut(): the pieces of one piece.

void cut(const SplitPattern* pattern, std::string_view text, Span span, std::vector<Span>& pieces) {
  for_each_piece(text.substr(span.begin, span.end - span.begin), pattern->piece_end, char_classes(),
                 [&](size_t begin, size_t end) {
                   pieces.push_back({uint32_t(span.begin + begin), uint32_t(span.begin + end)});
                 });
}

void cut(const SplitStep& step, std::string_view text, Span span, std::vector<Span>& pieces) {
  std::vector<Span> matches;
  step.pattern.find(text, span, matches);
  split_at(span, matches, step.behavior, step.invert, pieces);
}

void cut(const CharRunsStep& step, std::string_view text, Span span, std::vector<Span>& pieces) {
  int length, before = CharRunsStep::kRemoved;
  for (uint32_t at = span.begin; at < span.end; at += uint32_t(length)) {
    const int char_class = step.class_of(char_at(text, at, length));
    const uint32_t end = at + uint32_t(length);
    if (char_class == before && char_class != CharRunsStep::kAlone && char_class != CharRunsStep::kRemoved) {
      pieces.back().end = end;
    } else if (char_class != CharRunsStep::kRemoved) {
      pieces.push_back({at, end});
    }
    before = char_class;
  }
}

void cut(const MetaspaceStep& step, std::string_view text, Span span, std::vector<Span>& pieces) {
  if (!step.split) return pieces.push_back(span);
  cut(SplitStep{Pattern(step.mark), SplitBehavior::kMergedWithNext, false}, text, span, pieces);
}

void cut(const PrefixSpaceStep&, std::string_view, Span span, std::vector<Span>& pieces) { pieces.push_back(span); }

// rewrite(): the text with each of its pieces changed; `pieces` follow it. What lies between pieces is dropped.

void rewrite(const MetaspaceStep& step, TrackedText& text, std::vector<Span>& pieces) {
  TextEdit edit(text);
  for (Span& piece : pieces) {
    const std::string_view part = std::string_view(text.text).substr(0, piece.end);
    const auto begin = uint32_t(edit.size());
    const bool marked = part.substr(piece.begin).starts_with(step.mark) || part[piece.begin] == ' ';
    const bool first = step.scheme == MetaspaceStep::kFirst && text.origin[piece.begin].begin == 0;
    if (!marked && (first || step.scheme == MetaspaceStep::kAlways)) {
      int length;
      char_at(part, piece.begin, length);
      edit.put(step.mark, piece.begin, piece.begin + size_t(length));
    }
    for (size_t at = piece.begin; at < piece.end;) {
      const size_t space = std::min(part.find(' ', at), part.size());
      edit.keep(at, space);
      if (space < piece.end) edit.put(step.mark, space, space + 1);
      at = space + 1;
    }
    piece = {begin, uint32_t(edit.size())};
  }
  text = edit.take();
}

void rewrite(const PrefixSpaceStep&, TrackedText& text, std::vector<Span>& pieces) {
  TextEdit edit(text);
  for (Span& piece : pieces) {
    const auto begin = uint32_t(edit.size());
    int length;
    if (char_at(text.text, piece.begin, length) != ' ') edit.put(" ", piece.begin, piece.begin + size_t(length));
    edit.keep(piece.begin, piece.end);
    piece = {begin, uint32_t(edit.size())};
  }
  text = edit.take();
}

template <class OtherStep>
void rewrite(const OtherStep&, TrackedText&, std::vector<Span>&) {}

}  // namespace

PreTokenizer::PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {
  if (steps_.size() == 1 && std::holds_alternative<const SplitPattern*>(steps_[0]))
    pattern_ = std::get<const SplitPattern*>(steps_[0]);
  for (const Step& step : steps_) {
    const auto* const metaspace = std::get_if<MetaspaceStep>(&step);
    rewrites_ |= metaspace || std::holds_alternative<PrefixSpaceStep>(step);
    needs_origin_ |= metaspace && metaspace->scheme == MetaspaceStep::kFirst;
  }
}

std::vector<Span> PreTokenizer::split_by_steps(std::string_view text) const {
  std::vector<Span> pieces, before;
  if (!text.empty()) pieces.push_back({0, uint32_t(text.size())});
  for (const Step& step : steps_) {
    before.swap(pieces);
    pieces.clear();
    for (const Span& span : before) std::visit([&](const auto& s) { cut(s, text, span, pieces); }, step);
  }
  return pieces;
}

std::vector<Span> PreTokenizer::apply(TrackedText& text) const {
  ESP_CHECK(text.tracked || !needs_origin_, "a text of {} bytes without its origin", text.text.size());
  std::vector<Span> pieces, before;
  if (!text.text.empty()) pieces.push_back({0, uint32_t(text.text.size())});
  for (const Step& step : steps_) {
    std::visit([&](const auto& s) { rewrite(s, text, pieces); }, step);
    before.swap(pieces);
    pieces.clear();
    for (const Span& span : before) std::visit([&](const auto& s) { cut(s, text.text, span, pieces); }, step);
  }
  return pieces;
}

}  // namespace espalier
