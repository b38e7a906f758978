#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <utility>

#include <xxhash.h>

#include "base/error.h"

namespace espalier {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

void write_all(int fd, const void* data, size_t bytes, const std::string& path) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw errno_error("writing " + path);
    p += n;
    bytes -= size_t(n);
  }
}

int open_readable(const std::string& path, struct stat& info) {
  // A pipe that nobody writes to would hold up the opening itself.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw errno_error("opening " + path);
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw error(Code::kBadData, "opening {}: not a regular file", path);
  }
  return fd;
}

/// The kind of file at a path (S_IFREG, ...), 0 where there is none.
mode_t kind_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) return info.st_mode & S_IFMT;
  if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return 0;
  throw errno_error("looking at " + path);
}

}  // namespace

bool path_exists(const std::string& path) { return kind_of(path) != 0; }
bool is_file(const std::string& path) { return kind_of(path) == S_IFREG; }
bool is_folder(const std::string& path) { return kind_of(path) == S_IFDIR; }

std::vector<std::string> list_folder(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) throw errno_error("reading the folder " + path);
  std::vector<std::string> paths;
  for (errno = 0; const dirent* entry = ::readdir(folder.get()); errno = 0)
    if (const std::string name = entry->d_name; name != "." && name != "..")
      paths.push_back(path + (path.ends_with('/') ? "" : "/") + name);
  if (errno != 0) throw errno_error("reading the folder " + path);
  std::sort(paths.begin(), paths.end());
  return paths;
}

void copy_file(const std::string& from, const std::string& to) { write_file_atomic(to, MappedFile(from).text()); }

std::string read_file(const std::string& path, size_t max_bytes) {
  struct stat info;
  const int fd = open_readable(path, info);
  if (uint64_t(info.st_size) > max_bytes) {
    ::close(fd);
    throw error(Code::kBadData, "reading {}: {} bytes; at most {} are expected here", path,
                int64_t(info.st_size), max_bytes);
  }
  std::string bytes(size_t(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += size_t(n);
  }
  ::close(fd);
  if (done != bytes.size())
    throw error(Code::kIo, "reading {}: got {} of {} bytes", path, done, bytes.size());
  return bytes;
}

void write_file_atomic(const std::string& path, std::string_view bytes) {
  struct Temporary {
    std::string path;
    bool renamed = false;
    ~Temporary() {
      if (!renamed) ::unlink(path.c_str());
    }
  } temporary{path + ".tmp"};
  FileWriter file(temporary.path);
  file.write(bytes);
  file.close(true);
  if (::rename(temporary.path.c_str(), path.c_str()) != 0)
    throw errno_error("renaming " + temporary.path + " to " + path);
  temporary.renamed = true;
  const size_t slash = path.rfind('/');
  sync_folder(slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash));
}

void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw errno_error("opening folder " + path);
  ::fsync(fd);  // some file systems refuse it for folders; the rename itself has succeeded
  ::close(fd);
}

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) throw errno_error("creating " + path_);
  buffer_.reserve(kBuffer);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)), buffer_(std::move(other.buffer_)), size_(other.size_),
      fd_(std::exchange(other.fd_, -1)) {}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::flush() {
  write_all(fd_, buffer_.data(), buffer_.size(), path_);
  buffer_.clear();
}

void FileWriter::write(const void* data, size_t bytes) {
  size_ += bytes;
  if (buffer_.size() + bytes > kBuffer) flush();
  if (bytes >= kBuffer) return write_all(fd_, data, bytes, path_);
  buffer_.append(static_cast<const char*>(data), bytes);
}

void FileWriter::write_at(uint64_t offset, const void* data, size_t bytes) {
  flush();
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, p, bytes, off_t(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw errno_error("writing " + path_);
    p += n;
    offset += uint64_t(n);
    bytes -= size_t(n);
  }
}

void FileWriter::close(bool sync) {
  flush();
  if (sync && ::fsync(fd_) != 0) throw errno_error("syncing " + path_);
  if (::close(std::exchange(fd_, -1)) != 0) throw errno_error("closing " + path_);
}

FileReader::FileReader(const std::string& path) : path_(path) {
  struct stat info;
  fd_ = open_readable(path, info);
  size_ = uint64_t(info.st_size);
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), fd_(std::exchange(other.fd_, -1)) {}

FileReader::~FileReader() {
  if (fd_ >= 0) ::close(fd_);
}

size_t FileReader::read(void* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::read(fd_, static_cast<char*>(data) + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw errno_error("reading " + path_);
    if (n == 0) break;
    done += size_t(n);
  }
  return done;
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  struct stat info;
  const int fd = open_readable(path, info);
  size_ = size_t(info.st_size);
  if (size_ > 0) {
    void* p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      ::close(fd);
      throw errno_error("mapping " + path);
    }
    data_ = static_cast<const std::byte*>(p);
  }
  ::close(fd);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

uint64_t hash64(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

Hasher::Hasher() : state_(XXH3_createState()) { XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_)); }
Hasher::~Hasher() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }
void Hasher::update(const void* data, size_t bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), data, bytes);
}
uint64_t Hasher::digest() const { return XXH3_64bits_digest(static_cast<XXH3_state_t*>(state_)); }

std::string hex64(uint64_t value) { return fmt::format("{:016x}", value); }

uint64_t parse_hex64(const std::string& text, const std::string& what) {
  uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (failed != std::errc() || end != text.data() + text.size() || text.size() != 16)
    throw error(Code::kBadData, "reading {}: checksum '{}'; expected 16 hexadecimal digits", what, text);
  return value;
}

}  // namespace espalier
