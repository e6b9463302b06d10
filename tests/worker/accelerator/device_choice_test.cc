#include "worker/accelerator/device_choice.h"

#include "tests/support/status_matchers.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DeviceInventory TwoGpus() {
  return {.cuda = true, .cuda_devices = 2};
}

TEST(ChooseDeviceTest, DetectsInTheOrderCudaMpsXpuCpu) {
  EXPECT_EQ(
      ChooseDevice({}, {.cuda = true, .mps = true, .xpu = true, .cuda_devices = 1}, 0, 1)->name,
      "cuda");
  EXPECT_EQ(ChooseDevice({}, {.mps = true, .xpu = true}, 0, 1)->name, "mps");
  EXPECT_EQ(ChooseDevice({}, {.xpu = true}, 0, 1)->name, "xpu");
  const Result<DeviceChoice> cpu = ChooseDevice({}, {}, 0, 1);
  ASSERT_THAT(cpu, IsOk());
  EXPECT_EQ(cpu->name, "cpu");
  EXPECT_THAT(
      cpu->warnings,
      ElementsAre("No accelerated backend detected. Using default cpu, this will be slow."));
}

TEST(ChooseDeviceTest, AnExplicitCpuIsObeyedWithoutAWord) {
  const Result<DeviceChoice> choice = ChooseDevice("cpu", TwoGpus(), 1, 2);
  ASSERT_THAT(choice, IsOk());
  EXPECT_EQ(choice->backend, Backend::kCpu);
  EXPECT_THAT(choice->warnings, IsEmpty());
  EXPECT_THAT(choice->notes, IsEmpty());
}

TEST(ChooseDeviceTest, AnUnavailableRequestFallsBackNamingBoth) {
  const Result<DeviceChoice> choice = ChooseDevice("cuda", {}, 0, 1);
  ASSERT_THAT(choice, IsOk());
  EXPECT_EQ(choice->name, "cpu");
  EXPECT_EQ(choice->warnings.back(), "Device 'cuda' is not available. Switching to 'cpu'.");
}

TEST(ChooseDeviceTest, AnUnknownNameIsAnErrorListingTheFour) {
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "tpu", ""}) {
    EXPECT_THAT(
        ChooseDevice(name, TwoGpus(), 0, 1),
        StatusIs(StatusCode::kInvalidArgument, HasSubstr("cpu, cuda (also cuda:N), mps or xpu")))
        << name;
  }
}

TEST(ChooseDeviceTest, EachProcessUsesItsLocalRanksDevice) {
  EXPECT_EQ(ChooseDevice("cuda:0", TwoGpus(), 1, 2)->index, 1);
  EXPECT_EQ(ChooseDevice("cuda:1", TwoGpus(), 0, 1)->index, 1);
  EXPECT_THAT(ChooseDevice("cuda", TwoGpus(), 2, 3),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("local rank 2 needs cuda device 2, and this machine shows 2")));
}

TEST(ChooseDeviceTest, SeveralProcessesNeedABackendWithCollectives) {
  EXPECT_THAT(ChooseDevice("mps", {.mps = true}, 0, 2),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("no collectives for mps")));
  EXPECT_THAT(ChooseDevice("mps", {.mps = true}, 0, 1), IsOk());
}

}  // namespace
}  // namespace lr::worker
