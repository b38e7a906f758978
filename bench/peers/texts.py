"""The .gguf files that `espalier convert` writes, read by llama.cpp: the same greedy text and the same perplexity.

    ESP_LLAMACPP=DIR_OF_ITS_BIN python3 bench/peers/texts.py MODEL.gguf... [--types q8_0 q4_k ...] [--tokens 64]

Each model is written in each type and served by both programs, which continue the same prompts. Both round activations
to 8 bits, but not alike (blocks of 32 numbers here, up to 256 there, keys and values of 16 bits there), so that logits
differ by a little and a near-tie may fall either way. How little is measured in the same run: `noise` is the root of
the mean squared difference of the log-probabilities of tokens that both chose after the same text, of those tokens that
were in doubt (probability below 0.9; near-ties are, and those of the others hardly move). At the first token that
differs, `gap` is how far ours holds its own choice above theirs. A gap is the difference of two log-probabilities, and
the largest of some hundred near-normal errors is about three times their root mean square, so a near-tie is a gap of at
most 3 * sqrt(2) * noise. A wrong scale or a misplaced block changes logits by whole nats and then the noise itself: it
may be at most 0.25. The perplexity is ours as served. Exits with 1 where a bound is broken.
"""
import argparse
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import perplexity
import servers

TYPES = ["f32", "bf16", "f16", "q8_0", "q6_k", "q5_k", "q5_1", "q5_0", "q4_k", "q4_1", "q4_0", "iq4_nl", "q3_k", "q2_k"]
PROMPTS = [
    "The three main parts of a cell are",
    "def binary_search(items, target):\n",
    "Once upon a time there was a fisherman who lived by the sea with his",
    "A short history of the printing press begins in the fifteenth century, when",
]
MOST_NOISE = 0.25
TIE = 3 * math.sqrt(2)  # times the noise
IN_DOUBT = math.log(0.9)


def continuations(server, prompts, tokens):
    """For each prompt (ids) the greedy tokens as texts, their log-probabilities, and those of the best few."""
    for prompt in prompts:
        body = {"prompt": prompt, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        if server.name == "espalier":
            answer = server.ask("/v1/completions", {**body, "max_tokens": tokens, "logprobs": 20})
            logprobs = answer["choices"][0]["logprobs"]
            yield logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]
        else:
            chosen = server.ask("/completion", {**body, "n_predict": tokens, "n_probs": 2})["completion_probabilities"]
            yield [c["token"] for c in chosen], [c["logprob"] for c in chosen], None


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))


def compare_texts(o, model):
    """Tokens that are equal, all tokens, noise, and the largest gap at a first difference (nats)."""
    with servers.espalier(model, o.threads, program=o.espalier) as server:
        prompts = [server.ask("/tokenize", {"content": p})["tokens"] for p in PROMPTS]
        ours = list(continuations(server, prompts, o.tokens))
    with servers.llama(o.llama, model, o.threads, 1, 2048) as server:
        theirs = list(continuations(server, prompts, o.tokens))
    equal, squares, gap = 0, [], 0.0
    for (a, a_logs, best), (b, b_logs, _) in zip(ours, theirs, strict=True):
        same = first_difference(a, b)
        equal += same
        squares += [(x - y) ** 2 for x, y in zip(a_logs[:same], b_logs[:same]) if x < IN_DOUBT]
        if same < len(a):
            gap = max(gap, a_logs[same] - best[same].get(b[same], -math.inf))
    return equal, len(PROMPTS) * o.tokens, math.sqrt(sum(squares) / max(1, len(squares))), gap


def check(o, model, name, kind):
    equal, tokens, noise, gap = compare_texts(o, model)
    (a, chunks), (b, their_chunks) = perplexity.ours(o, model), perplexity.theirs(o, model)
    difference = (a - b) / b
    sound = noise <= MOST_NOISE and gap <= TIE * noise and chunks == their_chunks and abs(difference) <= o.bound
    print(f"{name:20} {kind:7} {equal:4} of {tokens}  {noise:7.4f} {gap:7.4f} {a:10.4f} {b:10.4f} {difference:+8.2%}"
          f"{'' if sound else '   FAILS'}", flush=True)
    return sound


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--types", nargs="+", default=TYPES, choices=TYPES)
    parser.add_argument("--tokens", type=int, default=64, help="of each continuation")
    parser.add_argument("--text", default=str(servers.ROOT / "HACKING.md"), help="HACKING.md unless given")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--bound", type=float, default=0.005, help="of the perplexity's relative difference")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--espalier", default=servers.ESPALIER)
    folder = os.environ.get("ESP_LLAMACPP", "")
    parser.set_defaults(dtype="auto", llama=folder, llama_perplexity=os.path.join(folder, "llama-perplexity"))
    o = parser.parse_args()
    print(f"{'model':20} {'type':7} tokens equal    noise     gap   espalier  llama.cpp   difference")
    failed = 0
    for model in o.models:
        with tempfile.TemporaryDirectory() as folder:
            wide = f"{folder}/wide.gguf"
            subprocess.run([o.espalier, "convert", model, wide, "--dtype", "f32"], check=True, capture_output=True)
            for kind in o.types:
                path = wide if kind == "f32" else f"{folder}/{kind}.gguf"
                if kind != "f32":
                    subprocess.run([o.espalier, "convert", wide, path, "--dtype", kind], check=True,
                                   capture_output=True)
                failed += not check(o, path, pathlib.Path(model).stem, kind)
                if kind != "f32":
                    os.remove(path)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
