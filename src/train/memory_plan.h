// What a run will need, before it allocates anything: parameters, memory by part, operations. Activations are predicted
// by playing the decoder's requests on a model of the buffer pool (ops/buffer_pool.h); the walk mirrors
// models/decoder.cc, and a test holds the two together.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "report/table.h"
#include "train/train_config.h"

namespace espalier {

struct MemoryPart {
  std::string name;
  int64_t bytes = 0;
};

struct MemoryPlan {
  std::vector<MemoryPart> parts;
  int64_t total() const;
};

/// Peak of resident memory, part by part, for products in `dtype`.
MemoryPlan plan_memory(const TrainConfig& config, const ArchSpec& spec, DType dtype, int threads);

/// What the pool will have allocated for a micro-batch of `rows` rows after some steps: activations, their gradients,
/// and the head's slices.
int64_t activation_bytes(const ArchSpec& spec, int64_t rows, DType dtype, const TrainConfig& config);

/// Memory this process may still take: the system's available memory, or less where its control group says so.
int64_t available_memory();

/// The plan as --dry-run prints it.
std::string plan_text(const TrainConfig& config, const ArchSpec& spec, DType dtype, const MemoryPlan& plan);

/// Throws kNoSpace with the figures where the plan exceeds the available memory.
void check_fits(const MemoryPlan& plan, int64_t available);

}  // namespace espalier
