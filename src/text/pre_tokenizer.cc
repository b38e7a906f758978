#include "text/pre_tokenizer.h"

namespace espalier {

const SplitPattern* PreTokenizer::pattern() const {
  if (steps_.size() != 1) return nullptr;
  const auto* const pattern = std::get_if<const SplitPattern*>(&steps_[0]);
  return pattern ? *pattern : nullptr;
}

std::vector<Span> PreTokenizer::split_by_steps(std::string_view text) const {
  std::vector<Span> pieces, before;
  if (!text.empty()) pieces.push_back({0, uint32_t(text.size())});
  for (const Step& step : steps_) {
    before.swap(pieces);
    pieces.clear();
    for (const Span& span : before) {
      if (const auto* regex = std::get_if<RegexSplitter>(&step)) {
        regex->split(text, span, pieces);
      } else {
        for_each_piece(text.substr(span.begin, span.end - span.begin),
                       std::get<const SplitPattern*>(step)->piece_end, char_classes(), [&](size_t begin, size_t end) {
                         pieces.push_back({uint32_t(span.begin + begin), uint32_t(span.begin + end)});
                       });
      }
    }
  }
  return pieces;
}

}  // namespace espalier
