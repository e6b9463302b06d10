#pragma once
/// IsOk() and StatusIs(code, message matcher) for Status and Result<T>.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"

namespace lr::testing {

MATCHER(IsOk, "is ok") {
  const Status status = ::lr::internal::ToStatus(arg);
  *result_listener << status.ToString();
  return status.ok();
}

MATCHER_P2(StatusIs, code, message_matcher, "") {
  const Status status = ::lr::internal::ToStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message_matcher, status.message(), result_listener);
}

}  // namespace lr::testing
