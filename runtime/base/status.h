// SPDX-License-Identifier: Apache-2.0
//
// How the runtime reports that something went wrong: a value, never an exception or an exit() from the depth. The message is one
// line: the fact in lower case, both values, where, and the remedy. ashlar_rt_main() alone prints it and turns it into an exit status.

#ifndef ASHLAR_RUNTIME_BASE_STATUS_H
#define ASHLAR_RUNTIME_BASE_STATUS_H

#include <string>
#include <utility>

#include <fmt/format.h>

namespace ashlar::rt {

// The kind of failure of a status.
enum class StatusCode {
  kOk = 0,
  kInvalid = 1,     // the user's input cannot be right: command line, data, number of ranks
  kUnavailable = 2, // something needed is not there: a library, memory, a file
  kAborted = 3,     // another rank failed first; its message is the one to read
  kInternal = 4,    // the image or the runtime breaks its own rules
  kNonfinite = 5    // the numbers of the run are infinite or NaN: it would fail in the same way again
};

// The outcome of a fallible call. Cheap while ok: no allocation.
class [[nodiscard]] Status {
public:
  // A success.
  Status() = default;

  // A failure of the given kind. Assumes that the code is not kOk.
  Status(StatusCode code, std::string message) : statusCode(code), text(std::move(message)) {}

  // Whether the call succeeded.
  bool ok() const { return statusCode == StatusCode::kOk; }

  // The kind of failure, kOk after a success.
  StatusCode code() const { return statusCode; }

  // One line for the reader; empty after a success.
  const std::string &message() const { return text; }

  // Whether every rank of the job returns this failure, so that one of them speaks for all. Communicator::agree() makes such ones.
  bool isShared() const { return shared; }

  // Returns this status as one that every rank returns.
  Status share() const {
    Status copy = *this;
    copy.shared = true;
    return copy;
  }

  // Keeps the first failure: takes over `other` only while this one is ok.
  void update(Status other) {
    if (ok()) {
      *this = std::move(other);
    }
  }

private:
  StatusCode statusCode = StatusCode::kOk;
  std::string text;
  bool shared = false;
};

// Returns a kInvalid status with the formatted message.
template <typename... Args> Status invalid(fmt::format_string<Args...> format, Args &&...args) {
  return Status(StatusCode::kInvalid, fmt::format(format, std::forward<Args>(args)...));
}

// Returns a kUnavailable status with the formatted message.
template <typename... Args> Status unavailable(fmt::format_string<Args...> format, Args &&...args) {
  return Status(StatusCode::kUnavailable, fmt::format(format, std::forward<Args>(args)...));
}

// Returns a kNonfinite status with the formatted message.
template <typename... Args> Status nonfinite(fmt::format_string<Args...> format, Args &&...args) {
  return Status(StatusCode::kNonfinite, fmt::format(format, std::forward<Args>(args)...));
}

// Returns a kInternal status with the formatted message.
template <typename... Args> Status internal(fmt::format_string<Args...> format, Args &&...args) {
  return Status(StatusCode::kInternal, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace ashlar::rt

// Returns from the calling function when `expression` is a failure.
#define ASHLAR_RETURN_IF_ERROR(expression)                                                                                                 \
  do {                                                                                                                                     \
    ::ashlar::rt::Status ashlarStatus = (expression);                                                                                      \
    if (!ashlarStatus.ok()) {                                                                                                              \
      return ashlarStatus;                                                                                                                 \
    }                                                                                                                                      \
  } while (false)

#endif // ASHLAR_RUNTIME_BASE_STATUS_H
