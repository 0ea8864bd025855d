//===- FaultInjection.h - Fault injection for system calls ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The test program is linked with --wrap for the system calls by which the
// library changes files. A test arms a fault for the K-th such call, which then
// fails with an error or ends the process. Incrementing K until the fault does
// not fire covers every point of an operation.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_SUPPORT_FAULTINJECTION_H
#define KILN_TEST_UNIT_SUPPORT_FAULTINJECTION_H

#include <functional>
#include <string>

namespace kiln {

/// Calls `action` once, directly before the first open of a path that ends in
/// `suffix`, to simulate a concurrent change by another process.
class OnOpen {
public:
  OnOpen(std::string suffix, std::function<void()> action);
  ~OnOpen();
  bool fired() const;
};

/// Injects one fault during its lifetime.
class Fault {
public:
  /// Makes system call number `call`, counted from 1, fail with errno `error`.
  /// If `kill` is true, this call ends the process instead. If the call is a
  /// write, half of its bytes are stored first.
  Fault(int call, int error, bool kill = false);
  ~Fault();
  bool fired() const;
};

/// Makes renameat2 with flags fail with EINVAL, as on file systems without this
/// call, during its lifetime.
class NoRenameFlags {
public:
  NoRenameFlags();
  ~NoRenameFlags();
};

} // namespace kiln

#endif // KILN_TEST_UNIT_SUPPORT_FAULTINJECTION_H
