// Publishing with a stand-in for `hf` that succeeds, fails or hangs: what it is given, what is
// said.
#include "worker/hub/publisher.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "tests/support/status_matchers.h"
#include "worker/hub/child_process.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class PublisherTest : public ::testing::Test {
 protected:
  PublisherTest() {
    fs::create_directories(model_ / "pytorch_model_fsdp_0");
    Write(model_ / "config.json", R"({"type": "act"})");
    Write(model_ / "train_config.json", R"({"dataset": {"repo_id": "a/b"}})");
    Write(model_ / "model.safetensors", "weights");
    Write(model_ / "notes.txt", "private");
    Write(model_ / "model.safetensors.tmp-7", "half");
    Write(model_ / "pytorch_model_fsdp_0/.metadata", "shards");
    Write(model_ / "pytorch_model_fsdp_0/extra.json", "{}");
  }

  ~PublisherTest() override { fs::remove_all(folder_); }

  static void Write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// A program in place of `hf`.
  HubSettings Hub(const std::string& script) const {
    const fs::path hf = folder_ / "hf";
    Write(hf, "#!/bin/sh\nout='" + folder_.string() + "'\n" + script);
    chmod(hf.c_str(), 0755);
    return {"https://hub.example", false, "hf_secret_token", hf.string()};
  }

  Result<std::string> Push(const std::string& script) {
    PublishOptions options;
    options.log = [this](std::string_view line) { log_.emplace_back(line); };
    options.limit = limit_;
    options.stop_fd = stop_fd_;
    return Publish({model_, "me/act", true}, Hub(script), options);
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("publish_{}", getpid());
  const fs::path model_ = folder_ / "model";
  std::vector<std::string> log_;
  std::chrono::milliseconds limit_ = std::chrono::minutes(1);
  int stop_fd_ = -1;
};

TEST_F(PublisherTest, ExactlyThePublishedFilesAreGiven) {
  const auto url = Push(R"(
echo "$@" > "$out/arguments"; echo "$HOME" > "$out/home"
(cd "$3" && ls -A1 && cat model.safetensors README.md) > "$out/files"
echo "$3" > "$out/folder"
)");
  ASSERT_THAT(url, IsOk());
  EXPECT_EQ(*url, "https://hub.example/me/act");
  EXPECT_THAT(
      Read("arguments"),
      AllOf(
          HasSubstr("upload me/act "), HasSubstr(" . --repo-type model"), HasSubstr(" --private")));
  EXPECT_THAT(Read("files"),
              ::testing::StartsWith("README.md\nconfig.json\nmodel.safetensors\ntrain_config.json\n"
                                    "weights---\nlibrary_name: lerobot"));
  const char* home = std::getenv("HOME");
  EXPECT_EQ(Read("home"), std::string(home == nullptr ? "" : home) + "\n");
  std::string staged = Read("folder");
  staged.pop_back();
  EXPECT_FALSE(fs::exists(staged)) << "the staged folder is removed";
  EXPECT_EQ(Read("model/model.safetensors"), "weights") << "and what it linked to stays";
}

TEST_F(PublisherTest, AFailureIsTheCommandsExitStatusAndNoTokenIsLogged) {
  EXPECT_THAT(Push("echo 'bad token hf_secret_token!' >&2; printf 'one\\rtwo'; exit 3"),
              StatusIs(StatusCode::kUnavailable,
                       AllOf(HasSubstr("https://hub.example/me/act"), HasSubstr("exit status 3"))));
  EXPECT_THAT(log_, Contains("bad token ***!"));
  EXPECT_THAT(log_, Contains("two"));
  EXPECT_THAT(log_, Each(Not(HasSubstr("secret"))));
}

TEST_F(PublisherTest, ACommandThatHangsIsEnded) {
  limit_ = std::chrono::milliseconds(300);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(Push("echo $$ > \"$out/pid\"; sleep 1000"),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("within 0.3 s")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  const std::string pid = Read("pid");
  EXPECT_TRUE(pid.empty() || kill(std::stoi(pid), 0) != 0) << "nothing of it is left";
}

TEST_F(PublisherTest, AnUploadThatNeverStopsTalkingIsEndedAsWell) {
  limit_ = std::chrono::milliseconds(300);
  EXPECT_THAT(Push("exec yes"), StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("0.3 s")));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  limit_ = std::chrono::seconds(30);
  stop_fd_ = ends[0];
  EXPECT_THAT(Push("exec yes"), StatusIs(StatusCode::kCancelled, HasSubstr("stopped")));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(PublisherTest, AStopEndsTheUpload) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  stop_fd_ = ends[0];
  EXPECT_THAT(Push("sleep 1000"), StatusIs(StatusCode::kCancelled, HasSubstr("stopped")));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(PublisherTest, AChildsOwnChildrenDoNotHoldIt) {
  EXPECT_THAT(Push("sleep 1000 & echo $! > \"$out/pid\"; exit 0"), IsOk());
  const auto child = static_cast<pid_t>(std::stoi(Read("pid")));
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd ended{fd, POLLIN, 0};
  EXPECT_TRUE(fd < 0 || poll(&ended, 1, 10'000) == 1) << "nothing of it is left";
  close(fd);
}

TEST_F(PublisherTest, NothingIsStartedWithoutWeights) {
  fs::remove(model_ / "model.safetensors");
  EXPECT_THAT(Push("touch \"$out/ran\""),
              StatusIs(StatusCode::kNotFound, HasSubstr("model.safetensors")));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(PublisherTest, AnUnknownDataSetIsAWarning) {
  fs::remove(model_ / "train_config.json");
  EXPECT_THAT(Push("exit 0"), IsOk());
  EXPECT_THAT(log_, Contains(HasSubstr("train_config.json")));
}

TEST(ChildProcessTest, AProgramThatIsNotThereIsNamed) {
  EXPECT_THAT(
      RunChild({"/nowhere/hf"}, {.limit = std::chrono::seconds(5), .stop_fd = -1, .line = {}}),
      StatusIs(StatusCode::kNotFound, HasSubstr("/nowhere/hf")));
}

}  // namespace
}  // namespace lr::worker
