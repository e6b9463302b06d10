#include "launcher/cli/help_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/text.h"
#include "launcher/cli/option_table.h"

namespace lr::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HelpTextTest, ListsEveryOptionWithinTheWidth) {
  const std::string text = HelpText();
  for (const OptionSpec& spec : OptionTable()) {
    EXPECT_THAT(text, HasSubstr(std::string(spec.name)));
  }
  for (const std::string& line : Split(text, '\n')) {
    EXPECT_LE(line.size(), 120) << line;
  }
}

TEST(DryRunTextTest, ShowsSourcesPlanAndWorkersWithSecretsMasked) {
  LaunchPlan plan;
  plan.local_size = 2;
  plan.run_id = "abc";
  plan.endpoint.standalone = true;
  plan.program = {.given = "p",
                  .executable = "/bin/p",
                  .argv = {"p", "--out=${local_rank}"},
                  .native = false,
                  .kind = "executable"};
  plan.signals = {15, 2};
  plan.options = {{.name = "--nproc-per-node",
                   .value = "2",
                   .source = ValueSource::kEnvironment,
                   .variable = "PET_NPROC_PER_NODE"}};
  EXPECT_THAT(DryRunText(plan, {{"MY_TOKEN", "s3cret"}}),
              AllOf(HasSubstr("PET_NPROC_PER_NODE"),
                    HasSubstr("one node; workers meet at this node, a free port"),
                    HasSubstr("worker 1: p --out=1"),
                    HasSubstr("    RANK=1\n"),
                    HasSubstr("    MASTER_PORT=<free>\n"),
                    HasSubstr("stop on   SIGTERM, SIGINT, killed after 30.0 s"),
                    Not(HasSubstr("s3cret"))));
}

}  // namespace
}  // namespace lr::launcher
