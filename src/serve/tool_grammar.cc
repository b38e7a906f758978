#include "serve/tool_grammar.h"

#include "base/error.h"
#include "base/json_value.h"
#include "text/json_grammar.h"
#include "text/json_schema.h"

namespace espalier {
namespace {

using Part = JsonGrammar::Part;

// A model that has lost its way would call for ever.
constexpr int64_t kMaxCalls = 64;

/// What stands around calls. Each of them is `before` {"name": ..., `key`: ...} `after`.
struct CallForm {
  const char *opener, *before, *after, *between, *closer;
  const char* key;
};

CallForm form_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::kHermes: return {"", "<tool_call>\n", "\n</tool_call>", "\n", "", "arguments"};
    case ToolFormat::kMistral: return {"[TOOL_CALLS]", "", "", ", ", "]", "arguments"};
    case ToolFormat::kLlama3: return {"", "", "", "; ", "", "parameters"};
    default: return {"", "", "", "\n", "", "arguments"};
  }
}

/// Arguments are an object whatever the schema leaves open, and none where there is no schema (as OpenAI's API says).
OrderedJson arguments_schema(const OrderedJson& function, const std::string& what) {
  const auto found = function.find("parameters");
  if (found == function.end() || found->is_null())
    return {{"type", "object"}, {"properties", OrderedJson::object()}};
  OrderedJson schema = *found;
  if (!schema.contains("type")) schema["type"] = "object";
  if (schema["type"] != "object")
    throw error(Code::kBadData, "{}: 'type' is {}; expected 'object', because arguments are one", what,
                schema["type"].dump());
  return schema;
}

}  // namespace

std::string describe_forced_call(const ForcedCall& call, const OrderedJson& tools) {
  OrderedJson functions = OrderedJson::array();
  for (const OrderedJson& tool : tools) {
    const OrderedJson& function = tool["function"];
    if (!call.only.empty() && function["name"] != call.only) continue;
    functions.push_back({{"name", function["name"]}, {"parameters", function.value("parameters", OrderedJson())}});
  }
  return OrderedJson{{"format", int(call.format)}, {"opener", call.opener}, {"several", call.several},
                     {"functions", std::move(functions)}}.dump();
}

std::shared_ptr<const Grammar> tool_call_grammar(std::string_view description) {
  const OrderedJson wanted = parse_ordered_json(description, "a forced call");
  const CallForm form = form_of(ToolFormat(wanted["format"].get<int>()));
  GrammarSource g;
  JsonGrammar json(g);
  std::vector<Part> functions;
  for (const OrderedJson& function : wanted["functions"]) {
    const std::string name = function["name"].get<std::string>();
    const std::string what = fmt::format("the parameters of the function '{}'", name);
    const Part arguments = json_schema_part(json, arguments_schema(function, what), what);
    functions.push_back(g.named(name, g.sequence({g.literal(fmt::format("\"{}\", \"{}\": ", name, form.key)),
                                                  arguments})));
  }
  const bool tags = wanted["opener"].get<bool>();
  const std::string before = (tags ? form.before : std::string()) + "{\"name\": ";
  const std::string after = "}" + (tags ? form.after : std::string());
  const Part call = g.named("call", g.sequence({g.literal(before), g.choice(functions), g.literal(after)}));
  const bool list = *form.closer != '\0';
  std::vector<Part> all = {g.literal((tags ? form.opener : std::string()) + (list ? "[" : "")), call};
  if (wanted["several"].get<bool>())
    all.push_back(g.repeat(g.sequence({g.literal(form.between), call}), 0, kMaxCalls - 1));
  all.push_back(g.literal(form.closer));
  const GrammarSource::Rule root = g.declare("root");
  g.define(root, g.sequence(std::move(all)));
  return compile_grammar(g, root, "the tools' grammar");
}

}  // namespace espalier
