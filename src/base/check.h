// ESP_CHECK: the answer to a programmer's error (a wrong shape between our own functions, a broken invariant).
// It prints message, place and values, and aborts. What the world does wrong is thrown as an Error (base/error.h).
#pragma once
#include <string>

#include <fmt/core.h>

namespace espalier {

/// Prints "file:line: check failed: condition: message" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace espalier

#define ESP_CHECK(condition, ...)                                                     \
  do {                                                                                \
    if (__builtin_expect(!(condition), 0))                                            \
      ::espalier::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (0)
