"""Checks that models written by Espalier are read by transformers and give the same numbers there.

Each MODEL is written anew by `espalier convert` in f32, bf16 and f16, in one file and in many shards, by `espalier
convert` with a larger vocabulary, and by `espalier train --init` after a few steps. Then transformers loads what was
written and scores random tokens, and `espalier eval perplexity --per-token` scores the same ones from
the same files. Both compute in f32, so the scores (nats, up to about 20) agree to f32's rounding.

Needs torch, transformers, numpy. Run: python tools/check_transformers.py build/release/espalier MODEL...
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from transformers import AutoModelForCausalLM

SEED = 20261130
BOUND = 1e-4  # relative error of the scores as a vector


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def scores_of_transformers(folder, ids, context):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    chunks = torch.tensor(ids[: len(ids) // context * context].astype("int64")).reshape(-1, context)
    with torch.no_grad():
        logs = torch.log_softmax(model(input_ids=chunks).logits.double(), -1)
    nll = -logs[:, :-1].gather(-1, chunks[:, 1:, None])[..., 0]
    return nll[:, context // 2:].reshape(-1).numpy()


def scores_of_espalier(binary, folder, shard, context):
    lines = run(binary, "eval", "perplexity", folder, "--tokens", shard, "--context", context, "--per-token")
    return numpy.array([json.loads(line)["nll"] for line in lines.splitlines()])


def check(binary, source, scratch):
    config = json.loads((source / "config.json").read_text())
    context = min(128, config.get("max_position_embeddings", config.get("n_positions", 1024)))
    ids = numpy.random.default_rng(SEED).integers(0, config["vocab_size"], 4 * context).astype("uint16")
    shard = scratch / "ids.bin"
    ids.tofile(shard)
    size = sum(file.stat().st_size for file in source.glob("*.safetensors"))
    folder = scratch / "model"

    def compare(what):
        theirs = scores_of_transformers(folder, ids, context)
        ours = scores_of_espalier(binary, folder, shard, context)
        error = numpy.linalg.norm(ours - theirs) / numpy.linalg.norm(theirs)
        files = len(list(folder.glob("*.safetensors")))
        print(f"{source.name:20} {what:10} {files:3} files  {len(ours)} scores  relative error {error:.2e}")
        return error

    worst = 0
    for dtype in ("f32", "bf16", "f16"):
        for shards, megabytes in (("one file", 5000), ("many", size / 5e6)):
            run(binary, "convert", source, folder, "--dtype", dtype, "--max-shard-mb", megabytes)
            worst = max(worst, compare(dtype))
    run(binary, "convert", source, folder, "--vocab-multiple", 64)
    worst = max(worst, compare("grown"))
    run(binary, "train", "--init", source, "--data.train", shard, "--data.context", context // 2, "--data.batch", 1,
        "--max_steps", 3, "--compute.dtype", "f32", "--run.out", scratch / "run")
    folder = scratch / "run/model"
    worst = max(worst, compare("trained"))
    return worst


def main():
    binary, models = pathlib.Path(sys.argv[1]), [pathlib.Path(path) for path in sys.argv[2:]]
    worst = 0
    for model in models:
        with tempfile.TemporaryDirectory() as scratch:
            worst = max(worst, check(binary, model, pathlib.Path(scratch)))
    print(f"worst relative error {worst:.2e}, bound {BOUND:.0e}")
    return int(worst > BOUND)


sys.exit(main())
