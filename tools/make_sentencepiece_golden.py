#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/sentencepiece.json: small tokenizer.model files, trained here by SentencePiece on this
project's own pages, and the ids and texts that SentencePiece makes of hard strings.

    python3 tools/make_sentencepiece_golden.py [FILE]      # the golden file
    python3 tools/make_sentencepiece_golden.py --check N   # N random strings, `espalier tokenize` against SentencePiece

Needs the package sentencepiece (0.2.3 made the file; training is deterministic). The tests need only what it wrote:
  {"made_by", "library": version, "strings": [...], "models": [{"name", "model": base64, "ids": [[...]], "texts": [...]}]}
"""
import base64
import io
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece

ROOT = Path(__file__).resolve().parent.parent
STRINGS = ["", " ", "  ", "hello", " hello", "hello world", "  two  spaces ", "the model's tokenizer", "a\nb\tc", "\u2581",
           "a\u2581b", "12345", "日本語 text", "e\u0301 é", "\U0001f642\u200d", "<s>x</s>", "<unk>", "<act>do</act> it",
           "aaaaaaaaaaaaaaaa", "The the THE", "x" * 40, "ﬁne ﬁ", "A\u00a0b", "ｆｕｌｌ", "tokens, and ids; (both).", "\ufffd"]
MODELS = {
    "bpe_llama": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
                  "remove_extra_whitespaces": False, "split_digits": True, "vocab_size": 520},
    "bpe_rules": {"model_type": "bpe", "vocab_size": 260, "pad_id": 3},
    "unigram_rules": {"model_type": "unigram", "vocab_size": 260},
    "unigram_bytes": {"model_type": "unigram", "byte_fallback": True, "normalization_rule_name": "identity",
                      "remove_extra_whitespaces": False, "add_dummy_prefix": False, "vocab_size": 520,
                      "user_defined_symbols": ["<act>", "</act>"]},
}
# A charsmap of a few rules; the usual ones are a quarter of a megabyte.
RULES = [("ﬁ", "fi"), ("\u00a0", " "), ("e\u0301", "é"), ("ｆ", "f"), ("ｕ", "u"), ("ｌ", "l"), ("\t", " "), ("\n", " ")]


def trained(options):
    pages = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"])
    sentences = [line.strip() for page in pages for line in page.read_text().splitlines() if line.strip()]
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in RULES:
            rules.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
        rules.flush()
        if "normalization_rule_name" not in options:
            options = options | {"normalization_rule_tsv": rules.name}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=model, num_threads=1,
                                                 minloglevel=2, character_coverage=0.98, **options)
    return model.getvalue()


def make(path):
    models = []
    for name, options in MODELS.items():
        data = trained(options)
        library = sentencepiece.SentencePieceProcessor(model_proto=data)
        ids = [library.encode(string) for string in STRINGS]
        models.append({"name": name, "model": base64.b64encode(data).decode(), "ids": ids,
                       "texts": [library.decode(row) for row in ids]})
    head = {"made_by": "tools/make_sentencepiece_golden.py", "library": sentencepiece.__version__, "strings": STRINGS}
    path.write_text(json.dumps(head | {"models": models}, separators=(",", ":")) + "\n")
    print(f"{len(models)} models, {len(STRINGS)} strings, {path.stat().st_size} bytes in {path}")


def check(count, path):
    rng, bad = random.Random(1), 0
    parts = list("abcdehilnorstxyz ,.;'-_0123456789") * 2 + ["  ", "\u2581", "the", " model", "é", "e\u0301", "日", "ﬁ",
                                                            "\n", "\t", "\U0001f642", "\u00a0", "ｕ", "\u200b", "ж"]
    strings = ["".join(rng.choice(parts) for _ in range(rng.randint(0, 60))) for _ in range(count)]
    lines = "".join(json.dumps(string) + "\n" for string in strings)
    for row in json.loads(path.read_text())["models"]:
        data = base64.b64decode(row["model"])
        library = sentencepiece.SentencePieceProcessor(model_proto=data)
        with tempfile.NamedTemporaryFile(suffix=".model") as file:
            file.write(data)
            file.flush()
            output = subprocess.run([ROOT / "build/release/espalier", "tokenize", file.name], input=lines, text=True,
                                    capture_output=True, check=True).stdout
        wrong = [(s, a, b) for s, line in zip(strings, output.splitlines(), strict=True)
                 if (a := json.loads(line)) != (b := library.encode(s))]
        bad += len(wrong)
        print(f"{row['name']}: {count - len(wrong)} of {count} alike", *wrong[:2], sep="\n  ")
    sys.exit(bad > 0)


def main():
    path = ROOT / "tests/golden/tokenizer/sentencepiece.json"
    if sys.argv[1:2] == ["--check"]:
        check(int(sys.argv[2]), path)
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else path)


if __name__ == "__main__":
    main()
