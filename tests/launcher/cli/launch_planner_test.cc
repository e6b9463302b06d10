#include "launcher/cli/launch_planner.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/engine_facts.h"
#include "tests/launcher/cli/map_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr auto kInvalid = StatusCode::kInvalidArgument;

Result<LaunchPlan> PlanOf(std::vector<std::string> options,
                          std::map<std::string, std::string> variables = {}) {
  options.emplace_back("p");
  const EnvironmentReader environment = MapEnvironment(std::move(variables));
  const Result<CommandLine> line = ParseCommandLine(options, environment);
  if (!line.ok()) {
    return line.status();
  }
  ProgramPlan program;
  program.given = "p";
  return PlanLaunch(*line,
                    program,
                    {.machine = {},
                     .topology = {},
                     .interface_address =
                         [](const std::string& name) {
                           return name == "eth0" ? std::optional<std::string>("10.0.0.9")
                                                 : std::nullopt;
                         },
                     .environment = environment,
                     .random_id = "0123456789abcdef"});
}

TEST(LaunchPlannerTest, DefaultsAreTorchruns) {
  const auto plan = PlanOf({});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->max_nodes, 1);
  EXPECT_EQ(plan->local_size, 1);
  EXPECT_EQ(plan->node_rank, std::nullopt);
  EXPECT_EQ(plan->role, "default");
  EXPECT_EQ(plan->shutdown_timeout, 30'000ms);
  EXPECT_THAT(plan->signals, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGQUIT));
  EXPECT_EQ(plan->signals_text, "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  EXPECT_FALSE(plan->fold_exit_code);
}

