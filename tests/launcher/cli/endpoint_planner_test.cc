#include "launcher/cli/endpoint_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

constexpr auto kInvalid = StatusCode::kInvalidArgument;

Result<RendezvousPlan> PlanFor(int nodes,
                               std::vector<std::string> options,
                               std::map<std::string, std::string> variables = {}) {
  options.emplace_back("p");
  const EnvironmentReader environment = MapEnvironment(std::move(variables));
  const Result<CommandLine> line = ParseCommandLine(options, environment);
  if (!line.ok()) {
    return line.status();
  }
  return PlanRendezvous(*line, nodes, nodes, "0123456789abcdef");
}

TEST(EndpointPlannerTest, OneNodeNeedsNothing) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, {"--standalone"}, {"--rdzv-backend=c10d"}}) {
    const auto plan = PlanFor(1, options);
    ASSERT_THAT(plan, IsOk());
    EXPECT_TRUE(plan->endpoint.standalone);
    EXPECT_EQ(plan->endpoint.worker_port, 0);
    EXPECT_FALSE(plan->endpoint.worker_port_explicit);
    EXPECT_EQ(plan->run_id, "0123456789ab");
    EXPECT_THAT(plan->notes, IsEmpty());
  }
}

TEST(EndpointPlannerTest, OneNodeWithAnExplicitPortKeepsIt) {
  for (const char* option : {"--rdzv-endpoint=127.0.0.1:29611", "--master-port=29611"}) {
    const auto plan = PlanFor(1, {option});
    ASSERT_THAT(plan, IsOk());
    EXPECT_TRUE(plan->endpoint.standalone);
    EXPECT_EQ(plan->endpoint.worker_port, 29611);
    EXPECT_TRUE(plan->endpoint.worker_port_explicit);
  }
}

