#!/usr/bin/env python3
"""Makes tests/golden/chat/cases.json: what transformers renders for the templates of our own in that folder and for
short templates below that try one thing each.

    python3 tools/make_chat_golden.py [FOLDER]

Needs transformers; the tests need only what it wrote:
  {"made_by", "transformers", "jinja2", "now": what strftime_now showed, "variables": for the short ones,
   "short": [[template, text or null where Python raises]],
   "conversations": [{"name", "messages", ...}], "prompts": {"<template>": [[conversation, text or null], ...]}}
"""
import datetime
import json
import sys
from pathlib import Path

import jinja2
import transformers
from transformers.utils import chat_template_utils

from chat_cases import cases, transformers_text, transformers_tokenizer

NOW = datetime.datetime(2024, 7, 26, 15, 4, 5)
KEPT = {
    "chatml": ["user", "turns", "parts", "image", "odd text", "spaces", "empty", "user, no prompt"],
    "llama3": ["system", "tools", "call, result", "two calls", "odd text", "date", "tool result of object"],
    "mistral": ["user", "turns", "tools, system", "call, result", "two calls", "two users", "odd text", "parts"],
    "gemma": ["system", "turns", "parts", "image", "two users", "developer", "spaces"],
    "qwen_tools": ["tools", "call, result", "two calls, twice", "reasoning", "reasoning, last", "reasoning in the text",
                   "no thinking", "image", "call of text", "number as content", "odd text"],
    "deepseek": ["user", "turns", "many turns", "call, result", "two calls", "documents", "developer", "no content",
                 "call of text", "no role", "odd text", "reasoning in the text"],
}
VARIABLES = {
    "x": 7, "y": -2, "f": 2.5, "big": 1e22, "t": True, "n": None, "s": "Hello, Wörld", "empty": "", "l": [3, 1, 2],
    "d": {"b": 1, "a": "two", "C": None, "items": 5}, "e": [], "q": "it's \"q\" \\ \n\t\x07é\u200b🙂",
    "people": [{"name": "Bob", "age": 31, "in": {"city": "Oslo"}}, {"name": "ann", "age": 25, "in": {"city": "Rome"}},
               {"name": "Cy", "age": 31}], "words": ["b", "A", "c", "a"], "text": "one\n two\n\nthree  ",
    "nested": {"k": [1, {"z": [], "y": {}}], "é": "ü</b>"},
}
SHORT = r"""
{{ x + y }} {{ x - y }} {{ x * y }} {{ x / y }} {{ x // y }} {{ x % y }} {{ x ** 2 }} {{ 2 ** -1 }} {{ -x // 2 }} {{ -x % 3 }}
{{ f + 1 }} {{ f * 2 }} {{ f // 2 }} {{ -f % 2 }} {{ 1e3 }} {{ big }} {{ 1e16 }} {{ 123456789.0 }} {{ 1e-5 }} {{ 0.0001 }} {{ 1_000 }} {{ 0x1F }} {{ 1/3 }}
{{ t + 1 }} {{ t }} {{ n }} {{ not t }} {{ true == 1 }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ none == undefined_name }}
{{ l }} {{ d }} {{ (1,) }} {{ () }} {{ (1, 'a') }} {{ [none, true, 1.0, 'x'] }} {{ {'a': [1], 2: 'b', none: 3} }}
{{ q }}|{{ [q] }}|{{ ["it's", 'say "x"', 'both \' "'] }}
{{ undefined_name }}|{{ undefined_name ~ 'x' }}|{{ undefined_name|length }}|{{ undefined_name|default('d') }}|{{ [undefined_name] }}
{{ undefined_name.x }}
{{ d.nothing }}|{{ d.nothing.x }}
{{ undefined_name + 1 }}
{{ d.nothing is defined }} {{ d.b is defined }} {{ d['a'] }} {{ d.items is callable }} {{ d['items'] }}
{{ d.b ~ d.a }} {{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.keys()|list }} {{ d.values()|list }} {{ 'a' in d }} {{ 1 in d }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {{ d.items()|list }}
{{ s[0] }}{{ s[-1] }}{{ s[7:] }}{{ s[:5] }}{{ s[::-1] }}{{ s[1:8:3] }}{{ s[-3:-1] }}{{ s[100] }}{{ s[5:2] }}|{{ s[8] }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[::2] }} {{ l[9] }} {{ l[:-1] }} {{ l.0 }} {{ l[5:] }} {{ (1,2,3)[1:] }} {{ range(9)[2:8:3]|list }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 in l }} {{ 9 not in l }} {{ 'ell' in s }} {{ not 1 in l }}
{{ 1 < 'a' }}
{{ 1 in n }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + (2,) }}
{{ 1 / 0 }}
{{ 'a' ~ 1 ~ none ~ 2.0 ~ [1] }} {{ 1 ~ 2 * 3 ~ 4 }} {{ 'x' + 'y' ~ 'z' }}
{{ 1 ~ 2 + 3 }}
{{ 'ab' * 3 }} {{ [0] * 2 }} {{ 2 * 'x' }} {{ 'x' * -1 }}
{{ x if t else y }} {{ x if n }}|{{ (x if n) is defined }} {{ 'a' if n else 'b' if t else 'c' }}
{{ n or 'or' }} {{ x and s }} {{ e or n }} {{ not e }} {{ x and not n or y }}
{{ -x|abs }} {{ (-x)|abs }} {{ -2 ** 2 }} {{ 2 + 3 * 4 }} {{ (2 + 3) * 4 }} {{ 10 - 2 - 3 }} {{ 2 ** 3 ** 2 }}
{{ "a" "b" 'c' }} {{ 'a\nb\t\x41\u00e9\101\q\'' }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ 'hELLO wORLD'.capitalize() }} {{ "they're ok".title() }} {{ "they're ok"|title }} {{ 'straße'.upper() }} {{ 'a-b (c) [d] éa'|title }}
{{ '  a b '.strip() }}|{{ '  a '.lstrip() }}|{{ '  a '.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.strip('ab') }}|{{ '\n a\n'.strip('\n') }}|{{ '  x '|trim }}|{{ 'xax'|trim('x') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ ' a b c '.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a--b'.split('--')[-1] }}
{{ 'a\nb\r\nc'.splitlines() }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('x') }}
{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.find('l') }} {{ s.rfind('l') }} {{ s.find('z') }} {{ s.index('W') }} {{ s.count('l') }} {{ s.find('r', 3) }}
{{ s.index('z') }}
{{ 'aXbXc'.replace('X', '-') }} {{ 'aXbXc'.replace('X', '-', 1) }} {{ 'abc'.replace('', '.') }} {{ 'abc'|replace('b', 'BB') }} {{ 121|replace(1, 'x') }}
{{ ', '.join(words) }} {{ '-'.join('abc') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('bc') }} {{ 'x'.center(5) }}| {{ 'x'.rjust(3, '0') }} {{ 'x'.ljust(3) }}| {{ '-7'.zfill(4) }}
{{ ', '.join([1]) }}
{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }} {{ ''.isdigit() }}
{{ '{} {}'.format(1, 'a') }} {{ '{0}{1}{0}'.format('x', 2) }} {{ '{a} {b[0]}'.format(a=1, b=[5]) }} {{ '{{}}'.format() }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format('a', 'b', 'c', 42, 1.005, 1234567) }} {{ '{!r}'.format('x') }} {{ '{:x} {:#x} {:e} {:g} {:%}'.format(255, 255, 12345.678, 0.0001, 0.25) }}
{{ '%s and %d, %.2f %5s|%-5s| %05d %x %r %%' % ('a', 3, 1.5, 'b', 'c', 42, 255, 'q') }} {{ '%s' % l }} {{ '%s!'|format('x') }} {{ '%(a)s' % {'a': 1} }}
{{ '%d' % 'a' }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }} {{ people|sort(attribute='age,name')|map(attribute='name')|join(',') }}
{{ l|first }} {{ l|last }} {{ e|first }}| {{ l|length }} {{ s|count }} {{ l|sum }} {{ l|max }} {{ l|min }} {{ words|max }} {{ people|sum(attribute='age') }} {{ people|max(attribute='age') }}
{{ l|reverse|list }} {{ s|reverse }} {{ words|unique|list }} {{ words|unique(case_sensitive=true)|list }} {{ 'abc'|list }} {{ d|list }}
{{ l|join }} {{ l|join(', ') }} {{ people|join('/', attribute='name') }} {{ people|map(attribute='in.city', default='?')|join(' ') }} {{ words|map('upper')|join }} {{ l|map('string')|list }}
{{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ l|select('gt', 1)|list }} {{ people|selectattr('in')|map(attribute='name')|list }} {{ people|rejectattr('age', 'equalto', 31)|map(attribute='name')|list }} {{ [0, 1, '', 'a']|select|list }} {{ none|select('odd')|list }}
{{ l|batch(2)|list }} {{ l|batch(2, 'x')|list }} {{ range(5)|slice(2)|list }} {% for g, p in people|groupby('age') %}{{ g }}:{{ p|length }} {% endfor %}{% for g in people|groupby('age') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}
{{ d|dictsort }} {{ {'b': 1, 'A': 2}|dictsort }} {{ {'b': 1, 'A': 2}|dictsort(by='value', reverse=true) }} {{ d|items|list }} {{ undefined_name|items|list }}
{{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(9) }} {{ 4.7|int }} {{ '0x1f'|int(base=16) }} {{ '1.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ ' 7 '|int }} {{ '-3'|int }} {{ true|int }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1, 'floor') }} {{ 42.51|round(1, 'ceil') }} {{ 7|round }} {{ -2.5|round }} {{ -7|abs }} {{ 1.25|round(1)|string }}
{{ s|upper }} {{ s|lower }} {{ 'aBC'|capitalize }} {{ n|upper }} {{ 5|string + 'x' }} {{ text|indent }}|{{ text|indent(2, true) }}|{{ text|indent('> ', blank=true) }}|{{ text|wordcount }} {{ 'foo bar baz qux'|truncate(9) }} {{ 'x'|center(4) }}|
{{ '<a & "b">'|escape }} {{ '<b>'|e|e }} {{ '<i>'|safe + '<j>' }} {{ ('<i>'|safe) ~ '<j>' }} {{ '<'|safe|upper + '>' }} {{ '<k>'|forceescape }}
{{ d|tojson }} {{ nested|tojson }} {{ nested|tojson(indent=2) }} {{ q|tojson }} {{ q|tojson(ensure_ascii=true) }} {{ [1.0, 1e22, true, none]|tojson }} {{ {1: 2, none: 3, true: 4}|tojson }} {{ (1, 2)|tojson }} {{ nested|tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ []|tojson(indent=2) }} {{ l|tojson(indent='--') }}
{{ undefined_name|tojson }}
{{ l|map('string')|tojson }}
{{ x is number }} {{ t is number }} {{ x is integer }} {{ t is integer }} {{ f is float }} {{ t is boolean }} {{ n is none }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ x is sequence }} {{ l is iterable }} {{ x is iterable }} {{ d.items() is sequence }} {{ undefined_name is iterable }}
{{ x is odd }} {{ x is even }} {{ x is divisibleby 7 }} {{ x is divisibleby(2) }} {{ x is eq 7 }} {{ x is gt(3) }} {{ x is lt 3 }} {{ x is ge 7 }} {{ x is in [7] }} {{ x is not none }} {{ t is true }} {{ t is false }} {{ 1 is sameas 1 }} {{ 'A' is upper }} {{ 'upper' is filter }} {{ 'nope' is test }} {{ range is callable }} {{ x is not string }}
{{ x is nonsense }}
{{ x|nonsense }}
{% if n %}{{ x|nonsense }}{% endif %}ok
{{ range(3)|list }} {{ range(1, 7, 2)|list }} {{ range(3, 0, -1)|list }} {{ range(3) }} {{ range(0) }} {{ range(2)|length }}
{{ range(200000) }}
{{ dict(a=1, b=2) }} {{ dict([('k', 'v')], z=0) }} {{ dict(d, b=9) }} {% set ns = namespace(a=1) %}{% set ns.b = ns.a + 1 %}{{ ns.b }}{{ ns.c }} {{ ns is mapping }}
{% set ns = namespace(_a=1) %}
{% set d.x = 1 %}
{% set j = joiner(';') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %} {% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}
{{ strftime_now('%Y-%m-%d %H:%M %B %a') }} {{ strftime_now("%d %b %Y") }}
{{ raise_exception('no, ' ~ x) }}
{{ raise_exception }}{{ l.append(4) }}
{{ d.update({'z': 1}) }}
{{ s.__class__ }}|{{ d._x }}|{{ s.__class__.__mro__ }}
{{ l() }}
{{ undefined_name() }}
{{ x.y }}|{{ n.x }}|{{ s.nothing }}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{{ loop.depth }} {% endfor %}
{% for i in e %}x{% else %}none{% endfor %} {% for i in l if i > 1 %}{{ i }}/{{ loop.length }} {% else %}no{% endfor %} {% for i in l if i > 9 %}{{ i }}{% else %}no{% endfor %}
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %} {% for c in 'añb' %}{{ c }}.{% endfor %} {% for k in d %}{{ k }}{% endfor %}
{% for i in undefined_name %}x{% endfor %}ok
{% for i in n %}x{% endfor %}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }} {% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for n in [{'v': 1, 'c': [{'v': 2}, {'v': 3, 'c': [{'v': 4}]}]}] recursive %}{{ n.v }}{{ loop.depth }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}
{% set a = 1 %}{% for i in l %}{% set a = a + i %}{{ a }} {% endfor %}{{ a }} {% if t %}{% set a = 9 %}{% endif %}{{ a }} {% with a = 3, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{{ b }}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set c = 1, 2 %}{{ c }} {% set text %}<{{ x }}>{% set inner = 1 %}{% endset %}{{ text }}{{ inner }} {% set u | upper | replace('A', 'b') %}aa{% endset %}{{ u }}
{% set m = l|map('string') %}{{ m|join }}{{ m|join }}| {% if [] | select %}true{% endif %}
{{ l|map('string')|length }}
{{ [ns, namespace()] }}
{{ ' a b '.rsplit(none, 1) }}
{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=5) }} {{ m(1, 2, 3) }} {{ m() }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, z=4) }} {{ m(*[1, 2], **{'k': 0}) }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=1) }}
{% macro m() %}[{{ caller(1) }}]{% endmacro %}{% call(v) m() %}{{ v }}{{ x }}{% endcall %} {% macro n2() %}{{ x }}{% set x = 1 %}{{ x }}{% endmacro %}{{ n2() }}{{ x }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }} {{ f }} {{ f.name }}
{% filter upper|replace('B', '-') %}ab{{ s }}{% endfilter %} {% generation %}{% set g = 1 %}{{ g }}{% endgeneration %}{{ g }}
{% raw %}{{ x }} {% if %}{% endraw %} {# a comment {{ x }} #}| {{- ' a' -}} | {%- if t -%} b {%- endif +%} c
{% if x > 5 and s %}a{% elif n %}b{% else %}c{% endif %} {% if n %}a{% elif t %}b{% endif %}{% if not n is none %}c{% endif %} {% if l == [3, 1, 2] and d != {} %}eq{% endif %}
{% print x %} {{ x }}{{- y }} {{ '{{' }} {{ '%}' }} { x } {%- set z = {'a': {'b': 1}} %}{{ z.a.b }}{{ z['a']['b'] }}
{% include 'x' %}
{% do x %}
{% if x %}
{% endif %}
{{ x
{{ (x] }}
{{ 'a }}
{% for i in l %}{% endif %}{% endfor %}
{% break %}
{{ x is defined is string }}
{% set true = 1 %}
{# never closed
{% raw %} never closed
""".strip("\n").split("\n")
LAYOUT = [
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc", "  {{ x }}\n  {{- x -}}  \n y\n\n",
    "{% if t %}\n\n  a {% endif %}  \n b", "x {% if t %}  {% endif %} y", "  {%+ if t %}a{% endif +%}\nb", "{# c #}\n  {# d #}\ne\n",
    "a \t {%- raw -%} \n {{ x }} \n {%- endraw -%} \n b", "a\r\nb\rc\n{{ 'x\r\ny' }}\r\n", "  {% raw %}\n a {% endraw %}\n b",
    "{% for i in l %}\n  * {{ i }}\n  {% if not loop.last %}\n  ,\n  {% endif %}\n{% endfor %}\nend", "\n\n{{ x }}\n\n", "",
    "{{ x -}}\n\n  {{ y }}\n{#- c -#}\n z", "\u00a0\u2003{%- if t %}\u3000a{% endif -%}\u2028\u00a0b", "{%if t%}a{%endif%}{{x}}{#c#}",
]


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def short_text(template):
    try:
        return chat_template_utils._compile_jinja_template(template).render(**VARIABLES)
    except Exception:
        return None


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests" / "golden" / "chat")
    chat_template_utils.datetime = FixedClock
    tokenizer = transformers_tokenizer()
    by_name = {case["name"]: case for case in cases()}
    prompts = {}
    for name, kept in KEPT.items():
        template = (folder / f"{name}.jinja").read_text(encoding="utf-8")
        prompts[name] = [[case, transformers_text(tokenizer, template, by_name[case]).get("text")] for case in kept]
    used = {case for kept in KEPT.values() for case in kept}
    golden = {"made_by": "tools/make_chat_golden.py", "transformers": transformers.__version__,
              "jinja2": jinja2.__version__, "now": NOW.isoformat(), "variables": VARIABLES,
              "short": [[t, short_text(t)] for t in SHORT + LAYOUT],
              "conversations": [case for case in cases() if case["name"] in used], "prompts": prompts}
    (folder / "cases.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n",
                                       encoding="utf-8")
    refused = sum(text is None for _, text in golden["short"])
    print(f"{len(golden['short'])} short templates ({refused} refused), {sum(map(len, prompts.values()))} prompts of "
          f"{len(prompts)} templates")


if __name__ == "__main__":
    main()
