// Jinja: the template language of chat templates, as our own small interpreter. It renders what the Jinja 3.1 of
// Python renders in the environment that transformers makes for chat templates: trim_blocks, lstrip_blocks, the
// loop controls, the tag `generation`, `tojson` without HTML escapes, and a sandbox that changes no list or dict.
//
// A template is read once (jinja_lexer, jinja_parser: to jinja_ast) and rendered any number of times, from any thread
// (jinja_interpreter over jinja_value). Values behave as Python's: the same truth, order, arithmetic, str() and repr().
//
// Templates come with models, from strangers: a rendering can reach nothing but its variables and the date, and is
// bounded in steps, memory, text and depth. What Jinja has and this does not (include, import, extends, block,
// autoescape, some HTML filters, integers beyond 64 bits) is an error that names the construct and its line.
#pragma once
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace espalier {

namespace jinja {
struct Program;
}

/// What a rendering may use before it is an Error.
struct JinjaLimits {
  int64_t steps = 20'000'000;         ///< evaluated nodes, visited items, and pieces of 64 bytes that were copied
  size_t text_bytes = 16 << 20;       ///< of one string, the result among them
  size_t memory_bytes = 256 << 20;    ///< of all values that are alive
  int depth = 500;                    ///< of evaluation: nested expressions, statements and macro calls
};

struct JinjaOptions {
  JinjaLimits limits;
  std::optional<std::tm> now;  ///< what strftime_now shows; without it the local time
};

/// A template. Cheap to copy; copies share everything.
class JinjaTemplate {
 public:
  /// Reads a template of at most 512 KiB; `what` names it in errors. Throws Error kBadData with the line where it is no
  /// Jinja, kUnsupported where it uses what we do not have.
  static JinjaTemplate parse(std::string_view source, const std::string& what);

  /// The text for an object of variables. Throws Error kBadData where the template does what Python would refuse (with
  /// the line) or reaches a limit, kUsage with the template's own message where it calls raise_exception, and
  /// kUnsupported for what we do not have.
  std::string render(const OrderedJson& variables, const JinjaOptions& options = {}) const;

 private:
  explicit JinjaTemplate(std::shared_ptr<const jinja::Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace espalier
