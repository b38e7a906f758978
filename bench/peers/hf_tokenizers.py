"""The tokenizers library on the work of `espalier bench prepare` and `bench bpe`.

python hf_tokenizers.py encode FILE.jsonl TOKENIZER   MB/s of encode_batch_fast on one thread, cold cache
python hf_tokenizers.py train FILE.jsonl              seconds to train an 8k byte-level BPE on all threads
"""
import json
import os
import sys
import time

work, path = sys.argv[1], sys.argv[2]
if work == "encode":
    os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer, __version__, models, pre_tokenizers, trainers  # noqa: E402


def documents():
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


if work == "train":
    texts = documents()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=8192, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|endoftext|>"], min_frequency=2, show_progress=False)
    start = time.perf_counter()
    tokenizer.train_from_iterator(texts, trainer)
    print(json.dumps({"value": time.perf_counter() - start, "tokenizers": __version__}))
else:
    tokenizer = Tokenizer.from_file(sys.argv[3])
    tokenizer.encode_special_tokens = True  # ours reads special tokens in a text as text, too
    texts = documents()
    size = sum(len(text.encode()) for text in texts)
    start = time.perf_counter()
    count = sum(len(e.ids) for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False))
    print(json.dumps({"value": size / 1e6 / (time.perf_counter() - start), "ids": count, "tokenizers": __version__}))
