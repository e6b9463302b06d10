#include "launcher/cli/help_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/text.h"
#include "launcher/cli/option_table.h"

namespace lr::launcher {
namespace {

using ::testing::HasSubstr;

TEST(HelpTextTest, ListsEveryOptionWithinTheWidth) {
  const std::string text = HelpText();
  for (const OptionSpec& spec : OptionTable()) {
    EXPECT_THAT(text, HasSubstr(std::string(spec.name)));
  }
  for (const std::string& line : Split(text, '\n')) {
    EXPECT_LE(line.size(), 120) << line;
  }
}

}  // namespace
}  // namespace lr::launcher
