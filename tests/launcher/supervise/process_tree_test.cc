#include "launcher/supervise/process_tree.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

ProcessInfo Process(
    pid_t pid, pid_t parent, pid_t session, uint64_t start_time = 1, char state = 'S') {
  return {.pid = pid,
          .parent = parent,
          .session = session,
          .state = state,
          .start_time = start_time,
          .command = "x"};
}

std::vector<pid_t> Pids(const std::vector<ProcessInfo>& processes) {
  std::vector<pid_t> pids;
  for (const ProcessInfo& process : processes) {
    pids.push_back(process.pid);
  }
  return pids;
}

TEST(ProcessTreeTest, StatLineWithAnAwkwardCommandIsParsed) {
  const auto info = ParseStat(
      "77 (a) b (c)) S 12 77 70 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1 "
      "18446744073709551615\n");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->pid, 77);
  EXPECT_EQ(info->command, "a) b (c)");
  EXPECT_EQ(info->state, 'S');
  EXPECT_EQ(info->parent, 12);
  EXPECT_EQ(info->session, 70);
  EXPECT_EQ(info->start_time, 987654);
}

TEST(ProcessTreeTest, OtherTextIsNoStatLine) {
  for (const char* text :
       {"", "1", "1 (x)", "1 (x) S 1 2", ")(", "(x) S 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1"}) {
    EXPECT_FALSE(ParseStat(text)) << text;
  }
}

TEST(ProcessTreeTest, MembersAreDescendantsSessionsAndMarkedOnesWithTheirChildren) {
  const std::vector<ProcessInfo> processes = {Process(10, 1, 10),   // the launcher
                                              Process(11, 10, 10),  // the sweeper
                                              Process(20, 10, 20),  // a worker
                                              Process(21, 20, 20),  // its helper
                                              Process(22, 21, 22),  // grandchild in its own session
                                              Process(30, 1, 25),   // orphan in a watched session
                                              Process(31, 30, 31),  // its child
                                              Process(40, 1, 40),   // marked daemon
                                              Process(50, 1, 50),   // somebody else
                                              Process(60, 20, 20, 1, 'Z')};  // dead already
  const RunMembership membership{
      .root = 10, .sessions = {{25, 7}}, .marked = {40}, .never = {10, 11}};
  EXPECT_THAT(Pids(SelectMembers(processes, membership)),
              UnorderedElementsAre(20, 21, 22, 30, 31, 40));
}

TEST(ProcessTreeTest, SessionWhoseLeaderIsAnotherProcessByNowIsNotOurs) {
  const std::vector<ProcessInfo> processes = {Process(25, 1, 25, 99), Process(26, 25, 25)};
  EXPECT_TRUE(
      SelectMembers(processes, {.root = 0, .sessions = {{25, 7}}, .marked = {}, .never = {}})
          .empty());
  EXPECT_THAT(Pids(SelectMembers(processes,
                                 {.root = 0, .sessions = {{25, 99}}, .marked = {}, .never = {}})),
              UnorderedElementsAre(25, 26));
}

TEST(ProcessTreeTest, NoRootMeansNobodyNotTheWholeMachine) {
  const std::vector<ProcessInfo> processes = {Process(1, 0, 1),     // init
                                              Process(2, 0, 0),     // the kernel's threads
                                              Process(3, 2, 0),     //
                                              Process(10, 1, 10)};  // somebody's
  RunMembership membership;
  EXPECT_TRUE(SelectMembers(processes, membership).empty());
  membership.sessions = {{0, 1}, {1, 1}};
  membership.marked = {1};
  EXPECT_THAT(Pids(SelectMembers(processes, membership)), UnorderedElementsAre());
}

TEST(ProcessTreeTest, InitItselfMayBeTheLauncher) {
  const std::vector<ProcessInfo> processes = {Process(1, 0, 1), Process(10, 1, 10)};
  RunMembership membership;
  membership.root = 1;
  EXPECT_THAT(Pids(SelectMembers(processes, membership)), ElementsAre(10));
}

TEST(ProcessTreeTest, MarkerThatWouldMarkForeignProcessesIsRefused) {
  EXPECT_DEATH(SweepOnce({}, "LR_NODE_ID="), "would mark foreign");
  EXPECT_DEATH(SweepOnce({}, "LR_NODE_ID"), "would mark foreign");
  EXPECT_DEATH(SweepOnce({}, ""), "would mark foreign");
}

TEST(ProcessTreeTest, ReadsItself) {
  const auto self = ReadProcess(getpid());
  ASSERT_TRUE(self);
  EXPECT_EQ(self->parent, getppid());
  EXPECT_GT(self->start_time, 0U);
  EXPECT_FALSE(ReadProcess(0));
  EXPECT_TRUE(CarriesMarker(getpid(), std::string("PATH=") + getenv("PATH")));
  EXPECT_FALSE(CarriesMarker(getpid(), "PATH="));
  EXPECT_FALSE(HandlesSignal(getpid(), 12));
}

TEST(ProcessTreeTest, AnotherProcessUnderTheSamePidIsNotKilled) {
  ProcessInfo self = *ReadProcess(getpid());
  self.start_time += 1;
  EXPECT_FALSE(KillExactly(self));
}

}  // namespace
}  // namespace lr::launcher
