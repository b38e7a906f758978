#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/pipeline.json: small tokenizers, one for each construct of tokenizer.json, and what the
Hugging Face `tokenizers` library makes of hard strings with them: ids, offsets and the text decoded from the ids.

    python3 tools/make_pipeline_golden.py [FILE]

Needs the package `tokenizers`; the tests need only what it wrote:
  {"made_by", "library": version, "strings": [...],
   "tokenizers": [{"name", "like"?: name, "json", "cases": [case, ...]}]}
"json" is a tokenizer.json, or its difference from the one of the tokenizer "like" (merged() below). A case is
[ids, offsets] where the text decoded from the ids is the string, [ids, offsets, text] otherwise, with a null text where
the library has no answer; n where it is that of the n-th tokenizer; null where the library refuses the string. Offsets
are of characters, one entry a token: its end, if it begins where the one before ends, otherwise [begin, end].
"""
import base64
import json
import struct
import sys
from pathlib import Path

import tokenizers
from tokenizers import Tokenizer

MARK = "\u2581"


def added(id, content, **options):
    entry = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": False}
    return entry | options


def bpe(tokens, merges, **options):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": {token: id for id, token in enumerate(tokens)}, "merges": merges}
    return model | options


def tokenizer(model, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model} | parts


def sentencepiece_model(**options):
    """BPE over characters with all byte tokens, a few of whose merges meet in odd ways."""
    words = ["he", "hel", "lo", "hello", MARK + "hello", MARK + "a", "ab", "ba", "aba", MARK * 2, MARK * 4, "日本",
             "e\u0301", "fi", ".\n", "aa", "aaa", "aaaa", MARK + "w", "or", "ld", "world", MARK + "world"]
    chars = sorted(set("".join(words)) | set("cdé12345'!,<>x"))
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + chars + words
    merges = ["h e", "he l", "l o", "hel lo", MARK + " hello", "a b", MARK + " a", "b a", "ab a", "a ba",
              f"{MARK} {MARK}", f"{MARK * 2} {MARK * 2}", "日 本", "e \u0301", "f i", ". \n", "a a", "aa a", "a aa",
              "aa aa", "w o", "o r", "l d", "wor ld", MARK + " w", MARK + " world"]
    known = set(tokens)
    merges = [merge.split(" ") for merge in merges if all(half in known for half in merge.split(" "))]
    merges = [merge for merge in merges if "".join(merge) in known]
    return bpe(tokens, merges, **({"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True} | options))


def sequence(kind, list_name, *steps):
    return {"type": "Sequence", list_name: list(steps)}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def split(pattern, behavior, kind="String", invert=False):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def metaspace(scheme="always", cut=True):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": cut}


FALLBACK, FUSE, STRIP = {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1,
                                                                     "stop": 0}
SPACES = replace(MARK, " ")
LLAMA_DECODER = sequence("decoder", "decoders", SPACES, FALLBACK, FUSE, STRIP)
BOS = {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
       "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
SPECIALS = [added(0, "<unk>", special=True), added(1, "<s>", special=True), added(2, "</s>", special=True)]


def bpe_tokenizers():
    llama = tokenizer(sentencepiece_model(), added_tokens=SPECIALS, post_processor=BOS, decoder=LLAMA_DECODER,
                      normalizer=sequence("normalizer", "normalizers", {"type": "Prepend", "prepend": MARK},
                                          replace(" ", MARK)))
    rows = [("llama", None, llama)]

    def like(name, **parts):
        rows.append((name, "llama", parts))

    like("gemma", normalizer=replace(" ", MARK), pre_tokenizer=split(" ", "MergedWithPrevious"),
         decoder=sequence("decoder", "decoders", SPACES, FALLBACK, FUSE))
    for scheme in ("always", "first", "never"):
        like(f"metaspace_{scheme}", normalizer=None, pre_tokenizer=metaspace(scheme, scheme != "first"),
             decoder=metaspace(scheme))
    like("fallback_missing", model={"vocab": {"<0xE6>": None, "<0x00>": None}})
    like("unknown_alone", model={"byte_fallback": False, "fuse_unk": False})
    like("unknown_fused", model={"byte_fallback": False}, decoder=None)
    like("ignore_merges", model={"ignore_merges": True}, normalizer=None, pre_tokenizer=metaspace(),
         decoder=metaspace())
    like("added", added_tokens=SPECIALS + [
        added(312, "<x>", lstrip=True), added(313, "<y>", rstrip=True, normalized=True),
        added(314, "word", single_word=True), added(315, " b", normalized=True), added(316, "llo", special=True)])
    like("added_first", added_tokens=SPECIALS + [added(312, "<x>", lstrip=True), added(313, "<y>", normalized=True)],
         normalizer=None, pre_tokenizer=metaspace("first"), decoder=metaspace("first"))
    like("replace_regex", normalizer=sequence("normalizer", "normalizers", replace(r"[0-9]{2,}", "12", "Regex"),
                                              replace("ab", ""), replace(r"\s+", " ", "Regex")),
         decoder=sequence("decoder", "decoders", FALLBACK, replace("[ab]+", "B", "Regex"), FUSE))
    like("strip_both", decoder=sequence("decoder", "decoders", SPACES, FUSE,
                                        {"type": "Strip", "content": " ", "start": 2, "stop": 1}))
    like("strip_tokens", decoder=sequence("decoder", "decoders", FALLBACK,
                                          {"type": "Strip", "content": "a", "start": 1, "stop": 0}, FUSE,
                                          replace("aa", "-")))
    for behavior in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            if behavior == "Contiguous" and invert:
                continue
            like(f"split_{behavior}{'_inverted' * invert}", normalizer=None,
                 pre_tokenizer=split("a", behavior, invert=invert))
    like("split_regex", normalizer=None,
         pre_tokenizer=sequence("pre_tokenizer", "pretokenizers", split(r"\s+", "Removed", "Regex"),
                                split(r"[a-z]\d?", "MergedWithNext", "Regex"), metaspace("always")))
    return rows


def charsmap(replacements):
    """SentencePiece's precompiled_charsmap, base64: a double-array trie (see text/charsmap.h) and its strings."""
    children, texts = [{}], b""
    values = {}
    for key, replacement in sorted(replacements.items()):
        node = 0
        for byte in key.encode():
            if byte not in children[node]:
                children[node][byte] = len(children)
                children.append({})
            node = children[node][byte]
        values[node] = len(texts)
        texts += replacement.encode() + b"\0"
    units, free = [0] * 4096, [True] * 4096
    free[0] = False

    def place(node, at, label):
        wanted = sorted(children[node]) + ([0] if node in values else [])
        base = next(b for b in range(1, 4096) if all((b ^ c) < 4096 and free[b ^ c] for c in wanted))
        for c in wanted:
            free[base ^ c] = False
        units[at] = (at ^ base) << 10 | (node in values) << 8 | label
        if node in values:
            units[base] = values[node] | 1 << 31
        for byte, child in sorted(children[node].items()):
            place(child, base ^ byte, byte)

    place(0, 0, 0)
    last = (max(i for i, unit in enumerate(units) if unit) // 256 + 1) * 256  # whole blocks: the library looks there
    trie = struct.pack(f"<{last}I", *units[:last])
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + texts).decode()


