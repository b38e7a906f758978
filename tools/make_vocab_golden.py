#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/real.json: the ids that the `tokenizers` library gives for hard strings with the
vocabularies of the real models.

    python3 tools/make_vocab_golden.py [FILE]

The library's tokenizers are built by gguf_vocabularies.py from the models that tools/get_model.sh fetches; its docstring
says how and why. The strings are those of make_tokenizer_golden.py but the random ones, and more that these vocabularies
have something to say about. Needs the packages tokenizers and gguf; the test needs the models and real.json:
  {"made_by", "tokenizers", "cases": [{"text" | "hex" (ill-formed UTF-8)}],
   "vocabularies": [{"models": [names that share it], "lossy": [cases that do not decode to their text],
                     "around": ids of "a" with BOS and EOS,
                     "ids": base64 of numbers in LEB128: for each case, how many ids, and the ids}]}
"""
import base64
import json
import random
import sys
from pathlib import Path

import tokenizers

from gguf_vocabularies import NAMES, library_tokenizer
from make_tokenizer_golden import hard_strings

MORE = [
    # Contractions in every case, glued and apart.
    "I'm I'M I'd I'D you're YOU'RE he'll HE'LL we've WE'VE it's IT'S can't CAN'T", "x'S'T'rE'vE'lL'M'd", "'tis ''twas",
    # Digits.
    "0", "00", "007", "1234567890" * 4, "1 22 333 4444 55555", "1.000.000,00", "2024-12-31T23:59:59Z", "v10.20.30-rc1",
    "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "０１２３４５６７８９", "𝟎𝟙𝟚𝟛", "ⅠⅡⅢⅳ", "½¾⅓ x½y", "¹²³⁴ x₁₂", "①②③ ⑩⑳",
    # Every white space, alone, doubled, between letters, at the ends.
    *[f"a{c}b {c}c{c}{c}d{c}" for c in "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005"
      "\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"],
    "\r\n\r\n \r\n", "a\n\n\n\n\nb", "\n" * 31, "\n" * 32, "\n" * 40, "\n \n  \n", " \n" * 10, "\t" * 31, "\t" * 33, "\t \t",
    *[" " * n for n in (4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 40, 64)], "a" + " " * 33 + "b", " " * 35 + "x",
    # Normal forms.
    "e\u0301 \u00e9", "A\u030a \u212b \u00c5", "o\u0302\u0323 o\u0323\u0302 \u1ed9", "q\u0323\u0307 q\u0307\u0323",
    "\u1100\u1161 \u1100\u1161\u11a8 \uac00 \uac01", "\u11a8\u1161\u1100", "\u0958 \u0915\u093c", "\u2126 \u1f71 \u0387",
    "\ufb01 \u00bd \u2460", "\u0344 \u0308\u0301", "n\u0303o ma\u00f1ana", "\u0b95\u0bca \u0b95\u0bc6\u0bbe",
    "i\u0307 \u0130 I\u0307", "a\u0315\u0300\u05ae\u0300b", "\U000110bb \U00011099\U000110ba", "\u3099\u304b\u3099",
    "\u0301" * 20, "x" + "\u0301\u0323" * 10, "\uf900\u4e26", "\U0002f800",
    # Emoji, flags, tags, variation selectors.
    "👩🏽‍🚀👨‍👩‍👧‍👦🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "❤️❤", "1️⃣", "🤦🏼‍♂️ 🫠 🪿", "🇺🇸🇨🇳🇯",
    # Other scripts, both directions, astral ones.
    "مَرْحَبًا بِكَ", "שָׁלוֹם", "\u2067abc\u2069 \u061c", "ภาษาไทยไม่มีช่องว่าง", "မြန်မာ", "ខ្មែរ", "አማርኛ", "தமிழ்",
    "𝒜𝓑 𝔘𝔫𝔦 𐍈 𒀀 𓀀 🀄", "𠮷野家 㐀 \U00030000", "漢字かな交じり文。カタカナ", "中文没有空格，但有标点！", "한국어는 띄어쓰기", "Ünïcödé ŁÓDŹ",
    # Controls, private use, noncharacters.
    "".join(map(chr, range(1, 32))), "\x7f\x80\x9f", "\ue000\uf8ff\U000f0000", "\ufdd0\ufffe\U0001ffff", "\u00ad\u034f\u2060",
    # Special tokens glued to text, cut short, nested; marks that vocabularies use inside.
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "a<|im_end|>b", " <|im_start|> ", "<|im_start|im_end|>",
    "<bos>a<eos>", "<start_of_turn>model\nok<end_of_turn>\n", "<pad><unk><mask>", "<unused0><unused99", "[multimodal]",
    "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>", "<|endoftext|>\u0301",
    "e<|endoftext|>\u0301", "<table><tr><td>1</td></tr></table>", "<h1>x</h1><br/>", "<0x0A><0x41>", "[PAD151700]", "</s><s>",
    "<repo_name>a/b<file_sep>c.py\n", "<jupyter_code>1+1", "<empty_output>", "\u2581", "\u2581\u2581", "a\u2581b \u2581 c",
    "\u0120hello\u010a", "Ġ Ċ ĉ", "â\u0080\u0099", "<|endoftext|><|endoftext|> <|endoftext|>",
    # Code.
    "def f(a, *, b=1):\n    \"\"\"Doc.\"\"\"\n    return {k: v for k, v in zip(a, b)}\n\n\n",
    "\tif (x != NULL && *p++ == '\\0') {\n\t\treturn -1;\n\t}\n", "std::vector<std::pair<int, int>> v{{1, 2}};",
    "SELECT * FROM t WHERE a>=1.5e-3 AND b LIKE '%x_';", "x=x<<2|y>>>3^~z;", "<!-- a --><a href='#'>b</a>&amp;",
    "$ curl -sSL https://example.org/a?b=c&d=%C3%A9 | sh\n", "\\begin{align} \\alpha &= \\frac{1}{2} \\\\ \\end{align}",
    "a:\n  - b: \"c\"\n  - d: [1, 2]\n", "    " * 8 + "pass\n", "/* ------------------ */\n", "#" * 79, "()[]{}<>" * 6,
    # Long pieces.
    "supercalifragilisticexpialidocious" * 4, "的" * 70, "ab" * 120, "é" * 50, "!?" * 60, "한" * 60, "aA" * 60, "_" * 130,
]


def leb128(numbers):
    out = bytearray()
    for n in numbers:
        while n >= 128:
            out.append(n & 127 | 128)
            n >>= 7
        out.append(n)
    return bytes(out)


def main():
    default = Path(__file__).parent.parent / "tests/golden/tokenizer/real.json"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    strings, broken = hard_strings(random.Random(0))
    strings = list(dict.fromkeys(strings[:-100] + MORE))  # the last hundred are random
    cases = [{"text": text} for text in strings] + [{"hex": text} for text in dict.fromkeys(broken[:-40])]
    texts = strings + [bytes.fromhex(case["hex"]).decode("utf-8", errors="replace") for case in cases[len(strings):]]
    vocabularies = {}
    for name in NAMES:
        library = library_tokenizer(name)
        numbers, lossy = [], []
        for i, text in enumerate(texts):
            ids = library.encode(text, add_special_tokens=False).ids
            numbers += [len(ids), *ids]
            if library.decode(ids, skip_special_tokens=False) != text:
                lossy.append(i)
        entry = {"models": [], "lossy": lossy, "around": library.encode("a").ids,
                 "ids": base64.b64encode(leb128(numbers)).decode()}
        vocabularies.setdefault(entry["ids"], entry)["models"].append(name)
        print(f"{name}: {len(texts)} strings, {len(numbers) - len(texts)} ids, {len(lossy)} lossy")
    golden = {"made_by": "tools/make_vocab_golden.py", "tokenizers": tokenizers.__version__, "cases": cases,
              "vocabularies": list(vocabularies.values())}
    text = json.dumps(golden, separators=(",", ":")).replace("},{", "},\n{")
    path.write_text(text + "\n")
    print(f"{len(text)} bytes in {path}")


if __name__ == "__main__":
    main()
