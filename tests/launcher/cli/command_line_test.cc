#include "launcher/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/refused_options.h"
#include "tests/launcher/cli/map_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Result<CommandLine> Parse(const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& variables = {}) {
  return ParseCommandLine(arguments, MapEnvironment(variables));
}

TEST(CommandLineTest, EverythingAfterProgramIsUntouched) {
  const auto line = Parse({"--nproc-per-node=2",
                           "echo-args",
                           "--r=16",
                           "--log=x",
                           "--node=3",
                           "--rdzv=y",
                           "--nproc",
                           "9",
                           "-m",
                           "z",
                           "--",
                           "-h"});
  ASSERT_THAT(line, IsOk());
  EXPECT_THAT(line->program,
              ElementsAre("echo-args",
                          "--r=16",
                          "--log=x",
                          "--node=3",
                          "--rdzv=y",
                          "--nproc",
                          "9",
                          "-m",
                          "z",
                          "--",
                          "-h"));
  EXPECT_EQ(line->text(Option::kNprocPerNode), "2");
  EXPECT_THAT(line->notes, IsEmpty());
}

TEST(CommandLineTest, LoneSeparatorBeforeProgramIsRemoved) {
  const auto line = Parse({"--nnodes", "1", "--", "--odd-name", "--", "x"});
  ASSERT_THAT(line, IsOk());
  EXPECT_THAT(line->program, ElementsAre("--odd-name", "--", "x"));
}

TEST(CommandLineTest, DashesAndUnderscoresAreTheSame) {
  for (const char* spelling : {"--nproc_per_node=3", "--nproc-per-node=3", "--nproc-per_node=3"}) {
    const auto line = Parse({spelling, "p"});
    ASSERT_THAT(line, IsOk());
    EXPECT_EQ(line->text(Option::kNprocPerNode), "3");
    EXPECT_EQ(line->spelled(Option::kNprocPerNode), spelling);
  }
}

