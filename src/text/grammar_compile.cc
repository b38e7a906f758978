// From GrammarSource to Grammar: rules become automata (Thompson 1968, built from the back, each part with the node
// that follows it), then the automata are held against what a parser without backtracking needs.
#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "text/grammar.h"
#include "text/utf8_ranges.h"

namespace espalier {
namespace {

constexpr size_t kMaxNodes = size_t{1} << 19;
constexpr int64_t kMaxSteps = int64_t{1} << 22;  // of copying parts; repetitions of nothing make no nodes
constexpr int kMaxCopyDepth = 16;                // rules copied into each other
constexpr int64_t kMaxCopy = 160;               // nodes of a rule that is copied

using Kind = GrammarSource::Kind;
using Node = Grammar::Node;

}  // namespace

class GrammarCompiler {
 public:
  GrammarCompiler(const GrammarSource& source, GrammarSource::Rule root, const std::string& what)
      : source_(source), what_(what), grammar_(std::make_shared<Grammar>()), copy_size_(source.rule_count(), kUnknown) {
    grammar_->root_ = uint32_t(root);
  }

  std::shared_ptr<const Grammar> compile();

 private:
  static constexpr int64_t kUnknown = -1, kNever = -2, kBusy = -3;

  uint32_t add(const Node& node);
  uint32_t emit(GrammarSource::Part part, uint32_t next);
  uint32_t emit_literal(const std::string& bytes, uint32_t next);
  uint32_t emit_character(const std::vector<CodeRange>& ranges, uint32_t next);
  uint32_t emit_choice(const std::vector<GrammarSource::Part>& parts, uint32_t next);
  uint32_t emit_repeat(const GrammarSource::Node& node, uint32_t next);
  GrammarSource::Part body(GrammarSource::Rule rule) const;
  bool copied(GrammarSource::Rule rule, int depth);
  int64_t size_if_copied(GrammarSource::Part part, int depth);
  std::vector<bool> reaching_end(bool reads_bytes) const;
  void require_productive() const;
  void rank_rules();
  std::vector<std::vector<uint32_t>> left_calls() const;
  void classify_bytes();

