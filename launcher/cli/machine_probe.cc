#include "launcher/cli/machine_probe.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <random>
#include <sched.h>
#include <set>
#include <sstream>
#include <sys/random.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/cli/small_file.h"

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;

/// /dev/nvidia0, /dev/nvidia1, … and not nvidiactl or nvidia-uvm.
int CountNvidia(const std::string& root) {
  constexpr std::string_view kPrefix = "nvidia";
  return static_cast<int>(
      std::ranges::count_if(ListFolder(root + "/dev"), [&](const fs::path& path) {
        const std::string name = path.filename();
        return name.starts_with(kPrefix) && ParseInt(std::string_view(name).substr(kPrefix.size()));
      }));
}

/// Nodes of the compute driver that are GPUs: their gpu_id is not 0.
int CountAmd(const std::string& root) {
  std::error_code error;
  if (!fs::exists(root + "/dev/kfd", error)) {
    return 0;
  }
  return static_cast<int>(std::ranges::count_if(
      ListFolder(root + "/sys/class/kfd/kfd/topology/nodes"), [](const fs::path& node) {
        return ParseInt(Trim(ReadSmallFile(node / "gpu_id"))).value_or(0) != 0;
      }));
}

int CountIntel(const std::string& root) {
  constexpr std::string_view kIntel = "0x8086";
  return static_cast<int>(
      std::ranges::count_if(ListFolder(root + "/sys/class/drm"), [&](const fs::path& path) {
        return path.filename().string().starts_with("renderD") &&
               Trim(ReadSmallFile(path / "device/vendor")) == kIntel;
      }));
}

int AffinityCpus(int online) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask) : online;
}

/// The tightest cpu.max on the way from our control group to the root; 0 without one.
double QuotaCpus(const std::string& root) {
  std::string group;
  for (const std::string& line : Split(ReadSmallFile(root + "/proc/self/cgroup"), '\n')) {
    if (line.starts_with("0::")) {
      group = line.substr(3);
    }
  }
  double tightest = 0.0;
  while (true) {
    std::istringstream text(ReadSmallFile(fmt::format("{}/sys/fs/cgroup{}/cpu.max", root, group)));
    double quota = 0.0;
    double period = 0.0;
    if (text >> quota >> period && period > 0.0) {  // "max 100000" does not parse: no quota
      const double cpus = quota / period;
      tightest = tightest == 0.0 ? cpus : std::min(tightest, cpus);
    }
    if (group.empty()) {
      return tightest;
    }
    group.resize(group.rfind('/'));
  }
}

std::string KernelHostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  return name.data();
}

}  // namespace

MachineFacts ProbeMachine(const std::string& root) {
  MachineFacts facts;
  facts.nvidia_devices = CountNvidia(root);
  facts.amd_devices = CountAmd(root);
  facts.intel_devices = CountIntel(root);
  facts.online_cpus = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  facts.affinity_cpus = std::max(1, AffinityCpus(facts.online_cpus));
  facts.quota_cpus = QuotaCpus(root);
  return facts;
}

std::optional<std::string> InterfaceAddress(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const auto& [family, length] :
       {std::pair(AF_INET, sizeof(sockaddr_in)), std::pair(AF_INET6, sizeof(sockaddr_in6))}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      std::array<char, NI_MAXHOST> text{};
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family ||
          entry->ifa_name != interface ||
          getnameinfo(entry->ifa_addr,
                      static_cast<socklen_t>(length),
                      text.data(),
                      text.size(),
                      nullptr,
                      0,
                      NI_NUMERICHOST) != 0) {
        continue;
      }
      const std::string address(text.data());
      if (!address.starts_with("fe80:") && !address.starts_with("169.254.")) {
        return address;
      }
    }
  }
  return std::nullopt;
}

std::string ShortHostName() {
  const std::string full = KernelHostName();
  return full.substr(0, full.find('.'));
}

std::string FullHostName(const std::string& root) {
  const std::string own = KernelHostName();
  std::istringstream words(ReadSmallFile(root + "/etc/hosts"));
  for (std::string word; own.find('.') == std::string::npos && words >> word;) {
    if (word.starts_with(own + ".")) {
      return word;
    }
  }
  return own;
}

std::string RandomId() {
  std::array<uint32_t, 4> words{};
  if (getrandom(words.data(), sizeof(words), 0) != static_cast<ssize_t>(sizeof(words))) {
    std::random_device device;
    std::ranges::generate(words, std::ref(device));
  }
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", words[0], words[1], words[2], words[3]);
}

}  // namespace lr::launcher
