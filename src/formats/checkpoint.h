// Checkpoints: named tensors and a JSON state, saved so that a folder with the final name is always whole.
//
// The idea: training stands still only while it copies its tensors (stage one, train/'s affair); this is stage two, run
// by a background thread on the copies. Everything is written to checkpoints/.step-N.tmp/, checksummed and synced, the
// manifest last; then the folder is renamed to step-N. A kill at any moment leaves step-N whole or absent.
//
//   checkpoints/step-N/tensors.safetensors   the tensors
//   checkpoints/step-N/state.json            the state
//   checkpoints/step-N/manifest.json         {"format": "espalier-checkpoint", "version": 1, "step": N,
//                                             "files": [{"name", "bytes", "xxh3" (16 hex digits)}]}
//
// A folder without a valid manifest is no checkpoint. What tensors and state mean is for train/.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "formats/safetensors.h"

namespace espalier {

/// A tensor to save; the memory is the caller's and does not change meanwhile.
struct CheckpointTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;
};

struct CheckpointManifest {
  struct File {
    std::string name;
    uint64_t bytes = 0, checksum = 0;
  };
  int64_t step = 0;
  std::vector<File> files;
};

/// Throws Error kBadData, kUnsupported (a newer version).
CheckpointManifest parse_checkpoint_manifest(std::string_view text, const std::string& what);

/// Saves CHECKPOINTS/step-N and returns its path; creates CHECKPOINTS where it is missing; replaces an older step-N.
/// Blocks until the disk has it. On an Error (kNoSpace, kIo) nothing is left and older checkpoints are untouched. One
/// writer at a time.
std::string write_checkpoint(const std::string& checkpoints, int64_t step, std::span<const CheckpointTensor> tensors,
                             const Json& state);

/// A saved checkpoint; the tensors are mapped.
class Checkpoint {
 public:
  /// Reads the manifest, and compares the sizes and checksums of all files (reads them whole). Throws Error kNotFound,
  /// kBadData, kUnsupported.
  static Checkpoint open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t step() const { return step_; }
  const SafetensorsFile& tensors() const { return *tensors_; }
  const Json& state() const { return *state_; }

 private:
  std::string path_;
  int64_t step_ = 0;
  std::shared_ptr<const SafetensorsFile> tensors_;
  std::shared_ptr<const Json> state_;
};

struct CheckpointEntry {
  int64_t step = 0;
  std::string path;
};

/// The checkpoints of a folder by ascending step: those whose manifest is there and whose files have the sizes that it
/// says. Checksums are not verified. Empty where the folder does not exist.
std::vector<CheckpointEntry> find_checkpoints(const std::string& checkpoints);

/// The newest checkpoint that is whole, checksums included. Each newer one that is not costs a warning. Nothing where
/// there is none; throws Error kBadData where there are some and none is whole.
std::optional<Checkpoint> newest_valid_checkpoint(const std::string& checkpoints, Log& log);

/// Removes all but the newest `keep_last` (at least 1) checkpoints and those of the steps in `keep`, and what killed
/// writers have left. Not while a checkpoint is being written.
void prune_checkpoints(const std::string& checkpoints, int keep_last, const std::set<int64_t>& keep = {});

}  // namespace espalier
