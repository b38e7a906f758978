"""`espalier bench verify` beside llama.cpp: what a pass over 1, 2, 4 or 8 tokens costs, the same files, in turn.

    ESP_LLAMACPP=DIR_OF_ITS_BIN bench/peers/verify.sh MODEL.gguf... [--threads 2] [--rounds 3] [--json]

v(k) is the time of a pass over k tokens over that of one. Theirs is llama-batched-bench with k sequences of one token a
step, 32 tokens behind each, which computes all k tokens' logits as a verifying pass does. `pass ratio` says how much
faster our pass over k tokens is than theirs.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess

import servers

ROWS = [1, 2, 4, 8]


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def ours(o, model):
    """Milliseconds of passes, by k."""
    result = json.loads(run([o.espalier, "bench", "verify", "--models", model, "--threads", str(o.threads), "--repeats",
                             "3", "--json"]).strip().splitlines()[-1])
    one = next(value for name, value in result["cells"].items() if name.endswith("one token, ms"))
    values = {int(m[1]): value for name, value in result["cells"].items() if (m := re.search(r"v\((\d+)\)$", name))}
    return {k: one * values[k] for k in ROWS}, result["machine_class"]


def theirs(o, model):
    said = run([os.path.join(o.llama, "llama-batched-bench"), "-m", model, "-t", str(o.threads), "-c", "2048", "-npp",
                "32", "-ntg", str(o.steps), "-npl", ",".join(map(str, ROWS)), "--output-format", "jsonl"])
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return {line["pl"]: 1e3 * line["t_tg"] / line["tg"] for line in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24, help="passes of llama.cpp a round")
    parser.add_argument("--espalier", default=servers.ESPALIER)
    parser.add_argument("--llama", default=os.environ.get("ESP_LLAMACPP", ""))
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    cells, machine = {}, None
    for model in o.models:
        mine, peer = [], []
        for _ in range(o.rounds):
            passes, machine = ours(o, model)
            mine.append(passes)
            peer.append(theirs(o, model))
        a, b = ({k: statistics.median(p[k] for p in side) for k in ROWS} for side in (mine, peer))
        for k in ROWS:
            name = f"{pathlib.Path(model).stem}, {k} token{'s' if k > 1 else ''}"
            cells[name] = {"value": a[k] / a[1], "peer_value": b[k] / b[1], "ms": a[k], "peer_ms": b[k],
                           "ratio": b[k] / a[k]}
            print(f"{name:<36} v {a[k] / a[1]:5.2f} ({a[k]:7.1f} ms)   llama.cpp v {b[k] / b[1]:5.2f} "
                  f"({b[k]:7.1f} ms)   pass ratio {b[k] / a[k]:5.2f} x", flush=True)
    if o.json:
        ratios = [cell["ratio"] for cell in cells.values()]
        print(json.dumps({"name": "verify", "machine_class": machine, "unit": "time of a pass / time of one token",
                          "peer": "llama.cpp", "ratio": statistics.median(ratios), "worst_ratio": min(ratios),
                          "cells": cells}))


if __name__ == "__main__":
    main()
