// make_dcp DIR MEGABYTES TENSORS SHARDS: a pytorch_model_fsdp_0 of that size in DIR, float32, each
// tensor sharded on dim 0; every fourth one also cut in dim 1. Test support.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/support/dcp_maker.h"

namespace lr {
namespace {

constexpr int64_t kColumns = 1024;

void Add(
    testing::DcpMaker& maker, int64_t index, int64_t rows, int64_t shards, std::string& bytes) {
  const std::string key = fmt::format("model.layers.{}.weight", index);
  maker.Tensor(key, "torch.float32", {rows, kColumns});
  const int64_t per_shard = (rows + shards - 1) / shards;
  const int64_t cuts = index % 4 == 3 ? 2 : 1;
  for (int64_t shard = 0; shard < shards; ++shard) {
    const int64_t first = std::min(rows, shard * per_shard);
    const int64_t count = std::min(per_shard, rows - first);
    for (int64_t cut = 0; cut < cuts; ++cut) {
      bytes.resize(static_cast<size_t>(count * kColumns / cuts * 4));
      for (size_t i = 0; i < bytes.size(); i += 8) {
        bytes[i] = static_cast<char>(i * 31 + static_cast<size_t>(index + shard + cut));
      }
      maker.Block(key,
                  static_cast<int>(shard),
                  {first, cut * kColumns / cuts},
                  {count, kColumns / cuts},
                  bytes);
    }
  }
}

}  // namespace
}  // namespace lr

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: make_dcp DIR MEGABYTES TENSORS SHARDS\n", stderr);
    return 2;
  }
  const int64_t bytes = std::atoll(argv[2]) * 1'000'000;
  const int64_t tensors = std::atoll(argv[3]);
  lr::testing::DcpMaker maker(std::filesystem::path(argv[1]) / "pytorch_model_fsdp_0");
  std::string block;
  for (int64_t i = 0; i < tensors; ++i) {
    lr::Add(maker, i, std::max<int64_t>(bytes / tensors / 4096, 1), std::atoll(argv[4]), block);
  }
  maker.Finish();
  return 0;
}
