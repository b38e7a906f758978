#!/usr/bin/env python3
"""Runs the official `openai` client against `espalier serve`; not part of the tests.

    python3 tools/check_openai_client.py build/release/espalier MODEL

Prints a line for each check and exits with 1 if one failed. MODEL must converse; a small one will do, because what is
checked is the form of the answers. Needs the packages openai and pydantic.
"""
import argparse
import asyncio
import json
import math
import sys
import traceback

import openai
import pydantic

from started_server import StartedServer

ASK = [{"role": "user", "content": "Count from one to five."}]
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20},
                                                    "unit": {"enum": ["celsius", "fahrenheit"]}},
                   "required": ["city", "unit"], "additionalProperties": False}}}
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(pattern="^[a-z]{1,10}$")
    age: int = pydantic.Field(ge=0, le=150)


def chat(client, messages=None, **more):
    more.setdefault("max_tokens", 24)
    more.setdefault("temperature", 0)
    return client.chat.completions.create(model="any", messages=messages or ASK, **more)


def expect_error(kind, status, param, call):
    try:
        call()
    except kind as e:
        assert e.status_code == status, e.status_code
        assert e.body["message"] and e.body["type"], e.body
        assert param is None or e.body["param"] == param, e.body
        return
    raise AssertionError(f"accepted; expected {status}")


@check
def models(client):
    listed = list(client.models.list())
    assert len(listed) == 1 and listed[0].id and listed[0].object == "model"


@check
def chat_whole_and_streamed_alike(client):
    whole = chat(client)
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content, text
    assert not chunks[-1].choices and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


@check
def completions(client):
    whole = client.completions.create(model="any", prompt="One two three", max_tokens=8, temperature=0)
    parts = client.completions.create(model="any", prompt="One two three", max_tokens=8, temperature=0, stream=True)
    assert "".join(p.choices[0].text for p in parts) == whole.choices[0].text


@check
def several_choices(client):
    answer = chat(client, n=2, temperature=1.5, seed=3)
    assert [c.index for c in answer.choices] == [0, 1]
    found = {}
    for chunk in chat(client, n=2, temperature=1.5, seed=3, stream=True):
        for choice in chunk.choices:
            found[choice.index] = found.get(choice.index, "") + (choice.delta.content or "")
    assert [found[0], found[1]] == [c.message.content for c in answer.choices]


