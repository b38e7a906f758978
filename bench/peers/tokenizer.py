"""`espalier bench tokenizer` beside the tokenizers library: encode_batch_fast on one thread, the same vocabulary, the
same documents, in turn. Each measurement of either side starts with a fresh tokenizer; loading is not counted. Before
anything is measured the ids of both are compared, all of them. Started by tokenizer.sh.

    --texts FILE...   JSONL with "text", a document a line, each file a cell; default: made by tokenizer_texts.py
    --model NAME      a model of tools/get_model.sh, or a .gguf file
    --rounds N        how often both run; the ratio of a cell is the median over rounds of the round's ratio
    --json            the last line is one object as docs/PERFORMANCE.md is made from
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import tokenizers  # noqa: E402
from gguf_vocabularies import library_tokenizer, model_path  # noqa: E402

import tokenizer_texts  # noqa: E402


def read_documents(path):
    with open(path, encoding="utf-8") as lines:
        return [text for line in lines if (text := json.loads(line)["text"])]


def check_ids(args, definition, documents, name):
    library = tokenizers.Tokenizer.from_str(definition)
    lines = "".join(json.dumps(text) + "\n" for text in documents)
    ours = subprocess.run([args.espalier, "tokenize", str(model_path(args.model))], input=lines, capture_output=True,
                          text=True, check=True).stdout.splitlines()
    theirs = library.encode_batch_fast(documents, add_special_tokens=False)
    for text, line, encoding in zip(documents, ours, theirs, strict=True):
        if json.loads(line) != encoding.ids:
            sys.exit(f"{name}: other ids for the document that starts with {text[:60]!r}")


def their_rate(definition, documents, size):
    library = tokenizers.Tokenizer.from_str(definition)
    start = time.perf_counter()
    library.encode_batch_fast(documents, add_special_tokens=False)
    return size / 1e6 / (time.perf_counter() - start)


def our_rates(args, paths):
    texts = [word for path in paths for word in ("--texts", path)]
    command = [args.espalier, "bench", "tokenizer", "--json", "--model", str(model_path(args.model)), *texts]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", nargs="+")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--espalier", default=str(ROOT / "build" / "release" / "espalier"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(args, args.texts or tokenizer_texts.make(folder))


def compare(args, paths):
    definition = library_tokenizer(args.model).to_str()
    cells = {pathlib.Path(path).stem: read_documents(path) for path in paths}
    sizes = {name: sum(len(text.encode()) for text in documents) for name, documents in cells.items()}
    for name, documents in cells.items():
        check_ids(args, definition, documents, name)
        print(f"  {name}: {sizes[name] / 1e6:.2f} MB, ids equal", file=sys.stderr)
    ours, theirs, last = {name: [] for name in cells}, {name: [] for name in cells}, {}
    for round_index in range(args.rounds):
        last = our_rates(args, paths)
        for name, documents in cells.items():
            ours[name].append(last["cells"][name])
            theirs[name].append(their_rate(definition, documents, sizes[name]))
            print(f"  round {round_index + 1}, {name}: ours {ours[name][-1]:.4g}, "
                  f"tokenizers {theirs[name][-1]:.4g} MB/s", file=sys.stderr)
    ratios = {name: [a / b for a, b in zip(ours[name], theirs[name])] for name in cells}
    print(f"{'text':<12}{'MB':>8}{'ours MB/s':>12}{'tokenizers':>12}{'ratio':>8}{'lowest':>8}")
    for name in cells:
        print(f"{name:<12}{sizes[name] / 1e6:>8.2f}{statistics.median(ours[name]):>12.1f}"
              f"{statistics.median(theirs[name]):>12.2f}{statistics.median(ratios[name]):>8.1f}"
              f"{min(ratios[name]):>8.1f}")
    medians = {name: statistics.median(values) for name, values in ratios.items()}
    last.update(value=statistics.median(map(statistics.median, ours.values())),
                peer=f"tokenizers {tokenizers.__version__}",
                peer_value=statistics.median(map(statistics.median, theirs.values())),
                ratio=statistics.median(medians.values()), worst_ratio=min(medians.values()), ratios=medians)
    if args.json:
        print(json.dumps(last))


if __name__ == "__main__":
    main()
