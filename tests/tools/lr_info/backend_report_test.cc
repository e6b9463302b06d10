#include "tools/lr_info/backend_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr {
namespace {

using ::testing::HasSubstr;

TEST(BackendReportTest, CpuIsAlwaysUsable) {
  const std::vector<BackendReport> reports = ReportBackends({});
  ASSERT_EQ(reports.size(), 4U);
  EXPECT_EQ(reports[3].name, "cpu");
  EXPECT_TRUE(reports[3].available);
}

TEST(BackendReportTest, SaysWhyCudaIsNotUsable) {
  BackendFacts facts;
  EXPECT_THAT(ReportBackends(facts)[0].detail, HasSubstr("preset 'gpu'"));
  facts.built_with_cuda = true;
  EXPECT_THAT(ReportBackends(facts)[0].detail, HasSubstr("no driver or no device"));
  facts.cuda_visible_devices = "-1";
  EXPECT_THAT(ReportBackends(facts)[0].detail, HasSubstr("CUDA_VISIBLE_DEVICES=-1"));
}

TEST(BackendReportTest, NamesTheDevices) {
  BackendFacts facts;
  facts.inventory = {.cuda = true, .cuda_devices = 2};
  facts.cuda_names = {"H200", "H200"};
  EXPECT_TRUE(ReportBackends(facts)[0].available);
  EXPECT_EQ(ReportBackends(facts)[0].detail, "2 device(s): H200, H200");
}

}  // namespace
}  // namespace lr
