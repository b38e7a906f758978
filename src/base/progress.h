// Progress: the sink through which long work says how far it is. The library calls update(); what it looks like (a
// bar with rate and ETA on a terminal, plain lines elsewhere) is the program's choice.
#pragma once
#include <cstdint>
#include <string>

namespace espalier {

class Progress {
 public:
  virtual ~Progress() = default;
  /// Starts a piece of work of `total` units (0: unknown). `unit` is what is counted: "tokens", "MB", "steps".
  virtual void begin(const std::string& title, int64_t total, const std::string& unit) = 0;
  /// `done` units so far; `note` is shown beside the bar (loss, tokens/s, MFU). Cheap enough to call often.
  virtual void update(int64_t done, const std::string& note) = 0;
  /// Ends the piece of work; the last state stays visible.
  virtual void end() = 0;
};

/// Shows nothing.
Progress& silent_progress();

}  // namespace espalier
