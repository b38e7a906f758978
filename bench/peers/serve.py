"""`espalier serve` beside llama.cpp's llama-server: the same file, threads and requests, in turn.

    ESP_LLAMACPP=DIR_OF_ITS_BIN bench/peers/serve.sh MODEL.gguf [--threads 2] [--rounds 3] [--tokens 128] [--json]

Both servers run all the time and only one of them is asked at a time. A round asks each of them: one request alone,
eight at once (tokens/s of all together, prompts included), the first token of a short request on an idle server (ms),
and the same while the server has begun to read a prompt of about 4,000 tokens. Figures are medians over the rounds; ratios are
medians of the rounds' ratios, larger than 1 where ours is better.
"""
import argparse
import json
import os
import pathlib
import statistics
import threading
import time

import servers

CLIENTS = 8
CONTEXT = 8192  # tokens a slot
SUBJECTS = ["bridges", "sorting a list", "the moon", "bread", "prime numbers", "sailing", "hash tables", "volcanoes"]


def request(server, prompt, tokens):
    """Seconds to the first token and to the end of one streamed completion."""
    begin, first = time.perf_counter(), None
    for _ in server.stream("/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0,
                                               "ignore_eos": True, "cache_prompt": False}):
        first = first or time.perf_counter()
    return first - begin, time.perf_counter() - begin


def together(server, clients, tokens):
    """Tokens/s of so many requests at once, from the first one's start to the last one's end."""
    prompts = [f"Everything that one should know about {subject}:" for subject in SUBJECTS[:clients]]
    threads = [threading.Thread(target=request, args=(server, prompt, tokens)) for prompt in prompts]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients * tokens / (time.perf_counter() - begin)


def first_token_ms(server, name):
    return 1e3 * request(server, f"Question {name}: what is a tree?", 4)[0]


def first_token_beside_prefill_ms(server, name, items):
    long_prompt = f"List {name}. " + "".join(f"Item {i % 10} is listed. " for i in range(items))
    reader = threading.Thread(target=request, args=(server, long_prompt, 2))
    reader.start()
    time.sleep(0.3)  # the long prompt is being read
    if not reader.is_alive():
        raise SystemExit(f"{server.name} had read the long prompt before the short request came: give more --items")
    waited = first_token_ms(server, name)
    reader.join()
    return waited


def measure(server, o, name):
    return {"1 request, tokens/s": together(server, 1, o.tokens),
            "8 requests, tokens/s": together(server, CLIENTS, o.tokens),
            "first token, idle, ms": first_token_ms(server, name),
            "first token beside a prefill, ms": first_token_beside_prefill_ms(server, name, o.items)}


def summary(rounds):
    """rounds: a pair (ours, theirs) each. Cells by name."""
    cells = {}
    for name in rounds[0][0]:
        pairs = [(mine[name], peer[name]) for mine, peer in rounds]
        larger = name.endswith("tokens/s")
        cells[name] = {"value": statistics.median(a for a, _ in pairs),
                       "peer_value": statistics.median(b for _, b in pairs),
                       "ratio": statistics.median(a / b if larger else b / a for a, b in pairs)}
        print(f"{name:<34} {cells[name]['value']:9.1f}   llama.cpp {cells[name]['peer_value']:9.1f}   "
              f"{cells[name]['ratio']:5.2f} x")
    quotient = lambda side, a, b: cells[a][side] / cells[b][side]
    for what, a, b in [("8 requests over 1", "8 requests, tokens/s", "1 request, tokens/s"),
                       ("beside a prefill over idle", "first token beside a prefill, ms", "first token, idle, ms")]:
        cells[what] = {"value": quotient("value", a, b), "peer_value": quotient("peer_value", a, b)}
        print(f"{what:<34} {cells[what]['value']:9.2f}   llama.cpp {cells[what]['peer_value']:9.2f}")
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128, help="of each answer")
    parser.add_argument("--items", type=int, default=660, help="sentences of the long prompt, six tokens each")
    parser.add_argument("--espalier", default=servers.ESPALIER)
    parser.add_argument("--llama", default=os.environ.get("ESP_LLAMACPP", ""))
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    with servers.espalier(o.model, o.threads, "--parallel", str(CLIENTS + 1), "--remember", "0",
                          program=o.espalier) as ours, \
            servers.llama(o.llama, o.model, o.threads, CLIENTS, CONTEXT) as theirs:
        for server in (ours, theirs):
            together(server, 2, 8)  # untimed: pages, scratch memory
        rounds = []
        for index in range(o.rounds):
            rounds.append((measure(ours, o, f"{index}a"), measure(theirs, o, f"{index}b")))
            print(f"round {index + 1}: " + "; ".join(f"{name} {rounds[-1][0][name]:.1f} and {rounds[-1][1][name]:.1f}"
                                                     for name in rounds[-1][0]), flush=True)
    cells = summary(rounds)
    if o.json:
        eight = cells["8 requests, tokens/s"]
        print(json.dumps({"name": "serve", "model": pathlib.Path(o.model).stem, "threads": o.threads,
                          "unit": "tokens/s", "peer": "llama.cpp", **eight, "cells": cells}))


if __name__ == "__main__":
    main()
