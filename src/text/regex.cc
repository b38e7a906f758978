#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"

namespace espalier {

struct RegexSplitter::Compiled {
  std::string pattern;
  pcre2_code* code = nullptr;
  ~Compiled() { pcre2_code_free(code); }
};

namespace {

std::string reason(int status) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(status, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

struct MatchData {
  explicit MatchData(const pcre2_code* code) : data(pcre2_match_data_create_from_pattern(code, nullptr)) {}
  ~MatchData() { pcre2_match_data_free(data); }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  pcre2_match_data* data;
};

}  // namespace

RegexSplitter::RegexSplitter(const std::string& pattern, const std::string& what) {
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = pattern;
  int status = 0;
  PCRE2_SIZE offset = 0;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &status, &offset, nullptr);
  if (!compiled->code)
    throw error(Code::kUnsupported, "reading {}: the split pattern \"{}\" does not compile at byte {}: {}", what,
                pattern, offset, reason(status));
  // Without JIT (some hardened kernels forbid writable code) the interpreter gives the same matches, slower.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  compiled_ = std::move(compiled);
}

void RegexSplitter::find(std::string_view text, Span span, std::vector<Span>& matches) const {
  const MatchData match(compiled_->code);
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data()) + span.begin;
  const size_t size = span.end - span.begin;
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(match.data);
  for (size_t from = 0; from < size;) {
    const auto run = [&](uint32_t more) {
      return pcre2_match(compiled_->code, subject, size, from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | more, match.data,
                         nullptr);
    };
    int status = run(0);
    // The interpreter keeps its stack on the heap, so it can go where compiled code cannot.
    if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = run(PCRE2_NO_JIT);
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status < 0)
      throw error(Code::kUnsupported, "splitting text with the pattern \"{}\": {}", compiled_->pattern, reason(status));
    // \K in a lookaround can move a match's start before the last one or behind its own end.
    if (found[1] <= from || found[0] < from || found[0] >= found[1]) break;
    matches.push_back({uint32_t(span.begin + found[0]), uint32_t(span.begin + found[1])});
    from = found[1];
  }
}

void RegexSplitter::split(std::string_view text, Span span, std::vector<Span>& pieces) const {
  std::vector<Span> matches;
  find(text, span, matches);
  uint32_t done = span.begin;
  for (const Span& match : matches) {
    if (done < match.begin) pieces.push_back({done, match.begin});
    pieces.push_back(match);
    done = match.end;
  }
  if (done < span.end) pieces.push_back({done, span.end});
}

}  // namespace espalier
