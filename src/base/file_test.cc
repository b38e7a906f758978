#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/rng.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / fmt::format("espalier_file_{}_{}", info->name(), ::getpid());
    fs::create_directories(folder_);
    path_ = folder_ / "x.bin";
  }
  void TearDown() override { fs::remove_all(folder_); }

  template <class Act>
  Error error_of(Act&& act) {
    try {
      act();
    } catch (const Error& e) {
      return e;
    }
    ADD_FAILURE() << "no error";
    return Error(Code::kInternal, "");
  }

  fs::path folder_;
  std::string path_;
};

std::string noise(size_t bytes) {
  const Rng rng(1, Purpose::kTest);
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = char(rng.u32(i));
  return text;
}

TEST_F(FileTest, WritesAreReadBack) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, (size_t{1} << 20) + 1, size_t{5} << 20}) {
    const std::string bytes = noise(size);
    write_file_atomic(path_, bytes);
    EXPECT_EQ(read_file(path_), bytes);
    EXPECT_EQ(MappedFile(path_).text(), bytes);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "the temporary file is gone";
}

TEST_F(FileTest, PiecesOfAnySizeMakeOneFile) {
  const std::string bytes = noise(3 << 20);
  FileWriter file(path_);
  size_t done = 0;
  for (size_t piece = 1; done < bytes.size(); piece = piece * 3 + 1) {
    const size_t n = std::min(piece, bytes.size() - done);
    file.write(bytes.data() + done, n);
    done += n;
  }
  EXPECT_EQ(file.size(), bytes.size());
  file.write_at(10, "HEADER", 6);
  file.write("tail");
  file.close(true);
  std::string expected = bytes + "tail";
  expected.replace(10, 6, "HEADER");
  EXPECT_EQ(read_file(path_), expected);
}

TEST_F(FileTest, AReaderGivesThePiecesInOrder) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += char(i * 7);
  write_file_atomic(path_, bytes);
  FileReader first(path_);
  EXPECT_EQ(first.size(), bytes.size());
  std::string read, piece(999, '\0');
  read.append(piece.data(), first.read(piece.data(), 5));
  FileReader reader(std::move(first));
  while (const size_t n = reader.read(piece.data(), piece.size())) read.append(piece.data(), n);
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(reader.read(piece.data(), piece.size()), 0u);
  EXPECT_EQ(error_of([&] { const FileReader reads_a_folder(folder_); }).code(), Code::kBadData);
  EXPECT_EQ(error_of([&] { const FileReader reads_nothing(folder_ / "absent"); }).code(), Code::kNotFound);
}

TEST_F(FileTest, WhatStandsAtAPathIsToldAndADeadEndIsAnError) {
  write_file_atomic(path_, "x");
  EXPECT_TRUE(path_exists(path_) && is_file(path_) && !is_folder(path_));
  EXPECT_TRUE(path_exists(folder_) && is_folder(folder_) && !is_file(folder_));
  for (const std::string& nothing : {std::string(), path_ + "/below", path_ + "2", std::string(5000, 'x')})
    EXPECT_FALSE(path_exists(nothing) || is_file(nothing) || is_folder(nothing)) << nothing;
  fs::create_symlink("loop", folder_ / "loop");
  const Error loop = error_of([&] { path_exists(folder_ / "loop"); });
  EXPECT_EQ(loop.code(), Code::kIo) << loop.what();
  EXPECT_NE(std::string(loop.what()).find("loop: Too many levels"), std::string::npos) << loop.what();
}

TEST_F(FileTest, FoldersAreListedInOrderAndFilesCopied) {
  for (const char* name : {"b", "a", ".c"}) write_file_atomic(folder_ / name, name);
  const std::string at = folder_.string() + "/";
  EXPECT_EQ(list_folder(folder_), (std::vector<std::string>{at + ".c", at + "a", at + "b"}));
  EXPECT_EQ(list_folder(at), list_folder(folder_));
  EXPECT_EQ(error_of([&] { list_folder(at + "absent"); }).code(), Code::kNotFound);
  EXPECT_EQ(error_of([&] { list_folder(at + "a"); }).code(), Code::kIo);
  copy_file(at + "a", at + "b");
  EXPECT_EQ(read_file(at + "b"), "a");
}

TEST_F(FileTest, ErrorsNameTheFileAndTheKind) {
  const auto missing = error_of([&] { read_file(path_); });
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_NE(std::string(missing.what()).find(path_), std::string::npos);
  EXPECT_EQ(error_of([&] { MappedFile file(path_); }).code(), Code::kNotFound);
  EXPECT_EQ(error_of([&] { read_file(folder_); }).code(), Code::kBadData) << "a folder is no file";
  EXPECT_EQ(error_of([&] { FileWriter(folder_ / "no" / "such"); }).code(), Code::kNotFound);
  write_file_atomic(path_, "12345");
  EXPECT_EQ(error_of([&] { read_file(path_, 4); }).code(), Code::kBadData);
  EXPECT_EQ(read_file(path_, 5), "12345");
}

// A child process with a file size limit stands for a full disk.
TEST_F(FileTest, AFullDiskKeepsTheOldFileWhole) {
  write_file_atomic(path_, "old");
  const std::string big = noise(1 << 20);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{65536, 65536};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int result = 1;
    try {
      write_file_atomic(path_, big);
    } catch (const Error& e) {
      result = std::string(e.what()).find(path_) != std::string::npos ? 0 : 2;
    }
    ::_exit(result);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_file(path_), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "what could not be written is taken away";
}

TEST_F(FileTest, NoSpaceIsItsOwnCode) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  const auto full = error_of([] {
    FileWriter file("/dev/full");
    file.write("x");
    file.close(false);
  });
  EXPECT_EQ(full.code(), Code::kNoSpace) << full.what();
}

TEST_F(FileTest, APipeIsAnErrorAndDoesNotWait) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const auto& open : std::initializer_list<std::function<void()>>{
           [&] { read_file(path_); }, [&] { MappedFile file(path_); }, [&] { FileReader file(path_); }})
    EXPECT_NE(std::string(error_of(open).what()).find("not a regular file"), std::string::npos);
}

TEST_F(FileTest, MappingsMove) {
  write_file_atomic(path_, "abc");
  MappedFile a(path_), b;
  b = std::move(a);
  EXPECT_EQ(b.text(), "abc");
  MappedFile c(std::move(b));
  EXPECT_EQ(c.text(), "abc");
  EXPECT_EQ(c.path(), path_);
  EXPECT_TRUE(b.bytes().empty());
}

TEST_F(FileTest, HashesOfPiecesAndTheWholeAgree) {
  // The XXH3 of nothing with seed 0, from xxHash's specification.
  EXPECT_EQ(hash64("", 0), 0x2D06800538D394C2u);
  const std::string bytes = noise(100000);
  Hasher hasher;
  for (size_t i = 0; i < bytes.size(); i += 777)
    hasher.update(bytes.data() + i, std::min<size_t>(777, bytes.size() - i));
  EXPECT_EQ(hasher.digest(), hash64(bytes));
  EXPECT_NE(hash64(bytes, 1), hash64(bytes));
  EXPECT_EQ(hex64(0xabc), "0000000000000abc");
}

}  // namespace
}  // namespace espalier
