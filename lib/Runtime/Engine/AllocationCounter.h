//===- AllocationCounter.h - Counts what the process allocates --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Linking this file replaces malloc and its relatives, and mmap, by versions
// that count and then do the same. It lets an executable prove that its steps
// allocate nothing, libraries included. Under a sanitizer, which brings its own
// allocator, nothing is replaced.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_ALLOCATIONCOUNTER_H
#define KILN_LIB_RUNTIME_ENGINE_ALLOCATIONCOUNTER_H

#include "kiln/Runtime/Engine/Engine.h"

#include <optional>

namespace kiln {

/// Nothing when this build does not count.
std::optional<AllocationCounts> allocationCounts();

/// Resident bytes of the mappings that exist, `excluded` not among them: the
/// pools of libraries.
int64_t residentMappedBytes(const void *excluded);

} // namespace kiln

#endif // KILN_LIB_RUNTIME_ENGINE_ALLOCATIONCOUNTER_H
