"""The vocabularies of the four real models (tools/get_model.sh) as tokenizers of the Hugging Face `tokenizers` library.

Built here from what the GGUF file holds and from what the models' own tokenizer.json say, not by transformers' GGUF
loading: that one takes any `gpt2` vocabulary for GPT-2's (no NFC, no digits on their own) and a Gemma vocabulary for a
Unigram model, and so gives other ids than the models' makers. What is taken from where:
  Qwen2.5   normalizer NFC; Split by the regex of its tokenizer.json, ByteLevel without a regex
  SmolLM2   Digits one by one, ByteLevel with GPT-2's regex
  Gemma 3   normalizer Replace " " by U+2581; BPE with byte fallback and no pre-tokenizer (its Split by " " finds none
            left); merges from the scores of tokenizer.model as transformers' generate_merges orders them. GGUF files
            write user-defined tokens of spaces as spaces, with a score of -1000 where tokenizer.model has 0: both are
            undone here.
Control and user-defined tokens are added tokens that are matched in the raw text; unused rows are no tokens.

Needs the packages tokenizers and gguf.
"""
import os
import pathlib

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

NAMES = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "smollm2-135m", "gemma-3-270m")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 2, 3, 4, 5, 6


def model_path(name):
    """The file of a model: a path, or a name in the folder of tools/get_model.sh."""
    if name.endswith(".gguf"):
        return pathlib.Path(name)
    folder = os.environ.get("ESP_MODELS") or os.path.expanduser("~/.cache/espalier/models")
    return pathlib.Path(folder) / f"{name}.gguf"


def read_fields(path):
    fields = gguf.GGUFReader(path).fields
    return {key.removeprefix("tokenizer.ggml."): field.contents() for key, field in fields.items()
            if key.startswith("tokenizer.ggml.")}


def add_tokens(tokenizer, tokens, types):
    """Adds them in two calls, since each call sorts all added tokens anew."""
    def added(kinds):
        return [AddedToken(token, single_word=False, lstrip=False, rstrip=False, normalized=False)
                for token, kind in zip(tokens, types) if kind in kinds]

    tokenizer.add_special_tokens(added((UNKNOWN, CONTROL)))
    tokenizer.add_tokens(added((USER_DEFINED,)))


def byte_level(fields):
    tokens, types = fields["tokens"], fields["token_type"]
    vocab = {token: i for i, token in enumerate(tokens) if types[i] != UNUSED}
    merges = [tuple(merge.split(" ")) for merge in fields["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    if fields["pre"] == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(QWEN2), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)])
    elif fields["pre"] == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    else:
        raise SystemExit(f"tokenizer.ggml.pre is {fields['pre']}; known here are qwen2 and smollm")
    tokenizer.decoder = decoders.ByteLevel()
    add_tokens(tokenizer, tokens, types)
    return tokenizer


def merges_of(vocab, scores):
    """transformers' generate_merges(vocab, scores), faster: best score first, of equals the longer left half, then the
    longer right half; then as in the vocabulary."""
    merges = []
    for token, score in scores.items():
        local = [(token[:i], token[i:], score) for i in range(1, len(token))
                 if token[:i] in vocab and token[i:] in vocab]
        merges += sorted(local, key=lambda merge: (vocab[merge[0]], vocab[merge[1]]))
    merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
    return [merge[:2] for merge in merges]


def byte_fallback(fields):
    types = fields["token_type"]
    tokens = [token.replace(" ", "\u2581") if types[i] == USER_DEFINED else token
              for i, token in enumerate(fields["tokens"])]
    vocab = {token: i for i, token in enumerate(tokens)}
    scores = {token: 0.0 if types[i] == USER_DEFINED else fields["scores"][i] for i, token in enumerate(tokens)
              if types[i] not in (UNKNOWN, CONTROL, BYTE)}
    tokenizer = Tokenizer(models.BPE(vocab, merges_of(vocab, scores), byte_fallback=True, fuse_unk=True,
                                     unk_token=tokens[fields["unknown_token_id"]]))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    if fields.get("add_bos_token"):
        bos = fields["bos_token_id"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{tokens[bos]} $A", special_tokens=[(tokens[bos], bos)])
    add_tokens(tokenizer, tokens, types)
    return tokenizer


def library_tokenizer(name):
    """The library's tokenizer of a model's GGUF file."""
    fields = read_fields(model_path(name))
    return byte_level(fields) if fields["model"] == "gpt2" else byte_fallback(fields)
