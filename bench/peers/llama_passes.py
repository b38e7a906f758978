"""`espalier bench decode` or `prefill` beside llama.cpp's llama-bench: the same files, the same threads, in turn.

    ESP_LLAMACPP=DIR_OF_ITS_BIN bench/peers/decode.sh MODEL.gguf... [--threads 1 2] [--rounds 3] [--json]

A cell is a model and a number of threads; its figures are medians over the rounds. With --json the last line is one
object as docs/PERFORMANCE.md is made from.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def ours(espalier, what, model, threads):
    out = subprocess.run([espalier, "bench", what, "--models", model, "--threads", str(threads), "--repeats", "1",
                          "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def theirs(llama, what, model, threads):
    work = ["-p", "0", "-n", "128"] if what == "decode" else ["-p", "512", "-n", "0"]
    out = subprocess.run([os.path.join(llama, "llama-bench"), "-m", model, "-t", str(threads), "-r", "1", "-o", "json",
                          *work], check=True, capture_output=True, text=True).stdout
    return json.loads(out)[0]["avg_ts"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["decode", "prefill"])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--espalier", default=str(ROOT / "build/release/espalier"))
    parser.add_argument("--llama", default=os.environ.get("ESP_LLAMACPP", ""))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cells, machine = {}, None
    for model in options.models:
        for threads in options.threads:
            mine, peer = [], []
            for _ in range(options.rounds):
                result = ours(options.espalier, options.what, model, threads)
                machine = result["machine_class"]
                mine.append(result["value"])
                peer.append(theirs(options.llama, options.what, model, threads))
            name = f"{pathlib.Path(model).stem}, {threads} thread{'s' if threads > 1 else ''}"
            a, b = statistics.median(mine), statistics.median(peer)
            cells[name] = {"value": a, "peer_value": b, "ratio": a / b}
            print(f"{name:<36} {a:8.1f} tokens/s   llama.cpp {b:8.1f}   {a / b:5.2f} x", flush=True)
    ratios = [cell["ratio"] for cell in cells.values()]
    if options.json:
        print(json.dumps({"name": options.what, "machine_class": machine, "unit": "tokens/s", "peer": "llama.cpp",
                          "value": statistics.median(c["value"] for c in cells.values()),
                          "peer_value": statistics.median(c["peer_value"] for c in cells.values()),
                          "ratio": statistics.median(ratios), "worst_ratio": min(ratios), "cells": cells}))
    else:
        print(f"median {statistics.median(ratios):.2f} x, worst {min(ratios):.2f} x")


if __name__ == "__main__":
    main()
