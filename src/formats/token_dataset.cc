#include "formats/token_dataset.h"

#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"

namespace espalier {
namespace {

constexpr size_t kMaxManifestBytes = size_t{64} << 20;

/// Files that match the pattern, sorted by name.
std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&::globfree)> freed(&found, ::globfree);
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  return paths;
}

std::vector<std::string> files_of(const std::string& source) {
  if (!is_folder(source)) {
    if (path_exists(source)) return {source};
    const std::vector<std::string> paths = matches(source);
    if (paths.empty())
      throw error(Code::kNotFound, "opening the token shards {}: no such file, and no file matches", source);
    return paths;
  }
  std::vector<std::string> paths;
  for (const std::string& path : list_folder(source))
    if (path.ends_with(kTokenShardExtension)) paths.push_back(path);
  if (paths.empty())
    throw error(Code::kNotFound,
                "opening the token shards of {}: no *.tokens in this folder; make some with `espalier prepare`, or "
                "name other shards by a glob such as '{}/train*.bin'", source, source);
  return paths;
}

/// The file names that a prepare.json lists; none where another program made it.
std::vector<std::string> shards_listed_in(const std::string& manifest) {
  std::vector<std::string> files;
  const Json json = read_json_file(manifest, kMaxManifestBytes);
  const auto maker = json.is_object() ? json.find("made_by") : json.end();
  if (maker == json.end() || *maker != kPrepareMaker) return files;
  for (const char* purpose : {"train", "val"}) {
    const auto split = json.find(purpose);
    if (split == json.end() || !split->is_object() || !split->contains("shards"))
      throw error(Code::kBadData, "reading {}: \"{}\" lists no shards", manifest, purpose);
    for (const Json& shard : (*split)["shards"]) files.push_back(json_get<std::string>(shard, "file", manifest));
  }
  return files;
}

/// Where `espalier prepare` says which shards it made, all of those that the source names are there: a copy that lost
/// one would train on less without a word.
void check_none_missing(const std::string& source, const std::vector<std::string>& paths) {
  std::set<std::string> folders;
  for (const std::string& path : paths) folders.insert(path.substr(0, path.rfind('/') + 1));
  for (const std::string& folder : folders) {
    const std::string manifest = folder + kPrepareManifest;
    if (!is_file(manifest)) continue;
    for (const std::string& file : shards_listed_in(manifest)) {
      const std::string path = folder + file;
      const bool named = is_folder(source) || ::fnmatch(source.c_str(), path.c_str(), FNM_PATHNAME) == 0;
      if (named && std::find(paths.begin(), paths.end(), path) == paths.end())
        throw error(Code::kNotFound,
                    "opening the token shards {}: {} is missing, which {} lists; restore it or prepare the text again",
                    source, path, manifest);
    }
  }
}

}  // namespace

TokenDataset TokenDataset::open(const std::string& source, int64_t vocab_size) {
  const std::vector<std::string> paths = files_of(source);
  if (!path_exists(source) || is_folder(source)) check_none_missing(source, paths);
  return open(paths, vocab_size);
}

TokenDataset TokenDataset::open(const std::vector<std::string>& paths, int64_t vocab_size) {
  if (paths.empty()) throw error(Code::kNotFound, "opening token shards: none are named");
  TokenDataset dataset;
  dataset.begins_.push_back(0);
  dataset.id_limit_ = vocab_size;
  for (const std::string& path : paths) {
    dataset.shards_.push_back(TokenShard::open(path));
    const TokenShard &first = dataset.shards_.front(), &shard = dataset.shards_.back();
    dataset.begins_.push_back(dataset.begins_.back() + shard.token_count());
    if (shard.vocab_size() != first.vocab_size() || shard.vocab_hash() != first.vocab_hash())
      throw error(Code::kMismatch,
                  "opening token shards: {} (vocabulary of {}, hash {}) and {} (vocabulary of {}, hash {}) were made "
                  "with different tokenizers", first.path(), first.vocab_size(), hex64(first.vocab_hash()), path,
                  shard.vocab_size(), hex64(shard.vocab_hash()));
  }
  if (vocab_size > 0 && dataset.vocab_size() > vocab_size)
    throw error(Code::kMismatch, "opening token shards: {} has a vocabulary of {}, the model one of {}", paths[0],
                dataset.vocab_size(), vocab_size);
  return dataset;
}

uint64_t TokenDataset::fingerprint() const {
  Hasher hasher;
  for (const TokenShard& shard : shards_) {
    const uint64_t told[] = {uint64_t(shard.token_count()), shard.layout().token_checksum};
    hasher.update(told, sizeof told);
  }
  return hasher.digest();
}

size_t TokenDataset::shard_of(int64_t position) const {
  ESP_CHECK(position >= 0 && position < token_count(), "position {} of {}", position, token_count());
  return size_t(std::upper_bound(begins_.begin(), begins_.end(), position) - begins_.begin()) - 1;
}

void TokenDataset::read(int64_t position, int64_t count, int32_t* out) const {
  ESP_CHECK(position >= 0 && count >= 0 && count <= token_count() - position, "tokens {}+{} of {}", position, count,
            token_count());
  while (count > 0) {
    const size_t shard = shard_of(position);
    const int64_t here = std::min(count, begins_[shard + 1] - position);
    shards_[shard].read(position - begins_[shard], here, out, id_limit_);
    position += here;
    out += here;
    count -= here;
  }
}

int64_t TokenDataset::document_start_of(int64_t position) const {
  const size_t shard = shard_of(position);
  const std::span<const uint64_t> starts = shards_[shard].document_starts();
  if (starts.empty()) return begins_[shard];
  const auto after = std::upper_bound(starts.begin(), starts.end(), uint64_t(position - begins_[shard]));
  return begins_[shard] + int64_t(*(after - 1));  // the first start is 0
}

void TokenDataset::document_starts_in(int64_t begin, int64_t count, std::vector<int64_t>& starts) const {
  starts.clear();
  const int64_t end = begin + count;
  ESP_CHECK(begin >= 0 && count >= 0 && end <= token_count(), "tokens {}+{} of {}", begin, count, token_count());
  for (size_t shard = count > 0 ? shard_of(begin) : shards_.size(); shard < shards_.size(); ++shard) {
    const int64_t base = begins_[shard];
    if (base >= end) return;
    const std::span<const uint64_t> here = shards_[shard].document_starts();
    if (here.empty() && base >= begin && begins_[shard + 1] > base) starts.push_back(base);
    auto next = std::lower_bound(here.begin(), here.end(), uint64_t(std::max<int64_t>(begin - base, 0)));
    for (; next != here.end() && base + int64_t(*next) < end; ++next) starts.push_back(base + int64_t(*next));
  }
}

void TokenDataset::verify() const {
  for (const TokenShard& shard : shards_) shard.verify();
}

}  // namespace espalier
