// The program around a fuzz target where libFuzzer is not: runs a fixed number of seeded mutations, so that every
// build and every compiler tries the parsers. It stops at the first bug and says how to repeat it.
//
//   X_fuzz [--iterations=N] [--seed=S]    the smoke run; 6000 inputs by default, 120000 where soaks run whole
//   X_fuzz --seed=S --only=I              one input of it, as for a debugger
//   X_fuzz --seed=S --print=I             that input's bytes, to stdout
//   X_fuzz FILE...                        inputs from files, such as libFuzzer's crash-*
//
// A crash ends with exit status 1 rather than with the signal, because CTest does not take a signal for the failure
// that the canary must show.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/file.h"
#include "fuzz.h"
#include "mutate.h"

// Present in sanitizer builds only: a sanitizer's report ends the program without a signal.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

using espalier::mutated_input;

constexpr unsigned kHangSeconds = 60;

/// ESP_SOAK_SCALE is 1 where soaks run whole, and a twentieth elsewhere.
uint64_t default_iterations() {
  const char* scale = std::getenv("ESP_SOAK_SCALE");
  return std::max<uint64_t>(6000, uint64_t(120'000 * (scale ? std::atof(scale) : 0)));
}

struct Options {
  uint64_t iterations = default_iterations(), seed = 1;
  int64_t only = -1, print = -1;
  std::vector<std::string> files;
};

// Written before each input and read by the handler below, which may only call async-signal-safe functions.
char where[512];

void say_where() {
  [[maybe_unused]] const ssize_t n = ::write(2, where, std::strlen(where));
}

void on_signal(int number) {
  const char* name = number == SIGALRM ? "\nHANG " : "\nCRASH ";
  [[maybe_unused]] const ssize_t n = ::write(2, name, std::strlen(name));
  say_where();
  _exit(1);
}

// The input lives in an allocation of exactly its size, so that a sanitizer sees the first byte read past it.
void run_one(const std::string& input) {
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[input.size()]);
  if (!input.empty()) std::memcpy(exact.get(), input.data(), input.size());
  ::alarm(kHangSeconds);
  LLVMFuzzerTestOneInput(exact.get(), input.size());
  ::alarm(0);
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value = [&](std::string_view flag) {
      return arg.starts_with(flag) ? std::strtoull(arg.data() + flag.size(), nullptr, 10) : ~0ull;
    };
    if (arg.starts_with("--iterations=")) options.iterations = value("--iterations=");
    else if (arg.starts_with("--seed=")) options.seed = value("--seed=");
    else if (arg.starts_with("--only=")) options.only = int64_t(value("--only="));
    else if (arg.starts_with("--print=")) options.print = int64_t(value("--print="));
    else options.files.emplace_back(arg);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  const std::vector<std::string> seeds = fuzz_seeds();
  if (seeds.empty()) {
    std::fprintf(stderr, "this fuzz target has no seeds\n");
    return 1;
  }
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) ::signal(number, on_signal);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(say_where);
  for (const std::string& file : options.files) {
    std::snprintf(where, sizeof where, "on %s\n", file.c_str());
    run_one(espalier::read_file(file));
  }
  if (!options.files.empty()) return 0;
  if (options.print >= 0) {
    const std::string input = mutated_input(seeds, options.seed, uint64_t(options.print));
    return std::fwrite(input.data(), 1, input.size(), stdout) == input.size() ? 0 : 1;
  }
  const uint64_t begin = options.only >= 0 ? uint64_t(options.only) : 0;
  const uint64_t end = options.only >= 0 ? begin + 1 : options.iterations;
  for (uint64_t i = begin; i < end; ++i) {
    std::snprintf(where, sizeof where, "in iteration %llu; repeat with: %s --seed=%llu --only=%llu\n",
                  (unsigned long long)i, argv[0], (unsigned long long)options.seed, (unsigned long long)i);
    run_one(mutated_input(seeds, options.seed, i));
  }
  std::printf("%llu inputs, no bug found\n", (unsigned long long)(end - begin));
  return 0;
}
