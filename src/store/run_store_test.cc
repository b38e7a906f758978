#include "store/run_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"

namespace espalier {
namespace {

using Values = std::vector<std::pair<std::string_view, double>>;

class RunStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("espalier_store_{}_{}", info->name(), ::getpid());
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "run.sqlite";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Code code_of_opening(RunStore (*open)(const std::string&, int)) const {
    try {
      open(path_, 50);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("run.sqlite"), std::string::npos) << e.what();
      return e.code();
    }
    ADD_FAILURE() << "no error";
    return Code::kInternal;
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(RunStoreTest, KeepsWhatIsLogged) {
  {
    RunStore store = RunStore::open(path_);
    EXPECT_EQ(store.begin_run("lr = 1\n"), 1);
    store.log_metrics(1, Values{{"loss", 5.5}, {"lr", 1e-3}});
    store.log_metrics(2, Values{{"loss", NAN}});
    store.log_metrics(2, Values{{"lr", INFINITY}});
    store.log_event(2, "skipped", "gradient of w is NaN");
    store.log_sample(2, "def ", "def main():\n");
    store.set_status("finished");
  }
  RunStore store = RunStore::open_existing(path_);
  EXPECT_EQ(store.metric_names(), (std::vector<std::string>{"loss", "lr"}));
  const auto loss = store.metrics("loss"), lr = store.metrics("lr");
  ASSERT_EQ(loss.size(), 2u);
  EXPECT_EQ(loss[0].step, 1);
  EXPECT_EQ(loss[0].value, 5.5);
  EXPECT_GT(loss[0].wall_s, 1.6e9);
  EXPECT_TRUE(std::isnan(loss[1].value));
  EXPECT_TRUE(std::isinf(lr[1].value));
  EXPECT_TRUE(store.metrics("nothing").empty());
  ASSERT_EQ(store.events().size(), 1u);
  EXPECT_EQ(store.events()[0].text, "gradient of w is NaN");
  ASSERT_EQ(store.samples().size(), 1u);
  EXPECT_EQ(store.samples()[0].prompt, "def ");
  ASSERT_EQ(store.runs().size(), 1u);
  EXPECT_EQ(store.runs()[0].config, "lr = 1\n");
  EXPECT_EQ(store.runs()[0].status, "finished");
}

TEST_F(RunStoreTest, NobodyLeavesFilesBehind) {
  {
    RunStore store = RunStore::open(path_);
    store.begin_run("");
  }
  EXPECT_EQ(RunStore::open_existing(path_).runs().size(), 1u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(RunStoreTest, ResumeForgetsWhatWillBeRepeated) {
  RunStore store = RunStore::open(path_);
  store.begin_run("a");
  for (int64_t step = 1; step <= 10; ++step) store.log_metrics(step, Values{{"loss", double(step)}});
  store.log_event(9, "spike", "");
  EXPECT_EQ(store.begin_run("a", 6), 2);
  EXPECT_EQ(store.metrics("loss").size(), 6u);
  EXPECT_TRUE(store.events().empty());
  store.log_metrics(6, Values{{"loss", -1}});
  EXPECT_EQ(store.metrics("loss").back().value, -1);
  store.begin_run("b");
  EXPECT_TRUE(store.metrics("loss").empty());
}

TEST_F(RunStoreTest, ARunThatDiedWithoutAWordWasKilled) {
  RunStore store = RunStore::open(path_);
  store.begin_run("a");
  store.begin_run("b");
  store.set_status("finished");
  store.begin_run("c");
  std::vector<std::string> statuses;
  for (const RunRow& row : store.runs()) statuses.push_back(row.status);
  EXPECT_EQ(statuses, (std::vector<std::string>{"killed", "finished", "running"}));
}

TEST_F(RunStoreTest, ReadersSeeWholeBatchesWhileARunWrites) {
  RunStore writer = RunStore::open(path_);
  writer.begin_run("");
  std::atomic<bool> stop{false};
  std::thread reading([&] {
    RunStore reader = RunStore::open_existing(path_);
    size_t before = 0;
    while (!stop) {
      const auto points = reader.metrics("loss");
      ASSERT_GE(points.size(), before);
      for (size_t i = 0; i < points.size(); ++i) ASSERT_EQ(points[i].value, double(points[i].step));
      before = points.size();
    }
  });
  for (int64_t step = 0; step < 3000; ++step) writer.log_metrics(step, Values{{"loss", double(step)}});
  writer.flush();
  stop = true;
  reading.join();
  EXPECT_EQ(RunStore::open_existing(path_).metrics("loss").size(), 3000u);
}

TEST_F(RunStoreTest, TwoThreadsMayLog) {
  RunStore store = RunStore::open(path_);
  store.begin_run("");
  std::thread other([&] {
    for (int64_t i = 0; i < 500; ++i) store.log_event(i, "checkpoint", "saved");
  });
  for (int64_t i = 0; i < 500; ++i) store.log_metrics(i, Values{{"loss", 1}});
  other.join();
  EXPECT_EQ(store.events().size(), 500u);
  EXPECT_EQ(store.metrics("loss").size(), 500u);
}

TEST_F(RunStoreTest, DamagedAndForeignFiles) {
  std::ofstream(path_) << std::string(4096, 'x');
  EXPECT_EQ(code_of_opening(RunStore::open), Code::kBadData);
  EXPECT_EQ(code_of_opening(RunStore::open_existing), Code::kBadData);
  std::filesystem::remove(path_);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "CREATE TABLE other (x)", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  EXPECT_EQ(code_of_opening(RunStore::open), Code::kBadData);
}

TEST_F(RunStoreTest, DamagedPagesAreAnErrorNotData) {
  {
    RunStore store = RunStore::open(path_);
    store.begin_run("");
    for (int64_t step = 0; step < 2000; ++step) store.log_metrics(step, Values{{"loss", 1}});
  }
  const auto size = std::filesystem::file_size(path_);
  ASSERT_GT(size, 20000u);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  for (size_t offset = 4096; offset + 8 < size; offset += 512) {
    file.seekp(std::streamoff(offset));
    file.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  }
  file.close();
  try {
    RunStore store = RunStore::open_existing(path_);
    store.metrics("loss");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadData) << e.what();
  }
}

TEST_F(RunStoreTest, MissingAndHeld) {
  EXPECT_EQ(code_of_opening(RunStore::open_existing), Code::kNotFound);
  { RunStore store = RunStore::open(path_); }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(code_of_opening(RunStore::open), Code::kTimeout);
  EXPECT_TRUE(RunStore::open_existing(path_).runs().empty()) << "a held store can still be read";
  sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  EXPECT_TRUE(RunStore::open(path_).runs().empty());
}

}  // namespace
}  // namespace espalier
