#!/usr/bin/env python3
"""Compares `espalier tokenize` with the Hugging Face `tokenizers` library on random strings, for each tokenizer of
make_pipeline_golden.py: ids, offsets and decoded texts; not part of the tests.

    python3 tools/check_pipeline.py [--strings 2000] [--seed 1] [--only NAME] [--espalier build/release/espalier]

Prints the first differences and exits with 1 if there are any.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

import make_pipeline_golden
from check_tokenizer import RANGES

COMMON = list("aaabbbhello world\u2581\u2581  ") + [
    "hello", " hello", "e\u0301", "日本", "\n", ".\n", "<s>", "<x>", "<y>", "word", " b", "12", "!", ",", "\t", "\u00a0",
    "\u3000", "İ", "É", "ﬁ", "\u200d", "\u0323", "\u1100\u1161", "각", "ｶﾞ", "<0x41>"]


def random_string(rng):
    def part():
        if rng.random() < 0.8:
            return rng.choice(COMMON)
        code = rng.randint(*rng.choice(RANGES))
        return "x" if 0xD800 <= code <= 0xDFFF else chr(code)

    return "".join(part() * rng.choice([1, 1, 1, 2, 5]) for _ in range(rng.randint(0, 30)))


def run(espalier, path, lines, *flags):
    return subprocess.run([espalier, "tokenize", path, *flags], input="".join(json.dumps(line) + "\n" for line in lines),
                          capture_output=True, text=True, check=True).stdout.split("\n")[:-1]


def rounded(string, offsets):
    """Byte offsets as those of the whole characters."""
    starts = [at for char in string for at in [len(char.encode())]]
    begins, at = [0], 0
    for size in starts:
        at += size
        begins.append(at)
    of_byte = [i for i, size in enumerate(starts) for _ in range(size)] + [len(string)]
    return [[of_byte[begin], of_byte[end] if begins[of_byte[end]] == end else of_byte[end] + 1]
            for begin, end in offsets]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strings", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--espalier", default="build/release/espalier")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    strings = [random_string(rng) for _ in range(options.strings)]
    bad = 0
    for name, _, _, whole in make_pipeline_golden.built():
        if options.only and name != options.only:
            continue
        library = Tokenizer.from_str(json.dumps(whole))
        expected = [make_pipeline_golden.case(library, string) for string in strings]
        cases = [(string, case) for string, case in zip(strings, expected) if case]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(whole, file)
            file.flush()
            ours = run(options.espalier, file.name, [string for string, _ in cases], "--json")
            texts = run(options.espalier, file.name, [case[0] for _, case in cases], "--decode")
        unequal = {"ids": 0, "offsets": 0, "texts": 0}
        for (string, case), line, text in zip(cases, ours, texts, strict=True):
            line, behind, offsets = json.loads(line), 0, []
            for entry in case[1]:
                offsets.append(entry if isinstance(entry, list) else [behind, entry])
                behind = offsets[-1][1]
            wanted = string if len(case) == 2 else case[2]
            for key, one, other in (("ids", line["ids"], case[0]),
                                    ("offsets", rounded(string, line["offsets"]), offsets),
                                    ("texts", json.loads(text), wanted)):
                if one == other or other is None or (key == "offsets" and line["ids"] != case[0]):
                    continue
                unequal[key] += 1
                if unequal[key] <= 2:
                    print(f"{name} {key} {string!r}\n  espalier   {one}\n  tokenizers {other}")
        bad += sum(unequal.values())
        print(f"{name}: {len(cases)} strings, unequal: {unequal}", flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
