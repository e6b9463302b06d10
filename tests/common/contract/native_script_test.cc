#include "common/contract/native_script.h"

#include <gtest/gtest.h>

namespace lr {
namespace {

TEST(NativeScriptTest, MarkerLineNamesTheProgram) {
  EXPECT_EQ(NativeScriptProgram("#!/bin/sh\n# lr-native-program: lr-train\nexec x\n"), "lr-train");
  EXPECT_EQ(NativeScriptProgram("# lr-native-program: lr-eval"), "lr-eval");
}

TEST(NativeScriptTest, OtherTextIsNoMarker) {
  EXPECT_EQ(NativeScriptProgram(""), std::nullopt);
  EXPECT_EQ(NativeScriptProgram("#!/bin/sh\necho '# lr-native-program: x'\n"), std::nullopt);
  EXPECT_EQ(NativeScriptProgram("# lr-native-program: \n"), std::nullopt);
  EXPECT_EQ(NativeScriptProgram("# lr-native-program: ../bin/sh\n"), std::nullopt);
}

TEST(NativeScriptTest, MarkerBeyondTheSearchedPartIsNotSeen) {
  const std::string late =
      std::string(kNativeScriptSearchBytes, '\n') + "# lr-native-program: lr-train\n";
  EXPECT_EQ(NativeScriptProgram(late), std::nullopt);
}

}  // namespace
}  // namespace lr
