//===- Status.h - Errors and exit codes -------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every function that can fail returns a Status or a Result<T>. A failure
// contains the exit code of the process and a one-line message that describes
// what failed, where, the expected and actual values, and a remedy.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_STATUS_H
#define KILN_SUPPORT_STATUS_H

#include "kiln/Support/Vocabulary.h"

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace kiln::support {

/// Exit codes of every kiln program.
enum class ExitCode : int {
  Done = 0,
  Error = 1,
  Usage = 2,
  BadInput = 3,
  OverBudget = 4,
  Diverged = 5,
  Stopped = 75,
};

class [[nodiscard]] Status {
public:
  /// Success.
  Status() = default;
  Status(ExitCode code, std::string message)
      : code_(code), message_(std::move(message)) {
    assert(code != ExitCode::Done && "a failure needs a failing code");
  }
  static Status error(std::string message) {
    return Status(ExitCode::Error, std::move(message));
  }
  static Status badInput(std::string message) {
    return Status(ExitCode::BadInput, std::move(message));
  }

  bool ok() const { return code_ == ExitCode::Done; }
  ExitCode code() const { return code_; }
  const std::string &message() const { return message_; }

private:
  ExitCode code_ = ExitCode::Done;
  std::string message_;
};

/// A value, or the Status of the failure to compute it.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {
    assert(!status_.ok() && "a Result without a value needs a failure");
  }

  bool ok() const { return value_.has_value(); }
  const Status &status() const { return status_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

} // namespace kiln::support

#endif // KILN_SUPPORT_STATUS_H
