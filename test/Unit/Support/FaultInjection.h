//===- FaultInjection.h - Failing system calls ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The test program is linked with --wrap for the calls by which the library
// changes files. A test arms a fault for the K-th such call: it fails with an
// error, or the process dies there. Sweeping K until the fault does not fire
// any more visits every point of an operation.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_SUPPORT_FAULTINJECTION_H
#define KILN_TEST_UNIT_SUPPORT_FAULTINJECTION_H

#include <functional>
#include <string>

namespace kiln {

/// Calls `action` once, right before the first open of a path that ends in
/// `suffix`: another process does something in between.
class OnOpen {
public:
  OnOpen(std::string suffix, std::function<void()> action);
  ~OnOpen();
  bool fired() const;
};

/// Injects one fault while it lives.
class Fault {
public:
  /// The call number `call` (from 1) fails with errno `error`; a write stores
  /// half of its bytes first. With `kill`, the process exits instead.
  Fault(int call, int error, bool kill = false);
  ~Fault();
  bool fired() const;
};

} // namespace kiln

#endif // KILN_TEST_UNIT_SUPPORT_FAULTINJECTION_H
