#!/usr/bin/env python3
"""Makes tests/golden/gguf/blocks.gguf with the `gguf` package: metadata of every type, blocks of random bits of every
tensor type that Espalier reads with the numbers that they stand for, and numbers with the blocks that they become.

    python3 tools/make_gguf_golden.py [FILE]

Needs the packages `gguf` and `numpy`; the tests need only what it wrote. Tensors:
  T              two rows of 512 (F32, F16, BF16: 64) elements of type T
  T.numbers      the same in F32, as gguf.quants.dequantize gives them
  numbers        F32 [4, 64], with zeros, tiny and large ones; numbers.T: its quantisation to T by gguf.quants.quantize
Metadata "made.by", "made.seed", "made.gguf" say how; "all.*" are a value of each type.
"""
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize, quantize

SEED = 7
# Where a block has f16 numbers, in bytes from its start: these get sane values, all else random bits.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0]}


def random_blocks(rng, kind, rows, blocks):
    _, size = GGML_QUANT_SIZES[kind]
    data = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    for at in HALVES[kind.name]:
        # Both signs, subnormal ones too.
        halves = (rng.normal(size=(rows, blocks, 1)) * 10.0 ** rng.integers(-6, 1, (rows, blocks, 1)))
        data[:, :, at:at + 2] = halves.astype("<f2").view(np.uint8)
    return data.reshape(rows, blocks * size)


def add_metadata(writer):
    writer.add_string("made.by", "tools/make_gguf_golden.py")
    writer.add_uint32("made.seed", SEED)
    writer.add_string("made.gguf", version("gguf"))
    writer.add_uint8("all.u8", 200)
    writer.add_int8("all.i8", -100)
    writer.add_uint16("all.u16", 60000)
    writer.add_int16("all.i16", -30000)
    writer.add_uint32("all.u32", 4000000000)
    writer.add_int32("all.i32", -2000000000)
    writer.add_float32("all.f32", 0.5)
    writer.add_bool("all.bool", True)
    writer.add_string("all.string", "Größe, 大小, \N{NULL}\n")
    writer.add_uint64("all.u64", 2**63 + 1)
    writer.add_int64("all.i64", -2**62)
    writer.add_float64("all.f64", 1e300)
    writer.add_array("all.integers", [1, -2, 3])
    writer.add_array("all.strings", ["", "a", "Ġb", "c\n"])
    writer.add_array("all.floats", [0.25, -1.5])
    writer.add_array("all.bools", [True, False])


def main():
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/gguf/blocks.gguf")
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    writer = GGUFWriter(path, "golden")
    add_metadata(writer)
    floats = rng.normal(size=(2, 64)).astype(np.float32)
    for name in ("F32", "F16", "BF16"):
        kind = GGMLQuantizationType[name]
        raw = quantize(floats, kind)
        writer.add_tensor(name, raw, raw_dtype=kind)
        writer.add_tensor(f"{name}.numbers", dequantize(raw, kind).astype(np.float32))
    for name in HALVES:
        kind = GGMLQuantizationType[name]
        raw = random_blocks(rng, kind, 2, 512 // GGML_QUANT_SIZES[kind][0])
        writer.add_tensor(name, raw, raw_dtype=kind)
        writer.add_tensor(f"{name}.numbers", dequantize(raw, kind).astype(np.float32))
    numbers = rng.normal(size=(4, 64)).astype(np.float32)
    numbers[0, :32] = 0
    numbers[1, :32] *= np.float32(1e-6)
    numbers[2, :32] *= np.float32(1e3)
    numbers[3, :32] = np.arange(-16, 16) * np.float32(127 / 32)  # ties
    writer.add_tensor("numbers", numbers)
    for name in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        kind = GGMLQuantizationType[name]
        writer.add_tensor(f"numbers.{name}", quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