def normalizer_tokenizers():
    rows = []

    def like(name, *steps, **parts):
        rows.append((name, "llama", {"normalizer": sequence("normalizer", "normalizers", *steps)} | parts))

    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        like(form.lower(), {"type": form})
    like("nfc_llama", {"type": "NFC"}, {"type": "Prepend", "prepend": MARK}, replace(" ", MARK))
    like("lowercase", {"type": "Lowercase"}, added_tokens=SPECIALS + [
        added(312, "WORD", normalized=True), added(313, "<Y>", single_word=True)])
    like("strip", {"type": "Strip", "strip_left": True, "strip_right": True}, pre_tokenizer=metaspace("first"))
    like("strip_right", {"type": "Strip", "strip_left": False, "strip_right": True}, replace(" {2,}", MARK, "Regex"),
         pre_tokenizer=metaspace())
    like("accents", {"type": "NFD"}, {"type": "StripAccents"})
    like("nmt", {"type": "Nmt"})
    like("precompiled", {"type": "Precompiled", "precompiled_charsmap": charsmap(
        {"ﬁ": "fi", "é": "e\u0301", "e\u0301": "é", "\u00a0": " ", "\u3000": " ", "ａ": "a", "\u200b": "", "¼": "1/4",
         "ｶﾞ": "ガ", "ｶ": "カ", "\t": " ", "각": "\u1100\u1161\u11a8"})}, pre_tokenizer=metaspace())
    like("bert", {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                  "lowercase": True}, pre_tokenizer={"type": "BertPreTokenizer"})
    like("bert_cased", {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": True,
                        "strip_accents": True, "lowercase": False}, pre_tokenizer={"type": "WhitespaceSplit"})
    return rows


