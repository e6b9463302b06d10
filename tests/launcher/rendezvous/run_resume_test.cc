// Where the workers of the next epoch go on: every node is asked what it sees, the host chooses
// (C-20, S-45).
#include "tests/launcher/rendezvous/run_scene.h"

namespace lr::launcher::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunRules Native(int nodes, int restarts, const std::string& output_dir = "") {
  RunRules rules{.run_id = "run", .min_nodes = nodes, .max_nodes = nodes, .native = true};
  rules.policy.restarts.max_restarts = restarts;
  rules.output_dir = output_dir;
  return rules;
}

CheckpointCandidate Saved(int64_t step, bool complete = true) {
  CheckpointCandidate candidate;
  candidate.name = StepDirectoryName(step, 1000);
  candidate.step = step;
  candidate.run_id = "run";
  candidate.verdict = {complete, complete ? "all there" : "cut short"};
  return candidate;
}

/// Two nodes whose workers told their directory, came to step 437, and failed.
class RunResumeTest : public ::testing::Test {
 protected:
  RunResumeTest() : scene_(Native(2, 3)) {
    scene_.RunAll(2);
    scene_.Say(1, Progress{1, {437, 400, "/out"}});
    scene_.FailEpoch(2, 3, 42);
    scene_.Tick(seconds(2), 2);
  }

  void See(MemberId node, std::vector<CheckpointCandidate> candidates) {
    scene_.Say(node, Surveyed{scene_.machine().epoch(), {"", std::move(candidates)}});
  }

  void Reserve() { scene_.Say(1, Reserved{scene_.machine().epoch(), "10.0.0.1", 4000, ""}); }

  RunScene scene_;
};

TEST_F(RunResumeTest, TheFirstEpochAsksNobodyWhenNoDirectoryIsKnown) {
  RunScene scene(Native(2, 3));
  scene.RunAll(2);
  EXPECT_EQ(scene.Count<Survey>(1), 0);
  EXPECT_EQ(scene.Last<Assign>(2).assignment.resume_from, "");
  EXPECT_THAT(scene.Last<Assign>(2).assignment.resume_lines, IsEmpty());
}

TEST_F(RunResumeTest, ARestartResumesFromWhatAllNodesSeeAndTellsTheLoss) {
  EXPECT_EQ(scene_.Last<Survey>(1).output_dir, "/out");
  EXPECT_EQ(scene_.Last<Survey>(2).epoch, 2);
  Reserve();
  EXPECT_THAT(scene_.machine().WaitingFor(), HasSubstr("the list of checkpoints of"));
  See(1, {Saved(430), Saved(400)});
  EXPECT_EQ(scene_.Count<Assign>(2), 1) << "node 2 has not told yet";
  See(2, {Saved(400)});
  const Assignment assignment = scene_.Last<Assign>(2).assignment;
  EXPECT_EQ(assignment.resume_from, "/out/checkpoints/000400");
  EXPECT_EQ(scene_.Last<Assign>(1).assignment.resume_from, assignment.resume_from);
  EXPECT_THAT(assignment.resume_lines,
              ElementsAre("restart 1 of 3: resuming from step 400; 37 steps are lost "
                          "(/out/checkpoints/000400)",
                          "checkpoint 000430 is skipped: node 1 (host2) does not see it"));
}

TEST_F(RunResumeTest, TheOrderOfTheAnswersDoesNotMatter) {
  See(2, {Saved(400)});
  See(1, {Saved(400)});
  EXPECT_EQ(scene_.Count<Assign>(1), 1) << "the endpoint is not known yet";
  Reserve();
  EXPECT_EQ(scene_.Last<Assign>(1).assignment.resume_from, "/out/checkpoints/000400");
}

