#!/usr/bin/env python3
"""Compares `espalier tokenize` with the `tokenizers` library on the vocabularies of the real models; not part of the
tests.

    python3 tools/check_vocab.py [NAME ...] [--strings 20000] [--seed 1] [--espalier build/release/espalier]

NAME is a model of tools/get_model.sh; default: all four. The library's tokenizers are those of gguf_vocabularies.py;
half of the strings are those of check_tokenizer.py, half are words, numbers, code and other scripts glued together.
Each string's ids must be the same, and where the library decodes them to the string, so must we. Prints the first
strings that differ and exits with 1 if there are any. Needs the packages tokenizers and gguf.
"""
import argparse
import json
import random
import subprocess
import sys

from check_tokenizer import random_string
from gguf_vocabularies import NAMES, library_tokenizer, model_path

WORDS = """the The of and AND to in is Tokenizer encoding internationalization don't WE'LL they've I'm x y0 foo_bar
camelCaseName HTTPServer 1234567 3.14159 0x1F 2024-01-01 12:34:56 ½ ² Ⅷ ١٢٣ １２３ 的 一个 中文分词 你好，世界。 日本語の テキスト 한국어 각
Ελληνικά Русский עברית العربية हिन्दी ไทย ქართული Ünïcödé cafe\u0301 e\u0301\u0323 \u1100\u1161\u11a8 Å ﬁ ß ẞ İ ı ſ
👍🏽 👨‍👩‍👧 🏳️‍🌈 🇩🇪 ☺️ 𝕏 𠀀 \u2581 \u2581\u2581 \ufffd \u200d \ufe0f \u00ad
<|endoftext|> <|im_start|> <|im_end|> <bos> <eos> <start_of_turn> <table> </td> <tool_call> <unused0> <0x0A> [PAD151700] <|
def return {} [] () ; == != -> :: // /* */ # $ % & @ ` ~ ^ \\ | '' "" ... --- === *** >>> <!-- --> && || += \\n \\t""".split()
SPACES = [" ", "  ", "   ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\n    ", "\n\t\t", "\u00a0", "\u3000", "\u2028", "\u0085", "\v"]


def glued_string(rng):
    parts = []
    for _ in range(rng.randint(1, 30)):
        parts.append(rng.choice(WORDS))
        if rng.random() < 0.7:
            parts.append(" " if rng.random() < 0.6 else rng.choice(SPACES) * rng.choice([1, 1, 2, 9, 40]))
    return "".join(parts)


def check(name, strings, espalier):
    model = str(model_path(name))
    lines = "".join(json.dumps(string) + "\n" for string in strings)
    run = dict(capture_output=True, text=True, check=True)
    ours = subprocess.run([espalier, "tokenize", model], input=lines, **run).stdout
    texts = subprocess.run([espalier, "tokenize", model, "--decode"], input=ours, **run).stdout.split("\n")
    library = library_tokenizer(name)
    unequal = other_text = 0
    for string, line, text in zip(strings, ours.split("\n"), texts):
        expected = library.encode(string, add_special_tokens=False).ids
        if json.loads(line) != expected:
            unequal += 1
            if unequal <= 5:
                print(f"{string!r}\n  espalier   {line}\n  tokenizers {expected}")
        elif json.loads(text) != (theirs := library.decode(expected, skip_special_tokens=False)):
            other_text += 1
            if other_text <= 5:
                print(f"{string!r}\n  espalier decodes   {json.loads(text)!r}\n  tokenizers decodes {theirs!r}")
    print(f"{name}: {len(strings)} strings, {unequal} with other ids, {other_text} decoded otherwise", flush=True)
    return unequal + other_text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--strings", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--espalier", default="build/release/espalier")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    strings = [(random_string if i % 2 else glued_string)(rng) for i in range(options.strings)]
    sys.exit(sum([check(name, strings, options.espalier) for name in options.names]) > 0)


if __name__ == "__main__":
    main()