def pre_tokenizer_tokenizers():
    rows = []
    for name, step in [("whitespace", {"type": "Whitespace"}), ("whitespace_split", {"type": "WhitespaceSplit"}),
                       ("bert_pre", {"type": "BertPreTokenizer"}),
                       ("digits", {"type": "Digits", "individual_digits": False}),
                       ("digits_alone", {"type": "Digits", "individual_digits": True}),
                       ("delimiter", {"type": "CharDelimiterSplit", "delimiter": "a"})] + [
                           (f"punctuation_{behavior}", {"type": "Punctuation", "behavior": behavior})
                           for behavior in ("Isolated", "Removed", "MergedWithPrevious", "Contiguous")]:
        rows.append((name, "llama", {"normalizer": None, "pre_tokenizer": step}))
    return rows


def unigram_tokenizers():
    pieces = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], [MARK, -2.0], [MARK + "hello", -5.5], ["hel", -4.0],
              ["lo", -3.5], ["he", -3.0], ["l", -4.5], ["o", -4.25], ["h", -5.0], ["e", -3.25], ["a", -2.5], ["b", -3.0],
              ["ab", -4.5], ["aba", -7.0], [MARK + "a", -3.5], ["aa", -5.0], ["aaa", -7.5], ["日本", -8.0], ["日", -9.0],
              ["world", -6.0], ["w", -6.5], ["r", -5.5], ["d", -5.5], ["fi", -7.0], ["1", -6.0], ["12", -7.0],
              ["!,", -8.0], [",", -5.0], ["XY", -9.0], ["e\u0301", -6.0]]
    bytes_ = [[f"<0x{byte:02X}>", -11.0] for byte in range(256)]
    model = {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False}
    precompiled = normalizer_tokenizers()[10][2]["normalizer"]
    base = tokenizer(model, added_tokens=SPECIALS, normalizer=precompiled, pre_tokenizer=metaspace(),
                     post_processor=BOS, decoder=metaspace())
    return [("unigram", None, base),
            ("unigram_bytes", "unigram", {"model": {"vocab": pieces + bytes_, "byte_fallback": True},
                                          "decoder": LLAMA_DECODER}),
            ("unigram_some_bytes", "unigram", {"model": {"vocab": pieces + bytes_[64:], "byte_fallback": True},
                                               "normalizer": None, "decoder": LLAMA_DECODER}),
            ("unigram_no_unknown", "unigram", {"model": {"unk_id": None}}),
            ("unigram_whole", "unigram", {"normalizer": replace(" ", MARK), "pre_tokenizer": None}),
            ("unigram_t5", "unigram", {"normalizer": sequence(
                "normalizer", "normalizers", *precompiled["normalizers"],
                {"type": "Strip", "strip_left": False, "strip_right": True}, replace(" {2,}", MARK, "Regex"))})]


