#include "launcher/plan/checkpoint_requests.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

using Kind = ControlRequest::Kind;
using Changes = CheckpointRequests::Changes;

/// A book of a running run of two ranks, at a time that passes when told.
class CheckpointRequestsTest : public ::testing::Test {
 protected:
  CheckpointRequests::Answer Ask(const std::string& id, Kind kind = Kind::kCheckpoint) {
    return book_.Ask({.kind = kind, .id = id}, conditions_, now_);
  }

  Changes Begin(int rank, int64_t step, int64_t request) {
    return book_.Saved({.rank = rank, .running = true, .step = step, .request = request}, 2, now_);
  }

  Changes Complete(int rank, int64_t step, int64_t request, double write_s = 0.0) {
    return book_.Saved({.rank = rank,
                        .step = step,
                        .request = request,
                        .directory = fmt::format("/out/checkpoints/{}", step),
                        .bytes = rank == 0 ? 1000 : 0,
                        .write_s = write_s,
                        .publish_s = 0.25},
                       2,
                       now_);
  }

  Changes Fail(int64_t step, int64_t request) {
    return book_.Saved({.step = step, .request = request, .error = "disk full"}, 2, now_);
  }

  CheckpointRequests book_;
  RequestConditions conditions_{.started = true};
  CheckpointRequests::Instant now_{100s};
};

TEST_F(CheckpointRequestsTest, FromTheRequestToThePublishedDirectory) {
  const auto answer = Ask("a");
  EXPECT_TRUE(answer.deliver);
  EXPECT_EQ(answer.result.state, RequestState::kAccepted);
  EXPECT_EQ(answer.result.number, 1);
  now_ += 500ms;
  const Changes running = Begin(1, 41, 1);
  ASSERT_THAT(running, SizeIs(1));
  EXPECT_EQ(running[0].state, RequestState::kRunning);
  EXPECT_EQ(running[0].step, 41);
  EXPECT_DOUBLE_EQ(running[0].agree_s, 0.5);
  EXPECT_THAT(Begin(0, 41, 1), IsEmpty()) << "told once";
  EXPECT_THAT(Complete(1, 41, 1, 3.0), IsEmpty()) << "rank 0 has not reported";
  const Changes done = Complete(0, 41, 1, 2.0);
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].state, RequestState::kComplete);
  EXPECT_EQ(done[0].directory, "/out/checkpoints/41");
  EXPECT_EQ(done[0].bytes, 1000);
  EXPECT_DOUBLE_EQ(done[0].write_s, 3.0);
  EXPECT_DOUBLE_EQ(done[0].publish_s, 0.25);
  EXPECT_THAT(done[0].slowest, ElementsAre(1, 0));
}

TEST_F(CheckpointRequestsTest, TheSameIdIsTheSameRequestAtAnyTime) {
  Ask("a");
  EXPECT_FALSE(Ask("a").deliver);
  EXPECT_EQ(Ask("a").result.number, 1);
  Begin(0, 41, 1);
  EXPECT_EQ(Ask("a").result.state, RequestState::kRunning);
  Complete(0, 41, 1);
  Complete(1, 41, 1);
  EXPECT_EQ(Ask("a").result.state, RequestState::kComplete);
  EXPECT_EQ(Ask("a").result.step, 41);
}

TEST_F(CheckpointRequestsTest, OneSaveAnswersAllRequestsUpToItsNumber) {
  Ask("a");
  Ask("b");
  Ask("c");
  Complete(0, 41, 2);
  const Changes done = Complete(1, 41, 2);
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_EQ(done[0].step, done[1].step);
  EXPECT_EQ(Ask("c").result.state, RequestState::kAccepted);
}

TEST_F(CheckpointRequestsTest, ARequestDuringASaveIsMergedIntoIt) {
  Ask("a");
  Begin(0, 41, 1);
  Ask("b");
  Complete(0, 41, 2);  // the ranks agreed that it answers both
  EXPECT_THAT(Complete(1, 41, 2), SizeIs(2));
}

TEST_F(CheckpointRequestsTest, AStopBehindACheckpointIsAnsweredByALaterSave) {
  Ask("a");
  const auto stop = Ask("b", Kind::kCheckpointAndStop);
  EXPECT_TRUE(stop.result.stop);
  Complete(0, 41, 1);
  Complete(1, 41, 1);
  EXPECT_EQ(Ask("b").result.state, RequestState::kAccepted);
  Complete(0, 42, 2);
  Complete(1, 42, 2);
  EXPECT_EQ(Ask("b").result.step, 42);
}

TEST_F(CheckpointRequestsTest, AFailedSaveFailsItsRequestsOnly) {
  Ask("a");
  Ask("b");
  const Changes failed = Fail(41, 1);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].state, RequestState::kFailed);
  EXPECT_EQ(failed[0].reason, "disk full");
  EXPECT_THAT(Fail(41, 1), IsEmpty()) << "the other rank says the same";
  EXPECT_EQ(Ask("b").result.state, RequestState::kAccepted);
}

TEST_F(CheckpointRequestsTest, ASaveThatNobodyAskedForAnswersNobody) {
  Ask("a");
  Complete(0, 40, 0);
  EXPECT_THAT(Complete(1, 40, 0), IsEmpty());
}

TEST_F(CheckpointRequestsTest, SlowReportsAreWaitedForASecond) {
  Ask("a");
  Complete(0, 41, 1, 2.0);
  now_ += 900ms;
  EXPECT_THAT(book_.Tick(now_), IsEmpty());
  now_ += 200ms;
  EXPECT_THAT(book_.Tick(now_), SizeIs(1));
  EXPECT_THAT(Complete(1, 41, 1), IsEmpty()) << "too late, and not a second save";
  EXPECT_THAT(book_.Tick(now_ + 10s), IsEmpty());
}

