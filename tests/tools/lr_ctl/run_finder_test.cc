#include "tools/lr_ctl/run_finder.h"

#include <filesystem>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/io/atomic_file.h"
#include "tests/support/status_matchers.h"

namespace lr {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kNobody = 2147483000;  // above any pid

class RunFinderTest : public ::testing::Test {
 protected:
  RunFinderTest() {
    std::string name = (fs::temp_directory_path() / "lr-finder-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }

  ~RunFinderTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& id, const std::string& state, int64_t pid, int64_t started) {
    const std::string directory = folder_ + "/lr/runs/" + id;
    fs::create_directories(directory);
    const Json record = {
        {"run_id", id}, {"state", state}, {"launcher_pid", pid}, {"started_unix", started}};
    EXPECT_THAT(WriteFileAtomic(directory + "/run.json", record.dump()), IsOk());
    return directory;
  }

  Result<FoundRun> Find(const std::string& what,
                        WhenNoneIsActive otherwise = WhenNoneIsActive::kError) const {
    return FindRun(what, environment_, otherwise);
  }

  std::string folder_;
  const EnvironmentReader environment_ =
      [this](const std::string& name) -> std::optional<std::string> {
    return name == "XDG_STATE_HOME" ? std::optional(folder_) : std::nullopt;
  };
};

TEST_F(RunFinderTest, NewestComesFirstAndUnreadableRecordsAreLeftOut) {
  Write("old", "succeeded", kNobody, 1);
  Write("new", "running", getpid(), 2);
  fs::create_directories(folder_ + "/lr/runs/empty");
  std::vector<std::string> ids;
  for (const FoundRun& run : FindRuns(environment_)) {
    ids.push_back(run.run_id());
  }
  EXPECT_THAT(ids, ElementsAre("new", "old"));
}

TEST_F(RunFinderTest, ByIdPrefixOrDirectory) {
  const std::string directory = Write("alpha", "failed", kNobody, 1);
  Write("alphabet", "failed", kNobody, 2);
  EXPECT_EQ(Find("alpha")->run_id(), "alpha");
  EXPECT_EQ(Find("alphab")->run_id(), "alphabet");
  EXPECT_EQ(Find(directory)->run_id(), "alpha");
  EXPECT_THAT(Find("alp"),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("'alp' fits several runs"), HasSubstr("alphabet  failed"))));
  EXPECT_THAT(Find("beta"), StatusIs(StatusCode::kNotFound, HasSubstr("no run 'beta'")));
  EXPECT_THAT(Find(folder_), StatusIs(StatusCode::kNotFound, HasSubstr("is no run directory")));
}

TEST_F(RunFinderTest, NoNameMeansTheOnlyActiveRun) {
  Write("done", "succeeded", getpid(), 5);
  EXPECT_THAT(Find(""), StatusIs(StatusCode::kNotFound, HasSubstr("no run is active")));
  Write("here", "forming", getpid(), 1);
  EXPECT_EQ(Find("")->run_id(), "here");
  Write("there", "stopping", getpid(), 2);
  EXPECT_THAT(Find(""),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("several runs are active"), Not(HasSubstr("done")))));
}

TEST_F(RunFinderTest, NoNameMayMeanTheNewest) {
  EXPECT_THAT(Find("", WhenNoneIsActive::kNewest),
              StatusIs(StatusCode::kNotFound, HasSubstr("no run of yours is on record")));
  Write("old", "failed", kNobody, 1);
  Write("new", "failed", kNobody, 2);
  EXPECT_EQ(Find("", WhenNoneIsActive::kNewest)->run_id(), "new");
}

TEST_F(RunFinderTest, RecordThatDoesNotTellTheEndAndHasNobodyIsLost) {
  for (const char* state : {"running", "stopping", "forming"}) {
    const Result<FoundRun> run = ReadRun(Write("run", state, kNobody, 1));
    ASSERT_THAT(run, IsOk());
    EXPECT_EQ(run->state(), "lost");
    EXPECT_TRUE(run->ended());
  }
  EXPECT_EQ(ReadRun(Write("run", "failed", kNobody, 1))->state(), "failed");
  EXPECT_FALSE(ReadRun(Write("run", "running", getpid(), 1))->ended());
}

}  // namespace
}  // namespace lr