STRINGS = [
    "", " ", "  ", "    ", "hello", "hello world", " hello  world ", "   hello", "hello   ", "\0", "a\0b", "\n", ".\n.\n",
    "e\u0301", "ae\u0301\u0323x", "\u0301", "caf\u00e9 fi \ufb01", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd", "日本語 日本", "中文！", "שלום a", "aba", "ababa",
    "abababab", "a" * 5, "a" * 23, " " * 9, "aab aaba baa", "<s>", "a<s>hello</s> b", "<x>", "a  <x> b<y>  c", "<y>",
    "word sword word.word", "a b", "x b b", "hello<x>hello", " <y>hello", "hello llo", "12 123 4 a12345b",
    "a1b2", "aXYb", "éé", MARK, f"a{MARK}b", f"{MARK} {MARK}hello", "<0x41>", "a\u00a0b\tc", "\ufffd", "hello!,'<>x", "É İ ǅ ﬁ ½ ½a Å", "a\u0323\u0302 \u1100\u1161\u11a8\u11a9 각", "ａｶﾞ ｶ\u200b\u200bb¼",
    "WORD Word <Y> a.b,,c (d) ¿e? 1٣4", "\x01a\x7fb\u2028c\ufeff", "중국어 中文abc漢",
]


def merged(target, patch):  # RFC 7396
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None and key not in ("normalizer", "pre_tokenizer", "decoder", "unk_token", "unk_id"):
            result.pop(key, None)
        elif isinstance(value, dict) and "type" not in value:
            result[key] = merged(result.get(key), value)
        else:
            result[key] = value
    return result


def case(library, string):
    try:
        encoded = library.encode(string, add_special_tokens=False)
    except Exception:  # a Unigram model without an unknown token
        return None
    offsets, behind = [], 0
    for begin, end in encoded.offsets:
        offsets.append(end if begin == behind else [begin, end])
        behind = end
    try:
        text = library.decode(encoded.ids, skip_special_tokens=False)
    except BaseException as failure:  # its Strip panics at tokens that are shorter than what is stripped
        if "Panic" not in type(failure).__name__:
            raise
        text = None
    # It writes a normalized added token in its normalized form; we as it was given.
    tokens = library.get_added_tokens_decoder()
    if any(id in tokens and tokens[id].content != library.id_to_token(id) for id in encoded.ids):
        text = None
    return [encoded.ids, offsets] + ([] if text == string else [text])


def all_rows():
    return bpe_tokenizers() + normalizer_tokenizers() + pre_tokenizer_tokenizers() + unigram_tokenizers()


def built():
    """(name, like, patch, whole json) of every tokenizer."""
    whole = {}
    for name, like, patch in all_rows():
        whole[name] = merged(whole[like], patch) if like else patch
        yield name, like, patch, whole[name]


def main():
    path = Path(sys.argv[1] if len(sys.argv) > 1
                else Path(__file__).parent.parent / "tests/golden/tokenizer/pipeline.json")
    rows, whole_rows = [], []
    for name, like, patch, whole in built():
        library = Tokenizer.from_str(json.dumps(whole))
        row = {"name": name} | ({"like": like} if like else {}) | {"json": patch}
        cases = [case(library, string) for string in STRINGS]
        for i, value in enumerate(cases):
            alike = [n for n, other in enumerate(whole_rows) if other[i] == value and value]
            row.setdefault("cases", []).append(alike[0] if alike else value)
        whole_rows.append(cases)
        rows.append(row)
    head = {"made_by": "tools/make_pipeline_golden.py", "library": tokenizers.__version__, "strings": STRINGS}
    lines = [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows]
    start = json.dumps(head, ensure_ascii=True, separators=(",", ":"))[:-1]
    path.write_text(start + ',"tokenizers":[\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{len(rows)} tokenizers, {len(STRINGS)} strings, {path.stat().st_size} bytes in {path}")


if __name__ == "__main__":
    main()
