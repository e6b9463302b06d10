// Who may join, and what the others are told (spec 3.6).
#include "launcher/rendezvous/join_check.h"

#include "tests/launcher/rendezvous/run_scene.h"

namespace lr::launcher::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  void (*change)(Hello& hello);
  RefusalCode code;
  std::vector<std::string> words;
};

class JoinCheckTest : public ::testing::TestWithParam<Case> {};

TEST_P(JoinCheckTest, RefusesWithBothSidesNamed) {
  const NodeIdentity member = MakeNode("first", 0);
  Hello hello;
  hello.identity = MakeNode("second", 1);
  GetParam().change(hello);
  const auto refused = CheckJoin(
      hello, {&member}, {.run_id = "run", .min_nodes = 2, .max_nodes = 2, .strict_ranks = true});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, GetParam().code);
  EXPECT_EQ(refused->exit_code, 76);
  for (const std::string& word : GetParam().words) {
    EXPECT_THAT(refused->text, HasSubstr(word));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    JoinCheckTest,
    ::testing::Values(
        Case{"WrongRun",
             [](Hello& h) { h.identity.run_id = "other"; },
             RefusalCode::kWrongRun,
             {"'run'", "'other'", "second (pid 100)"}},
        Case{"NoRun",
             [](Hello& h) { h.identity.run_id = ""; },
             RefusalCode::kWrongRun,
             {"'run'", "no --rdzv-id given"}},
        Case{"OlderProtocol",
             [](Hello& h) { h.protocol = 0; },
             RefusalCode::kVersion,
             {"version 0", "older", "host's 2"}},
        Case{"NewerProtocol", [](Hello& h) { h.protocol = 9; }, RefusalCode::kVersion, {"newer"}},
        Case{"SameInstance",
             [](Hello& h) { h.identity.node_id = "id-first"; },
             RefusalCode::kDuplicateNode,
             {"first (pid 100)"}},
        Case{"OtherSize",
             [](Hello& h) { h.identity.max_nodes = 3; },
             RefusalCode::kPlanMismatch,
             {"--nnodes", "first (pid 100) has 1,", "second (pid 100) has 1:3"}},
        Case{"OtherProgram",
             [](Hello& h) { h.identity.program_name = "eval.py"; },
             RefusalCode::kPlanMismatch,
             {"'train.py'", "'eval.py'"}},
        Case{"OtherArguments",
             [](Hello& h) { h.identity.plan_digest[0].second = "b"; },
             RefusalCode::kPlanMismatch,
             {"plan mismatch in arguments", "'a'", "'b'"}},
        Case{"FieldOfOneSide",
             [](Hello& h) { h.identity.plan_digest.pop_back(); },
             RefusalCode::kPlanMismatch,
             {"in build", "'1'", "nothing"}},
        Case{"DuplicateRank",
             [](Hello& h) { h.identity.node_rank = 0; },
             RefusalCode::kDuplicateRank,
             {"node rank 0", "first (pid 100) has it", "second (pid 100)"}},
        Case{"RankTooLarge",
             [](Hello& h) { h.identity.node_rank = 2; },
             RefusalCode::kRankOutOfRange,
             {"node rank 2", "0 to 1"}},
        Case{"RankNegative",
             [](Hello& h) { h.identity.node_rank = -1; },
             RefusalCode::kRankOutOfRange,
             {"-1"}},
        Case{"RankMissing",
             [](Hello& h) { h.identity.node_rank.reset(); },
             RefusalCode::kRankMissing,
             {"--node-rank, 0 to 1"}},
        Case{"TooManyRanks",
             [](Hello& h) { h.identity.local_size = kMaxRanks; },
             RefusalCode::kTooLarge,
             {"131072"}},
        Case{"NoWorkers",
             [](Hello& h) { h.identity.local_size = 0; },
             RefusalCode::kTooLarge,
             {"at least 1"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(JoinCheckTest, ASurplusLauncherOnTheSameHostIsAskedWhetherOneWasMeant) {
  const NodeIdentity a = MakeNode("host");
  NodeIdentity b = MakeNode("host");
  b.node_id = "b";
  Hello hello;
  hello.identity = MakeNode("host");
  hello.identity.node_id = "c";
  const auto refused =
      CheckJoin(hello, {&a, &b}, {.run_id = "run", .min_nodes = 2, .max_nodes = 2});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, RefusalCode::kFull);
  EXPECT_THAT(refused->text, AllOf(HasSubstr("2 of 2"), HasSubstr("3 launchers of this run")));
}

TEST(JoinCheckTest, TheFirstNodeIsComparedWithNobody) {
  Hello hello;
  hello.identity = MakeNode("host", 1);
  EXPECT_FALSE(CheckJoin(
      hello, {}, {.run_id = "run", .min_nodes = 2, .max_nodes = 2, .strict_ranks = true}));
}

}  // namespace
}  // namespace lr::launcher::testing
