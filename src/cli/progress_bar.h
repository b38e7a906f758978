// The progress bar: on a terminal one live line with bar, share, count, rate, time left and the work's own note; in a
// file or a pipe a plain line every ten seconds or ten percent.
//
//   train ━━━━━━━━━━╸───────────  42%  1.26M/3.00M tokens  12.3k tokens/s  2:21 left  loss 3.21
#pragma once
#include <functional>
#include <mutex>

#include "base/clock.h"
#include "base/progress.h"
#include "cli/screen.h"

namespace espalier {

class ProgressBar : public Progress {
 public:
  /// `now` in seconds; tests bring their own.
  explicit ProgressBar(Screen& screen, std::function<double()> now = now_s) : screen_(screen), now_(std::move(now)) {}

  void begin(const std::string& title, int64_t total, const std::string& unit) override;
  void update(int64_t done, const std::string& note) override;
  void end() override;

 private:
  struct Part {
    std::string text;
    int worth;  ///< the least worthy go first when the line is too long
  };
  std::string live_line(double now) const;
  std::string plain_line(double now, bool last) const;
  std::string bar(int width, double share) const;
  double left_s(double now) const;

  Screen& screen_;
  std::function<double()> now_;
  std::mutex mutex_;
  std::string title_, unit_, note_;
  int64_t total_ = 0, done_ = 0, first_ = -1;  ///< first_: where this run took up the work
  double start_ = 0, drawn_ = 0, rate_ = 0, rate_time_ = 0, printed_share_ = 0;
  int64_t rate_done_ = 0;
  bool active_ = false;
};

}  // namespace espalier
