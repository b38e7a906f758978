#include "formats/safetensors_writer.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "formats/safetensors.h"

namespace espalier {
namespace {

constexpr size_t kDataAlignment = 64;

/// The 8-byte length and the JSON, padded so that the data begins aligned.
std::string header_of(const std::vector<PlannedTensor>& plan, const std::map<std::string, std::string>& metadata) {
  OrderedJson json = OrderedJson::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const PlannedTensor& tensor : plan) {
    OrderedJson dims = OrderedJson::array();
    for (int i = 0; i < tensor.shape.rank(); ++i) dims.push_back(tensor.shape[i]);
    json[tensor.name] = {{"dtype", safetensors_dtype_name(tensor.dtype)},
                         {"shape", dims},
                         {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = json.dump();
  const size_t unpadded = sizeof(uint64_t) + text.size();
  text.append((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

void check_unique(const std::vector<PlannedTensor>& plan) {
  std::set<std::string_view> names;
  for (const PlannedTensor& tensor : plan)
    ESP_CHECK(names.insert(tensor.name).second, "tensor '{}' is planned twice", tensor.name);
}

/// Consecutive tensors share a shard while they fit.
std::vector<std::vector<PlannedTensor>> into_shards(std::vector<PlannedTensor> plan, uint64_t max_bytes) {
  std::vector<std::vector<PlannedTensor>> shards(1);
  uint64_t bytes = 0;
  for (PlannedTensor& tensor : plan) {
    if (!shards.back().empty() && bytes + tensor.bytes() > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes();
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<PlannedTensor> plan, SafetensorsOptions options)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), plan_(std::move(plan)), sync_(options.sync) {
  check_unique(plan_);
  file_ = std::make_unique<FileWriter>(temporary_);
  if (options.checksum) hasher_ = std::make_unique<Hasher>();
  const std::string header = header_of(plan_, options.metadata);
  put(header.data(), header.size());
}

void SafetensorsWriter::put(const void* data, uint64_t bytes) {
  file_->write(data, bytes);
  if (hasher_) hasher_->update(data, bytes);
  file_bytes_ += bytes;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!file_) return;
  file_.reset();
  ::unlink(temporary_.c_str());
}

void SafetensorsWriter::write(std::string_view name, const void* data, uint64_t bytes) {
  // Tensors without elements need no call of their own.
  while (next_ < plan_.size() && plan_[next_].bytes() == written_ && plan_[next_].name != name) {
    ++next_;
    written_ = 0;
  }
  ESP_CHECK(next_ < plan_.size() && plan_[next_].name == name, "writing '{}' of {}: planned next is '{}'", name, path_,
            next_ < plan_.size() ? plan_[next_].name : "nothing");
  ESP_CHECK(bytes <= plan_[next_].bytes() - written_, "tensor '{}' of {}: {} bytes written, {} more; planned {}", name,
            path_, written_, bytes, plan_[next_].bytes());
  put(data, bytes);
  written_ += bytes;
}

void SafetensorsWriter::write(std::string_view name, const Tensor& tensor) {
  write(name, tensor.data(), uint64_t(tensor.bytes()));
  ESP_CHECK(tensor.dtype() == plan_[next_].dtype && tensor.shape() == plan_[next_].shape,
            "tensor '{}' of {} is {} {}; planned {} {}", name, path_, dtype_name(tensor.dtype()), tensor.shape().text(),
            dtype_name(plan_[next_].dtype), plan_[next_].shape.text());
}

void SafetensorsWriter::finish() {
  while (next_ < plan_.size() && plan_[next_].bytes() == written_) {
    ++next_;
    written_ = 0;
  }
  ESP_CHECK(next_ == plan_.size(), "finishing {} before tensor '{}' is written", path_, plan_[next_].name);
  file_->close(sync_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw errno_error("renaming " + temporary_ + " to " + path_);
  file_.reset();
  const std::string folder = std::filesystem::path(path_).parent_path();
  if (sync_) sync_folder(folder.empty() ? "." : folder);
}

SafetensorsFolderWriter::SafetensorsFolderWriter(std::string folder, std::vector<PlannedTensor> plan, Options options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  check_unique(plan);
  shards_ = into_shards(std::move(plan), options_.max_shard_bytes);
  open_next();
}

SafetensorsFolderWriter::~SafetensorsFolderWriter() = default;

std::string SafetensorsFolderWriter::shard_name(size_t index) const {
  if (shards_.size() == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, shards_.size());
}

void SafetensorsFolderWriter::open_next() {
  if (writer_) writer_->finish();
  writer_.reset();
  ESP_CHECK(opened_ < shards_.size(), "writing the weights of {}: more bytes than planned", folder_);
  left_in_shard_ = 0;
  for (const PlannedTensor& tensor : shards_[opened_]) left_in_shard_ += tensor.bytes();
  writer_ = std::make_unique<SafetensorsWriter>(folder_ + "/" + shard_name(opened_), shards_[opened_], options_.file);
  ++opened_;
}

void SafetensorsFolderWriter::write(std::string_view name, const void* data, uint64_t bytes) {
  while (bytes > 0 && left_in_shard_ == 0) open_next();
  if (bytes > 0) writer_->write(name, data, bytes);
  left_in_shard_ -= bytes;
}

void SafetensorsFolderWriter::write(std::string_view name, const Tensor& tensor) {
  while (tensor.bytes() > 0 && left_in_shard_ == 0) open_next();
  if (tensor.bytes() > 0) writer_->write(name, tensor);
  left_in_shard_ -= uint64_t(tensor.bytes());
}

void SafetensorsFolderWriter::finish() {
  while (opened_ < shards_.size()) open_next();  // only where what is left has no elements
  writer_->finish();
  writer_.reset();
  // Before the index: a model.safetensors of an older model would be preferred to it.
  remove_older();
  if (shards_.size() == 1) return;
  OrderedJson index = {{"metadata", {{"total_size", 0}}}, {"weight_map", OrderedJson::object()}};
  uint64_t total = 0;
  for (size_t i = 0; i < shards_.size(); ++i)
    for (const PlannedTensor& tensor : shards_[i]) {
      index["weight_map"][tensor.name] = shard_name(i);
      total += tensor.bytes();
    }
  index["metadata"]["total_size"] = total;
  write_file_atomic(folder_ + "/model.safetensors.index.json", index.dump(2) + "\n");
}

void SafetensorsFolderWriter::remove_older() const {
  std::set<std::string> ours;
  for (size_t i = 0; i < shards_.size(); ++i) ours.insert(shard_name(i));
  std::error_code ignored;  // what cannot be listed or removed does no harm where nothing older is there
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename();
    const bool shard = name.starts_with("model-") && name.ends_with(".safetensors");
    const bool weights = shard || name == "model.safetensors" || name == "model.safetensors.index.json";
    if (weights && !ours.contains(name)) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace espalier
