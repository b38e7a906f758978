// The tree of a template. Nodes live in the Program and point to each other, so a tree of any depth is taken down
// without recursion. One node type for all expressions and one for all statements: the comments say which fields an
// operation uses.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "text/jinja_value.h"

namespace espalier::jinja {

struct Macro;

enum class ExprType : uint8_t {
  kConstant,   ///< constant
  kName,       ///< name
  kList,       ///< items
  kTuple,      ///< items
  kDict,       ///< items: key, value, key, value, ...
  kAttribute,  ///< a.name
  kItem,       ///< a[b]
  kSlice,      ///< a[items: start, stop, step]
  kCall,       ///< a(call)
  kFilter,     ///< a|name(call); a null: the text of a filter block
  kTest,       ///< a is name(call)
  kNot,        ///< a
  kNegate,     ///< a
  kPlus,       ///< a
  kAnd,        ///< a, b
  kOr,         ///< a, b
  kCondition,  ///< a if b else c; c null: undefined
  kConcat,     ///< items, joined as text
  kBinary,     ///< a name b, an arithmetic operator
  kCompare,    ///< a, then operators[i] items[i]
};

struct Expr;

/// The arguments of a call as written.
struct CallArguments {
  std::vector<const Expr*> positional;
  std::vector<std::pair<std::string, const Expr*>> named;
  const Expr* star = nullptr;         ///< *expr
  const Expr* double_star = nullptr;  ///< **expr
};

struct Expr {
  ExprType type = ExprType::kConstant;
  int line = 0;
  std::string name;
  Value constant;
  const Expr *a = nullptr, *b = nullptr, *c = nullptr;
  std::vector<const Expr*> items;
  std::vector<std::string> operators;
  CallArguments call;
};

/// What is assigned to: a name, a namespace's attribute, or several.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;
  bool is_tuple = false;
};

enum class StatementType : uint8_t {
  kData,         ///< text
  kOutput,       ///< expr
  kIf,           ///< branches: (condition or null for else, body)
  kFor,          ///< target in expr, if condition; body; otherwise
  kSet,          ///< target = expr
  kSetBlock,     ///< target = the text of body, through the filters of expr where there are any
  kWith,         ///< targets[i] = values[i] in a scope of its own; body
  kMacro,        ///< macro
  kCallBlock,    ///< expr is a call; macro is its caller
  kFilterBlock,  ///< expr is a filter over the text of body
  kScope,        ///< body in a scope of its own: the tag generation
  kBreak,
  kContinue,
};

struct Statement;
using Body = std::vector<const Statement*>;

struct Branch {
  const Expr* condition;
  Body body;
};

struct Statement {
  StatementType type = StatementType::kData;
  int line = 0;
  std::string text;
  const Expr* expr = nullptr;
  const Expr* condition = nullptr;
  Target target;
  std::vector<Target> targets;
  std::vector<const Expr*> values;
  Body body, otherwise;
  std::vector<Branch> branches;
  const Macro* macro = nullptr;
  bool recursive = false;  ///< the loop may be called with items of a deeper level
};

struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<const Expr*> defaults;  ///< of the last parameters
  Body body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

/// A template that has been read.
struct Program {
  std::string what;
  Body body;
  std::deque<Expr> expressions;
  std::deque<Statement> statements;
  std::deque<Macro> macros;
};

}  // namespace espalier::jinja