TEST(CommandLineTest, ValuesMayFollowOrBeAttached) {
  const auto line = Parse({"--nnodes", "2", "--rdzv-endpoint=h:1", "--node-rank", "0", "p"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->text(Option::kNnodes), "2");
  EXPECT_EQ(line->text(Option::kRdzvEndpoint), "h:1");
}

TEST(CommandLineTest, LastOfRepeatedOptionsCounts) {
  EXPECT_EQ(Parse({"--nnodes=1", "--nnodes=2", "p"})->text(Option::kNnodes), "2");
}

TEST(CommandLineTest, RepeatedAddressesOfThisNodeAllCount) {
  const auto line = Parse({"--local-addr=a", "--local-addr", "b", "p"});
  EXPECT_EQ(line->text(Option::kLocalAddr), "a,b");
  EXPECT_EQ(line->spelled(Option::kLocalAddr), "--local-addr=a --local-addr=b");
}

TEST(CommandLineTest, UnambiguousAbbreviationsAreCompletedWithANote) {
  const auto line = Parse({"--nproc=2", "--stand", "p"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->text(Option::kNprocPerNode), "2");
  EXPECT_TRUE(line->flag(Option::kStandalone));
  EXPECT_THAT(
      line->notes,
      ElementsAre("--nproc is taken as --nproc-per-node", "--stand is taken as --standalone"));
  EXPECT_THAT(
      Parse({"--rdzv=x", "p"}),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr("ambiguous"), HasSubstr("--rdzv-backend"), HasSubstr("--rdzv-id"))));
  EXPECT_THAT(Parse({"--log=x", "p"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--logs-specs")));
}

TEST(CommandLineTest, UnknownOptionsNameTheNearest) {
  EXPECT_THAT(Parse({"--nproc-per-nod3=2", "p"}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("--nproc-per-nod3, did you mean --nproc-per-node?")));
  EXPECT_THAT(Parse({"--colour", "p"}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("unknown option --colour"), Not(HasSubstr("did you")))));
  EXPECT_THAT(Parse({"-x", "p"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("unknown option -x")));
}

TEST(CommandLineTest, MissingAndSurplusValuesAreErrors) {
  EXPECT_THAT(Parse({"--nnodes"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--nnodes needs a value")));
  EXPECT_THAT(
      Parse({"--role", "--standalone", "p"}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("needs a value, but --standalone follows")));
  EXPECT_THAT(Parse({"--standalone=yes", "p"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("takes no value")));
}

TEST(CommandLineTest, OptionalValuesAreAttachedOnly) {
  const auto plain = Parse({"--pass-local-rank", "p"});
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(plain->program, ElementsAre("p"));
  EXPECT_TRUE(plain->has(Option::kPassLocalRank));
  EXPECT_EQ(plain->text(Option::kPassLocalRank), "");
  const auto valued = Parse({"--pass_local_rank=--local_rank", "p"});
  EXPECT_EQ(valued->text(Option::kPassLocalRank), "--local_rank");
  EXPECT_EQ(valued->spelled(Option::kPassLocalRank), "--pass_local_rank=--local_rank");
}

TEST(CommandLineTest, ProgramIsRequired) {
  EXPECT_THAT(Parse({"--standalone"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("PROGRAM is missing")));
  EXPECT_THAT(Parse({}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("PROGRAM is missing")));
}

TEST(CommandLineTest, HelpNeedsNoProgramAndIgnoresLaterMistakes) {
  EXPECT_TRUE(Parse({"--help", "--nonsense"})->flag(Option::kHelp));
  EXPECT_TRUE(Parse({"-h"})->flag(Option::kHelp));
  EXPECT_TRUE(Parse({"--version"})->flag(Option::kVersion));
  EXPECT_EQ(Parse({"--print-completion", "zsh"})->text(Option::kPrintCompletion), "zsh");
}

TEST(CommandLineTest, EnvironmentFillsWhatTheCommandLineLeavesOut) {
  const auto line = Parse({"--nnodes=1", "p"},
                          {{"PET_NNODES", "4"},
                           {"PET_NPROC_PER_NODE", "2"},
                           {"PET_STANDALONE", "1"},
                           {"PET_MODULE", "0"}});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->text(Option::kNnodes), "1");
  EXPECT_EQ(line->text(Option::kNprocPerNode), "2");
  EXPECT_EQ(line->given.at(Option::kNprocPerNode).source, ValueSource::kEnvironment);
  EXPECT_EQ(line->spelled(Option::kNprocPerNode), "PET_NPROC_PER_NODE=2");
  EXPECT_TRUE(line->flag(Option::kStandalone));
  EXPECT_FALSE(line->flag(Option::kModule));
  EXPECT_THAT(
      Parse({"p"}, {{"PET_STANDALONE", "yes"}}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("PET_STANDALONE=yes must be an integer")));
}

TEST(CommandLineTest, OptionsOfTorchrunThatAreNotServedAreRefusedNotIgnored) {
  EXPECT_THAT(Parse({"--logs-specs=mine", "p"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--logs-specs=mine")));
}

TEST(CommandLineTest, EngineOptionsOfAccelerateAreRefusedTogetherWithTheirReplacements) {
  EXPECT_THAT(Parse({"--use_fsdp",
                     "--mixed_precision=bf16",
                     "--fsdp_sharding_strategy",
                     "FULL_SHARD",
                     "--config_file=x.yaml",
                     "--gradient_accumulation_steps=4",
                     "train.py"}),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("--use_fsdp: --parallelism.dp_shard=N"),
                             HasSubstr("--mixed_precision=bf16: --accelerator.mixed_precision"),
                             HasSubstr("--fsdp_sharding_strategy=FULL_SHARD: --accelerator.fsdp"),
                             HasSubstr("--config_file=x.yaml"),
                             HasSubstr("--accelerator.gradient_accumulation.steps"),
                             HasSubstr("after the program's name"))));
}

TEST(CommandLineTest, NeutralEngineValuesPass) {
  const auto line = Parse({"--mixed_precision=no",
                           "--dynamo_backend",
                           "NO",
                           "--dynamo-mode=default",
                           "p",
                           "--use_fsdp"});
  ASSERT_THAT(line, IsOk());
  EXPECT_THAT(line->program, ElementsAre("p", "--use_fsdp"));
}

TEST(CommandLineTest, RefusedFlagsOfAccelerateNeedNoValue) {
  EXPECT_THAT(
      Parse({"--fp8_use_autocast_during_eval", "--use_fsdp", "p"}),
      StatusIs(StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("--fp8_use_autocast_during_eval: "), HasSubstr("--use_fsdp"))));
  EXPECT_THAT(Parse({"--mpirun_hostfile=h", "p"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("by the scheduler")));
}

TEST(OptionTableTest, NamesAreCanonicalUniqueAndExplained) {
  for (const OptionSpec& spec : OptionTable()) {
    EXPECT_TRUE(spec.name.starts_with("--")) << spec.name;
    EXPECT_EQ(spec.name.find('_'), std::string_view::npos) << spec.name;
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    EXPECT_EQ(&SpecOf(spec.option), &spec) << spec.name;
    EXPECT_EQ(FindRefused(spec.name), nullptr) << spec.name;
  }
  for (const RefusedOption& row : RefusedOptions()) {
    EXPECT_FALSE(row.instead.empty()) << row.name;
    if (!row.name.ends_with('*')) {
      EXPECT_EQ(FindRefused(row.name), &row) << row.name;
    }
  }
}

}  // namespace
}  // namespace lr::launcher
