#include "launcher/plan/resume_choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CheckpointCandidate Complete(int64_t step, const std::string& run_id = "r") {
  CheckpointCandidate candidate;
  candidate.name = StepDirectoryName(step, 1000);
  candidate.step = step;
  candidate.run_id = run_id;
  candidate.verdict = {true, "all 9 files of the manifest are there"};
  return candidate;
}

CheckpointCandidate Last(CheckpointCandidate candidate) {
  candidate.is_last = true;
  return candidate;
}

CheckpointCandidate Damaged(int64_t step, const std::string& why, const std::string& run_id = "r") {
  CheckpointCandidate candidate = Complete(step, run_id);
  candidate.verdict = {false, why};
  return candidate;
}

NodeCheckpointView Node(int rank, std::vector<CheckpointCandidate> candidates) {
  return {fmt::format("node {}", rank), {"", std::move(candidates)}};
}

TEST(ResumeChoiceTest, TheNewestCompleteOneIsChosen) {
  const ResumeChoice choice = ChooseResume("/out", "r", {Node(0, {Complete(400), Complete(200)})});
  EXPECT_EQ(choice.directory, "/out/checkpoints/000400");
  EXPECT_EQ(choice.step, 400);
  EXPECT_THAT(choice.reason, HasSubstr("the newest complete one"));
  EXPECT_THAT(choice.skipped, IsEmpty());
}

TEST(ResumeChoiceTest, TheTargetOfLastWinsOverAHigherStepOfAnEarlierTry) {
  const ResumeChoice choice =
      ChooseResume("/out", "r", {Node(0, {Complete(400), Last(Complete(200))})});
  EXPECT_EQ(choice.step, 200);
}

TEST(ResumeChoiceTest, DamagedOnesAreListedWithReasonsAndSkipped) {
  const ResumeChoice choice =
      ChooseResume("/out",
                   "r",
                   {Node(0,
                         {Last(Damaged(600, "model.safetensors is missing")),
                          Damaged(500, "cut short", ""),
                          Complete(400)})});
  EXPECT_EQ(choice.step, 400);
  EXPECT_THAT(choice.skipped,
              ElementsAre("checkpoint 000600 is skipped: model.safetensors is missing (node 0)",
                          "checkpoint 000500 is skipped: cut short (node 0)"));
}

TEST(ResumeChoiceTest, EveryNodeMustHaveIt) {
  const ResumeChoice choice =
      ChooseResume("/out",
                   "r",
                   {Node(0, {Last(Complete(600)), Complete(500), Complete(400), Complete(300)}),
                    Node(1, {Damaged(600, "cut short"), Complete(400), Complete(300)}),
                    Node(2, {Complete(600), Complete(500), Complete(300)})});
  EXPECT_EQ(choice.step, 300);
  EXPECT_THAT(choice.skipped,
              ElementsAre("checkpoint 000600 is skipped: cut short (node 1)",
                          "checkpoint 000500 is skipped: node 1 does not see it",
                          "checkpoint 000400 is skipped: node 2 does not see it"));
}

TEST(ResumeChoiceTest, ACheckpointThatOnlyAnotherNodeSeesIsSkippedAloud) {
  const ResumeChoice choice = ChooseResume("/out", "r", {Node(0, {}), Node(1, {Complete(400)})});
  EXPECT_EQ(choice.directory, "");
  EXPECT_THAT(choice.skipped, ElementsAre("checkpoint 000400 is skipped: node 0 does not see it"));
}

TEST(ResumeChoiceTest, ANodeThatCannotLookHasNone) {
  NodeCheckpointView blind = Node(1, {});
  blind.view.problem = "permission denied";
  const ResumeChoice choice = ChooseResume("/out", "r", {Node(0, {Complete(400)}), blind});
  EXPECT_EQ(choice.directory, "");
  EXPECT_THAT(choice.skipped,
              ElementsAre("checkpoint 000400 is skipped: node 1 cannot look: permission denied"));
}

TEST(ResumeChoiceTest, CheckpointsOfOtherRunsAreNeitherTakenNorListed) {
  const ResumeChoice choice = ChooseResume(
      "/out", "r", {Node(0, {Last(Complete(600, "other")), Damaged(500, "x", "other")})});
  EXPECT_EQ(choice.directory, "");
  EXPECT_EQ(choice.reason, "there is no complete checkpoint of this run below '/out'");
  EXPECT_THAT(choice.skipped, IsEmpty());
}

TEST(ResumeChoiceTest, APythonCheckpointNamesNoRunAndIsNotOurs) {
  EXPECT_EQ(ChooseResume("/out", "r", {Node(0, {Complete(600, "")})}).directory, "");
}

TEST(ResumeChoiceTest, NoNodeAndNoCheckpointGiveNone) {
  EXPECT_EQ(ChooseResume("/out", "r", {}).directory, "");
  EXPECT_EQ(ChooseResume("/out", "r", {Node(0, {})}).directory, "");
}

TEST(ResumeChoiceTest, ManySkippedOnesAreCounted) {
  std::vector<CheckpointCandidate> many;
  for (int64_t step = 20; step > 0; --step) {
    many.push_back(Damaged(step, "cut short"));
  }
  const ResumeChoice choice = ChooseResume("/out", "r", {Node(0, many)});
  ASSERT_EQ(choice.skipped.size(), 9U);
  EXPECT_THAT(choice.skipped.front(), HasSubstr("000020"));
  EXPECT_EQ(choice.skipped.back(), "12 older ones are skipped, too");
}

TEST(ResumeChoiceTest, TheLossIsToldInSteps) {
  ResumeChoice choice;
  choice.directory = "/out/checkpoints/000400";
  choice.step = 400;
  choice.skipped = {"checkpoint 000500 is skipped: cut short (node 0)"};
  EXPECT_THAT(DescribeResume(choice, {"restart 1 of 3", 437}),
              ElementsAre("restart 1 of 3: resuming from step 400; 37 steps are lost "
                          "(/out/checkpoints/000400)",
                          "checkpoint 000500 is skipped: cut short (node 0)"));
  EXPECT_THAT(DescribeResume(choice, {"restart 1 of 3", 401}).front(),
              HasSubstr("400; 1 step is lost ("));
  // Steps are told once a second: a save may be newer than the last one told.
  EXPECT_THAT(DescribeResume(choice, {"restart 1 of 3", 399}).front(),
              HasSubstr("resuming from step 400 ("));
}

TEST(ResumeChoiceTest, WithoutACheckpointEverythingIsLost) {
  ResumeChoice choice;
  choice.reason = "there is no complete checkpoint of this run below '/out'";
  EXPECT_THAT(DescribeResume(choice, {"restart 1 of 3", 12}),
              ElementsAre("restart 1 of 3: there is no complete checkpoint of this run below "
                          "'/out', so the workers start as their command line says; 12 steps are "
                          "lost"));
}

}  // namespace
}  // namespace lr::launcher
