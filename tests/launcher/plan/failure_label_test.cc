#include "launcher/plan/failure_label.h"

#include <csignal>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

WorkerEnding Exited(int exit_code) {
  WorkerEnding ending;
  ending.exit_code = exit_code;
  ending.end_unix_ns = kSecond;
  return ending;
}

WorkerEnding Killed(int signal) {
  WorkerEnding ending;
  ending.signal = signal;
  return ending;
}

WorkerEnding Saying(WorkerEnding ending, const std::string& line) {
  ending.last_lines = {"earlier", line, "later"};
  return ending;
}

struct Sample {
  const char* label;
  const char* text;
  const char* line;
};

const std::vector<Sample> kSamples = {
#define LR_LABEL(label, secondary, advice)
#define LR_PATTERN(label, text, sample) {label, text, sample},
#include "launcher/plan/failure_patterns.def"
#undef LR_LABEL
#undef LR_PATTERN
};

TEST(FailureLabelTest, EverySampleLineIsRecognised) {
  for (const Sample& sample : kSamples) {
    EXPECT_THAT(sample.line, HasSubstr(sample.text));
    const FailureLabel label = LabelFailure(Saying(Exited(1), sample.line));
    EXPECT_EQ(label.name, sample.label) << sample.line;
    EXPECT_EQ(label.evidence, sample.line);
    EXPECT_NE(label.advice, "");
  }
}

TEST(FailureLabelTest, ConsequencesAreSecondaryAndCausesAreNot) {
  for (const Sample& sample : kSamples) {
    const FailureLabel label = LabelFailure(Saying(Exited(1), sample.line));
    const bool peer = label.name == "peer lost" || label.name.starts_with("collective");
    EXPECT_EQ(label.secondary, peer) << sample.line;
  }
}

TEST(FailureLabelTest, MessageOfTheErrorFileCountsAndItsLastLineIsTheEvidence) {
  WorkerEnding ending = Exited(1);
  ending.message =
      "Traceback (most recent call last):\n  …\nModuleNotFoundError: No module named q\n";
  EXPECT_EQ(LabelFailure(ending).name, "import error");
  EXPECT_EQ(LabelFailure(ending).evidence, "ModuleNotFoundError: No module named q");
}

TEST(FailureLabelTest, CauseOutweighsTheConsequencesWrittenAfterIt) {
  WorkerEnding ending = Exited(1);
  ending.last_lines = {"torch.OutOfMemoryError: CUDA out of memory.", "Connection reset by peer"};
  EXPECT_EQ(LabelFailure(ending).name, "out of device memory");
}

TEST(FailureLabelTest, UsageErrorNeedsCodeTwoUsageTextAndShortLife) {
  WorkerEnding ending = Saying(Exited(2), "usage: train.py [-h]");
  EXPECT_EQ(LabelFailure(ending).name, "usage error of the program");
  EXPECT_EQ(LabelFailure(ending).evidence, "exit code 2, after: later");
  ending.end_unix_ns = 60 * kSecond;
  EXPECT_EQ(LabelFailure(ending).name, "");
  EXPECT_EQ(LabelFailure(Saying(Exited(1), "usage: train.py [-h]")).name, "");
}

TEST(FailureLabelTest, LackOfMemoryIsNamedOnlyWithEvidence) {
  EXPECT_EQ(LabelFailure(Killed(SIGKILL)).name, "killed by an unknown sender");
  EXPECT_THAT(LabelFailure(Killed(SIGKILL)).evidence, HasSubstr("no sign of a lack of memory"));
  WorkerEnding ending = Killed(SIGKILL);
  ending.kernel_evidence = "1 kill for lack of memory in control group /job";
  EXPECT_EQ(LabelFailure(ending).name, "killed by the kernel for lack of memory");
  EXPECT_EQ(LabelFailure(ending).evidence, ending.kernel_evidence);
}

TEST(FailureLabelTest, KilledHelperOfAWorkerIsExplainedByTheKernelsCount) {
  WorkerEnding ending =
      Saying(Exited(1), "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.");
  EXPECT_EQ(LabelFailure(ending).name, "helper process killed");
  ending.kernel_evidence = "1 kill for lack of memory in control group /job";
  EXPECT_EQ(LabelFailure(ending).name, "helper process killed by the kernel for lack of memory");
  EXPECT_THAT(LabelFailure(ending).evidence, HasSubstr("Killed.; 1 kill for lack of memory"));
  ending.last_lines = {"ValueError: x"};
  EXPECT_EQ(LabelFailure(ending).name, "");
}

TEST(FailureLabelTest, WhatWasWrittenBeforeDoesNotExplainSigkill) {
  EXPECT_EQ(LabelFailure(Saying(Killed(SIGKILL), "MemoryError")).name,
            "killed by an unknown sender");
}

TEST(FailureLabelTest, OurOwnKillIsNoUnknownSender) {
  WorkerEnding ending = Killed(SIGKILL);
  ending.stopped_by_us = true;
  EXPECT_EQ(LabelFailure(ending).name, "");
  EXPECT_EQ(LabelFailure(Saying(ending, "CUDA out of memory")).name, "out of device memory");
}

TEST(FailureLabelTest, BusErrorNamesSharedMemoryOnlyWhenItWasFull) {
  EXPECT_EQ(LabelFailure(Killed(SIGBUS)).name, "bus error");
  WorkerEnding ending = Killed(SIGBUS);
  ending.kernel_evidence = "/dev/shm is full: 0 of 67108864 bytes free";
  EXPECT_EQ(LabelFailure(ending).name, "bus error, shared memory full");
  EXPECT_EQ(LabelFailure(ending).evidence, ending.kernel_evidence);
}

TEST(FailureLabelTest, CrashesAreExplainedByWordsFirst) {
  EXPECT_EQ(LabelFailure(Killed(SIGILL)).name, "illegal instruction");
  EXPECT_EQ(LabelFailure(Killed(SIGSEGV)).name, "segmentation fault");
  EXPECT_EQ(LabelFailure(Killed(SIGABRT)).name, "aborted");
  EXPECT_EQ(LabelFailure(Saying(Killed(SIGABRT), "what():  std::bad_alloc")).name,
            "out of host memory");
}

TEST(FailureLabelTest, UnknownFailuresGetNoLabel) {
  EXPECT_EQ(LabelFailure(Exited(7)).name, "");
  EXPECT_EQ(LabelFailure(Exited(0)).name, "");
  EXPECT_THAT(LabelFailure(Saying(Exited(1), "all is well")).name, Not(HasSubstr("error")));
}

TEST(FailureLabelTest, EndingsAreDescribed) {
  EXPECT_EQ(DescribeEnding(Exited(7)), "exit code 7");
  EXPECT_EQ(DescribeEnding(Killed(SIGKILL)), "signal 9 (SIGKILL)");
  WorkerEnding dumped = Killed(SIGSEGV);
  dumped.core_dumped = true;
  EXPECT_EQ(DescribeEnding(dumped), "signal 11 (SIGSEGV), core dumped");
  EXPECT_EQ(dumped.job_exit_code(), 139);
  EXPECT_EQ(SignalName(200), "signal 200");
}

}  // namespace
}  // namespace lr::launcher