  const GrammarSource& source_;
  const std::string& what_;
  std::shared_ptr<Grammar> grammar_;
  std::vector<int64_t> copy_size_;
  int64_t steps_ = 0;
};

std::shared_ptr<const Grammar> compile_grammar(const GrammarSource& source, GrammarSource::Rule root,
                                               const std::string& what) {
  return GrammarCompiler(source, root, what).compile();
}

// Only rules that are called get a number of their own: the root, then each as it is first met.
std::shared_ptr<const Grammar> GrammarCompiler::compile() {
  Grammar& g = *grammar_;
  g.nodes_.push_back({Grammar::Kind::kEnd});
  std::vector<bool> met(source_.rule_count(), false);
  std::vector<GrammarSource::Rule> open = {GrammarSource::Rule(g.root_)};
  g.starts_.assign(source_.rule_count(), Grammar::kEnd);
  met[g.root_] = true;
  while (!open.empty()) {
    const GrammarSource::Rule rule = open.back();
    open.pop_back();
    const size_t before = g.nodes_.size();
    g.starts_[size_t(rule)] = emit(body(rule), Grammar::kEnd);
    for (size_t n = before; n < g.nodes_.size(); ++n) {
      if (g.nodes_[n].kind != Grammar::Kind::kCall || met[g.nodes_[n].other]) continue;
      met[g.nodes_[n].other] = true;
      open.push_back(GrammarSource::Rule(g.nodes_[n].other));
    }
  }
  const std::vector<bool> ends = reaching_end(false);
  for (const uint32_t start : g.starts_) g.nullable_.push_back(ends[start]);
  require_productive();
  rank_rules();
  classify_bytes();
  return grammar_;
}

uint32_t GrammarCompiler::add(const Node& node) {
  if (grammar_->nodes_.size() >= kMaxNodes)
    throw error(Code::kUnsupported, "{}: the grammar has more than {} nodes with its repetitions written out; make "
                "its repetitions shorter, or let them have no end", what_, kMaxNodes);
  grammar_->nodes_.push_back(node);
  return uint32_t(grammar_->nodes_.size() - 1);
}

GrammarSource::Part GrammarCompiler::body(GrammarSource::Rule rule) const {
  if (const auto part = source_.body(rule)) return *part;
  throw error(Code::kBadData, "{}: the rule '{}' is used and not defined", what_, source_.name(rule));
}

uint32_t GrammarCompiler::emit(GrammarSource::Part part, uint32_t next) {
  if (++steps_ > kMaxSteps)
    throw error(Code::kUnsupported, "{}: the grammar's repetitions have more than {} parts when they are written out; "
                "make them shorter, or let them have no end", what_, kMaxSteps);
  const GrammarSource::Node& node = source_.node(part);
  switch (node.kind) {
    case Kind::kLiteral:
      return emit_literal(node.bytes, next);
    case Kind::kCharacter:
      return emit_character(node.ranges, next);
    case Kind::kSequence:
      for (size_t i = node.parts.size(); i-- > 0;) next = emit(node.parts[i], next);
      return next;
    case Kind::kChoice:
      return emit_choice(node.parts, next);
    case Kind::kRepeat:
      return emit_repeat(node, next);
    case Kind::kRule:
      if (copied(node.rule, 0)) return emit(body(node.rule), next);
      return add({Grammar::Kind::kCall, 0, 0, next, uint32_t(node.rule)});
  }
  return next;
}

uint32_t GrammarCompiler::emit_literal(const std::string& bytes, uint32_t next) {
  for (size_t i = bytes.size(); i-- > 0;)
    next = add({Grammar::Kind::kByte, uint8_t(bytes[i]), uint8_t(bytes[i]), next});
  return next;
}

uint32_t GrammarCompiler::emit_choice(const std::vector<GrammarSource::Part>& parts, uint32_t next) {
  if (parts.empty()) return add({Grammar::Kind::kByte, 1, 0, next});  // no byte is in this range
  uint32_t all = emit(parts.back(), next);
  for (size_t i = parts.size() - 1; i-- > 0;) {
    const uint32_t one = emit(parts[i], next);
    all = add({Grammar::Kind::kSplit, 0, 0, one, all});
  }
  return all;
}

// Sequences of bytes that end alike share their ends.
uint32_t GrammarCompiler::emit_character(const std::vector<CodeRange>& ranges, uint32_t next) {
  std::map<std::tuple<uint8_t, uint8_t, uint32_t>, uint32_t> known;
  std::vector<uint32_t> firsts;
  for (const CodeRange& range : ranges)
    for (const ByteRanges& r : utf8_ranges(range)) {
      uint32_t at = next;
      for (size_t i = size_t(r.length); i-- > 0;) {
        uint32_t& node = known[{r.low[i], r.high[i], at}];
        if (node == 0) node = add({Grammar::Kind::kByte, r.low[i], r.high[i], at});
        at = node;
      }
      firsts.push_back(at);
    }
  if (firsts.empty()) return emit_choice({}, next);
  uint32_t all = firsts.back();
  for (size_t i = firsts.size() - 1; i-- > 0;) all = add({Grammar::Kind::kSplit, 0, 0, firsts[i], all});
  return all;
}

uint32_t GrammarCompiler::emit_repeat(const GrammarSource::Node& node, uint32_t next) {
  const GrammarSource::Part part = node.parts[0];
  if (node.max < 0) {
    const uint32_t loop = add({Grammar::Kind::kSplit, 0, 0, Grammar::kEnd, next});
    const uint32_t once = emit(part, loop);
    grammar_->nodes_[loop].next = once;
    next = loop;
  } else {
    const uint32_t done = next;
    for (int64_t i = node.min; i < node.max; ++i) {
      const uint32_t once = emit(part, next);
      next = add({Grammar::Kind::kSplit, 0, 0, once, done});
    }
  }
  for (int64_t i = 0; i < node.min; ++i) next = emit(part, next);
  return next;
}

bool GrammarCompiler::copied(GrammarSource::Rule rule, int depth) {
  int64_t& size = copy_size_[size_t(rule)];
  if (size == kUnknown) {
    if (depth > kMaxCopyDepth) return false;  // not remembered: from elsewhere it may be less deep
    size = kBusy;
    const int64_t found = size_if_copied(body(rule), depth);
    copy_size_[size_t(rule)] = found > kMaxCopy ? kNever : found;
    return copy_size_[size_t(rule)] >= 0;
  }
  return size >= 0;  // a rule that is being looked at is recursive
}

/// Nodes of a part without loops and calls; more than kMaxCopy where there are some.
int64_t GrammarCompiler::size_if_copied(GrammarSource::Part part, int depth) {
  const GrammarSource::Node& node = source_.node(part);
  constexpr int64_t kTooMany = kMaxCopy + 1;
  int64_t size = 0;
  switch (node.kind) {
    case Kind::kLiteral:
      return int64_t(node.bytes.size());
    case Kind::kCharacter:
      for (const CodeRange& r : node.ranges) size += r.last < 0x80 ? 2 : 10;
      return size;
    case Kind::kSequence:
    case Kind::kChoice:
      for (const GrammarSource::Part p : node.parts)
        if ((size += 1 + size_if_copied(p, depth)) > kMaxCopy) break;
      return size;
    case Kind::kRepeat:
      if (node.max < 0 || node.max > kMaxCopy) return kTooMany;
      return node.max * (1 + size_if_copied(node.parts[0], depth));
    case Kind::kRule:
      return copied(node.rule, depth + 1) ? copy_size_[size_t(node.rule)] : kTooMany;
  }
  return kTooMany;
}

// Whether each node can come to the end of its rule: by reading nothing, or at all. Goes backwards from the end; a call
// waits until its rule is known to end.
std::vector<bool> GrammarCompiler::reaching_end(bool reads_bytes) const {
  const std::vector<Node>& nodes = grammar_->nodes_;
  std::vector<std::vector<uint32_t>> before(nodes.size()), starts_here(nodes.size()), waiting(source_.rule_count());
  for (uint32_t n = 1; n < nodes.size(); ++n) {
    before[nodes[n].next].push_back(n);
    if (nodes[n].kind == Grammar::Kind::kSplit) before[nodes[n].other].push_back(n);
  }
  for (uint32_t r = 0; r < grammar_->starts_.size(); ++r) starts_here[grammar_->starts_[r]].push_back(r);
  std::vector<bool> reaches(nodes.size(), false);
  std::vector<uint32_t> open = {Grammar::kEnd};
  reaches[Grammar::kEnd] = true;
  const auto reach = [&](uint32_t n) {
    if (reaches[n]) return;
    reaches[n] = true;
    open.push_back(n);
  };
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    for (const uint32_t rule : starts_here[at])
      for (const uint32_t call : waiting[rule]) reach(call);
    for (const uint32_t n : before[at]) {
      const Node& node = nodes[n];
      if (node.kind == Grammar::Kind::kSplit) reach(n);
      if (node.kind == Grammar::Kind::kByte && reads_bytes && node.low <= node.high) reach(n);
      if (node.kind != Grammar::Kind::kCall) continue;
      if (reaches[grammar_->starts_[node.other]]) reach(n);
      else waiting[node.other].push_back(n);
    }
  }
  return reaches;
}

