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
  inbox.Clear({ControlWord::kCheckpointAndStop});
  EXPECT_EQ(inbox.pending(), ControlWord::kNone);
  inbox.Raise(ControlWord::kStop);
  inbox.Clear({ControlWord::kCheckpoint});
  EXPECT_EQ(inbox.pending(), ControlWord::kStop);
}

TEST(ControlInboxTest, WordAndNumberGrowApart) {
  ControlInbox inbox;
  inbox.Raise(ControlWord::kCheckpoint, 0, 5);
  inbox.Raise(ControlWord::kCheckpointAndStop, SIGTERM);
  EXPECT_EQ(inbox.pending(), ControlWord::kCheckpointAndStop);
  EXPECT_EQ(inbox.request().number, 5);
}

TEST(ControlInboxTest, ARequestThatWasActedOnIsIgnoredWhenItComesLate) {
  ControlInbox inbox;
  inbox.Clear({ControlWord::kCheckpoint, 7});  // the other ranks had it
  inbox.Raise(ControlWord::kCheckpoint, 0, 7);
  EXPECT_EQ(inbox.pending(), ControlWord::kNone);
  inbox.Raise(ControlWord::kCheckpoint, 0, 8);
  EXPECT_EQ(inbox.request().number, 8);
  inbox.Clear({ControlWord::kCheckpoint, 8});
  inbox.Raise(ControlWord::kCheckpoint, SIGUSR1);  // signals have no number: always new
  EXPECT_EQ(inbox.pending(), ControlWord::kCheckpoint);
}

TEST(ControlInboxTest, ANewerRequestStaysPending) {
  ControlInbox inbox;
  inbox.Raise(ControlWord::kCheckpoint, 0, 9);
  inbox.Clear({ControlWord::kCheckpointAndStop, 8});
  EXPECT_EQ(inbox.request().number, 9);
}

TEST(NumberedWordTest, TheMaximumIsTheLargerWordThenTheLargerNumber) {
  const int64_t largest = (int64_t{1} << 48) - 1;
  EXPECT_LT(Pack({ControlWord::kCheckpoint, largest}), Pack({ControlWord::kCheckpointAndStop, 0}));
  EXPECT_LT(Pack({ControlWord::kCheckpoint, 1}), Pack({ControlWord::kCheckpoint, 2}));
  for (const NumberedWord& one :
       {NumberedWord{}, {ControlWord::kStop, largest}, {ControlWord::kCheckpoint, 3}}) {
    EXPECT_EQ(Unpack(Pack(one)).word, one.word);
    EXPECT_EQ(Unpack(Pack(one)).number, one.number);
  }
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
