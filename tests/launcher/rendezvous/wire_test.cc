// Messages to the wire and back, and what a hostile or broken peer may send.
#include "launcher/rendezvous/wire.h"

#include <functional>
#include <random>

#include "proto/lr/v1/rendezvous.pb.h"

#include "launcher/rendezvous/join_check.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;

WorkerEnding FullEnding() {
  WorkerEnding ending;
  ending.rank = 13;
  ending.local_rank = 5;
  ending.node_rank = 1;
  ending.host_name = "gpu07";
  ending.pid = 4711;
  ending.signal = 9;
  ending.core_dumped = true;
  ending.stopped_by_us = true;
  ending.stopped_early = true;
  ending.start_unix_ns = 1'700'000'000'000'000'001;
  ending.end_unix_ns = 1'700'000'000'000'000'002;
  ending.error_file = "/runs/a/error.json";
  ending.message = "not UTF-8: \xff\xfe";
  ending.last_lines = {"first", "", "last \x80"};
  ending.last_lines_are_stdout = true;
  ending.kernel_evidence = "memory limit hit";
  return ending;
}

NodeIdentity FullIdentity() {
  NodeIdentity node;
  node.node_id = "00ff";
  node.run_id = "run \xff";
  node.host_name = "host";
  node.pid = 7;
  node.local_size = 8;
  node.min_nodes = 2;
  node.max_nodes = 4;
  node.node_rank = 0;
  node.scheduler_index = 3;
  node.local_addr = "10.0.0.4";
  node.program_name = "train.py";
  node.plan_digest = {{"arguments", "ab"}, {"build", ""}};
  return node;
}

/// Equal on the wire means equal: every field is written, and reading loses none.
template <typename Message>
void ExpectRoundTrip(const Message& message) {
  const auto wire = ToWire(message);
  const auto bytes = wire.SerializeAsString();
  auto parsed = wire;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  const auto back = FromWire(parsed);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->index(), message.index());
  EXPECT_EQ(ToWire(*back).SerializeAsString(), bytes);
}

