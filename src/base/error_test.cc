#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "base/check.h"
#include "base/context.h"
#include "base/function_ref.h"
#include "base/log.h"
#include "base/suggest.h"

namespace espalier {
namespace {

TEST(Error, TheTableHasEveryCodeOnceInOrder) {
  std::set<std::string> names;
  std::set<int> statuses;
  int next = 0;
  for (const CodeInfo& row : error_table()) {
    EXPECT_EQ(int(row.code), next++);
    EXPECT_EQ(&code_info(row.code), &row);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(statuses.insert(row.exit_status).second) << row.exit_status;
    EXPECT_TRUE(row.exit_status > 0 && row.exit_status <= 130) << "shells read more as signals";
    EXPECT_TRUE(row.http_status >= 400 && row.http_status < 600);
    EXPECT_FALSE(std::string(row.meaning).empty());
  }
  EXPECT_EQ(next, int(Code::kInterrupted) + 1);
}

TEST(Error, ErrnoBecomesACode) {
  const auto code = [](int number) {
    errno = number;
    return errno_error("writing x").code();
  };
  EXPECT_EQ(code(ENOSPC), Code::kNoSpace);
  EXPECT_EQ(code(ENOMEM), Code::kNoSpace);
  EXPECT_EQ(code(EDQUOT), Code::kNoSpace);
  EXPECT_EQ(code(EFBIG), Code::kNoSpace) << "ulimit -f";
  EXPECT_EQ(code(ENOENT), Code::kNotFound);
  EXPECT_EQ(code(EACCES), Code::kIo);
  errno = ENOSPC;
  EXPECT_STREQ(errno_error("writing x").what(), "writing x: No space left on device; make room and try again");
}

TEST(Check, SaysWhereWhatAndWithWhichValues) {
  EXPECT_DEATH(ESP_CHECK(1 + 1 == 3, "got {}", 2), "error_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3: got 2");
  ESP_CHECK(true, "never formatted {}", 1);
}

TEST(Suggest, NearNamesOnly) {
  const std::vector<std::string> names = {"train", "tokenize", "generate", "lr"};
  EXPECT_EQ(nearest("tarin", names), "train") << "a swap is one edit";
  EXPECT_EQ(nearest("tokenise", names), "tokenize");
  EXPECT_EQ(nearest("generat", names), "generate");
  EXPECT_EQ(nearest("lrr", names), "lr");
  EXPECT_EQ(nearest("completely", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(did_you_mean("trian", names), " (did you mean 'train'?)");
  EXPECT_EQ(did_you_mean("xyzzy", names), "");
}

TEST(Log, LevelsFilterAndParse) {
  struct Kept : Log {
    std::vector<std::string> lines;
    void write(LogLevel, const std::string& message) override { lines.push_back(message); }
  } log;
  log.debug("hidden");
  log.info("a {}", 1);
  log.set_level(parse_log_level("warn"));
  log.info("hidden");
  log.warn("b");
  EXPECT_EQ(log.lines, (std::vector<std::string>{"a 1", "b"}));
  EXPECT_THROW(parse_log_level("loud"), Error);
  silent_log().error("nobody hears this");
}

TEST(Isa, NamesGoBothWays) {
  for (const Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3}) EXPECT_EQ(parse_isa(isa_name(isa)), isa);
  EXPECT_THROW(parse_isa("sse"), Error);
  ::setenv("ESP_ISA", "reference", 1);
  EXPECT_EQ(choose_isa(), Isa::kReference);
  ::setenv("ESP_ISA", "mmx", 1);
  EXPECT_THROW(choose_isa(), Error);
  ::unsetenv("ESP_ISA");
}

TEST(FunctionRef, BorrowsWhatItCalls) {
  int calls = 0;
  auto count = [&](int n) { return calls += n; };
  const FunctionRef<int(int)> ref = count;
  EXPECT_EQ(ref(2), 2);
  EXPECT_EQ(ref(3), 5);
  EXPECT_EQ(sizeof ref, 2 * sizeof(void*));
}

}  // namespace
}  // namespace espalier
