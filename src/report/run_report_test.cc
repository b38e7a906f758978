#include "report/run_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace espalier {
namespace {

class RunReportTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() / fmt::format("espalier_{}_{}", info->name(), ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(RunReportTest, TellsWhatTheStoreHolds) {
  {
    RunStore store = RunStore::open(folder_ / "run.sqlite");
    store.begin_run("lr = 1");
    store.log_event(0, "fact", "parameters: 10.8M (embedding 1.6M)");
    for (int64_t step = 1; step <= 100; ++step) {
      const std::vector<std::pair<std::string_view, double>> row = {{"loss", 3.0 + 5.0 / double(step)},
                                                                    {"lr", 1e-3},
                                                                    {"tokens", double(step) * 2048},
                                                                    {"tokens_per_s", 8000.0 + double(step)}};
      store.log_metrics(step, row);
    }
    store.log_metrics(100, std::vector<std::pair<std::string_view, double>>{{"val_loss", 3.5}, {"skipped", 2}});
    store.log_event(50, "skipped", "gradient of <w> is NaN");
    store.log_sample(0, "def ", "<script>");
    store.log_sample(100, "def ", "main():");
    store.set_status("finished");
  }
  std::ofstream(folder_ / "config.toml") << "[optim]\nlr = 1.0\n";
  const RunData run = load_run(folder_);
  const std::string html = run_report_html(run), text = run_report_text(run);
  for (const char* part :
       {"10.8M", "embedding 1.6M", "205k", "3.500", "perplexity 33.1", "Learning rate", "Loss over tokens",
        "gradient of &lt;w&gt; is NaN", "&lt;script&gt;", "def main():", "lr = 1.0", "finished"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("Gradient norm"), std::string::npos) << "what was not logged has no chart";
  EXPECT_NE(text.find("parameters"), std::string::npos);
  EXPECT_NE(text.find("8.05k"), std::string::npos) << text;
}

TEST_F(RunReportTest, FallsBackToJsonLines) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\": 1, \"loss\": 4.0, \"wall_s\": 10}\n"
                                              "{\"step\": 2, \"loss\": null, \"note\": \"skipped\"}\n"
                                              "{\"step\": 3, \"loss\": 3.0, \"wall_s\": 20}\n"
                                              "{\"step\": 4, \"lo";
  const RunData run = load_run(folder_);
  ASSERT_EQ(run.metrics.at("loss").size(), 2u);
  EXPECT_EQ(run.metrics.at("loss")[1].step, 3);
  EXPECT_NE(run_report_html(run).find("<svg"), std::string::npos);
}

TEST_F(RunReportTest, BadFoldersAreNamed) {
  const auto code = [&] {
    try {
      load_run(folder_);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(folder_.string()), std::string::npos) << e.what();
      return e.code();
    }
    return Code::kInternal;
  };
  EXPECT_EQ(code(), Code::kNotFound);
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\": 1}\nnot json\n";
  EXPECT_EQ(code(), Code::kBadData);
  std::ofstream(folder_ / "run.sqlite") << std::string(5000, 'z');
  EXPECT_EQ(code(), Code::kBadData);
}

TEST_F(RunReportTest, AnEmptyRunHasAPage) {
  { RunStore::open(folder_ / "run.sqlite").begin_run(""); }
  EXPECT_NE(run_report_html(load_run(folder_)).find("</html>"), std::string::npos);
}

}  // namespace
}  // namespace espalier
