#include "worker/accelerator/device_choice.h"

#include "common/base/text.h"

namespace lr::worker {

namespace {

bool Usable(Backend backend, const DeviceInventory& inventory) {
  switch (backend) {
    case Backend::kCuda:
      return inventory.cuda;
    case Backend::kMps:
      return inventory.mps;
    case Backend::kXpu:
      return inventory.xpu;
    case Backend::kCpu:
      return true;
  }
  return false;
}

std::string Name(Backend backend) {
  constexpr const char* kNames[] = {"cpu", "cuda", "mps", "xpu"};
  return kNames[static_cast<int>(backend)];
}

/// The first usable one of cuda, mps, xpu, cpu, with the line that says so.
Backend Detect(const DeviceInventory& inventory, DeviceChoice& choice) {
  if (inventory.cuda) {
    choice.notes.emplace_back("Cuda backend detected, using cuda.");
    return Backend::kCuda;
  }
  if (inventory.mps) {
    choice.notes.emplace_back("Metal backend detected, using mps.");
    return Backend::kMps;
  }
  if (inventory.xpu) {
    choice.notes.emplace_back("Intel XPU backend detected, using xpu.");
    return Backend::kXpu;
  }
  choice.warnings.emplace_back(
      "No accelerated backend detected. Using default cpu, this will be slow.");
  return Backend::kCpu;
}

struct Request {
  Backend backend = Backend::kCpu;
  int index = 0;
};

Result<Request> ParseRequest(const std::string& text) {
  for (const Backend backend : {Backend::kCpu, Backend::kCuda, Backend::kMps, Backend::kXpu}) {
    if (text == Name(backend)) {
      return Request{backend, 0};
    }
  }
  constexpr std::string_view kIndexed = "cuda:";
  if (text.starts_with(kIndexed)) {
    const std::optional<int64_t> index = ParseInt(std::string_view(text).substr(kIndexed.size()));
    if (index && *index >= 0 && *index < 1024) {
      return Request{Backend::kCuda, static_cast<int>(*index)};
    }
  }
  return InvalidArgument(
      "--policy.device={}: unknown device; use cpu, cuda (also cuda:N), mps or xpu", text);
}

}  // namespace

Result<DeviceChoice> ChooseDevice(const std::optional<std::string>& requested,
                                  const DeviceInventory& inventory,
                                  int local_rank,
                                  int world_size) {
  DeviceChoice choice;
  if (requested) {
    LR_ASSIGN(const Request request, ParseRequest(*requested));
    choice.backend = request.backend;
    choice.index = request.index;
    if (!Usable(request.backend, inventory)) {
      choice.backend = Detect(inventory, choice);
      choice.warnings.push_back(fmt::format(
          "Device '{}' is not available. Switching to '{}'.", *requested, Name(choice.backend)));
    }
  } else {
    choice.backend = Detect(inventory, choice);
  }
  choice.name = Name(choice.backend);
  if (choice.backend != Backend::kCuda) {
    choice.index = 0;
  } else if (world_size > 1) {
    choice.index = local_rank;  // every process uses its own device, whatever index was asked for
  }
  if (choice.backend == Backend::kCuda && choice.index >= inventory.cuda_devices) {
    return FailedPrecondition(
        "local rank {} needs cuda device {}, and this machine shows {}: start fewer processes per "
        "node",
        local_rank,
        choice.index,
        inventory.cuda_devices);
  }
  if (world_size > 1 && (choice.backend == Backend::kMps || choice.backend == Backend::kXpu)) {
    return FailedPrecondition(
        "{} processes on {}: this build has no collectives for {}; use one process or "
        "--policy.device=cpu",
        world_size,
        choice.name,
        choice.name);
  }
  return choice;
}

}  // namespace lr::worker
