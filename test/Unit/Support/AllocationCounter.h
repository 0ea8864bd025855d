//===- AllocationCounter.h - Counter of allocations in tests ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces operator new of the test program to count the allocations of the
// current thread and to record the largest one.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_SUPPORT_ALLOCATIONCOUNTER_H
#define KILN_TEST_UNIT_SUPPORT_ALLOCATIONCOUNTER_H

#include <cstddef>

namespace kiln {

struct Allocations {
  std::size_t count = 0;
  std::size_t largest = 0;
};

/// Returns the allocations since the last call of resetAllocations().
Allocations allocations();
void resetAllocations();

} // namespace kiln

#endif // KILN_TEST_UNIT_SUPPORT_ALLOCATIONCOUNTER_H
