#include "launcher/cli/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Hosts(std::string_view text) {
  const auto hosts = ExpandHostList(text);
  EXPECT_TRUE(hosts.ok()) << text << ": " << hosts.status().message();
  return hosts.ok() ? *hosts : std::vector<std::string>();
}

TEST(HostListTest, PlainNames) {
  EXPECT_THAT(Hosts("gpu01"), ElementsAre("gpu01"));
  EXPECT_THAT(Hosts("b, a,b"), ElementsAre("b", "a", "b"));
  EXPECT_THAT(Hosts("a.example.org"), ElementsAre("a.example.org"));
}

TEST(HostListTest, RangesKeepTheWidthAsWritten) {
  EXPECT_THAT(Hosts("gpu[01-03,07],login1"),
              ElementsAre("gpu01", "gpu02", "gpu03", "gpu07", "login1"));
  EXPECT_THAT(Hosts("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(Hosts("n[098-101]-ib"), ElementsAre("n098-ib", "n099-ib", "n100-ib", "n101-ib"));
  EXPECT_THAT(Hosts("[1-2]"), ElementsAre("1", "2"));
}

TEST(HostListTest, TheLastBracketCountsFastest) {
  EXPECT_THAT(Hosts("r[1-2]n[1-2]"), ElementsAre("r1n1", "r1n2", "r2n1", "r2n2"));
}

TEST(HostListTest, UnreadableOnesAreRefusedNamingThePart) {
  for (const auto& [text, part] : std::vector<std::pair<const char*, const char*>>{
           {"", "an empty name"},
           {"a,,b", "an empty name"},
           {"gpu[01-03", "'[' without ']'"},
           {"gpu01]", "']' without '['"},
           {"gpu[1[2]]", "a bracket inside a bracket"},
           {"gpu[3-1]", "'3-1' is no host list of Slurm: not N or LOW-HIGH"},
           {"gpu[]", "not N or LOW-HIGH"},
           {"gpu[1-]", "not N or LOW-HIGH"},
           {"gpu[-3]", "not N or LOW-HIGH"},
           {"gpu[a-b]", "not N or LOW-HIGH"},
           {"gpu[0-999999]", "more than 65536 hosts"},
           {"a[0-999]b[0-999]", "more than 65536 hosts"},
           {"gpu[1-99999999999999999999]", "not N or LOW-HIGH"}}) {
    EXPECT_THAT(ExpandHostList(text), StatusIs(StatusCode::kInvalidArgument, HasSubstr(part)))
        << text;
  }
  EXPECT_THAT(ExpandHostList(std::string(300, 'a') + "[0-9]"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("longer than 255")));
}

TEST(HostListTest, TheLargestListIsRead) {
  EXPECT_EQ(Hosts("n[00000-65535]").size(), kMostHosts);
}

}  // namespace
}  // namespace lr::launcher
