"""Speculative decoding beside llama.cpp: the same pair of models, prompts and threads, in turn, greedy.

    ESP_LLAMACPP=DIR_OF_ITS_BIN bench/peers/spec.sh TARGET.gguf DRAFT.gguf [--our-draft OTHER.gguf] [--tokens 256]

llama.cpp runs plain (llama-completion) and with the draft at each --n-max (llama-speculative-simple); what counts is the
faster for each prompt's round. Ours runs plain and with --draft. Rates are of the new tokens, the prompt excluded.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROMPTS = [
    'def binary_search(items, target):\n    """Return the index of target in a sorted list, or -1."""\n',
    "Explain in simple words why the sky is blue.\n",
    "class Stack:\n    def __init__(self):\n",
    "A short history of the printing press begins in the fifteenth century, when",
    "SELECT customers.name, SUM(orders.total)\nFROM customers\nJOIN orders ON",
    "The three main parts of a cell are",
    'import csv\n\ndef read_table(path):\n    """Read a CSV file into a list of dictionaries."""\n',
    "Once upon a time there was a fisherman who lived by the sea with his",
    "fn factorial(n: u64) -> u64 {\n",
    "To make a good vegetable soup you first need to",
    "#include <vector>\n\n// Merge sort of a vector of integers.\nstd::vector<int> merge_sort(std::vector<int> v) {\n",
    "Dear team,\n\nI am writing to let you know that the release has been moved to",
    "function debounce(fn, wait) {\n  // Call fn only after wait milliseconds of silence.\n",
    "The difference between a virus and a bacterium is that",
    "class LinkedList:\n    def __init__(self):\n        self.head = None\n\n    def append(self, value):\n",
    "In economics, inflation means",
    "def is_prime(n):\n",
    "Write a list of ten tips for learning a new language:\n1.",
    'package main\n\nimport "fmt"\n\n// Print the first ten squares.\nfunc main() {\n',
    "The patient was admitted with chest pain and shortness of breath. On examination",
]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout + done.stderr


def llama_plain(o, prompt):
    said = run([os.path.join(o.llama, "llama-completion"), "-m", o.target, "-p", prompt, "-n", str(o.tokens), "-t",
                str(o.threads), "--temp", "0", "-no-cnv", "--ignore-eos", "--no-warmup"])
    return float(re.search(r"\beval time =.*?([\d.]+) tokens per second", said.split("prompt eval time")[-1])[1])


def llama_spec(o, prompt, n_max):
    said = run([os.path.join(o.llama, "llama-speculative-simple"), "-m", o.target, "-md", o.draft, "--spec-type",
                "draft-simple", "--spec-draft-n-max", str(n_max), "-p", prompt, "-n", str(o.tokens), "-t",
                str(o.threads), "-td", str(o.threads), "--temp", "0", "--ignore-eos"])
    return float(re.search(r"decoded\s+\d+ tokens in\s+[\d.]+ seconds, speed:\s+([\d.]+)", said)[1])


def ours(o, prompt, draft):
    command = [o.espalier, "generate", o.target, "--prompt", prompt, "--max-tokens", str(o.tokens), "--temperature", "0",
               "--ignore-eos", "--threads", str(o.threads), "--json"]
    out = subprocess.run(command + (["--draft", draft] if draft else []), check=True, capture_output=True, text=True)
    return json.loads(out.stdout)["decode_tokens_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--our-draft", help="the same draft in fewer bits, for us")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--n-max", type=int, nargs="+", default=[3])
    parser.add_argument("--espalier", default=str(ROOT / "build/release/espalier"))
    parser.add_argument("--llama", default=os.environ.get("ESP_LLAMACPP", ""))
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    rows = []
    for prompt in PROMPTS[: o.prompts]:
        row = {"ours plain": ours(o, prompt, None), "ours draft": ours(o, prompt, o.draft)}
        if o.our_draft:
            row["ours small draft"] = ours(o, prompt, o.our_draft)
        row["llama.cpp plain"] = llama_plain(o, prompt)
        for n in o.n_max:
            row[f"llama.cpp draft {n}"] = llama_spec(o, prompt, n)
        rows.append(row)
        print(f"{prompt.splitlines()[0][:32]:<34}" + "  ".join(f"{k} {v:.1f}" for k, v in row.items()), flush=True)
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    best = lambda who: max(value for name, value in medians.items() if name.startswith(who))
    ratio = best("ours") / best("llama.cpp")
    print("medians: " + ", ".join(f"{name} {value:.1f}" for name, value in medians.items()))
    print(f"best of ours / best of llama.cpp: {ratio:.2f}; over our own plain: {best('ours') / medians['ours plain']:.2f}")
    if o.json:
        print(json.dumps({"name": "spec", "unit": "tokens/s", "value": best("ours"), "peer": "llama.cpp",
                          "peer_value": best("llama.cpp"), "ratio": ratio, "cells": medians}))


if __name__ == "__main__":
    main()