WorkerBoard FullBoard() {
  return {.rank = 13,
          .phase = WorkerPhase::kReduce,
          .in_phase = std::chrono::milliseconds(1234),
          .step = 41'233,
          .ticks = 99'999,
          .steps_done = 233,
          .steps_timed = 228,
          .step_median = std::chrono::microseconds(51'001),
          .step_longest = std::chrono::microseconds(80'002),
          .last_save = std::chrono::milliseconds(12'000),
          .phase_total = {std::chrono::microseconds(1), std::chrono::microseconds(2)},
          .collectives = {{"data", 7, "all-reduce", 4096}, {"shard \xff", 0, "", 0}},
          .left = true};
}

CheckpointCandidate FullCheckpoint() {
  CheckpointCandidate candidate;
  candidate.name = "000400";
  candidate.step = 400;
  candidate.is_last = true;
  candidate.run_id = "run";
  candidate.verdict = {true, "all there"};
  return candidate;
}

std::vector<NodeMessage> NodeMessages() {
  return {Hello{FullIdentity(), 3, 4711, "", false},
          Reserved{7, "10.0.0.4", 29501, "busy", {"10.0.0.5", "fd00::1"}},
          Ack{7, "no route", "10.0.0.4"},
          Beat{1'700'000'000'000'000'000},
          Progress{7, {41'233, 41'000, "/out", {0.5, 12.5}}},
          Ended{7, FullEnding()},
          Stopped{7},
          StopRequest{{StopReason::kCancelled, "enough", 2}},
          ControlAsk{{ControlRequest::Kind::kStop, "r-1"}},
          Bye{"SIGINT"},
          Boards{7, {FullBoard(), {.rank = 1}}},
          Stacks{7, "hang-7-1", {{3, "thread \xff"}, {4, ""}}, true},
          ControlAsk{{.kind = ControlRequest::Kind::kStacks, .id = "r-2", .rank = 5}},
          Surveyed{7, {"no permission", {FullCheckpoint()}}},
          Saved{7,
                {.rank = 3,
                 .running = true,
                 .step = 41,
                 .request = 5,
                 .directory = "/out/checkpoints/000041",
                 .error = "disk full",
                 .bytes = 1000,
                 .write_s = 1.5,
                 .publish_s = 0.25}},
          StopRequest{{StopReason::kPreempted, "spot", 15, 120'000}},
          ControlAsk{{ControlRequest::Kind::kCheckpoint, "r-2", 0, 5'000, true}}};
}

std::vector<HostMessage> HostMessages() {
  Assignment assignment;
  assignment.run_id = "run";
  assignment.epoch = 7;
  assignment.attempt = 2;
  assignment.nodes = {{"id0", "a", "10.0.0.1", 0, 2, 0}, {"id1", "b", "10.0.0.2", 1, 3, 2}};
  assignment.world_size = 5;
  assignment.master_addr = "10.0.0.1";
  assignment.master_port = 29500;
  assignment.resume_from = "/ckpt";
  assignment.restart_count = 1;
  assignment.resume_lines = {"restart 1 of 2: resuming from step 5", "another"};
  const RunOutcome outcome = {
      false, 42, "rank 13 failed", FullEnding(), {FullEnding(), FullEnding()}, "restart 1 of 2"};
  return {Refused{RefusalCode::kUnreachable, 76, "why"},
          Waiting{"for you", true},
          Reserve{7, "10.0.0.1"},
          Assign{assignment},
          Go{7},
          Stop{7, {StopReason::kNodeLost, "node 1 was lost", 15}},
          Control{{ControlRequest::Kind::kCheckpointAndStop, "r"}},
          BeatEcho{1, 2},
          Reforming{7, outcome},
          Closed{outcome},
          Watched{7,
                  {.kind = WatchReport::Kind::kStragglers,
                   .id = "hang-7-1",
                   .text = "rank 2 is absent",
                   .ranks = {2, 5},
                   .stacks = {{2, "thread"}, {5, ""}}}},
          Stop{7, {StopReason::kHang, "hang", 15}},
          Survey{7, "/out"},
          Control{{ControlRequest::Kind::kCheckpoint, "r", 12}},
          RequestUpdate{{.id = "r",
                         .number = 12,
                         .stop = true,
                         .state = RequestState::kComplete,
                         .step = 41,
                         .directory = "/out",
                         .bytes = 1000,
                         .agree_s = 0.5,
                         .write_s = 1.5,
                         .publish_s = 0.25,
                         .slowest = {3, 1},
                         .reason = "why"}}};
}

TEST(WireTest, EveryMessageSurvivesTheWayThereAndBack) {
  for (const NodeMessage& message : NodeMessages()) {
    ExpectRoundTrip(message);
  }
  for (const HostMessage& message : HostMessages()) {
    ExpectRoundTrip(message);
  }
}

TEST(WireTest, PlainFieldsArriveAsTheyWere) {
  const auto hello = std::get<Hello>(*FromWire(ToWire(NodeMessage(NodeMessages()[0]))));
  EXPECT_EQ(hello.identity.run_id, "run \xff");
  EXPECT_EQ(hello.identity.node_rank, 0);
  EXPECT_EQ(hello.identity.scheduler_index, 3);
  EXPECT_EQ(hello.live_port, 4711);
  EXPECT_EQ(hello.identity.plan_digest, FullIdentity().plan_digest);
  const auto ended = std::get<Ended>(*FromWire(ToWire(NodeMessage(NodeMessages()[5]))));
  EXPECT_EQ(ended.ending.message, FullEnding().message);
  EXPECT_EQ(ended.ending.last_lines, FullEnding().last_lines);
  EXPECT_EQ(ended.ending.last_lines_are_stdout, FullEnding().last_lines_are_stdout);
  EXPECT_EQ(ended.ending.kernel_evidence, FullEnding().kernel_evidence);
  const auto assign = std::get<Assign>(*FromWire(ToWire(HostMessage(HostMessages()[3]))));
  EXPECT_EQ(assign.assignment.world_size, 5);
  EXPECT_EQ(assign.assignment.nodes[1].first_rank, 2);
  EXPECT_EQ(assign.assignment.nodes[1].node_rank, 1);
}

TEST(WireTest, LongWordsOfAProgramAreCutAndTheNewestLinesKept) {
  WorkerEnding ending = FullEnding();
  ending.message = std::string(1 << 20, 'x');
  ending.last_lines.assign(500, std::string(1 << 20, 'y'));
  ending.last_lines.back() = "the last";
  const v1::NodeMessage wire = ToWire(NodeMessage(Ended{1, ending}));
  EXPECT_LT(wire.ByteSizeLong(), kLargestNodeMessage);
  EXPECT_EQ(wire.ended().ending().last_lines_size(), kMostLastLines);
  EXPECT_EQ(wire.ended().ending().last_lines(kMostLastLines - 1), "the last");
}

TEST(WireTest, ASurveyTellsTheNewestCheckpointsAndTheTargetOfLast) {
  Surveyed surveyed{1, {}};
  for (int64_t step = 1000; step > 0; --step) {
    CheckpointCandidate candidate = FullCheckpoint();
    candidate.name = StepDirectoryName(step, 1000);
    candidate.is_last = step == 3;
    candidate.verdict.reason = std::string(1 << 20, 'x');
    surveyed.view.candidates.push_back(candidate);
  }
  const v1::NodeMessage wire = ToWire(NodeMessage(surveyed));
  EXPECT_LT(wire.ByteSizeLong(), kLargestNodeMessage);
  const auto back = FromWire(wire);
  ASSERT_THAT(back, IsOk());
  const auto& seen = std::get<Surveyed>(*back).view.candidates;
  ASSERT_EQ(seen.size(), 65U);
  EXPECT_EQ(seen.front().step, 1000);
  EXPECT_TRUE(seen.back().is_last);
  EXPECT_EQ(seen.back().step, 3);
}

TEST(WireTest, TheLargestRunFitsIntoAMessage) {
  Assignment assignment;
  assignment.master_port = 1;
  const std::string id(32, 'f');
  for (int node = 0; node < kMaxNodes; ++node) {
    assignment.nodes.push_back(
        {id, "some-host-name-1234", "fd00:1234:5678:9abc::1234", node, 8, 8 * node});
  }
  const v1::HostMessage wire = ToWire(HostMessage(Assign{assignment}));
  EXPECT_LT(wire.ByteSizeLong(), kLargestHostMessage);
  EXPECT_THAT(FromWire(wire), IsOk());
}

TEST(WireTest, ALongStackIsCutAndFitsIntoAMessage) {
  const Stacks stacks{1, "id", {{0, std::string(1 << 20, 'x')}}, false};
  const v1::NodeMessage wire = ToWire(NodeMessage(stacks));
  EXPECT_LT(wire.ByteSizeLong(), kLargestNodeMessage);
  Boards boards{1, {}};
  WorkerBoard board = FullBoard();
  board.collectives.assign(500, board.collectives.front());
  boards.boards.assign(kMostBoards, board);
  const v1::NodeMessage full = ToWire(NodeMessage(boards));
  EXPECT_LT(full.ByteSizeLong(), kLargestNodeMessage);
  EXPECT_THAT(FromWire(full), IsOk());
}

struct BadNode {
  const char* name;
  int message;  ///< of NodeMessages()
  std::function<void(v1::NodeMessage&)> spoil;
  const char* words;
};

TEST(WireTest, ValuesOutOfRangeAreRefusedByName) {
  const BadNode cases[] = {
      {"kind", 0, [](auto& m) { m.Clear(); }, "kind"},
      {"workers", 0, [](auto& m) { m.mutable_hello()->set_local_size(-1); }, "workers is -1"},
      {"ranks",
       0,
       [](auto& m) { m.mutable_hello()->set_local_size(kMaxRanks + 1); },
       "not 0 to 131072"},
      {"nodes", 0, [](auto& m) { m.mutable_hello()->set_min_nodes(0); }, "nodes is 0"},
      {"range", 0, [](auto& m) { m.mutable_hello()->set_max_nodes(1); }, "not 2 to"},
      {"size",
       0,
       [](auto& m) { m.mutable_hello()->set_host_name(std::string(kLargestHello, 'x')); },
       "introduction"},
      {"fields",
       0,
       [](auto& m) {
         for (int i = 0; i < 100; ++i) {
           m.mutable_hello()->add_plan();
         }
       },
       "plan fields is 102"},
      {"port", 1, [](auto& m) { m.mutable_reserved()->set_port(70000); }, "port is 70000"},
      {"rank", 4, [](auto& m) { m.mutable_ended()->mutable_ending()->set_rank(-5); }, "rank is -5"},
      {"signal",
       4,
       [](auto& m) { m.mutable_ended()->mutable_ending()->set_signal(65); },
       "signal is 65"},
      {"exit code",
       4,
       [](auto& m) { m.mutable_ended()->mutable_ending()->set_exit_code(256); },
       "exit code is 256"},
      {"lines",
       4,
       [](auto& m) {
         for (int i = 0; i < 60; ++i) {
           m.mutable_ended()->mutable_ending()->add_last_lines("");
         }
       },
       "last lines"},
      {"cause",
       6,
       [](auto& m) { m.mutable_stop()->set_cause(static_cast<v1::StopCause>(99)); },
       "stop cause is 99"},
      {"stop signal", 6, [](auto& m) { m.mutable_stop()->set_signal(0); }, "signal is 0"},
      {"step directory",
       13,
       [](auto& m) { m.mutable_surveyed()->mutable_checkpoints(0)->set_name("../7"); },
       "'../7' is not the name of a step directory"},
      {"request",
       7,
       [](auto& m) { m.mutable_request()->set_kind(static_cast<v1::RequestKind>(9)); },
       "kind of request is 9"},
      {"folder",
       12,
       [](auto& m) { m.mutable_request()->set_id("../../elsewhere"); },
       "id of stacks '../../elsewhere' is no plain name"},
      {"hidden folder",
       12,
       [](auto& m) { m.mutable_request()->set_id(".."); },
       "id of stacks '..'"},
      {"no folder", 12, [](auto& m) { m.mutable_request()->clear_id(); }, "id of stacks ''"},
      {"long folder",
       12,
       [](auto& m) { m.mutable_request()->set_id(std::string(kLongestFolderName + 1, 'x')); },
       "at most 128 characters"},
      {"phase",
       10,
       [](auto& m) { m.mutable_boards()->mutable_boards(0)->set_phase(9); },
       "phase is 9"},
      {"board's rank",
       10,
       [](auto& m) { m.mutable_boards()->mutable_boards(1)->set_rank(-1); },
       "rank is -1"},
      {"span",
       10,
       [](auto& m) { m.mutable_boards()->mutable_boards(0)->set_step_longest_us(INT64_MAX); },
       "longest step is 9"},
      {"phase time",
       10,
       [](auto& m) { m.mutable_boards()->mutable_boards(0)->set_phase_total_us(0, -1); },
       "time in a phase is -1"},
      {"boards",
       10,
       [](auto& m) {
         for (int i = 0; i < kMostBoards; ++i) {
           m.mutable_boards()->add_boards();
         }
       },
       "boards is 34"},
      {"groups",
       10,
       [](auto& m) {
         for (int i = 0; i < kMostGroups; ++i) {
           m.mutable_boards()->mutable_boards(0)->add_collectives();
         }
       },
       "groups is 18"},
      {"stacks",
       11,
       [](auto& m) {
         for (int i = 0; i < kMostStacks; ++i) {
           m.mutable_stacks()->add_ranks();
         }
       },
       "stacks is 66"},
      {"rank of a stack",
       11,
       [](auto& m) { m.mutable_stacks()->mutable_ranks(0)->set_rank(kMaxRanks); },
       "rank is 131072"},
  };
  for (const BadNode& bad : cases) {
    SCOPED_TRACE(bad.name);
    v1::NodeMessage wire = ToWire(NodeMessages()[static_cast<size_t>(bad.message)]);
    bad.spoil(wire);
    EXPECT_THAT(FromWire(wire), StatusIs(StatusCode::kInvalidArgument, HasSubstr(bad.words)));
  }
}

TEST(WireTest, AHostIsNotTrustedEither) {
  v1::HostMessage assign = ToWire(HostMessages()[3]);
  assign.mutable_assign()->mutable_nodes(0)->set_local_size(kMaxRanks);
  EXPECT_THAT(FromWire(assign), StatusIs(StatusCode::kInvalidArgument, HasSubstr("workers is 3")));
  assign.mutable_assign()->clear_nodes();
  EXPECT_THAT(FromWire(assign), StatusIs(StatusCode::kInvalidArgument, HasSubstr("nodes is 0")));
  v1::HostMessage watched = ToWire(HostMessages()[10]);
  watched.mutable_watched()->set_id("a/b");
  EXPECT_THAT(FromWire(watched), StatusIs(StatusCode::kInvalidArgument, HasSubstr("id of stacks")));
  watched.mutable_watched()->clear_stacks();
  EXPECT_THAT(FromWire(watched), IsOk());
  EXPECT_THAT(FromWire(v1::HostMessage()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("kind")));
}

TEST(WireTest, ARefusalWithACodeOfTheFutureIsStillARefusal) {
  v1::HostMessage wire = ToWire(HostMessages()[0]);
  wire.mutable_refused()->set_code("FROM_THE_FUTURE");
  const auto refused = std::get<Refused>(*FromWire(wire));
  EXPECT_EQ(refused.code, RefusalCode::kProtocol);
  EXPECT_EQ(refused.text, "why");
}

/// Damaged bytes either fail to parse, are refused, or are a valid message; nothing else.
TEST(WireTest, DamagedBytesNeverHurt) {
  std::mt19937 random(7);
  const auto damage = [&](std::string bytes) {
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes && !bytes.empty(); ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(bytes.size() - random() % (bytes.size() / 4 + 1));
    return bytes;
  };
  int accepted = 0;
  for (int round = 0; round < 200; ++round) {
    for (const NodeMessage& message : NodeMessages()) {
      v1::NodeMessage wire;
      if (wire.ParseFromString(damage(ToWire(message).SerializeAsString()))) {
        accepted += FromWire(wire).ok() ? 1 : 0;
      }
    }
    for (const HostMessage& message : HostMessages()) {
      v1::HostMessage wire;
      if (wire.ParseFromString(damage(ToWire(message).SerializeAsString()))) {
        accepted += FromWire(wire).ok() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace lr::launcher