TEST_F(RunResumeTest, WithoutACheckpointTheCommandLineCounts) {
  Reserve();
  See(1, {Saved(400, false)});
  See(2, {});
  const Assignment assignment = scene_.Last<Assign>(2).assignment;
  EXPECT_EQ(assignment.resume_from, "");
  ASSERT_EQ(assignment.resume_lines.size(), 2U);
  EXPECT_THAT(assignment.resume_lines[0],
              HasSubstr("the workers start as their command line says; 437 steps are lost"));
}

TEST_F(RunResumeTest, ASecondRestartCountsFromItsOwnSteps) {
  Reserve();
  See(1, {Saved(400)});
  See(2, {Saved(400)});
  for (const int node : {1, 2}) {
    scene_.Say(node, Ack{2, ""});
  }
  scene_.Say(2, Progress{2, {405, 400, "/out"}});
  scene_.FailEpoch(2, 1, 41);
  scene_.Tick(seconds(4), 2);
  Reserve();
  See(1, {Saved(400)});
  See(2, {Saved(400)});
  EXPECT_THAT(scene_.Last<Assign>(1).assignment.resume_lines.at(0),
              HasSubstr("restart 2 of 3: resuming from step 400; 5 steps are lost"));
}

TEST_F(RunResumeTest, ANodeWhoseListNeverComesIsLostAfterItsOwnLimit) {
  Reserve();
  See(1, {Saved(400)});
  scene_.Tick(seconds(57), 2);
  EXPECT_EQ(scene_.machine().state(), RunState::kCommitting);
  scene_.Tick(seconds(4), 2);
  EXPECT_THAT(scene_.dropped().at(2), HasSubstr("within 60 s"));
}

TEST_F(RunResumeTest, AnswersOfAnotherEpochAreIgnored) {
  Reserve();
  scene_.Say(1, Surveyed{1, {"", {Saved(999)}}});
  scene_.Say(2, Surveyed{1, {"", {Saved(999)}}});
  EXPECT_EQ(scene_.Count<Assign>(1), 1);
}

TEST(RunRequeueTest, AJobThatIsQueuedAgainFindsItsOwnCheckpoints) {
  RunScene scene(Native(1, 0, "/out"));
  scene.JoinAll(1);
  EXPECT_EQ(scene.Last<Survey>(1).output_dir, "/out");
  scene.Say(1, Surveyed{1, {"", {Saved(20)}}});
  scene.ReserveAndAck(1);
  EXPECT_EQ(scene.machine().state(), RunState::kRunning);
  const Assignment assignment = scene.Last<Assign>(1).assignment;
  EXPECT_EQ(assignment.resume_from, "/out/checkpoints/000020");
  EXPECT_THAT(assignment.resume_lines,
              ElementsAre("a run that was started before: resuming from step 20 "
                          "(/out/checkpoints/000020)"));
}

TEST(RunRequeueTest, AFreshRunSaysNothing) {
  RunScene scene(Native(1, 0, "/out"));
  scene.JoinAll(1);
  scene.Say(1, Surveyed{1, {"", {}}});
  scene.ReserveAndAck(1);
  EXPECT_THAT(scene.Last<Assign>(1).assignment.resume_lines, IsEmpty());
}

TEST(RunRequeueTest, ForeignProgramsAreNeverAsked) {
  RunRules rules = Native(1, 0, "/out");
  rules.native = false;
  RunScene scene(rules);
  scene.RunAll(1);
  EXPECT_EQ(scene.Count<Survey>(1), 0);
}

TEST(RunIdentityTest, ARunWithoutIdGetsOneForItsLocksAndCheckpoints) {
  RunRules rules{.run_id = "", .min_nodes = 1, .max_nodes = 1, .seed = 0xabc};
  RunScene scene(rules);
  NodeIdentity node = MakeNode("a", 0);
  node.run_id = "";
  scene.Join(1, node, true);
  scene.ReserveAndAck(1);
  EXPECT_EQ(scene.Last<Assign>(1).assignment.run_id, "unnamed-00000abc");
}

}  // namespace
}  // namespace lr::launcher::testing
