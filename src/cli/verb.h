// A verb: one subcommand of `espalier`. To add one, write src/cli/NAME.cc with an options struct, a run function and
// an `extern const Verb`, and add its row to the array in main.cc (HACKING.md shows the whole of it).
#pragma once
#include <span>
#include <string>

#include "base/config.h"

namespace espalier {

class Terminal;

struct Verb {
  const char* name;
  const char* group;  ///< heading in `espalier --help`: "Make", "Use" or "Look"
  const char* summary;
  /// What stands without a flag, in order: names of fields of the options, separated by spaces. "[model]" may be left
  /// out; "files..." (a list) takes all that is left; "RECIPE" is a TOML file read into the options before the flags.
  const char* positional;
  const char* example;  ///< whole command lines
  /// Runs with what follows the verb's name; returns the exit status. Errors are thrown.
  int (*run)(Terminal& terminal, std::span<const std::string> args);
};

/// The array in main.cc.
std::span<const Verb* const> all_verbs();

/// Reads `args` into the options: positional values, then --key value, --key=value, --switch, --section.key=value, and
/// the flags that every verb has (--log-level, --threads). With --help among them, prints the verb's help and returns
/// false. Throws kUsage for an unknown, repeated or unreadable flag, or a missing value.
bool read_args(Terminal& terminal, const Verb& verb, std::span<const std::string> args, ConfigRef options);

}  // namespace espalier
