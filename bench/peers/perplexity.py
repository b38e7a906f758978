"""Perplexity of .gguf models by `espalier eval perplexity` and by llama.cpp's llama-perplexity, on the same text.

    python3 bench/peers/perplexity.py MODEL.gguf... [--text FILE] [--context 512] [--chunks 4] [--f32] [--bound 0.005]

llama-perplexity is looked for in PATH, or named by --llama. Both cut the text into the same chunks and score the second
half of each (src/eval/perplexity.h). On quantised weights llama.cpp rounds activations to 8 bits too, and ours stay
f32 unless --dtype auto is given; --f32 takes this out of the comparison: both read the model that `espalier convert`
writes in f32. Exits with 1 where the two are farther apart than the bound.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def ours(options, model):
    out = subprocess.run([options.espalier, "eval", "perplexity", model, "--text", options.text, "--context",
                          str(options.context), "--max-chunks", str(options.chunks), "--dtype", options.dtype,
                          "--json"], check=True, capture_output=True, text=True).stdout
    result = json.loads(out)
    return result["ppl"], result["chunks"]


def theirs(options, model):
    done = subprocess.run([options.llama_perplexity, "-m", model, "-f", options.text, "-c", str(options.context), "-b",
                           str(options.context), "--chunks", str(options.chunks)],
                          check=True, capture_output=True, text=True)
    said = done.stdout + done.stderr
    ppl = re.search(r"Final estimate: PPL = ([\d.]+)", said)
    chunks = re.search(r"calculating perplexity over (\d+) chunks", said)
    if not ppl:
        sys.exit(f"llama-perplexity gave no estimate for {model}:\n{said[-2000:]}")
    return float(ppl[1]), int(chunks[1])


def compare(options, model, name):
    """The relative difference of one model, which is printed."""
    (a, chunks), (b, their_chunks) = ours(options, model), theirs(options, model)
    if chunks != their_chunks:
        sys.exit(f"{name}: {chunks} chunks here, {their_chunks} there: the texts are not cut into the same tokens")
    print(f"{name:32} {chunks:6} {a:10.4f} {b:10.4f}  {(a - b) / b:+10.3%}", flush=True)
    return abs(a - b) / b


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--text", default=str(ROOT / "HACKING.md"), help="HACKING.md unless given")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--f32", action="store_true", help="compare the model written in f32")
    parser.add_argument("--bound", type=float, default=0.005)
    parser.add_argument("--espalier", default=str(ROOT / "build/release/espalier"))
    parser.add_argument("--dtype", default="f32", help="of our weights; auto: in their blocks, as they are served")
    parser.add_argument("--llama", dest="llama_perplexity", default="llama-perplexity")
    options = parser.parse_args()
    worst = 0
    print(f"{'model':32} chunks   espalier  llama.cpp  difference")
    for model in options.models:
        name = pathlib.Path(model).name
        if not options.f32:
            worst = max(worst, compare(options, model, name))
            continue
        with tempfile.TemporaryDirectory() as folder:
            dequantised = f"{folder}/f32.gguf"
            subprocess.run([options.espalier, "convert", model, dequantised, "--dtype", "f32"], check=True,
                           capture_output=True)
            worst = max(worst, compare(options, dequantised, f"{name} in f32"))
    sys.exit(worst > options.bound)


if __name__ == "__main__":
    main()
