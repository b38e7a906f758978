// Templates: any bytes are rendered or refused, within the limits, and twice alike. The input is a template; where it
// holds a zero byte, what stands behind is the JSON of the variables.
#include <cstdlib>

#include "base/error.h"
#include "base/json_value.h"
#include "fuzz.h"
#include "text/jinja.h"
#include "text/utf8.h"

using espalier::OrderedJson;

namespace {

constexpr const char* kVariables =
    R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi\n"},)"
    R"( {"role": "assistant", "content": null, "tool_calls": [{"id": "123456789", "function": {"name": "f",)"
    R"( "arguments": {"a": [1, 2.5, true, null], "b": {"c": "d"}}}}]}, {"role": "tool", "content": "ok"}],)"
    R"( "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "documents": null,)"
    R"( "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 3, "f": 0.5})";

espalier::JinjaOptions options() {
  espalier::JinjaOptions o;
  o.limits.steps = 20'000;
  o.limits.text_bytes = 1 << 16;
  o.limits.memory_bytes = 1 << 22;
  o.now = std::tm{};
  return o;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const size_t end = input.find('\0');
    const std::string_view json = end == input.npos ? kVariables : input.substr(end + 1);
    const OrderedJson variables = espalier::parse_ordered_json(json, "variables");
    if (!variables.is_object()) return 0;
    const auto parsed = espalier::JinjaTemplate::parse(input.substr(0, end), "input");
    const std::string text = parsed.render(variables, options());
    if (text.size() > size_t{1} << 16 || !espalier::is_utf8(text)) std::abort();
    if (parsed.render(variables, options()) != text) std::abort();
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + (message.content or '') | trim "
      "}}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}{% endfor %}",
      "{%- set ns = namespace(i=0, l=[]) -%}{% for m in messages[::-1] if m.role != 'tool' %}{% set ns.i = ns.i + 1 %}"
      "{% set ns.l = ns.l + [m.role] %}{{ loop.index0 }}{{ loop.previtem }}{% else %}none{% endfor %}{{ "
      "ns.l|join(',') }}",
      "{% macro f(a, b=2) %}{{ a ~ b }}{{ caller() if caller }}{% endmacro %}{{ f(1) }}{% call f(n, b=f) %}x{% "
      "endcall %}",
      "{{ tools | tojson(indent=2) }}{{ messages[2].tool_calls[0].function.arguments | dictsort | string | upper }}",
      "{% raw %}{{ x }}{% endraw %}{# c #}{%+ if n is odd +%}\n {{ '%s %05d' % ('a', n) }}{{ '{:>8}'.format(n) "
      "}}{% endif %}",
      "{{ messages|map(attribute='role')|unique|list }}{{ messages|selectattr('tool_calls')|list|length }}{{ 'a "
      "b'.split() }}",
      "{{ 'x' * 99999999999 }}{{ [1] * 99999999999 }}{{ range(99999) }}{{ 'x'.center(99999999999) }}",
      "{% set s = namespace(l=[1]) %}{% for i in range(90) %}{% set s.l = [s.l, s.l] %}{% endfor %}{{ s.l == "
      "s.l }}{{ s.l }}",
      "{% set s = namespace(l=[1]) %}{% for i in range(90) %}{% set s.l = [s, s.l] %}{% endfor %}{{ s.l }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% for i in [[1, [2]]] recursive %}{{ loop(i) if i is iterable else i }}{% break %}{% endfor %}",
      "{% set n = namespace(x=0) %}{% for i in range(500) %}{% set n.x = namespace(x=n.x, y=cycler(n.x)) %}{% "
      "endfor %}",
      "{{ ((((((((((((((((((((((((((((((((1)))))))))))))))))))))))))))))))) }}",
      "{{ n // -1 }}{{ -9223372036854775807 - 1 }}{{ (-9223372036854775807 - 1) // -1 }}{{ "
      "n[::-9223372036854775807] }}",
      "{{ 'é日🙂'[::-2] }}{{ 'ß'|upper|title }}{{ q|default('\\u00e9\\x41\\101')|e|safe + '<' }}{{ strftime_now('%Y') }}",
      "{{ a.b|sort(attribute='c')|list }}{{ a|items|list }}" + std::string(1, '\0') +
          R"({"a": {"b": [{"c": 2}, {"c": 1}]}})",
  };
}