TEST(EndpointPlannerTest, OneNodeWithAnEndpointWithoutPortPrefersTheDefaultPort) {
  const auto plan = PlanFor(1, {"--rdzv-endpoint=localhost"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->endpoint.host, "localhost");
  EXPECT_EQ(plan->endpoint.worker_port, 29500);
  EXPECT_FALSE(plan->endpoint.worker_port_explicit);
  EXPECT_EQ(PlanFor(1, {"--rdzv-endpoint=localhost:0"})->endpoint.worker_port, 0);
}

TEST(EndpointPlannerTest, StaticEndpointIsTheWorkersEndpoint) {
  const auto plan = PlanFor(2, {"--rdzv-endpoint=node0"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->endpoint.standalone);
  EXPECT_EQ(plan->endpoint.host, "node0");
  EXPECT_EQ(plan->endpoint.worker_port, 29500);
  EXPECT_EQ(plan->endpoint.control_port, 0);
  EXPECT_FALSE(plan->endpoint.worker_port_explicit);
  EXPECT_EQ(plan->run_id, "");
  const auto older = PlanFor(2, {"--master-addr=node0", "--master-port=1234"});
  ASSERT_THAT(older, IsOk());
  EXPECT_EQ(older->endpoint.host, "node0");
  EXPECT_EQ(older->endpoint.worker_port, 1234);
  EXPECT_TRUE(older->endpoint.worker_port_explicit);
}

TEST(EndpointPlannerTest, C10dEndpointIsTheControlPlane) {
  const auto plan = PlanFor(2, {"--rdzv-backend=c10d", "--rdzv-endpoint=node0", "--rdzv-id=job"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->endpoint.control_port, 29400);
  EXPECT_EQ(plan->endpoint.worker_port, 0);
  EXPECT_EQ(plan->run_id, "job");
  EXPECT_THAT(
      PlanFor(2, {"--rdzv-backend=c10d", "--rdzv-endpoint=node0", "--master-port=5"})->notes,
      ElementsAre(HasSubstr("--master-port=5 has no effect with --rdzv-backend=c10d")));
}

TEST(EndpointPlannerTest, SeveralNodesNeedAPlaceToMeet) {
  EXPECT_THAT(
      PlanFor(2, {}),
      StatusIs(kInvalid, AllOf(HasSubstr("--nnodes=2"), HasSubstr("--rdzv-endpoint=HOST"))));
  EXPECT_THAT(PlanFor(2, {"--master-port=5"}), StatusIs(kInvalid, HasSubstr("a place to meet")));
  EXPECT_THAT(PlanFor(2, {"--rdzv-endpoint=h:0"}), StatusIs(kInvalid, HasSubstr("one node only")));
}

TEST(EndpointPlannerTest, TwoFormsMustAgree) {
  EXPECT_THAT(PlanFor(2, {"--rdzv-endpoint=a:1", "--master-addr=a", "--master-port=1"}), IsOk());
  EXPECT_THAT(
      PlanFor(2, {"--rdzv-endpoint=a:1", "--master-addr=b"}),
      StatusIs(kInvalid, AllOf(HasSubstr("--rdzv-endpoint=a:1"), HasSubstr("--master-addr=b"))));
  EXPECT_THAT(
      PlanFor(2, {"--rdzv-endpoint=a:1"}, {{"PET_MASTER_PORT", "2"}}),
      StatusIs(kInvalid, AllOf(HasSubstr("--rdzv-endpoint=a:1"), HasSubstr("PET_MASTER_PORT=2"))));
}

TEST(EndpointPlannerTest, StandaloneOverridesAndSaysSo) {
  const auto plan = PlanFor(1, {"--standalone", "--rdzv-endpoint=h:5", "--rdzv-id=x"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->endpoint.worker_port, 0);
  EXPECT_EQ(plan->run_id, "0123456789ab");
  EXPECT_EQ(plan->notes.size(), 2);
  EXPECT_THAT(PlanFor(2, {"--standalone"}),
              StatusIs(kInvalid, HasSubstr("--standalone is for one node")));
}

TEST(EndpointPlannerTest, TheLiteralDefaultIsNoIdentity) {
  EXPECT_EQ(PlanFor(2, {"--rdzv-endpoint=a", "--rdzv-id=none"})->run_id, "");
}

TEST(EndpointPlannerTest, BackendsThatDoNotExistAreRefusedWithTheReplacement) {
  EXPECT_THAT(PlanFor(1, {"--rdzv-backend=etcd-v2"}),
              StatusIs(kInvalid, HasSubstr("--rdzv-backend=c10d")));
  EXPECT_THAT(PlanFor(1, {"--rdzv-backend=c10"}),
              StatusIs(kInvalid, HasSubstr("did you mean c10d?")));
}

TEST(EndpointPlannerTest, TheStaticBackendKnowsNoRange) {
  const auto line = ParseCommandLine(
      {"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-endpoint=a", "p"}, MapEnvironment({}));
  EXPECT_THAT(PlanRendezvous(*line, 1, 2, "0123456789abcdef")->notes, ::testing::IsEmpty());
  const auto fixed =
      ParseCommandLine({"--nnodes=1:2", "--rdzv-endpoint=a", "p"}, MapEnvironment({}));
  EXPECT_THAT(PlanRendezvous(*fixed, 1, 2, "0123456789abcdef")->notes,
              ElementsAre(HasSubstr("exactly 2 nodes")));
}

TEST(EndpointPlannerTest, ConfIsReadKeyByKey) {
  EXPECT_EQ(PlanFor(1, {"--rdzv-conf=join_timeout=5,timeout=9"})->endpoint.join_timeout,
            std::chrono::seconds(5));
  EXPECT_EQ(PlanFor(1, {"--rdzv-conf=timeout=9"})->endpoint.join_timeout, std::chrono::seconds(9));
  EXPECT_THAT(PlanFor(1, {"--rdzv-conf=use_libuv=1"})->notes,
              ElementsAre(HasSubstr("use_libuv has no effect")));
  EXPECT_THAT(PlanFor(1, {"--rdzv-conf=join_timeot=5"}),
              StatusIs(kInvalid, HasSubstr("did you mean join_timeout?")));
  EXPECT_THAT(PlanFor(1, {"--rdzv-conf=join_timeout"}),
              StatusIs(kInvalid, HasSubstr("is not KEY=VALUE")));
}

TEST(EndpointPlannerTest, ConfSetsEveryLimit) {
  const auto plan = PlanFor(1,
                            {"--rdzv-conf=commit_timeout=2,keep_alive_interval=0.5,suspect_timeout="
                             "3,lost_timeout=4,host_lost_timeout=7,is_host=true"});
  ASSERT_THAT(plan, IsOk());
  const RendezvousTimes& times = plan->endpoint.times;
  EXPECT_EQ(times.commit, std::chrono::seconds(2));
  EXPECT_EQ(times.heartbeat, std::chrono::milliseconds(500));
  EXPECT_EQ(times.suspect, std::chrono::seconds(3));
  EXPECT_EQ(times.lost, std::chrono::seconds(4));
  EXPECT_EQ(times.host_lost, std::chrono::seconds(7));
  EXPECT_EQ(plan->endpoint.is_host, true);
  EXPECT_EQ(PlanFor(1, {"--rdzv-conf=is_host=0"})->endpoint.is_host, false);
}

TEST(EndpointPlannerTest, ConfUnderstandsMissedHeartbeats) {
  const auto plan =
      PlanFor(1, {"--rdzv-conf=keep_alive_interval=2,keep_alive_max_attempt=2,read_timeout=60"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->endpoint.times.lost, std::chrono::seconds(4));
  EXPECT_EQ(plan->endpoint.times.suspect, std::chrono::seconds(4));
  EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("read_timeout has no effect here: nothing is")));
}

TEST(EndpointPlannerTest, ConfRefusesLimitsThatCannotHold) {
  EXPECT_THAT(PlanFor(1, {"--rdzv-conf=lost_timeout=1"}),
              StatusIs(kInvalid, HasSubstr("each must be below the next")));
  EXPECT_THAT(PlanFor(1, {"--rdzv-conf=commit_timeout=0"}),
              StatusIs(kInvalid, HasSubstr("(commit_timeout): must be at least 0.1 s")));
  EXPECT_THAT(PlanFor(1, {"--rdzv-conf=is_host=maybe"}),
              StatusIs(kInvalid, HasSubstr("(is_host): must be one of")));
}

TEST(EndpointPlannerTest, ConfNamesTheFilesOfTls) {
  const auto plan =
      PlanFor(1, {"--rdzv-conf=tls_ca=a.pem,tls_cert=c.pem,tls_key=k.pem,tls_mutual=1"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->endpoint.trust.tls_authorities, "a.pem");
  EXPECT_EQ(plan->endpoint.trust.tls_certificate, "c.pem");
  EXPECT_EQ(plan->endpoint.trust.tls_key, "k.pem");
  EXPECT_TRUE(plan->endpoint.trust.tls_mutual);
  EXPECT_FALSE(PlanFor(1, {"--rdzv-conf=tls_ca=a.pem"})->endpoint.trust.tls_mutual);
  EXPECT_THAT(PlanFor(1, {"--rdzv-conf=tls_cert=c.pem,tls_key=k.pem"}),
              StatusIs(kInvalid, HasSubstr("needs tls_ca")));
  for (const char* conf : {"tls_ca=a,tls_cert=c", "tls_ca=a,tls_key=k", "tls_ca=a,tls_mutual=1"}) {
    EXPECT_THAT(PlanFor(1, {std::string("--rdzv-conf=") + conf}),
                StatusIs(kInvalid, HasSubstr("tls_cert and tls_key")));
  }
}

TEST(EndpointPlannerTest, AC10dPortThatIsNotGivenIsTheFirstOfEight) {
  EXPECT_FALSE(
      PlanFor(2, {"--rdzv-backend=c10d", "--rdzv-endpoint=a"})->endpoint.control_port_explicit);
  EXPECT_TRUE(
      PlanFor(2, {"--rdzv-backend=c10d", "--rdzv-endpoint=a:5"})->endpoint.control_port_explicit);
}

}  // namespace
}  // namespace lr::launcher
