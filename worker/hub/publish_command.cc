// (pure) See the header.
#include "worker/hub/publish_command.h"

#include <algorithm>

namespace lr::worker {
namespace {

constexpr size_t kLongestName = 96;
constexpr std::chrono::minutes kAlwaysAllowed{10};
constexpr uint64_t kSlowestBytesPerMs = 500;

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

bool IsName(const std::string& name) {
  const auto is_edge = [](char c) { return c == '-' || c == '.'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), IsPlain) &&
         !is_edge(name.front()) && !is_edge(name.back());
}

/// In single quotes where a shell would do something with it.
std::string Quoted(const std::string& text) {
  if (!text.empty() &&
      std::all_of(text.begin(), text.end(), [](char c) { return IsPlain(c) || c == '/'; })) {
    return text;
  }
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

}  // namespace

Status CheckRepositoryName(const std::string& repo_id) {
  const size_t slash = repo_id.find('/');
  const bool is_valid = repo_id.size() <= kLongestName && repo_id.find("--") == std::string::npos &&
                        repo_id.find("..") == std::string::npos &&
                        (slash == std::string::npos ? IsName(repo_id)
                                                    : IsName(repo_id.substr(0, slash)) &&
                                                          IsName(repo_id.substr(slash + 1)));
  return is_valid ? Status()
                  : InvalidArgument(
                        "'{}' is no name of a repository: expected name or owner/name of letters, "
                        "digits, '-', '_' and '.', at most {} characters",
                        repo_id,
                        kLongestName);
}

std::vector<std::string> UploadArguments(const std::string& hf,
                                         const std::string& repo_id,
                                         std::optional<bool> is_private,
                                         const std::string& folder) {
  std::vector<std::string> arguments = {hf,
                                        "upload",
                                        repo_id,
                                        folder,
                                        ".",
                                        "--repo-type",
                                        "model",
                                        "--commit-message",
                                        "Upload policy"};
  if (is_private) {
    arguments.emplace_back(*is_private ? "--private" : "--no-private");
  }
  return arguments;
}

std::string PublishLaterCommand(const std::string& checkpoint_dir,
                                const std::string& repo_id,
                                std::optional<bool> is_private) {
  return fmt::format("lerobot-convert-dcp --checkpoint_dir={} --push_to_hub={}{}",
                     Quoted(checkpoint_dir),
                     Quoted(repo_id),
                     is_private ? fmt::format(" --private={}", *is_private) : "");
}

std::chrono::milliseconds UploadLimit(uint64_t bytes) {
  return kAlwaysAllowed + std::chrono::milliseconds(bytes / kSlowestBytesPerMs);
}

}  // namespace lr::worker
