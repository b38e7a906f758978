"""Side by side: `espalier bench NAME` and a rival on the same work, in turn, several rounds; medians and their ratio.

The rival runs in the virtual environment that this script was started from (NAME.sh takes it from ESP_PEERS). A rival
is a list of variants, each a command that prints one JSON object with "value"; the fastest variant of the first round
is the one that is compared. With --json the last line is one object as docs/PERFORMANCE.md is made from.
"""
import argparse
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def torch_train(*shape):
    variants = {}
    for dtype in ("f32", "bf16"):
        for mode in ("eager", "compile"):
            variants[f"{dtype} {mode}"] = [sys.executable, str(HERE / "torch_train.py"), *map(str, shape), dtype, mode]
    return variants


def tokenizers(work, extra):
    return {"tokenizers": [sys.executable, str(HERE / "hf_tokenizers.py"), work, *extra]}


RIVALS = {  # name: (unit, larger is better, variants)
    "train": ("tokens/s", True, lambda extra: torch_train(12, 768, 50257, 1024, 1)),
    "train-small": ("tokens/s", True, lambda extra: torch_train(6, 384, 4096, 256, 8)),
    "prepare": ("MB/s", True, lambda extra: tokenizers("encode", extra)),
    "bpe": ("s", False, lambda extra: tokenizers("train", extra)),
}


def run(command, timeout):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        return {"value": None, "error": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def best_variant(variants, larger, timeout):
    results = {}
    for name, command in variants.items():
        try:
            results[name] = run(command, timeout)["value"]
        except subprocess.TimeoutExpired:
            results[name] = None
        print(f"  peer {name}: {results[name]}", file=sys.stderr)
    measured = {name: value for name, value in results.items() if value is not None}
    if not measured:
        sys.exit("no variant of the rival ran; see the lines above")
    return (max if larger else min)(measured, key=measured.get)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=RIVALS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run of the rival")
    parser.add_argument("--espalier", default=str(ROOT / "build" / "release" / "espalier"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--input", default="", help="JSONL of prepare and bpe; default: Debian's Python source")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(args, folder)


def corpus(args, folder):
    """The text of prepare and bpe as JSONL, a document a line, and the tokenizer that both sides encode with."""
    if args.name not in ("prepare", "bpe"):
        return [], []
    path = args.input or os.path.join(folder, "python.jsonl")
    if not args.input:
        with open(path, "w") as out:
            for file in sorted(glob.glob("/usr/lib/python3*/**/*.py", recursive=True)):
                with open(file, encoding="utf-8", errors="replace", newline="") as text:
                    print(json.dumps({"text": text.read()}), file=out)
    if args.name == "bpe":
        return ["--input", path], [path]
    subprocess.run([args.espalier, "prepare", path, "--out", folder + "/prepared"], check=True, capture_output=True)
    tokenizer = folder + "/prepared/tokenizer.json"
    return ["--input", path, "--tokenizer", tokenizer], [path, tokenizer]


def compare(args, folder):
    unit, larger, make_variants = RIVALS[args.name]
    ours_extra, extra = corpus(args, folder)
    ours_command = [args.espalier, "bench", args.name, "--json", *ours_extra]
    variants = make_variants(extra)
    chosen = best_variant(variants, larger, args.timeout)
    ours, theirs, last = [], [], {}
    for round_index in range(args.rounds):
        last = run(ours_command, args.timeout)
        if last["value"] is None:
            sys.exit(f"{' '.join(ours_command)}: {last['error']}")
        ours.append(last["value"])
        theirs.append(run(variants[chosen], args.timeout)["value"])
        print(f"  round {round_index + 1}: ours {ours[-1]:.4g}, {chosen} {theirs[-1]:.4g} {unit}", file=sys.stderr)
    a, b = statistics.median(ours), statistics.median(theirs)
    last.update(value=a, peer=chosen, peer_value=b, ratio=a / b if larger else b / a)
    print(f"{args.name}: ours {a:.4g} {unit}, {chosen} {b:.4g}, ratio {last['ratio']:.2f}")
    if args.json:
        print(json.dumps(last))


if __name__ == "__main__":
    if not os.environ.get("ESP_PEERS"):
        sys.exit("set ESP_PEERS to a virtual environment with torch and tokenizers")
    main()
