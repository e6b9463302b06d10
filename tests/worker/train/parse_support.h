#pragma once
/// What the configuration's tests share: a folder of their own, and parsing without the real clock
/// and environment.

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/status_matchers.h"
#include "worker/train/train_command_line.h"

namespace lr::worker::testing {

using Arguments = std::vector<std::string>;

class ParseTest : public ::testing::Test {
 protected:
  ParseTest() {
    std::string name = (std::filesystem::temp_directory_path() / "lr-config-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    context_.environment = [this](const std::string& variable) {
      const auto it = environment_.find(variable);
      return it == environment_.end() ? std::nullopt : std::make_optional(it->second);
    };
    context_.now.tm_year = 126;
    context_.now.tm_mon = 10;
    context_.now.tm_mday = 30;
    context_.now.tm_hour = 7;
    context_.now.tm_min = 5;
    context_.now.tm_sec = 9;
  }

  ~ParseTest() override { std::filesystem::remove_all(folder_); }

  /// The smallest command line that starts a run, with `more` behind it.
  static Arguments Minimal(const Arguments& more = {}) {
    Arguments args = {
        "--dataset.repo_id=a/b", "--policy.type=act", "--output_dir=/nonexistent/run"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  Result<ParsedConfig> Parse(const Arguments& args) const {
    return ParseTrainCommandLine(args, context_);
  }

  /// The configuration of a command line that must be fine.
  ParsedConfig Parsed(const Arguments& args) const {
    Result<ParsedConfig> parsed = Parse(args);
    EXPECT_THAT(parsed, lr::testing::IsOk());
    return parsed.ok() ? std::move(parsed).value() : ParsedConfig();
  }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  std::string folder_;
  std::map<std::string, std::string> environment_;
  ParseContext context_;
};

/// All notes in one text.
inline std::string NotesOf(const ParsedConfig& parsed) {
  std::string text;
  for (const ConfigNote& note : parsed.notes) {
    text += note.text + "\n";
  }
  return text;
}

}  // namespace lr::worker::testing
