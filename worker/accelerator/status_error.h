#pragma once
/// Between Status, as everything of ours reports, and lr::Error, as the library face throws.

#include <utility>

#include "common/base/status.h"
#include "worker/accelerator/error.h"

namespace lr {

inline void ThrowUnlessOk(const Status& status) {
  if (!status.ok()) {
    throw Error(status.code(), status.message());
  }
}

template <typename T>
T ValueOrThrow(Result<T> result) {
  ThrowUnlessOk(result.status());
  return std::move(result).value();
}

/// The value of `call()`, or what it threw; other exceptions pass.
template <typename Call>
auto Caught(Call&& call) -> Result<decltype(call())> {
  try {
    return call();
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  }
}

}  // namespace lr
