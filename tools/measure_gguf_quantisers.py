#!/usr/bin/env python3
"""Measures ggml's own quantisers on the numbers of src/formats/gguf_quantise_test.cc, which holds ours against them.

    python3 tools/measure_gguf_quantisers.py libggml-base.so

Needs numpy, the package `gguf` and the library that llama.cpp builds. Prints a row a type: the root of the mean squared
error over the root of the mean square, of numbers that are nearly normal and of heavy-tailed ones.
"""
import ctypes
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

ROWS, COLS = 64, 1024
TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


def mixed(index):
    """SplitMix64's output of state `index`."""
    z = index * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def numbers(heavy):
    """Sums of twelve 16-bit integers, exact in f32; heavy ones times 2^k, where k appears with probability 2^(-k-1)."""
    index = np.arange(1, ROWS * COLS + 1, dtype=np.uint64) * np.uint64(4)
    total = np.zeros(ROWS * COLS, np.int64)
    for word in range(3):
        bits = mixed(index + np.uint64(word))
        for part in range(4):
            total += (bits >> np.uint64(16 * part) & np.uint64(0xFFFF)).astype(np.int64)
    x = (total - 6 * 65536).astype(np.float32) / np.float32(65536)
    if heavy:
        bits = mixed(index + np.uint64(3))
        scale = np.ones(ROWS * COLS, np.float32)
        for k in range(4):
            scale = np.where((bits & np.uint64(2 ** (k + 1) - 1)) == 2 ** (k + 1) - 1, np.float32(2 ** (k + 1)), scale)
        x = x * scale
    return x.reshape(ROWS, COLS)


def main():
    library = ctypes.CDLL(sys.argv[1])
    run = library.ggml_quantize_chunk
    run.restype = ctypes.c_size_t
    run.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    for name in TYPES:
        kind = GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[kind]
        errors = []
        for x in (numbers(False), numbers(True)):
            blocks = np.zeros((ROWS, COLS // elements * size), np.uint8)
            run(int(kind), x.ctypes.data, blocks.ctypes.data, 0, ROWS, COLS, None)
            back = dequantize(blocks, kind).astype(np.float64)
            errors.append(np.sqrt(np.sum((back - x) ** 2) / np.sum(x.astype(np.float64) ** 2)))
        print(f"{{GgmlType::k{name}, {errors[0]:.6f}, {errors[1]:.6f}}},")


if __name__ == "__main__":
    main()
