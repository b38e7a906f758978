#include "base/context.h"

#include <cstdlib>

#include "base/error.h"

namespace espalier {

bool isa_supported(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kReference:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx3:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512cd");
  }
  return false;
}

const char* isa_name(Isa isa) {
  return isa == Isa::kReference ? "reference" : isa == Isa::kAvx2 ? "avx2" : "avx3";
}

Isa parse_isa(std::string_view name) {
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3})
    if (name == isa_name(isa)) return isa;
  throw error(Code::kUsage, "ESP_ISA='{}': expected reference, avx2 or avx3", name);
}

Isa choose_isa() {
  if (const char* pinned = std::getenv("ESP_ISA"); pinned && *pinned) {
    const Isa isa = parse_isa(pinned);
    if (!isa_supported(isa))
      throw error(Code::kUnsupported, "ESP_ISA={}: this processor does not have it; unset ESP_ISA", pinned);
    return isa;
  }
  if (isa_supported(Isa::kAvx3)) return Isa::kAvx3;
  if (isa_supported(Isa::kAvx2)) return Isa::kAvx2;
  throw error(Code::kUnsupported,
              "this processor has no AVX2 and FMA, which Espalier's kernels need; "
              "ESP_ISA=reference runs everywhere, slowly");
}

}  // namespace espalier
