#!/usr/bin/env python3
"""Checks GGUF against other programs' reading; not part of the tests.

    python3 tools/check_gguf.py write MODEL...   # Hugging Face folders: what `espalier convert` writes of them in f32,
                                                 # f16, bf16 and q8_0 is read by the `gguf` package, tensor by tensor
    python3 tools/check_gguf.py tokens FILE...   # .gguf: ids of random strings equal those of the tokenizer that
                                                 # transformers makes of the same file
    python3 tools/check_gguf.py logits FILE...   # .gguf: per-token scores equal transformers' on the same file

    --espalier build/release/espalier  --strings 5000  --seed 1

Needs the packages gguf and numpy, for `tokens` and `logits` transformers,
torch and accelerate too. Exits with 1 at a difference.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np

from check_tokenizer import random_string

# Norms aside, a tensor is what another program quantised: within one rounding of its type.
RELATIVE = {"f32": 0, "f16": 2.0**-11, "bf16": 2.0**-8, "q8_0": 0.5 / 127 + 2.0**-11}


def run(*command, stdin=None):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, input=stdin).stdout


def tensors_of(path):
    from gguf import GGUFReader
    from gguf.quants import dequantize
    reader = GGUFReader(path)
    return reader, {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}


def check_write(espalier, model, _):
    with tempfile.TemporaryDirectory() as folder:
        first = None
        for dtype, relative in RELATIVE.items():
            path = os.path.join(folder, f"{dtype}.gguf")
            run(espalier, "convert", model, path, "--dtype", dtype)
            reader, tensors = tensors_of(path)
            first = first or tensors
            if set(tensors) != set(first):
                return f"{dtype}: other tensors than f32 has"
            for name, numbers in tensors.items():
                bound = relative * np.abs(first[name]).max() + 1e-12
                if numbers.shape != first[name].shape or np.abs(numbers - first[name]).max() > bound:
                    return f"{dtype}: {name} is farther than {bound:.3g} from f32"
            architecture = reader.fields["general.architecture"].contents()
            print(f"{model}: {dtype}: {len(tensors)} tensors of {architecture}")
    return None


def check_tokens(espalier, path, options):
    from transformers import AutoTokenizer
    folder, name = os.path.split(os.path.abspath(path))
    theirs = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    rng = random.Random(options.seed)
    strings = [random_string(rng) for _ in range(options.strings)]
    output = run(espalier, "tokenize", path, stdin="".join(json.dumps(s) + "\n" for s in strings))
    wrong = 0
    for text, line in zip(strings, output.splitlines(), strict=True):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        if ids != json.loads(line):
            wrong += 1
            if wrong <= 3:
                print(f"{json.dumps(text)}\n  transformers {ids}\n  espalier     {line}")
    print(f"{path}: {len(strings) - wrong} of {len(strings)} strings alike")
    return f"{wrong} strings differ" if wrong else None


def bos_of(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    adds = fields.get("tokenizer.ggml.add_bos_token")
    return fields["tokenizer.ggml.bos_token_id"].contents() if adds and adds.contents() else None


def check_logits(espalier, path, options):
    import torch
    from transformers import AutoModelForCausalLM
    folder, name = os.path.split(os.path.abspath(path))
    text = " ".join(f"The {word} of {i} is a thing that everyone knows." for i, word in
                    enumerate("sum name colour length city father purpose origin price weather".split() * 4))
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    with tempfile.TemporaryDirectory() as temporary:
        file = os.path.join(temporary, "text")
        open(file, "w").write(text)
        lines = run(espalier, "eval", "perplexity", path, "--text", file, "--context", 128, "--per-token").splitlines()
        ours = [json.loads(line) for line in lines]
        ids = json.loads(run(espalier, "tokenize", path, stdin=json.dumps(text) + "\n"))
    bos = bos_of(path)
    if bos is not None:
        ids.insert(0, bos)
    chunks = torch.tensor(ids[: len(ids) // 128 * 128]).reshape(-1, 128)
    if bos is not None:
        chunks[:, 0] = bos
    with torch.no_grad():
        logs = torch.log_softmax(model(input_ids=chunks).logits.double(), -1)
    nll = -logs[:, :-1].gather(-1, chunks[:, 1:, None])[..., 0]
    nll = nll[:, 63:].reshape(-1).numpy() if len(ours) == chunks.shape[0] * 64 else nll[:, 64:].reshape(-1).numpy()
    error = np.linalg.norm(nll - [t["nll"] for t in ours]) / np.linalg.norm(nll)
    print(f"{path}: {len(ours)} scores, relative error {error:.2e}")
    return f"relative error {error:.2e}" if error > 1e-3 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "tokens", "logits"])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--espalier", default="build/release/espalier")
    parser.add_argument("--strings", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    check = {"write": check_write, "tokens": check_tokens, "logits": check_logits}[options.what]
    problems = [(path, check(options.espalier, path, options)) for path in options.paths]
    for path, problem in problems:
        if problem:
            print(f"{path}: {problem}", file=sys.stderr)
    sys.exit(any(problem for _, problem in problems))


if __name__ == "__main__":
    main()
