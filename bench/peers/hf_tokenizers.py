"""The tokenizers library on the work of `espalier bench prepare` and `bench bpe`.

python hf_tokenizers.py encode FILE [TOKENIZER]   MB/s of encode_batch_fast on one thread, lines in batches, cold cache
python hf_tokenizers.py train FILE                seconds to train an 8k byte-level BPE on all threads
"""
import json
import os
import sys
import tempfile
import time

work, path = sys.argv[1], sys.argv[2]
if work == "encode":
    os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer, __version__, decoders, models, pre_tokenizers, trainers  # noqa: E402


def trained(files):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=8192, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer.train(files, trainer)
    return tokenizer


if work == "train":
    start = time.perf_counter()
    trained([path])
    print(json.dumps({"value": time.perf_counter() - start, "tokenizers": __version__}))
else:
    if len(sys.argv) > 3:
        tokenizer = Tokenizer.from_file(sys.argv[3])
    else:  # trained and reloaded, so that no cache is warm
        with tempfile.TemporaryDirectory() as folder:
            trained([path]).save(folder + "/tokenizer.json")
            tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        text = file.read()
    size = len(text.encode())
    pieces = [text[i:i + 20000] for i in range(0, len(text), 20000)]
    start = time.perf_counter()
    count = sum(len(e.ids) for e in tokenizer.encode_batch_fast(pieces))
    print(json.dumps({"value": size / 1e6 / (time.perf_counter() - start), "ids": count, "tokenizers": __version__}))