TEST(LaunchPlannerTest, DocumentedMultiNodeForm) {
  const auto plan =
      PlanOf({"--nnodes=2", "--node-rank=1", "--nproc-per-node=8", "--rdzv-endpoint=gpu01"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->max_nodes, 2);
  EXPECT_EQ(plan->node_rank, 1);
  EXPECT_EQ(plan->local_size, 8);
  EXPECT_EQ(plan->endpoint.host, "gpu01");
}

TEST(LaunchPlannerTest, NodeRankMustExist) {
  EXPECT_THAT(PlanOf({"--nnodes=2", "--node-rank=2", "--rdzv-endpoint=a"}),
              StatusIs(kInvalid, HasSubstr("from 0 to 1")));
}

TEST(LaunchPlannerTest, RestartsAreCountedApartFromNodeLosses) {
  const RestartRules none = PlanOf({})->policy.restarts;
  EXPECT_EQ(none.max_restarts, 0);
  EXPECT_FALSE(none.max_node_losses);
  EXPECT_FALSE(none.always);
  EXPECT_EQ(PlanOf({}, {{"PET_MAX_RESTARTS", "3"}})->policy.restarts.max_restarts, 3);
  const RestartRules given =
      PlanOf({"--max-restarts=2", "--max-node-losses=5", "--always-restart"})->policy.restarts;
  EXPECT_EQ(given.max_restarts, 2);
  EXPECT_EQ(given.max_node_losses, 5);
  EXPECT_TRUE(given.always);
  EXPECT_THAT(PlanOf({"--max-restarts=-1"}), StatusIs(kInvalid, HasSubstr("--max-restarts=-1")));
}

TEST(LaunchPlannerTest, HangLimitsAreThoseOfTheSpecificationUnlessGiven) {
  const auto plain = PlanOf({});
  ASSERT_THAT(plain, IsOk());
  EXPECT_TRUE(plain->policy.hang.on);
  EXPECT_EQ(plain->policy.hang.shortest, 120s);
  EXPECT_EQ(plain->policy.hang.first_step, 3600s);
  EXPECT_EQ(plain->policy.hang.checkpoint, 1800s);
  EXPECT_EQ(plain->policy.hang.action, HangAction::kAuto);
  const auto given = PlanOf({"--hang-timeout=600",
                             "--hang_first_step=7200",
                             "--hang-checkpoint=3",
                             "--hang-action=restart"});
  ASSERT_THAT(given, IsOk());
  EXPECT_EQ(given->policy.hang.shortest, 600s);
  EXPECT_EQ(given->policy.hang.first_step, 7200s);
  EXPECT_EQ(given->policy.hang.checkpoint, 3s);
  EXPECT_EQ(given->policy.hang.action, HangAction::kRestart);
  EXPECT_FALSE(PlanOf({"--hang-timeout=off"})->policy.hang.on);
  EXPECT_THAT(PlanOf({"--hang-timeout=2.9"}),
              StatusIs(kInvalid, HasSubstr("too short: progress is looked at once a second")));
  EXPECT_THAT(PlanOf({"--hang-first-step=off"}),
              StatusIs(kInvalid, HasSubstr("--hang-first-step")));
  EXPECT_THAT(PlanOf({"--hang-action=pray"}),
              StatusIs(kInvalid, HasSubstr("auto, report, restart")));
}

TEST(LaunchPlannerTest, RangesGrowAndFixedSizesHaveSpares) {
  const auto plan = PlanOf({"--nnodes=2:4",
                            "--rdzv-backend=c10d",
                            "--rdzv-endpoint=a",
                            "--grow=never",
                            "--rdzv-conf=last_call_timeout=1,lost_timeout=7"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->min_nodes, 2);
  EXPECT_EQ(plan->max_nodes, 4);
  EXPECT_EQ(plan->policy.grow, GrowRule::kNever);
  EXPECT_EQ(plan->endpoint.times.last_call, 1s);
  EXPECT_EQ(plan->endpoint.times.reform_last_call, 5s);
  EXPECT_EQ(plan->endpoint.times.lost, 7s);
  EXPECT_EQ(PlanOf({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=a", "--spares=1"})
                ->policy.spares,
            1);
  EXPECT_EQ(PlanOf({"--nnodes=1:2", "--rdzv-endpoint=a"})->min_nodes, 2);
  EXPECT_THAT(PlanOf({"--nnodes=2", "--rdzv-endpoint=a", "--spares=1"}),
              StatusIs(kInvalid, HasSubstr("use c10d")));
  EXPECT_THAT(PlanOf({"--nnodes=2", "--rdzv-endpoint=a", "--grow=never"}),
              StatusIs(kInvalid, HasSubstr("MIN:MAX")));
}

TEST(LaunchPlannerTest, ShutdownTimeoutMayFollowTheScheduler) {
  const auto granted = PlanOf({"--shutdown-timeout=auto", "--grace=120"});
  EXPECT_EQ(granted->shutdown_timeout, 115s);
  EXPECT_TRUE(granted->shutdown_auto);
  EXPECT_EQ(PlanOf({"--shutdown-timeout=auto"}, {{"LR_GRACE", "60"}})->shutdown_timeout, 55s);
  const auto unknown = PlanOf({"--shutdown-timeout=auto"});
  EXPECT_EQ(unknown->shutdown_timeout, 30s);
  EXPECT_THAT(unknown->notes, ::testing::Contains(HasSubstr("--grace")));
}

TEST(LaunchPlannerTest, SignalsAskForWhatTheUserSays) {
  const auto plan = PlanOf({"--on-signal=USR1:preempt,SIGTERM:checkpoint-stop,XCPU:checkpoint"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->signal_rules.at(SIGUSR1), SignalRule::kPreempt);
  EXPECT_EQ(plan->signal_rules.at(SIGTERM), SignalRule::kCheckpointAndStop);
  EXPECT_EQ(plan->signal_rules.at(SIGXCPU), SignalRule::kCheckpoint);
  EXPECT_THAT(PlanOf({"--on-signal=USR1"}), StatusIs(kInvalid, HasSubstr("SIG:ACTION")));
  EXPECT_THAT(PlanOf({"--on-signal=USR1:save"}), StatusIs(kInvalid, HasSubstr("'save' is not")));
  EXPECT_THAT(PlanOf({"--on-signal=USR1:dump"}),
              StatusIs(kInvalid, HasSubstr("not in this version")));
  EXPECT_THAT(PlanOf({"--on-signal=KILL:stop"}), StatusIs(kInvalid, HasSubstr("'KILL'")));
}

TEST(LaunchPlannerTest, TheEndOfTheJobComesFromSlurmOrTheUser) {
  EXPECT_EQ(PlanOf({}, {{"SLURM_JOB_END_TIME", "1800000000"}})->preempt.job_end_unix,
            1'800'000'000);
  EXPECT_EQ(
      PlanOf({"--time-limit=off"}, {{"SLURM_JOB_END_TIME", "1800000000"}})->preempt.job_end_unix,
      std::nullopt);
  EXPECT_EQ(PlanOf({"--time-limit=90"})->preempt.time_limit, 90s);
  EXPECT_EQ(PlanOf({})->preempt.time_limit, std::nullopt);
  EXPECT_THAT(PlanOf({"--time-limit=soon"}), StatusIs(kInvalid, HasSubstr("--time-limit")));
  EXPECT_EQ(PlanOf({"--preempt-watch=echo 30"})->preempt.watch, "echo 30");
  EXPECT_EQ(PlanOf({"--checkpoint-when-late=skip"})->policy.when_late, WhenLate::kSkip);
  EXPECT_THAT(PlanOf({"--checkpoint-when-late=never"}), StatusIs(kInvalid, HasSubstr("try")));
}

TEST(LaunchPlannerTest, ForeignProgramsAreAskedAsTheUserSays) {
  const auto plan = PlanOf({"--ckpt-signal=USR1", "--ckpt-glob=out/*.done"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->foreign_checkpoints.signal, SIGUSR1);
  EXPECT_EQ(plan->foreign_checkpoints.glob, "out/*.done");
  EXPECT_THAT(PlanOf({"--ckpt-glob=x"}), StatusIs(kInvalid, HasSubstr("without --ckpt-signal")));
  EXPECT_THAT(PlanOf({"--ckpt-signal=USR1,USR2"}), StatusIs(kInvalid, HasSubstr("one signal")));
}

TEST(LaunchPlannerTest, ShutdownTimeoutHasTorchrunsPrecedence) {
  EXPECT_EQ(PlanOf({}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}})->shutdown_timeout, 7'000ms);
  EXPECT_EQ(PlanOf({"--shutdown-timeout=2.5"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}})
                ->shutdown_timeout,
            2'500ms);
  EXPECT_THAT(PlanOf({}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "x"}}),
              StatusIs(kInvalid, HasSubstr("TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x")));
}

TEST(LaunchPlannerTest, BadWordsAndNumbersAreUsageErrors) {
  for (const char* bad : {"--start-method=thread",
                          "--exit-code=2",
                          "--monitor-interval=x",
                          "--signals-to-handle=SIGNOPE",
                          "--role=",
                          "--pass-local-rank=--rank",
                          "--nproc-per-node=many"}) {
    EXPECT_THAT(PlanOf({bad}), StatusIs(kInvalid, HasSubstr(bad))) << bad;
  }
}

TEST(LaunchPlannerTest, LocalAddressMayBeAnInterface) {
  EXPECT_THAT(PlanOf({"--local-addr=10.1.1.1"})->local_addrs, ElementsAre("10.1.1.1"));
  EXPECT_THAT(PlanOf({"--local-addr=@eth0"})->local_addrs, ElementsAre("10.0.0.9"));
  EXPECT_THAT(PlanOf({"--local-addr=10.1.1.1", "--local_addr", "@eth0"})->local_addrs,
              ElementsAre("10.1.1.1", "10.0.0.9"));
  EXPECT_THAT(PlanOf({}, {{"PET_LOCAL_ADDR", "10.1.1.1, fd00::1"}})->local_addrs,
              ElementsAre("10.1.1.1", "fd00::1"));
  EXPECT_THAT(PlanOf({"--local-addr=198.51.100.1@10.0.0.1"}),
              StatusIs(kInvalid, HasSubstr("neither an address nor @INTERFACE")));
  EXPECT_THAT(PlanOf({"--local-addr=@eth7"}),
              StatusIs(kInvalid, HasSubstr("--local-addr=@eth7: this node has no interface eth7")));
}

TEST(LaunchPlannerTest, LocalRankOptionHasTwoSpellings) {
  EXPECT_EQ(PlanOf({})->local_rank_option, "");
  EXPECT_EQ(PlanOf({"--pass-local-rank"})->local_rank_option, "--local-rank");
  EXPECT_EQ(PlanOf({"--pass-local-rank=--local_rank"})->local_rank_option, "--local_rank");
}

TEST(LaunchPlannerTest, EveryOptionIsListedWithItsSource) {
  const auto plan =
      PlanOf({"--role=r"}, {{"PET_NPROC_PER_NODE", "2"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}});
  ASSERT_THAT(plan, IsOk());
  const auto find = [&](const std::string& name) {
    for (const ResolvedOption& option : plan->options) {
      if (option.name == name) {
        return option;
      }
    }
    return ResolvedOption{};
  };
  EXPECT_EQ(find("--role").source, ValueSource::kCommandLine);
  EXPECT_EQ(find("--nproc-per-node").source, ValueSource::kEnvironment);
  EXPECT_EQ(find("--nnodes").source, ValueSource::kDefault);
  EXPECT_EQ(find("--standalone").value, "off");
  EXPECT_EQ(find("--shutdown-timeout").value, "7");
  EXPECT_EQ(find("--shutdown-timeout").variable, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
}

TEST(EngineFactsTest, ReadsWhatTheArgumentsSay) {
  ResolvedEngineFacts facts = FactsFromArguments({"--policy.type=act"});
  EXPECT_EQ(facts.mixed_precision, "no");
  EXPECT_EQ(facts.sharded, false);
  EXPECT_EQ(facts.device, std::nullopt);
  facts = FactsFromArguments({"--accelerator.mixed_precision",
                              "bf16",
                              "--parallelism.dp_shard=-1",
                              "--policy.device=cpu",
                              "--accelerator.gradient_accumulation.steps=4"});
  EXPECT_EQ(facts.mixed_precision, "bf16");
  EXPECT_EQ(facts.sharded, true);
  EXPECT_EQ(facts.device, "cpu");
  EXPECT_EQ(facts.gradient_accumulation_steps, 4);
}

TEST(EngineFactsTest, AFileLeavesTheRestUnknown) {
  const ResolvedEngineFacts facts =
      FactsFromArguments({"--config_path=x.json", "--parallelism.dp_shard=2"});
  EXPECT_EQ(facts.mixed_precision, std::nullopt);
  EXPECT_EQ(facts.sharded, true);
}

TEST(LaunchPlannerTest, SeveralMachinesWithoutATokenAreWarnedOnceOrRefused) {
  const std::vector<std::string> pair = {"--nnodes=2", "--node-rank=0", "--rdzv-endpoint=gpu01"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), pair.begin(), pair.end());
    return PlanOf(std::move(more));
  };
  const auto open = with({});
  ASSERT_THAT(open, IsOk());
  EXPECT_THAT(open->notes, ElementsAre(HasSubstr("whoever reaches gpu01 may join")));
  EXPECT_THAT(
      with({"--require-auth"}),
      StatusIs(kInvalid, HasSubstr("--require-auth: give every node the same --rdzv-token")));
  EXPECT_THAT(with({"--require-auth", "--rdzv-token-file=t"})->notes, ::testing::IsEmpty());
  EXPECT_EQ(with({"--rdzv-token-file=t"})->endpoint.trust.token_file, "t");
  EXPECT_THAT(
      PlanOf({"--nnodes=2", "--node-rank=0", "--rdzv-endpoint=127.0.0.1", "--require-auth"}),
      IsOk());
  EXPECT_THAT(PlanOf({"--require-auth"}), IsOk());
  EXPECT_EQ(PlanOf({}, {{"LR_RDZV_TOKEN_FILE", "t"}})->endpoint.trust.token_file, "t");
}

}  // namespace
}  // namespace lr::launcher
