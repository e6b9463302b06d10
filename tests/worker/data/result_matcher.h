#pragma once
/// IsOkAndHolds(value) for Result<T>.

#include <gmock/gmock.h>

#include "common/base/status.h"

namespace lr::testing {

MATCHER_P(IsOkAndHolds, value, "is ok and holds the value") {
  if (!arg.ok()) {
    *result_listener << arg.status().message();
    return false;
  }
  return ::testing::ExplainMatchResult(::testing::Eq(value), *arg, result_listener);
}

}  // namespace lr::testing
