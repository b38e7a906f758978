#include "serve/host_check.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

TEST(HostCheck, ALoopbackAddressHearsItsOwnNamesAlone) {
  for (const char* bound : {"127.0.0.1", "localhost", "::1", "127.0.0.2"}) {
    const HostCheck check(bound, {"Model.lan", "10.0.0.5:80"});
    for (const char* host : {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080", "::1",
                             "localhost.", "model.lan:1", "10.0.0.5"})
      EXPECT_TRUE(check.allows(host)) << bound << " " << host;
    for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
                             "lan", "", "[", "[]", ":", "10.0.0.6", "127.0.0.1@evil.example"})
      EXPECT_FALSE(check.allows(host)) << bound << " " << host;
  }
  EXPECT_TRUE(HostCheck("127.0.0.2", {}).allows("127.0.0.2:80"));
}

TEST(HostCheck, AnOpenServerHearsAllUnlessNamesAreGiven) {
  EXPECT_TRUE(HostCheck("0.0.0.0", {}).allows("anything.example"));
  EXPECT_TRUE(HostCheck("192.168.1.4", {}).allows("192.168.1.4:8080"));
  const HostCheck named("0.0.0.0", {"model.lan"});
  EXPECT_TRUE(named.allows("model.lan"));
  EXPECT_TRUE(named.allows("localhost"));
  EXPECT_FALSE(named.allows("evil.example"));
}

TEST(HostCheck, KnowsLoopbackAddresses) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "127.evil.example", "192.168.0.1", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace espalier
