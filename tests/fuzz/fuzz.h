// The contract of a fuzz target, tests/fuzz/X_fuzz.cc: one parser of outside bytes, and some valid inputs to start
// from. The same target runs in two ways:
//  - under libFuzzer (preset `fuzz`, clang): `X_fuzz --write-seeds=DIR`, then `X_fuzz DIR`, guided by coverage;
//  - in every other build with smoke_main.cc: a few thousand seeded mutations of the seeds, as a test.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Feeds one input to the parser and returns 0. An espalier::Error is a right answer and is caught by the target; a
/// crash, a hang, any other exception or a wrong property (abort) is a bug. Must not keep state between inputs.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Small valid inputs, and near misses that a mutation would hardly find. At least one.
std::vector<std::string> fuzz_seeds();