@check
def log_probabilities(client):
    content = chat(client, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    for token in content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        assert math.isclose(token.logprob, max(t.logprob for t in token.top_logprobs)), "greedy is the likeliest"


@check
def logit_bias(client):
    text = chat(client, max_tokens=4).choices[0].message.content
    url = str(client.base_url).removesuffix("/v1/")
    ids = client._client.post(url + "/tokenize", json={"content": text}).json()["tokens"]
    changed = chat(client, max_tokens=4, logit_bias={str(ids[0]): -100}).choices[0].message.content
    assert not changed.startswith(text), "a banned token was written"


@check
def seeds_repeat(client):
    texts = [chat(client, temperature=1.5, seed=seed).choices[0].message.content for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2], texts


@check
def stop_strings(client):
    text = chat(client).choices[0].message.content
    stop = text[len(text) // 2:][:3]
    cut = chat(client, stop=[stop]).choices[0]
    assert cut.message.content == text[:text.index(stop)] and cut.finish_reason == "stop", cut


@check
def tools_auto(client):
    answer = chat(client, [{"role": "user", "content": "What is the weather in Paris, in celsius?"}],
                  tools=[WEATHER], max_tokens=80).choices[0]
    if answer.finish_reason == "tool_calls":
        json.loads(answer.message.tool_calls[0].function.arguments)
    else:
        assert answer.message.content


@check
def tools_forced(client):
    ask = [{"role": "user", "content": "What is the weather in Paris?"}]
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in ("required", named):
        answer = chat(client, ask, tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False,
                      max_tokens=200).choices[0]
        assert answer.finish_reason == "tool_calls" and len(answer.message.tool_calls) == 1, answer
        call = answer.message.tool_calls[0]
        arguments = json.loads(call.function.arguments)
        assert set(arguments) == {"city", "unit"} and arguments["unit"] in ("celsius", "fahrenheit"), arguments
        follow = ask + [answer.message, {"role": "tool", "tool_call_id": call.id, "content": "20 degrees"}]
        assert chat(client, follow, tools=[WEATHER], tool_choice="none").choices[0].finish_reason != "tool_calls"
    streamed = ""
    for chunk in chat(client, ask, tools=[WEATHER], tool_choice=named, max_tokens=200, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            streamed += call.function.arguments or ""
        assert not chunk.choices[0].delta.content, chunk
    assert json.loads(streamed) == arguments, streamed


@check
def tools_from_a_model(client):
    class get_person(Person):
        pass
    answer = client.chat.completions.parse(model="any", messages=ASK, max_tokens=200, tool_choice="required",
                                           parallel_tool_calls=False,
                                           tools=[openai.pydantic_function_tool(get_person)])
    assert isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, get_person)


@check
def json_objects(client):
    answer = chat(client, response_format={"type": "json_object"}, max_tokens=400).choices[0]
    assert answer.finish_reason == "length" or isinstance(json.loads(answer.message.content), dict), answer


@check
def structured_output(client):
    answer = client.chat.completions.parse(model="any", messages=ASK, max_tokens=200, response_format=Person)
    assert isinstance(answer.choices[0].message.parsed, Person), answer
    with client.chat.completions.stream(model="any", messages=ASK, max_tokens=200, response_format=Person) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Person)


@check
def embeddings(client):
    one = client.embeddings.create(model="any", input=["a cat", "a dog"])  # base64, which the client unpacks
    plain = client.embeddings.create(model="any", input="a cat", encoding_format="float")
    assert len(one.data) == 2 and abs(sum(x * x for x in one.data[0].embedding) - 1) < 1e-4
    assert all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
               for a, b in zip(one.data[0].embedding, plain.data[0].embedding))


@check
def errors(client):
    bad = openai.BadRequestError
    expect_error(bad, 400, "max_tokens", lambda: chat(client, max_tokens="many"))
    expect_error(bad, 400, "temperature", lambda: chat(client, temperature=-1))
    expect_error(bad, 400, "messages", lambda: client.chat.completions.create(model="any", messages=[]))
    expect_error(bad, 400, "messages[0].role", lambda: chat(client, [{"role": "wizard", "content": "x"}]))
    expect_error(bad, 400, "tool_choice.function.name", lambda: chat(
        client, tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "other"}}))
    expect_error(bad, 400, None, lambda: chat(client, [{"role": "user", "content": "long " * 200000}]))
    expect_error(openai.NotFoundError, 404, None, lambda: client.get("/nothing", cast_to=object))


@check
def cancelled_streams_free_their_places(client):
    for _ in range(12):  # more than are answered side by side
        with chat(client, stream=True, max_tokens=100000) as stream:
            next(iter(stream))
    assert chat(client, max_tokens=2).usage.completion_tokens <= 2


@check
def many_at_once(client):
    async def ask_all():
        async with openai.AsyncOpenAI(base_url=client.base_url, api_key="none", max_retries=0) as several:
            async def streamed():
                parts = await chat(several, stream=True)
                return "".join([p.choices[0].delta.content or "" async for p in parts])
            answers = await asyncio.gather(*[chat(several) for _ in range(6)], *[streamed() for _ in range(6)])
        return {a if isinstance(a, str) else a.choices[0].message.content for a in answers}
    assert len(asyncio.run(ask_all())) == 1, "equal requests have equal answers"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    args = parser.parse_args()
    failed = 0
    with StartedServer(args.program, args.model) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=300)
        for function in CHECKS:
            try:
                function(client)
                print(f"ok      {function.__name__}", flush=True)
            except Exception:  # the edge of a check: the next one says more
                failed += 1
                print(f"FAILED  {function.__name__}\n{traceback.format_exc()}", flush=True)
    if server.code != 0:
        failed += 1
        print(f"FAILED  the server ended with {server.code}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
