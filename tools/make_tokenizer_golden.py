#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/: two small vocabularies trained by the Hugging Face `tokenizers` library on text that
this script makes up, and the ids which the library gives for hard strings, with these and with variants of them.

    python3 tools/make_tokenizer_golden.py [FOLDER]

Needs the package `tokenizers`; the tests need only what it wrote. cases.json:
  {"made_by", "seed", "tokenizers", "train": {"<pattern>": {"documents": [...], "vocab_size", ...}},
   "variants": [{"name", "base": "gpt2" | "llama3", "patch": JSON merge patch of the base's tokenizer.json}],
   "cases": [{"text" | "hex" (ill-formed UTF-8), "ids": {"<variant>": [...]}}]}
"""
import json
import random
import sys
from pathlib import Path

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SEED = 3
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def made_up_text(rng):
    """Documents in the rough statistics of prose, code and several scripts; no text of anybody's."""
    onsets = ["b", "br", "c", "ch", "d", "f", "g", "h", "k", "l", "m", "n", "p", "qu", "r", "s", "st", "t", "th", "w"]
    vowels, codas = ["a", "e", "i", "o", "u", "ea", "ou"], ["", "", "n", "r", "s", "t", "ll", "ng", "st"]
    words = ["".join(rng.choice(part) for part in (onsets, vowels, codas) * rng.randint(1, 2)) for _ in range(400)]
    greek = ["".join(rng.choice("αβγδεικλμνοπρστυω") for _ in range(rng.randint(2, 6))) for _ in range(40)]
    cyrillic = ["".join(rng.choice("абвгдеиклмнопрстуя") for _ in range(rng.randint(2, 7))) for _ in range(60)]
    han = "的一是不了人我在有他这中大来上国个到说们"
    documents = []
    for _ in range(60):
        lines = []
        for _ in range(rng.randint(2, 12)):
            kind = rng.random()
            if kind < 0.5:
                line = " ".join(rng.choice(words[: rng.randint(5, 400)]) for _ in range(rng.randint(4, 14)))
                line = line.capitalize() + rng.choice([".", "!", "?", ", don't you?", " -- it's.", "..."])
            elif kind < 0.8:
                line = "    " * rng.randint(0, 3) + rng.choice([
                    f"def {rng.choice(words)}_{rng.choice(words)}(self, x={rng.randint(0, 9999)}):",
                    f"if x[{rng.randint(0, 99)}] == \"{rng.choice(words)}\":\t# {rng.choice(words)}",
                    f"return {{'{rng.choice(words)}': {rng.random():.3f}}}"])
            elif kind < 0.9:
                line = " ".join(rng.choice(rng.choice([greek, cyrillic])) for _ in range(6))
            else:
                line = "".join(rng.choice(han) for _ in range(12)) + rng.choice(["。", "！", " 🙂", " 👍🏽", " é"])
            lines.append(line)
        documents.append(rng.choice(["\n", "\r\n", "\n\n"]).join(lines))
    return documents


def train(pattern, documents):
    tokenizer = Tokenizer(models.BPE())
    if pattern == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        specials = ["<|endoftext|>"]
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
        specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot|>"]
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=700, min_frequency=2, special_tokens=specials, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if pattern == "llama3":
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                          special_tokens=[("<|begin_of_text|>", 0)])])
    return tokenizer


def added(id, content, **options):
    entry = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": False}
    return entry | options


def variants():
    def split(regex):
        return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}, BYTE_LEVEL]}}

    tokens = [added(0, "<|endoftext|>", special=True), added(700, "<mask>", special=True, lstrip=True),
              added(701, "<right>", rstrip=True), added(702, "word", single_word=True),
              added(703, "ab", normalized=True), added(704, "abcd", normalized=True),
              added(705, "  ", normalized=True), added(706, "<|endoftext|>x"),
              added(707, "é!", special=True), added(708, "cd", normalized=False)]
    return [
        {"name": "gpt2", "base": "gpt2", "patch": {}},
        {"name": "llama3", "base": "llama3", "patch": {}},
        {"name": "llama3_ignore_merges", "base": "llama3", "patch": {"model": {"ignore_merges": True}}},
        {"name": "qwen2", "base": "llama3", "patch": split(LLAMA3.replace("{1,3}", ""))},
        {"name": "prefix_space", "base": "gpt2",
         "patch": {"pre_tokenizer": dict(BYTE_LEVEL, add_prefix_space=True, use_regex=True)}},
        {"name": "added_tokens", "base": "gpt2", "patch": {"added_tokens": tokens}},
        # Leaves gaps between matches, and is none of the known patterns.
        {"name": "regex", "base": "gpt2", "patch": split(r"[A-Z]?[a-z]+|\d(?=\d{3}\b)|\s\S")},
        {"name": "digits", "base": "gpt2", "patch": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, dict(BYTE_LEVEL, use_regex=True)]}}},
    ]


