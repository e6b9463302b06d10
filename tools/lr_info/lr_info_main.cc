// lr-info: versions, and which devices are usable and why not. Opens no device context, needs no
// configuration.
//
//   lr-info                versions and one line per backend
//   lr-info --device=cuda  exit 0 when usable, 1 when not, 2 for an unknown name
#include <cstdio>
#include <cstdlib>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>
#ifdef LR_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/avutil.h>
}

#include "common/contract/exit_codes.h"
#include "tools/lr_info/backend_report.h"
#include "worker/accelerator/device_probe.h"

namespace {

lr::BackendFacts Probe() {
  lr::BackendFacts facts;
  facts.inventory = lr::worker::ProbeDevices();
#ifdef LR_CUDA
  facts.built_with_cuda = true;
  for (int device = 0; device < facts.inventory.cuda_devices; ++device) {
    facts.cuda_names.emplace_back(
        at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device))->name);
  }
#endif
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  facts.cuda_visible_devices = visible == nullptr ? "" : visible;
  return facts;
}

/// "FFmpeg 5.1.6, decoders: av1 (libdav1d), h264, hevc, png, jpeg".
std::string Decoders() {
  std::string names;
  for (const AVCodecID codec :
       {AV_CODEC_ID_AV1, AV_CODEC_ID_H264, AV_CODEC_ID_HEVC, AV_CODEC_ID_PNG, AV_CODEC_ID_MJPEG}) {
    const AVCodec* decoder = avcodec_find_decoder(codec);
    names += fmt::format("{}{} ({})",
                         names.empty() ? "" : ", ",
                         avcodec_get_name(codec),
                         decoder == nullptr ? "no decoder" : decoder->name);
  }
  return fmt::format("FFmpeg {}, decoders: {}", av_version_info(), names);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Shows versions and which devices this build can train on, and why not."};
  std::string device;
  app.add_option("--device", device, "exit 0 when this backend is usable, 1 when not")
      ->type_name("cuda|mps|xpu|cpu");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? lr::kExitOk : lr::kExitUsage;
  }
  fmt::print("lr {}\nLibTorch {}\n{}\n", LR_VERSION, TORCH_VERSION, Decoders());
#ifdef LR_CUDA
  fmt::print("collectives: Gloo, NCCL\n");
#else
  fmt::print("collectives: Gloo\n");
#endif
  for (const lr::BackendReport& report : lr::ReportBackends(Probe())) {
    if (device.empty()) {
      fmt::print("{}: {} ({})\n",
                 report.name,
                 report.available ? "available" : "not available",
                 report.detail);
    } else if (report.name == device) {
      fmt::print("{}: {} ({})\n",
                 report.name,
                 report.available ? "available" : "not available",
                 report.detail);
      return report.available ? 0 : 1;
    }
  }
  if (!device.empty()) {
    fmt::print(stderr, "lr-info: --device={}: unknown; use cuda, mps, xpu or cpu\n", device);
    return lr::kExitUsage;
  }
  return lr::kExitOk;
}
