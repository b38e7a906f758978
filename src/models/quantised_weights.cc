#include "models/quantised_weights.h"

#include <algorithm>
#include <atomic>

#include "formats/gguf_blocks.h"
#include "models/panel_packing.h"

namespace espalier {
namespace {

/// The rows of one part, and its panels on demand.
class Part : public PanelSource {
 public:
  Part(BlockTensor tensor, const BlockPart& part, int64_t cols, std::string name)
      : tensor_(std::move(tensor)), part_(part), cols_(cols), name_(std::move(name)) {}

  PanelKind kind() const { return *panel_kind(tensor_.type); }
  int64_t rows() const { return part_.rows; }
  const std::string& tensor() const { return part_.tensor; }
  void pack(int64_t index, std::byte* out) const override { pack_sound(index, out); }
  bool pack_sound(int64_t index, std::byte* out) const {
    std::array<const std::byte*, kPanelRows> rows{};
    for (int64_t i = 0; i < std::min<int64_t>(kPanelRows, part_.rows - index * kPanelRows); ++i)
      rows[size_t(i)] = row(index * kPanelRows + i);
    return pack_panel(tensor_.type, rows, cols_, out);
  }
  void read_row(int64_t index, float* out) const { dequantise(tensor_.type, row(index), cols_, out, name_); }

 private:
  const std::byte* row(int64_t index) const {
    const int64_t at = part_.first + index;
    return tensor_.blocks + (tensor_.rows.empty() ? at : tensor_.rows[size_t(at)]) * tensor_.row_bytes;
  }
  BlockTensor tensor_;
  BlockPart part_;
  int64_t cols_;
  std::string name_;
};

class Weight : public QuantisedWeight {
 public:
  Weight(std::shared_ptr<const WeightSource> source, const BlockWeight& weight) : source_(std::move(source)) {
    int64_t rows = 0;
    for (const BlockPart& part : weight.parts) {
      const std::string name = "tensor " + part.tensor + " of " + source_->path();
      parts_.push_back(std::make_unique<Part>(*source_->blocks(part.tensor), part, weight.cols, name));
      if (weight.multiplied) runs_.push_back({parts_.back()->kind(), part.rows, nullptr, parts_.back().get()});
      rows += part.rows;
    }
    shape_ = Shape{rows, weight.cols};
  }

  const Shape& shape() const override { return shape_; }
  std::span<const PanelRun> runs() const override { return runs_; }
  void read_row(int64_t row, float* out) const override {
    size_t i = 0;
    for (; row >= parts_[i]->rows(); ++i) row -= parts_[i]->rows();
    parts_[i]->read_row(row, out);
  }

  int64_t packed_bytes() const {
    int64_t bytes = 0;
    for (const PanelRun& run : runs_) bytes += run.count() * panel_bytes(run.kind, shape_[1]);
    return bytes;
  }
  /// Fills packed_bytes() of `memory`, which stays with the weight.
  void pack(Context& ctx, const std::shared_ptr<void>& owner, std::byte* memory) {
    owner_ = owner;
    for (size_t i = 0; i < runs_.size(); ++i) {
      PanelRun& run = runs_[i];
      const int64_t bytes = panel_bytes(run.kind, shape_[1]);
      std::atomic<bool> sound{true};
      ctx.pool.parallel_for(run.count(), [&](int64_t panel, int) {
        if (!parts_[i]->pack_sound(panel, memory + panel * bytes)) sound = false;
      });
      if (!sound) throw_not_finite(source_->path(), parts_[i]->tensor());
      run.panels = memory;
      memory += run.count() * bytes;
    }
  }

 private:
  std::shared_ptr<const WeightSource> source_;
  std::shared_ptr<void> owner_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<PanelRun> runs_;
  Shape shape_;
};

}  // namespace

QuantisedWeights make_quantised(Context& ctx, std::shared_ptr<const WeightSource> source,
                                const std::vector<BlockWeight>& weights, bool packed) {
  std::vector<std::shared_ptr<Weight>> made;
  int64_t bytes = 0;
  QuantisedWeights all;
  for (const BlockWeight& weight : weights) {
    made.push_back(std::make_shared<Weight>(source, weight));
    all.emplace(weight.name, made.back());
    bytes += made.back()->packed_bytes();
  }
  if (!packed || bytes == 0) return all;
  const std::shared_ptr<void> memory = allocate_aligned(size_t(bytes));
  auto* at = static_cast<std::byte*>(memory.get());
  for (const auto& weight : made) {
    weight->pack(ctx, memory, at);
    at += weight->packed_bytes();
  }
  return all;
}

}  // namespace espalier
