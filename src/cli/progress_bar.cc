#include "cli/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/human.h"

namespace espalier {
namespace {

constexpr double kRedrawS = 0.1, kPlainS = 10, kPlainShare = 0.1, kPlainLeastS = 2;
constexpr const char* kSeconds = "s";  // work that runs for a set time: its rate says nothing
constexpr int kBarMin = 8, kBarMax = 30;

}  // namespace

void ProgressBar::begin(const std::string& title, int64_t total, const std::string& unit) {
  std::lock_guard lock(mutex_);
  title_ = title, unit_ = unit, note_.clear();
  total_ = total, done_ = 0, first_ = -1;
  start_ = rate_time_ = now_();
  rate_ = 0, rate_done_ = 0, printed_share_ = 0;
  drawn_ = screen_.look().tty ? -1e9 : start_;
  active_ = true;
}

void ProgressBar::update(int64_t done, const std::string& note) {
  std::lock_guard lock(mutex_);
  if (!active_) return;
  const double now = now_();
  if (first_ < 0) {  // a resumed run begins in the middle; its rate counts from there
    first_ = rate_done_ = done > 0 && now - start_ < kRedrawS ? done : 0;
    printed_share_ = total_ > 0 ? double(first_) / double(total_) : 0;
  }
  done_ = done;
  note_ = note;
  if (now - rate_time_ >= 1) {  // smoothed over about five seconds
    const double rate = double(done - rate_done_) / (now - rate_time_);
    const double weight = 1 - std::exp(-(now - rate_time_) / 5);
    rate_ = rate_ == 0 ? rate : rate_ + weight * (rate - rate_);
    rate_time_ = now;
    rate_done_ = done;
  }
  if (screen_.look().tty) {
    if (now - drawn_ < kRedrawS) return;
    screen_.live(live_line(now));
    drawn_ = now;
    return;
  }
  const double share = total_ > 0 ? double(done) / double(total_) : 0;
  const bool due = now - drawn_ >= kPlainS || (share - printed_share_ >= kPlainShare && now - drawn_ >= kPlainLeastS);
  if (!due) return;
  screen_.line(plain_line(now, false));
  drawn_ = now;
  printed_share_ = share;
}

void ProgressBar::end() {
  std::lock_guard lock(mutex_);
  if (!active_) return;
  active_ = false;
  const double now = now_();
  if (screen_.look().tty) {
    screen_.live(live_line(now));
    screen_.release();
  } else {
    screen_.line(plain_line(now, true));
  }
}

double ProgressBar::left_s(double now) const {
  const double elapsed = now - start_;
  const double mean = elapsed > 0 ? double(done_ - std::max<int64_t>(first_, 0)) / elapsed : 0;
  const double rate = rate_ > 0 ? 0.5 * (rate_ + mean) : mean;
  return rate > 0 ? double(total_ - done_) / rate : -1;
}

std::string ProgressBar::bar(int width, double share) const {
  const double filled = std::clamp(share, 0.0, 1.0) * width;
  const int whole = int(filled);
  std::string text;
  if (!screen_.look().utf8) {
    for (int i = 0; i < width; ++i) text += i < whole ? '=' : i == whole ? '>' : '.';
    return "[" + text + "]";
  }
  const bool colour = screen_.look().colour;
  if (colour) text += "\x1b[32m";
  for (int i = 0; i < whole; ++i) text += "━";
  const bool half = whole < width && filled - whole >= 0.5;
  if (half) text += "╸";
  if (colour) text += "\x1b[90m";
  for (int i = whole + half; i < width; ++i) text += "─";
  return text + (colour ? "\x1b[0m" : "");
}

std::string ProgressBar::live_line(double now) const {
  const double elapsed = now - start_;
  const double rate = rate_ > 0 ? rate_ : elapsed > 0 ? double(done_ - std::max<int64_t>(first_, 0)) / elapsed : 0;
  const double share = total_ > 0 ? double(done_) / double(total_) : 0;
  std::vector<Part> parts;
  if (total_ > 0) parts.push_back({fmt::format("{:3.0f}%", 100 * share), 9});
  parts.push_back({total_ > 0 ? fmt::format("{}/{} {}", human_count(double(done_)), human_count(double(total_)), unit_)
                              : fmt::format("{} {}", human_count(double(done_)), unit_), 3});
  if (rate > 0 && unit_ != kSeconds) parts.push_back({fmt::format("{} {}/s", human_count(rate), unit_), 4});
  if (!active_)
    parts.push_back({human_duration(elapsed), 5});
  else if (total_ > 0 && left_s(now) >= 0 && done_ < total_)
    parts.push_back({human_duration(left_s(now)) + " left", 6});
  if (!note_.empty()) parts.push_back({note_, 8});
  const int width = screen_.width() - 1;
  const auto length = [&] {
    int sum = columns(title_);
    for (const Part& part : parts) sum += 2 + columns(part.text);
    return sum;
  };
  const int bar_cost = total_ > 0 ? kBarMin + 3 : 0;
  while (parts.size() > 1 && length() + bar_cost > width)
    parts.erase(std::min_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.worth < b.worth; }));
  std::string line = title_;
  const int room = width - length() - 3;
  if (total_ > 0 && room >= kBarMin) line += " " + bar(std::min(room, kBarMax), share);
  for (const Part& part : parts) line += "  " + part.text;
  return line;
}

std::string ProgressBar::plain_line(double now, bool last) const {
  const double elapsed = now - start_;
  const double mean = elapsed > 0 ? double(done_ - std::max<int64_t>(first_, 0)) / elapsed : 0;
  std::string line = title_ + ":";
  if (total_ > 0 && !last)
    line += fmt::format(" {:.0f}% of {}", 100 * double(done_) / double(total_), human_count(double(total_)));
  else line += " " + human_count(double(done_));
  line += " " + unit_;
  if (last) line += " in " + human_duration(elapsed);
  if (mean > 0 && unit_ != kSeconds)
    line += fmt::format(", {} {}/s", human_count(last || rate_ == 0 ? mean : rate_), unit_);
  if (!last && total_ > 0 && left_s(now) >= 0) line += fmt::format(", {} left", human_duration(left_s(now)));
  if (!note_.empty()) line += ", " + note_;
  return line;
}

}  // namespace espalier
