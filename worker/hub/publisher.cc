// See the header.
#include "worker/hub/publisher.h"

#include "worker/hub/child_process.h"
#include "worker/hub/publish_command.h"
#include "worker/hub/staged_folder.h"

namespace lr::worker {
namespace {

std::string WithoutToken(std::string_view line, const std::string& token) {
  std::string clean(line);
  for (size_t at = clean.find(token); at != std::string::npos; at = clean.find(token, at)) {
    clean.replace(at, token.size(), "***");
  }
  return clean;
}

}  // namespace

Result<std::string> Publish(const PublishRequest& request,
                            const HubSettings& settings,
                            const PublishOptions& options) {
  LR_TRY(CheckRepositoryName(request.repo_id));
  LR_TRY(CheckCanPublish(settings));
  LR_ASSIGN(const StagedFolder staged, StagedFolder::Create(request.pretrained));
  for (const std::string& note : staged.notes()) {
    options.log(note);
  }
  const ChildOptions child{
      .limit = options.limit.value_or(UploadLimit(staged.bytes())),
      .stop_fd = options.stop_fd,
      .line = [&](std::string_view line) { options.log(WithoutToken(line, settings.token)); }};
  LR_TRY(
      RunChild(UploadArguments(
                   settings.command, request.repo_id, request.is_private, staged.path().string()),
               child)
          .WithContext("publishing to {}/{} with `hf upload`", settings.endpoint, request.repo_id));
  return fmt::format("{}/{}", settings.endpoint, request.repo_id);
}

}  // namespace lr::worker
