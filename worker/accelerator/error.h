#pragma once
/// What the library face throws when a request cannot be met: user programs are LibTorch programs,
/// where everything else throws as well. Programs of this project turn it into a Status (Caught,
/// status_error.h).

#include <stdexcept>
#include <string>

namespace lr {

enum class StatusCode;

/// The message says who, what, the value, the limit and the way out.
class Error : public std::runtime_error {
 public:
  Error(StatusCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  StatusCode code() const { return code_; }

 private:
  StatusCode code_;
};

}  // namespace lr
