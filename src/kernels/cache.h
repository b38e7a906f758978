// What the kernels keep between calls, behind ctx.kernel_cache: scratch memory and compiled primitives. It grows during
// the first steps and is then only reused, so that the step loop allocates nothing.
// Used by the thread that calls a kernel, before or after its parallel_for; tasks write into pieces of what it got.
#pragma once
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/context.h"
#include "tensor/tensor.h"

namespace espalier {

/// One object of each type asked for, made when first asked for.
class KernelCache {
 public:
  template <class T>
  T& get() {
    for (auto& [key, object] : objects_)
      if (key == &type_key<T>) return *static_cast<T*>(object.get());
    auto made = std::make_shared<T>();
    objects_.emplace_back(&type_key<T>, made);
    return *made;
  }

 private:
  template <class T>
  static inline char type_key = 0;
  std::vector<std::pair<const char*, std::shared_ptr<void>>> objects_;
};

/// The T of this context: `cached<Primitives>(ctx)`. T is default-constructed once.
template <class T>
T& cached(Context& ctx) {
  if (!ctx.kernel_cache) ctx.kernel_cache = std::make_shared<KernelCache>();
  return static_cast<KernelCache*>(ctx.kernel_cache.get())->get<T>();
}

/// What a scratch buffer is for. A kernel that calls another one uses a slot of its own.
enum class Slot {
  kPartials, kGemm, kGemmPacked, kGemmSums, kAttention, kAttentionPartials, kAttentionWide, kRowGemm,
  kQuantRows, kQuantNumbers, kQuantPanels, kMuon, kCount
};

/// One buffer a slot, 64-byte aligned, grown when needed and never shrunk. Contents do not survive between calls.
class Scratch {
 public:
  /// Memory for `count` elements of T. What an earlier call for the same slot returned is no longer valid.
  template <class T>
  T* get(Slot slot, int64_t count) {
    Buffer& buffer = buffers_[size_t(slot)];
    const size_t bytes = size_t(count) * sizeof(T);
    if (bytes > buffer.bytes) {
      buffer.memory.reset();  // before the larger one, so that both never exist at once
      buffer.memory = allocate_aligned(bytes);
      buffer.bytes = bytes;
    }
    return static_cast<T*>(buffer.memory.get());
  }

 private:
  struct Buffer {
    std::shared_ptr<void> memory;
    size_t bytes = 0;
  };
  std::array<Buffer, size_t(Slot::kCount)> buffers_;
};

inline Scratch& scratch(Context& ctx) { return cached<Scratch>(ctx); }

}  // namespace espalier