TEST_F(CheckpointRequestsTest, TheFinalCheckpointAnswersARequestAfterTheLastStep) {
  Complete(0, 100, 0);
  Complete(1, 100, 0);
  now_ += 1s;
  Ask("late");
  const Changes changes = book_.WorkersGone(true, "all ranks exited 0");
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].state, RequestState::kComplete);
  EXPECT_EQ(changes[0].step, 100);
  EXPECT_THAT(changes[0].reason, HasSubstr("the last checkpoint answers it"));
}

TEST_F(CheckpointRequestsTest, ASaveThatASignalAskedForAnswersAlso) {
  Ask("a", Kind::kCheckpointAndStop);
  now_ += 1s;
  Complete(0, 50, 0);  // a signal was agreed on, which has no number
  EXPECT_THAT(book_.WorkersGone(false, "SIGTERM"), SizeIs(1));
  EXPECT_EQ(Ask("a").result.state, RequestState::kComplete);
}

TEST_F(CheckpointRequestsTest, WorkersThatDieFirstFailTheRequest) {
  Complete(0, 40, 0);
  Complete(1, 40, 0);
  now_ += 1s;
  Ask("a");
  Begin(0, 41, 1);
  const Changes changes = book_.WorkersGone(false, "rank 1 ended with SIGKILL");
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].state, RequestState::kFailed);
  EXPECT_EQ(changes[0].reason, "rank 1 ended with SIGKILL");
  EXPECT_THAT(book_.WorkersGone(true, ""), IsEmpty());
}

TEST_F(CheckpointRequestsTest, NothingOfAnEpochAnswersInTheNext) {
  Complete(0, 40, 0);
  Complete(1, 40, 0);
  book_.WorkersGone(false, "rank 1 ended");
  Ask("a");
  EXPECT_EQ(book_.WorkersGone(true, "x").at(0).state, RequestState::kFailed);
}

TEST_F(CheckpointRequestsTest, WithoutWorkersThereIsNoCheckpointAndTheIdMayBeUsedAgain) {
  conditions_.not_running = "the run is FORMING";
  const auto refused = Ask("a");
  EXPECT_FALSE(refused.deliver);
  EXPECT_EQ(refused.result.state, RequestState::kFailed);
  EXPECT_EQ(refused.result.reason, "the run is FORMING");
  conditions_.not_running.clear();
  EXPECT_TRUE(Ask("a").deliver);
}

TEST_F(CheckpointRequestsTest, BeforeTheFirstStepItIsDoneAfterItOrRefused) {
  conditions_.started = false;
  EXPECT_TRUE(Ask("patient").deliver);
  const auto refused = book_.Ask({.id = "impatient", .only_when_started = true}, conditions_, now_);
  EXPECT_FALSE(refused.deliver);
  EXPECT_THAT(refused.result.reason, HasSubstr("NOT_STARTED"));
}

TEST_F(CheckpointRequestsTest, WhatDoesNotFitIsTriedOrSkippedButSaidAtOnce) {
  conditions_.estimates = {.step_s = 1.0, .save_s = 10.0};
  const ControlRequest tight{.id = "a", .within_ms = 5'000};
  const auto tried = book_.Ask(tight, conditions_, now_);
  EXPECT_TRUE(tried.deliver);
  EXPECT_EQ(tried.result.state, RequestState::kAccepted);
  EXPECT_THAT(tried.result.reason, HasSubstr("NOT_ENOUGH_TIME: needed 17.0 s"));
  conditions_.when_late = WhenLate::kSkip;
  ControlRequest other = tight;
  other.id = "b";
  const auto skipped = book_.Ask(other, conditions_, now_);
  EXPECT_FALSE(skipped.deliver);
  EXPECT_EQ(skipped.result.state, RequestState::kSkipped);
  other.id = "c";
  other.within_ms = 17'000;
  EXPECT_EQ(book_.Ask(other, conditions_, now_).result.reason, "");
}

TEST_F(CheckpointRequestsTest, AProgramThatIsNotOursSavesButDoesNotStop) {
  conditions_.native = false;
  conditions_.started = false;
  const auto answer = Ask("a");
  EXPECT_TRUE(answer.deliver);
  EXPECT_THAT(answer.result.reason, HasSubstr("the program's affair"));
  EXPECT_THAT(Ask("b", Kind::kCheckpointAndStop).result.reason, HasSubstr("then cancel the run"));
  const Changes done = book_.WorkersGone(true, "all ranks exited 0");
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].state, RequestState::kComplete);
  EXPECT_THAT(done[0].reason, HasSubstr("the program ended well"));
}

TEST_F(CheckpointRequestsTest, MarkersOfForeignProgramsTellNoStepAndAreToldApartByNumber) {
  conditions_.native = false;
  for (const int64_t number : {1, 2}) {
    Ask(fmt::format("r{}", number));
    const Changes done = book_.Saved({.request = number, .directory = "/out/step.done"}, 1, now_);
    ASSERT_THAT(done, SizeIs(1)) << number;
    EXPECT_EQ(done[0].state, RequestState::kComplete);
  }
}

TEST_F(CheckpointRequestsTest, TheBookForgetsOldAnswersAndNoOpenQuestion) {
  Ask("open");
  for (int i = 2; i < 400; ++i) {
    const auto answer = Ask(fmt::format("r{}", i));
    Fail(i, 0);
    book_.Saved({.step = i, .request = 0, .error = "x"}, 2, now_);
    ASSERT_EQ(answer.result.number, i);
    if (i == 300) {
      Fail(i, 0);
    }
  }
  EXPECT_EQ(Ask("open").result.number, 1);
}

}  // namespace
}  // namespace lr::launcher
