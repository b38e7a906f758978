#include "cli/progress_bar.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace espalier {
namespace {

/// A screen in memory and a clock that is moved by hand.
class Stage {
 public:
  explicit Stage(Look look, int width = 80)
      : file_(open_memstream(&text_, &size_)), screen(file_, look, width), bar(screen, [this] { return time; }) {}
  ~Stage() {
    screen.release();
    std::fclose(file_);
    std::free(text_);
  }
  std::string text() {
    std::fflush(file_);
    return {text_, size_};
  }
  /// What stands on the live line now.
  std::string live() {
    const std::string all = text();
    const size_t at = all.rfind("\r\x1b[K");
    return at == std::string::npos ? "" : all.substr(at + 4);
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;

 public:
  double time = 100;
  Screen screen;
  ProgressBar bar;
};

constexpr Look kTerminal{true, false, true}, kAscii{true, false, false}, kPipe{false, false, false};

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t i = text.find(what); i != std::string::npos; i = text.find(what, i + what.size())) ++n;
  return n;
}

TEST(ProgressBar, ShowsShareCountRateTimeAndNote) {
  Stage stage(kTerminal, 120);
  stage.bar.begin("train", 3000000, "tokens");
  for (int i = 0; i <= 50; ++i) {
    stage.bar.update(i * 20000, "loss 3.21");
    stage.time += 1;
  }
  for (const char* part : {"train", "33%", "1.00M/3.00M tokens", "20.0k tokens/s", "1:40 left", "loss 3.21", "━"})
    EXPECT_NE(stage.live().find(part), std::string::npos) << part << " in " << stage.live();
}

TEST(ProgressBar, DrawsAtMostTenTimesASecond) {
  Stage stage(kTerminal);
  stage.bar.begin("x", 100000, "steps");
  for (int i = 0; i < 20000; ++i) {
    stage.bar.update(i, "");
    stage.time += 1e-4;
  }
  EXPECT_LE(count(stage.text(), "\r"), 21u);
  EXPECT_GE(count(stage.text(), "\r"), 18u);
}

TEST(ProgressBar, FitsAnyWidth) {
  for (const Look& look : {kTerminal, kAscii})
    for (int width = 10; width < 140; ++width) {
      Stage stage(look, width);
      stage.bar.begin("training the demo", 3000, "steps");
      stage.bar.update(1, "");
      stage.time += 5;
      stage.bar.update(1500, "loss 3.210  5.3k tok/s  MFU 61 %");
      EXPECT_LE(columns(stage.live()), width - 1);
      EXPECT_TRUE(width <= 70 || stage.live().find("MFU 61 %") != std::string::npos) << width << stage.live();
      if (look.utf8) continue;
      for (const char c : stage.live()) EXPECT_TRUE(c >= 32 && c < 127) << stage.live();
    }
}

TEST(ProgressBar, AResumedRunCountsItsRateFromWhereItBegan) {
  Stage stage(kTerminal, 120);
  stage.bar.begin("train", 2000, "steps");
  stage.bar.update(1000, "");
  for (int i = 1; i <= 10; ++i) {
    stage.time += 1;
    stage.bar.update(1000 + 10 * i, "");
  }
  EXPECT_NE(stage.live().find("10 steps/s"), std::string::npos) << stage.live();
}

TEST(ProgressBar, PlainLinesInAPipe) {
  Stage stage(kPipe);
  stage.bar.begin("prepare", 1000, "MB");
  for (int i = 0; i <= 1000; ++i) {
    stage.bar.update(i, "");
    stage.time += 0.1;  // 100 s in all
  }
  stage.bar.end();
  const std::string text = stage.text();
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_GE(count(text, "\n"), 9u) << text;
  EXPECT_LE(count(text, "\n"), 12u) << text;
  EXPECT_NE(text.find("prepare: 1.00k MB in 1:40, 9.99 MB/s"), std::string::npos) << text;
}

TEST(ProgressBar, AQuickPieceOfWorkIsOnePlainLine) {
  Stage stage(kPipe);
  stage.bar.begin("load", 10, "files");
  for (int i = 0; i <= 10; ++i) stage.bar.update(i, "");
  stage.time += 0.25;
  stage.bar.end();
  EXPECT_EQ(stage.text(), "load: 10 files in 0.25 s, 40 files/s\n");
}

TEST(ProgressBar, UnknownTotal) {
  Stage stage(kTerminal);
  stage.bar.begin("read", 0, "lines");
  stage.bar.update(1, "");
  stage.time += 2;
  stage.bar.update(2000, "");
  EXPECT_EQ(stage.live().find('%'), std::string::npos);
  EXPECT_NE(stage.live().find("2.00k lines"), std::string::npos) << stage.live();
  stage.bar.end();
  EXPECT_EQ(stage.text().back(), '\n');
}

TEST(Screen, LogLinesStandAboveTheLiveLine) {
  Stage stage(kTerminal);
  stage.screen.live("bar");
  stage.screen.line("news");
  EXPECT_NE(stage.text().find("\r\x1b[Knews\nbar"), std::string::npos);
  stage.screen.release();
  stage.screen.line("more");
  EXPECT_NE(stage.text().find("bar\nmore\n"), std::string::npos);
}

TEST(Screen, CutsByColumnsAndKeepsEscapes) {
  EXPECT_EQ(columns("\x1b[32m\u2501\u2501\x1b[0m x"), 4);
  EXPECT_EQ(cut_to("\x1b[32m\u2501\u2501\x1b[0m x", 1), "\x1b[32m\u2501\x1b[0m");
  EXPECT_EQ(cut_to("abc", 9), "abc");
  EXPECT_EQ(cut_to("abc", 0), "");
}

}  // namespace
}  // namespace espalier
