// Files: whole reads with a bound, mapped reads, and writes that are there whole or not at all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// Reads a whole file of at most max_bytes. Throws Error kNotFound, kIo or kBadData (too large).
std::string read_file(const std::string& path, size_t max_bytes = size_t{1} << 32);

/// Writes `bytes` to a temporary file beside `path`, syncs it, and renames it over `path`.
void write_file_atomic(const std::string& path, std::string_view bytes);

/// What stands at a path, links followed. False where nothing does; throws Error kIo where it cannot be looked at (no
/// permission, links in a circle), which must not pass for absence.
bool path_exists(const std::string& path);
bool is_file(const std::string& path);
bool is_folder(const std::string& path);

/// The paths of what a folder holds, sorted. Throws Error kNotFound or kIo.
std::vector<std::string> list_folder(const std::string& path);

/// Puts the bytes of a file at `to`, whole or not at all.
void copy_file(const std::string& from, const std::string& to);

/// fsync of a folder, so that a rename in it survives a power cut.
void sync_folder(const std::string& path);

/// A file opened for writing in pieces. Every failure is an Error that names the file; a full disk is kNoSpace.
class FileWriter {
 public:
  /// Creates or truncates.
  explicit FileWriter(std::string path);
  ~FileWriter();
  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Overwrites earlier bytes (headers that are known last). Does not move the position of write().
  void write_at(uint64_t offset, const void* data, size_t bytes);
  uint64_t size() const { return size_; }
  /// Flushes, optionally syncs to the disk, and closes. Without it the destructor closes and forgets errors.
  void close(bool sync);

 private:
  void flush();
  std::string path_, buffer_;
  uint64_t size_ = 0;
  int fd_ = -1;
};

/// A file read from its start in pieces, for what is too large to map or to hold: pages read count as the system's, not
/// as ours.
class FileReader {
 public:
  /// Throws Error kNotFound, kIo, or kBadData where it is no regular file.
  explicit FileReader(const std::string& path);
  ~FileReader();
  FileReader(FileReader&&) noexcept;
  FileReader& operator=(FileReader&&) = delete;

  /// Reads the next bytes and returns their number; less than `bytes` only at the end of the file.
  size_t read(void* data, size_t bytes);
  /// Bytes of the file when it was opened.
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  uint64_t size_ = 0;
  int fd_ = -1;
};

/// A read-only mapping of a whole file; empty files map to an empty span.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// XXH3 of the bytes; the checksum of every file format of ours.
uint64_t hash64(const void* data, size_t bytes, uint64_t seed = 0);
inline uint64_t hash64(std::string_view bytes, uint64_t seed = 0) {
  return hash64(bytes.data(), bytes.size(), seed);
}

/// XXH3 of a stream of pieces; equal to hash64 of the whole.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(const void* data, size_t bytes);
  uint64_t digest() const;

 private:
  void* state_;
};

/// 16 lower-case hexadecimal digits.
std::string hex64(uint64_t value);
/// Their value. Throws Error kBadData naming `what`.
uint64_t parse_hex64(const std::string& text, const std::string& what);

}  // namespace espalier
