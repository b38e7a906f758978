#include "formats/gguf_writer.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "formats/gguf_quantise.h"

namespace espalier {
namespace {

constexpr uint64_t kAlignment = 32;

uint64_t padding_after(uint64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

void append(std::string& bytes, const auto& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// All that stands before the data section.
std::string header_of(const GgufMetadataBuilder& metadata, const std::vector<PlannedGgufTensor>& plan) {
  std::string bytes = "GGUF";
  append(bytes, uint32_t{3});
  append(bytes, uint64_t{plan.size()});
  append(bytes, metadata.count());
  bytes += metadata.bytes();
  uint64_t offset = 0;
  for (const PlannedGgufTensor& tensor : plan) {
    append(bytes, uint64_t{tensor.name.size()});
    bytes += tensor.name;
    append(bytes, uint32_t(tensor.shape.rank()));
    for (int i = tensor.shape.rank() - 1; i >= 0; --i) append(bytes, tensor.shape[i]);
    append(bytes, uint32_t(tensor.type));
    append(bytes, offset);
    offset += tensor.bytes() + padding_after(tensor.bytes());
  }
  bytes.append(padding_after(bytes.size()), '\0');
  return bytes;
}

}  // namespace

GgufWriter::GgufWriter(std::string path, const GgufMetadataBuilder& metadata, std::vector<PlannedGgufTensor> plan)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), plan_(std::move(plan)) {
  std::set<std::string_view> names;
  for (const PlannedGgufTensor& tensor : plan_) {
    const int rank = tensor.shape.rank();
    ESP_CHECK(names.insert(tensor.name).second, "tensor '{}' is planned twice", tensor.name);
    ESP_CHECK(rank <= 4, "tensor '{}' has {} dimensions; GGUF has at most 4", tensor.name, rank);
    ESP_CHECK((rank == 0 ? 1 : tensor.shape[rank - 1]) % ggml_type_info(tensor.type).elements == 0,
              "tensor '{}' {} in blocks of {}", tensor.name, tensor.shape.text(), ggml_type_name(tensor.type));
  }
  file_ = std::make_unique<FileWriter>(temporary_);
  file_->write(header_of(metadata, plan_));
}

GgufWriter::~GgufWriter() {
  file_.reset();
  if (!published_) ::unlink(temporary_.c_str());
}

/// Steps over the tensor that is written whole, and over those without elements behind it.
void GgufWriter::skip_complete() {
  while (next_ < plan_.size() && plan_[next_].bytes() == written_) {
    const char zeros[kAlignment] = {};
    file_->write(zeros, padding_after(written_));
    ++next_;
    written_ = 0;
  }
}

void GgufWriter::write_blocks(std::string_view name, const void* data, uint64_t bytes) {
  if (bytes == 0) return;
  skip_complete();
  ESP_CHECK(next_ < plan_.size() && plan_[next_].name == name, "writing '{}' of {}: planned next is '{}'", name, path_,
            next_ < plan_.size() ? plan_[next_].name : "nothing");
  ESP_CHECK(bytes <= plan_[next_].bytes() - written_, "tensor '{}' of {}: {} bytes written, {} more; planned {}", name,
            path_, written_, bytes, plan_[next_].bytes());
  file_->write(data, bytes);
  written_ += bytes;
}

void GgufWriter::write(std::string_view name, const float* numbers, int64_t count) {
  skip_complete();
  if (count == 0 || next_ == plan_.size()) return write_blocks(name, numbers, uint64_t(count));
  const GgmlTypeInfo& type = ggml_type_info(plan_[next_].type);
  constexpr int64_t kPiece = 1 << 16;  // a multiple of every block
  std::string blocks(size_t(kPiece / type.elements * type.bytes), '\0');
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t elements = std::min(kPiece, count - at);
    quantise(type.type, numbers + at, elements, reinterpret_cast<std::byte*>(blocks.data()));
    write_blocks(name, blocks.data(), uint64_t(elements / type.elements * type.bytes));
  }
}

void GgufWriter::close(bool sync) {
  skip_complete();
  ESP_CHECK(next_ == plan_.size(), "finishing {} before tensor '{}' is written", path_, plan_[next_].name);
  file_->close(sync);
  synced_ = sync;
}

void GgufWriter::publish() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw errno_error("renaming " + temporary_ + " to " + path_);
  published_ = true;
  const std::string folder = std::filesystem::path(path_).parent_path();
  if (synced_) sync_folder(folder.empty() ? "." : folder);
}

}  // namespace espalier
