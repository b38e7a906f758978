"""Conversations on which chat templates are compared: used by make_chat_golden.py and check_chat_templates.py.

A case is {"name", "messages"} with optional "tools", "documents", "add_generation_prompt" (true) and further variables,
which is what `espalier chat TEMPLATE --render` reads. `transformers_text` renders one with transformers.
"""
import logging

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather at a place, now or later.\nSays \"unknown\" where it has none.",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "A city, e.g. 'Zürich'"},
        "days": {"type": "integer", "minimum": 0, "maximum": 14, "default": 0},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "exact": {"type": ["boolean", "null"], "description": "digits < 1 & more"}}}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Finds pages.", "parameters": {"type": "object", "properties": {
        "query": {"type": "string", "description": "what to find"},
        "filters": {"type": "object", "properties": {"year": {"type": "number"}, "tags": {
            "type": "array", "items": {"type": "string"}}}}}, "required": ["query"]},
    "return": {"type": "array", "items": {"type": "string"}}}}
BARE = {"type": "function", "function": {"name": "now", "description": "", "parameters": {
    "type": "object", "properties": {}}}}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, identifier="call00001"):
    return {"type": "function", "id": identifier, "function": {"name": name, "arguments": arguments}}


def cases():
    user, hello = say("user", "What is an espalier?"), say("assistant", "A tree trained to a shape.")
    system = say("system", "Answer in one sentence.")
    more = say("user", " And a trellis?\n")
    odd = "<b>\"it's\"</b> & {{ 7 * 7 }} {% raw %} \\n \t| 日本語 🙂 e\u0301 \u00a0\u200b\u2028 ½ ß İ ǅ"
    args = {"place": "Zürich", "days": 2, "exact": True, "ratio": 0.1, "none": None, "list": [1, "a", {"k": 1e22}]}
    calls = [user, say("assistant", "", tool_calls=[call("get_weather", args)]),
             say("tool", "{\"temp\": 21.5}", name="get_weather", tool_call_id="call00001")]
    two = [user, say("assistant", "Both.", tool_calls=[call("get_weather", {"place": "Oslo"}, "call00001"),
                                                       call("search", {"query": "a \"b\""}, "call00002")]),
           say("tool", "rain", name="get_weather", tool_call_id="call00001"),
           say("tool", "[\"x\", \"y\"]", name="search", tool_call_id="call00002")]
    parts = [{"type": "text", "text": "Look: "}, {"type": "text", "text": "twice"}]
    image = [{"type": "image"}, {"type": "text", "text": "What is this?"}]
    think = say("assistant", "Four.", reasoning_content="Two and two\nmake four.")
    inline = say("assistant", "<think>\nTwo and two.\n</think>\n\nFour.")
    tools = [WEATHER, SEARCH]
    return [
        {"name": "user", "messages": [user]},
        {"name": "user, no prompt", "messages": [user], "add_generation_prompt": False},
        {"name": "system", "messages": [system, user]},
        {"name": "turns", "messages": [system, user, hello, more]},
        {"name": "turns, ended", "messages": [user, hello], "add_generation_prompt": False},
        {"name": "many turns", "messages": [system] + [user, hello] * 4 + [more]},
        {"name": "tools", "messages": [user], "tools": tools},
        {"name": "tools, system", "messages": [system, user, hello, more], "tools": [WEATHER, BARE]},
        {"name": "call", "messages": calls[:2], "tools": tools, "add_generation_prompt": False},
        {"name": "call, result", "messages": [system] + calls, "tools": tools},
        {"name": "call, result, no tools", "messages": calls},
        {"name": "call, answer", "messages": calls + [say("assistant", "21.5 degrees."), more], "tools": tools},
        {"name": "two calls", "messages": two, "tools": tools},
        {"name": "two calls, twice", "messages": two + [hello] + two[:2] + two[2:], "tools": tools},
        {"name": "call of text", "messages": [user, say("assistant", None, tool_calls=[call("now", "{\"a\": [1]}")]),
                                              say("tool", "12:00", tool_call_id="call00001")], "tools": [BARE]},
        {"name": "call without content", "messages": [user, {"role": "assistant", "tool_calls": [call("now", {})]}]},
        {"name": "tool result of parts", "messages": calls[:2] + [say("tool", parts, tool_call_id="call00001")],
         "tools": tools},
        {"name": "tool result of object", "messages": calls[:2] + [say("tool", {"temp": [1, 2.5, None]})],
         "tools": tools},
        {"name": "parts", "messages": [say("system", parts), say("user", parts), hello, say("user", parts)]},
        {"name": "image", "messages": [say("user", image)]},
        {"name": "odd text", "messages": [say("system", odd), say("user", odd), say("assistant", odd), say("user", odd)]},
        {"name": "spaces", "messages": [say("system", "  s \n"), say("user", "\n u  \n\n"), say("assistant", "\t a "),
                                        say("user", " ")]},
        {"name": "empty", "messages": [say("system", ""), say("user", ""), say("assistant", ""), say("user", "")]},
        {"name": "reasoning", "messages": [user, think, more]},
        {"name": "reasoning, last", "messages": [user, think], "add_generation_prompt": False},
        {"name": "reasoning in the text", "messages": [user, inline, more, inline, user]},
        {"name": "reasoning, calls", "messages": [user, {**calls[1], "reasoning_content": "I need it."}, calls[2]],
         "tools": tools},
        {"name": "no thinking", "messages": [system, user], "enable_thinking": False, "thinking": False},
        {"name": "thinking", "messages": [user], "enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
        {"name": "developer", "messages": [say("developer", "Be brief."), user]},
        {"name": "system late", "messages": [user, hello, system, more]},
        {"name": "two systems", "messages": [system, say("system", "And kind."), user]},
        {"name": "system alone", "messages": [system]},
        {"name": "two users", "messages": [user, more]},
        {"name": "assistant first", "messages": [hello, user]},
        {"name": "two assistants", "messages": [user, hello, hello], "add_generation_prompt": False},
        {"name": "prefilled", "messages": [user, say("assistant", "An espalier is", prefix=True)]},
        {"name": "unknown role", "messages": [say("critic", "No."), user]},
        {"name": "no role", "messages": [{"content": "Hello"}]},
        {"name": "no content", "messages": [{"role": "user"}]},
        {"name": "number as content", "messages": [say("user", 42)]},
        {"name": "documents", "messages": [user], "documents": [{"title": "Trees", "text": "They grow."},
                                                                {"title": "Ü", "text": "\"x\""}]},
        {"name": "date", "messages": [system, user], "date_string": "26 Jul 2024", "tools": [],
         "tools_in_user_message": False, "custom_tools": [WEATHER]},
        {"name": "named", "messages": [say("user", "Hi", name="Ann"), say("assistant", "Hi", name="Bob"), more]},
        {"name": "builtin tools", "messages": calls, "tools": tools, "builtin_tools": ["code_interpreter", "search"]},
    ]


TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def transformers_tokenizer():
    """A tokenizer that knows no more than its special tokens: enough for apply_chat_template."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    logging.getLogger("transformers").setLevel(logging.ERROR)
    vocabulary = {token: i for i, token in enumerate(TOKENS.values())}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>")), **TOKENS)


def transformers_text(tokenizer, template, case):
    """{"text"} or {"error"} as transformers has it."""
    more = {k: v for k, v in case.items() if k not in ("name", "messages", "tools", "documents", "add_generation_prompt")}
    try:
        return {"text": tokenizer.apply_chat_template(
            case["messages"], tools=case.get("tools"), documents=case.get("documents"), chat_template=template,
            add_generation_prompt=case.get("add_generation_prompt", True), tokenize=False, **more)}
    except Exception as e:  # whatever a template makes Python raise
        return {"error": f"{type(e).__name__}: {e}"}