def hard_strings(rng):
    strings = [
        "", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\r", "\t", "\t\t", " \t ", "\v\f",
        "\0", "a\0b",
        "a", " a", "  a", "a ", "a  ", "a  b", "a   b", "a \n b", "a\n b", "a \nb", "a\n\nb", "a\n\n b",
        "a\r\nb", "a\r\n\r\n  b",
        "a\tb", "a\t\tb", "\ta", "\t a", " \ta", "x = 1\n\n\n    y = 2\n", "def f(x):\n\treturn x\n",
        "trailing \n", "   \n   \n   x",
        "Hello, world!", "hello world", "HELLO WORLD", "don't", "DON'T", "Don'T",
        "I'll I'Ll I'LL we've WE'VE they're", "it's 'S 's 't 'd",
        "'", "''", "'''", "'s", "' s", " 's", "!'s", "a'", "x'y", "o'clock", "rock'n'roll", "'ſ it'ſ 'ſt",
        "’s it’s", "'re'RE'Re", "'l 'll 'lll",
        "1", "12", "123", "1234", "12345", "123456", "1234567", " 1", "  1", "1 2", "3.14159", "1,000,000",
        "1e-5", "0x1F", "v1.2.3",
        "½", "²", "x²", "½ ²³ ¼", "Ⅷ ⅷ", "١٢٣٤", "१२३४", "①②③④", "1²3½", "a1b2", "２０２４",
        "你好", "你好，世界。", "日本語のテキスト", "한국어 텍스트", "中文 和 English", "的一是不了人我在有他", "ไทยภาษา", "हिन्दी में", "ქართული",
        "café", "cafe\u0301", "e\u0301\u0302\u0303", "\u0301", " \u0301a", "Å Å Å", "ﬁ ﬂ", "ß ẞ", "İ ı", "ǅ",
        "🙂", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "a🙂b", " 🙂", "🙂 🙂", "🙂\n🙂", "☺️", "\u200d", "\ufe0f",
        "שלום עולם", "مرحبا بالعالم", "\u202babc\u202c", "א1ב", "\u200f", "\ufeffbom", "a\ufeffb",
        "\u00a0", "a\u00a0b", "\u00a0\u00a0a", " \u00a0a", "\u2003x", "\u3000全角", "a\u2028b", "a\u2029 b",
        "\u0085", "a\u0085b", " \u0085 b",
        "\u180ea", "a\u200bb", "\u1680x", "\u202fx", "\x1c\x1d\x1e\x1fx", "\x7f", "\x80\x9f", "\x01\x02",
        "\ufffd", "\ufffe\uffff", "\U0010ffff", "\U0001d54f\U0001d7d8", "\U00020000\U0002ebf0\U00031350",
        "\ue000", "\U0001f600" * 3,
        "\u1c89 \ua7cb \U000105c0 \U00010d40 \U00016d40", "\U0001e5f1\U00011bf0 1",
        "<|endoftext|>", "a<|endoftext|>b", "a <|endoftext|> b", "<|endoftext|><|endoftext|>",
        "<|endoftext|>x", "<|endoftext", "<|endoftext|", "|endoftext|>",
        "<<|endoftext|>>", "<|begin_of_text|>hi<|end_of_text|>", "<|eot|> \n<|eot|>", "\n<|eot|>\n",
        "<|Endoftext|>",
        "a <mask> b", "a  <mask>  b", "<mask>", " \n<mask><mask>", "é!<mask>", "a <right>  b",
        "<right> <mask> x", "<right>\n\n<right>",
        "word", "sword word words", "word word", "a.word.b", "wordword", "_word", "1word", "word́",
        "wordⅷ ⓦword", "abcd", "abab", "abcabcd", "xabcdy cd", "    x", "     x",
        "é!", "é !", "<|endoftext|>xé!",
        "a" * 100, " " * 100, "\n" * 70, "ab" * 200, "=" * 90, "-*" * 60, "1" * 100, "é" * 60, "的" * 60,
        "🙂" * 40, "aA1 " * 40,
        "http://example.org/a_b?c=d&e=%20#f", "user@example.org", "C:\\dir\\file.txt", "/* c */ // x",
        "#include <vector>\n", "#!/bin/sh\n", "a->b::c[d]{e}",
        "<div class=\"x\">&nbsp;</div>", "{\"k\": [1, 2.5, null]}", "$x^2 + \\frac{1}{2}$", "...", "....",
        "?!?!", "—", "“quoted”", "« a »", "a…b", "¿Qué?", "£5 €6 ¥7", "10 % off",
        "snake_case_name CamelCaseName kebab-case", "ALLCAPS lower MiXeD", "tab\tseparated\tvalues\n",
        "line one\nline two\n\n\tindented\n",
    ]
    alphabet = (list("abcdeABC'sStTlLvVrRdDmM") + list(" \t\n\r") * 3 + list("0123456789½²Ⅷ١") + list(".,!?-_()[]<>|&#/\\\"") +
                list("éßαжЖ的語한ไא") + list("\u0301\u200d\ufe0f🙂👍🏽\u00a0\u3000\u2028\u0085\0\u180eſ") + ["<|endoftext|>", "<|eot|>", "word", "abcd", "'ll", "'S"])
    strings += ["".join(rng.choice(alphabet) for _ in range(rng.randint(2, 40))) for _ in range(100)]
    broken = ["80", "ff", "61ff62", "c3", "c328", "61c3", "e28082e2", "e282", "f09f98", "f09f", "f0",
              "f09f9880f09f98", "c080", "e08080",
              "eda080", "edbfbf", "f48fbfbf", "f4908080", "f5808080", "f8888080", "fefe", "20ff20", "e2e282ac",
              "f0f09f9880", "61e2822062",
              "ffffff", "c3a9c3", "e0a0", "ed9fbf", "f08080", "f18080e18062", "0aff0a", "27ff73"]
    alphabet = b"ab \n\x80\xbf\xc2\xc3\xe0\xe2\xed\xf0\xf4\xff"
    broken += [bytes(rng.choice(alphabet) for _ in range(rng.randint(1, 16))).hex() for _ in range(40)]
    return strings, broken


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/golden/tokenizer")
    folder.mkdir(parents=True, exist_ok=True)
    documents = made_up_text(random.Random(SEED))
    bases = {}
    for pattern in ("gpt2", "llama3"):
        bases[pattern] = json.loads(train(pattern, documents).to_str())
        text = json.dumps(bases[pattern], ensure_ascii=False, separators=(",", ":"))
        (folder / f"{pattern}.json").write_text(text)

    def merged(target, patch):  # RFC 7396
        if not isinstance(patch, dict):
            return patch
        return {**target, **{key: merged(target.get(key) if isinstance(target.get(key), dict) else {}, value)
                             for key, value in patch.items()}} if isinstance(target, dict) else patch

    all_variants = variants()
    built = {v["name"]: Tokenizer.from_str(json.dumps(merged(bases[v["base"]], v["patch"])))
             for v in all_variants}
    strings, broken = hard_strings(random.Random(SEED + 1))
    cases = []
    for key, values in (("text", strings), ("hex", broken)):
        for value in values:
            text = value if key == "text" else bytes.fromhex(value).decode("utf-8", errors="replace")
            ids = {name: t.encode(text, add_special_tokens=False).ids for name, t in built.items()}
            # Equal lists are written once.
            unlike = {name: list_ for name, list_ in ids.items() if name == "gpt2" or list_ != ids["gpt2"]}
            cases.append({key: value, "ids": unlike})
    golden = {"made_by": "tools/make_tokenizer_golden.py", "seed": SEED, "tokenizers": tokenizers.__version__,
              "documents": documents, "variants": all_variants, "cases": cases}
    text = json.dumps(golden, ensure_ascii=True, separators=(",", ":")).replace("},{\"text\"", "},\n{\"text\"")
    (folder / "cases.json").write_text(text.replace("},{\"hex\"", "},\n{\"hex\"") + "\n")
    print(f"{len(cases)} cases, {len(all_variants)} variants, "
          f"{sum(path.stat().st_size for path in folder.iterdir())} bytes in {folder}")


if __name__ == "__main__":
    main()
