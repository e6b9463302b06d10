#pragma once
/// Status and Result<T>: how every expected failure travels, on both planes.
///
/// Codes are gRPC's canonical ones with the same numbers, so that they cross the wire unchanged. A
/// message says who, what, the value and the limit; context is added on the way up with
/// WithContext(). Programmer errors are not a Status: they abort (check.h).

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "common/base/check.h"

namespace lr {

enum class StatusCode {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// The canonical spelling, for example "NOT_FOUND".
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;

  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }

  StatusCode code() const { return code_; }

  const std::string& message() const { return message_; }

  /// "NOT_FOUND: cannot open x" — for logs and tests; people are shown message() alone.
  std::string ToString() const;

  /// The same code with "<context>: " put in front of the message; an ok status stays as it is.
  template <typename... Args>
  Status WithContext(fmt::format_string<Args...> format, Args&&... args) const {
    if (ok()) {
      return *this;
    }
    return {code_, fmt::format(format, std::forward<Args>(args)...) + ": " + message_};
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

/// One maker per code that the product uses: NotFound("no file '{}'", path).
#define LR_STATUS_MAKER(NAME)                                                       \
  template <typename... Args>                                                       \
  Status NAME(fmt::format_string<Args...> format, Args&&... args) {                 \
    return {StatusCode::k##NAME, fmt::format(format, std::forward<Args>(args)...)}; \
  }
LR_STATUS_MAKER(Cancelled)
LR_STATUS_MAKER(InvalidArgument)
LR_STATUS_MAKER(DeadlineExceeded)
LR_STATUS_MAKER(NotFound)
LR_STATUS_MAKER(AlreadyExists)
LR_STATUS_MAKER(PermissionDenied)
LR_STATUS_MAKER(ResourceExhausted)
LR_STATUS_MAKER(FailedPrecondition)
LR_STATUS_MAKER(Aborted)
LR_STATUS_MAKER(OutOfRange)
LR_STATUS_MAKER(Unimplemented)
LR_STATUS_MAKER(Internal)
LR_STATUS_MAKER(Unavailable)
LR_STATUS_MAKER(DataLoss)
#undef LR_STATUS_MAKER

/// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor): return value;

  Result(Status status)
      : state_(std::move(status)) {  // NOLINT(google-explicit-constructor): return NotFound(…);
    LR_CHECK(!std::get<Status>(state_).ok(), "a Result without a value needs a failed Status");
  }

  bool ok() const { return std::holds_alternative<T>(state_); }

  Status status() const { return ok() ? Status() : std::get<Status>(state_); }

  const T& value() const& {
    LR_CHECK(ok(), "value() of a failed Result: {}", status().message());
    return std::get<T>(state_);
  }

  T& value() & {
    LR_CHECK(ok(), "value() of a failed Result: {}", status().message());
    return std::get<T>(state_);
  }

  T&& value() && {
    LR_CHECK(ok(), "value() of a failed Result: {}", status().message());
    return std::get<T>(std::move(state_));
  }

  const T& operator*() const& { return value(); }

  T& operator*() & { return value(); }

  T&& operator*() && { return std::move(*this).value(); }

  const T* operator->() const { return &value(); }

  T* operator->() { return &value(); }

  template <typename... Args>
  Result WithContext(fmt::format_string<Args...> format, Args&&... args) && {
    if (ok()) {
      return std::move(*this);
    }
    return status().WithContext(format, std::forward<Args>(args)...);
  }

 private:
  std::variant<T, Status> state_;
};

namespace internal {

inline Status ToStatus(Status status) {
  return status;
}

template <typename T>
Status ToStatus(const Result<T>& result) {
  return result.status();
}

}  // namespace internal

}  // namespace lr

/// Returns from the enclosing function when `expr` (a Status or a Result whose value is not needed)
/// failed.
#define LR_TRY(expr)                                                                        \
  do {                                                                                      \
    if (::lr::Status lr_try_status = ::lr::internal::ToStatus(expr); !lr_try_status.ok()) { \
      return lr_try_status;                                                                 \
    }                                                                                       \
  } while (false)

#define LR_CONCAT_INNER(a, b) a##b
#define LR_CONCAT(a, b) LR_CONCAT_INNER(a, b)

/// LR_ASSIGN(auto file, Open(path)): declares or assigns the value, or returns the failure.
#define LR_ASSIGN(lhs, expr) LR_ASSIGN_INNER(LR_CONCAT(lr_result_, __LINE__), lhs, expr)
#define LR_ASSIGN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                    \
  if (!tmp.ok()) {                      \
    return tmp.status();                \
  }                                     \
  lhs = std::move(tmp).value()
