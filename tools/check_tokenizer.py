#!/usr/bin/env python3
"""Compares `espalier tokenize` with the Hugging Face `tokenizers` library on random strings; not part of the tests.

    python3 tools/check_tokenizer.py TOKENIZER_JSON [--strings 20000] [--seed 1] [--espalier build/release/espalier]

Prints the first strings whose ids differ and exits with 1 if there are any.
"""
import argparse
import json
import random
import subprocess
import sys

from tokenizers import Tokenizer

RANGES = [(0x20, 0x7E), (0x00, 0x20), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900,
    0xDFF),
          (0x2000, 0x206F), (0x2150, 0x218F), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xE000,
          0xE0FF),
          (0xFF00, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x323AF), (0xE0000, 0x10FFFF)]
COMMON = list(" \n\t'\"") * 3 + list("  sStTlLvVeErRdDmM019.,-_()<|>") + ["'ll", "'S", "\r\n", "    ", "the",
    "<|endoftext|>"]


def random_string(rng):
    def part():
        if rng.random() < 0.75:
            return rng.choice(COMMON)
        code = rng.randint(*rng.choice(RANGES))
        return "x" if 0xD800 <= code <= 0xDFFF else chr(code)

    return "".join(part() * rng.choice([1, 1, 1, 2, 5]) for _ in range(rng.randint(0, 60)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("--strings", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--espalier", default="build/release/espalier")
    options = parser.parse_args()

    rng = random.Random(options.seed)
    strings = [random_string(rng) for _ in range(options.strings)]
    lines = "".join(json.dumps(string) + "\n" for string in strings)
    ours = subprocess.run([options.espalier, "tokenize", options.tokenizer], input=lines, capture_output=True,
                          text=True, check=True).stdout.splitlines()
    library = Tokenizer.from_file(options.tokenizer)
    unequal = 0
    for string, line in zip(strings, ours, strict=True):
        expected = library.encode(string, add_special_tokens=False).ids
        if json.loads(line) != expected:
            unequal += 1
            if unequal <= 5:
                print(f"{string!r}\n  espalier   {line}\n  tokenizers {expected}")
    print(f"{len(strings)} strings, {unequal} with other ids")
    sys.exit(unequal > 0)


if __name__ == "__main__":
    main()