void GrammarCompiler::require_productive() const {
  const std::vector<bool> ends = reaching_end(true);
  for (size_t r = grammar_->starts_.size(); r-- > 0;)  // the root, which needs all others, is often the first
    if (!ends[grammar_->starts_[r]])
      throw error(Code::kBadData, "{}: no text of the rule '{}' ever ends; give it a choice that does", what_,
                  source_.name(GrammarSource::Rule(r)));
}

std::vector<std::vector<uint32_t>> GrammarCompiler::left_calls() const {
  const Grammar& g = *grammar_;
  std::vector<std::vector<uint32_t>> calls(g.starts_.size());
  std::vector<bool> seen(g.nodes_.size(), false);  // nodes belong to one rule each, but for the end
  for (size_t r = 0; r < g.starts_.size(); ++r) {
    std::vector<uint32_t> open = {g.starts_[r]};
    while (!open.empty()) {
      const uint32_t n = open.back();
      open.pop_back();
      if (n == Grammar::kEnd || seen[n]) continue;
      seen[n] = true;
      const Node& node = g.nodes_[n];
      if (node.kind == Grammar::Kind::kSplit) open.insert(open.end(), {node.next, node.other});
      if (node.kind != Grammar::Kind::kCall) continue;
      calls[r].push_back(node.other);
      if (g.nullable_[node.other]) open.push_back(node.next);
    }
  }
  return calls;
}

// Depth first, without recursion: a chain of rules may be long. A rule on the path that is met again begins with
// itself.
void GrammarCompiler::rank_rules() {
  const std::vector<std::vector<uint32_t>> calls = left_calls();
  enum Mark : uint8_t { kNew, kOnPath, kDone };
  std::vector<Mark> marks(calls.size(), kNew);
  std::vector<std::pair<uint32_t, size_t>> path;  // rule, and how many of its calls were followed
  std::vector<uint32_t>& rank = grammar_->left_rank_;
  rank.assign(calls.size(), 0);
  uint32_t next_rank = 0;
  for (uint32_t first = 0; first < calls.size(); ++first) {
    if (marks[first] == kNew) path.emplace_back(first, 0), marks[first] = kOnPath;
    while (!path.empty()) {
      auto& [rule, followed] = path.back();
      if (followed == calls[rule].size()) {
        marks[rule] = kDone;
        rank[rule] = next_rank++;
        path.pop_back();
        continue;
      }
      const uint32_t callee = calls[rule][followed++];
      if (marks[callee] == kNew) path.emplace_back(callee, 0), marks[callee] = kOnPath;
      else if (marks[callee] == kOnPath) {
        std::string cycle;
        auto at = std::find_if(path.begin(), path.end(), [&](const auto& p) { return p.first == callee; });
        for (; at != path.end() && cycle.size() < 200; ++at) cycle += source_.name(int32_t(at->first)) + " -> ";
        throw error(Code::kBadData, "{}: left recursion, {}{}: the rule begins with itself before anything is read; "
                    "write it as a repetition, such as a ::= b (\"+\" b)*",
                    what_, cycle, source_.name(int32_t(callee)));
      }
    }
  }
}

void GrammarCompiler::classify_bytes() {
  std::array<bool, 257> border{};
  for (const Node& node : grammar_->nodes_)
    if (node.kind == Grammar::Kind::kByte && node.low <= node.high)
      border[node.low] = border[size_t(node.high) + 1] = true;
  uint8_t current = 0;
  for (size_t b = 0; b < 256; ++b) {
    if (b > 0 && border[b]) ++current;
    grammar_->byte_class_[b] = current;
  }
  grammar_->byte_classes_ = size_t(current) + 1;
}

}  // namespace espalier
