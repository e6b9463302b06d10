#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "worker/control/control.h"

namespace lr::worker {
namespace {

TEST(ControlInboxTest, TheLargerWordWins) {
  ControlInbox inbox;
  inbox.Raise(ControlWord::kCheckpointAndStop);
  inbox.Raise(ControlWord::kCheckpoint);
  EXPECT_EQ(inbox.pending(), ControlWord::kCheckpointAndStop);
}

TEST(ControlInboxTest, ActingOnALargerWordAnswersSmallerOnesOnly) {
  ControlInbox inbox;
  inbox.Raise(ControlWord::kCheckpoint);
  inbox.Clear(ControlWord::kCheckpointAndStop);
  EXPECT_EQ(inbox.pending(), ControlWord::kNone);
  inbox.Raise(ControlWord::kStop);
  inbox.Clear(ControlWord::kCheckpoint);
  EXPECT_EQ(inbox.pending(), ControlWord::kStop);
}

TEST(ControlInboxTest, RemembersTheFirstSignalThatAskedToStop) {
  ControlInbox inbox;
  inbox.Raise(ControlWord::kCheckpoint, SIGUSR1);
  EXPECT_EQ(inbox.stop_signal(), 0);
  inbox.Raise(ControlWord::kCheckpointAndStop, SIGTERM);
  inbox.Raise(ControlWord::kCheckpointAndStop, SIGINT);
  EXPECT_EQ(inbox.stop_signal(), SIGTERM);
}

/// Exit status of a child that installs the handlers, runs `body` and returns its value.
int InChild(const std::function<int(ControlInbox&)>& body) {
  const pid_t child = fork();
  if (child == 0) {
    static ControlInbox inbox;
    InstallSignalHandlers(inbox);
    _exit(body(inbox));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(SignalHandlersTest, UserSignalsSaveAndTerminationStops) {
  EXPECT_EQ(InChild([](ControlInbox& inbox) {
              raise(SIGUSR1);
              const bool saved = inbox.pending() == ControlWord::kCheckpoint;
              raise(SIGUSR2);
              return saved && inbox.pending() == ControlWord::kCheckpointAndStop ? 7 : 1;
            }),
            7);
  EXPECT_EQ(InChild([](ControlInbox& inbox) {
              raise(SIGTERM);
              return inbox.pending() == ControlWord::kCheckpointAndStop &&
                             inbox.stop_signal() == SIGTERM
                         ? 7
                         : 1;
            }),
            7);
}

TEST(SignalHandlersTest, ASecondTerminationEndsAtOnce) {
  EXPECT_EQ(InChild([](ControlInbox&) {
              raise(SIGTERM);
              raise(SIGINT);
              return 1;
            }),
            128 + SIGINT);
}

TEST(SignalHandlersTest, SaveAndStopFollowedByTerminationIsStillOneRequest) {
  EXPECT_EQ(InChild([](ControlInbox& inbox) {
              raise(SIGUSR2);
              raise(SIGTERM);
              return inbox.pending() == ControlWord::kCheckpointAndStop ? 7 : 1;
            }),
            7);
}

TEST(SignalHandlersTest, AfterSaveAndStopASecondTerminationStillEndsAtOnce) {
  EXPECT_EQ(InChild([](ControlInbox&) {
              raise(SIGUSR2);
              raise(SIGTERM);
              raise(SIGTERM);
              return 1;
            }),
            128 + SIGTERM);
}

TEST(SignalHandlersTest, ASignalIgnoredAtStartStaysIgnored) {
  std::signal(SIGTERM, SIG_IGN);
  EXPECT_EQ(InChild([](ControlInbox& inbox) {
              raise(SIGTERM);
              return inbox.pending() == ControlWord::kNone ? 7 : 1;
            }),
            7);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace
}  // namespace lr::worker
