// Context: what a computation needs of its surroundings, passed explicitly. There are no singletons.
#pragma once
#include <memory>
#include <string_view>

#include "base/log.h"
#include "base/thread_pool.h"

namespace espalier {

/// Which instance of the kernel table runs (kernels/kernels.h).
enum class Isa { kReference, kAvx2, kAvx3 };

/// "reference", "avx2", "avx3".
const char* isa_name(Isa isa);
/// The inverse of isa_name; an unknown name is an Error naming the choices.
Isa parse_isa(std::string_view name);
/// True where this processor can run it.
bool isa_supported(Isa isa);
/// The best ISA of this machine, or what the environment variable ESP_ISA pins. An Error where ESP_ISA asks for
/// what the processor lacks, or where the processor lacks AVX2.
Isa choose_isa();

struct Context {
  ThreadPool& pool;
  Log& log;
  Isa isa = Isa::kReference;
  /// Memory of the kernels between calls (compiled primitives, scratch); belongs to them, see kernels/cache.h.
  std::shared_ptr<void> kernel_cache;
};

}  // namespace espalier
