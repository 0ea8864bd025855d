//===- AllocationCounter.h - Counting malloc and mmap -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file replaces malloc, mmap and related functions of the executable with
// versions that count calls. The executable can then verify that its steps,
// including the libraries that they call, allocate no memory. A build with a
// sanitizer replaces no functions, because the sanitizer has its own allocator.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_ALLOCATIONCOUNTER_H
#define KILN_LIB_RUNTIME_ENGINE_ALLOCATIONCOUNTER_H

#include "kiln/Runtime/Engine/Engine.h"

#include <initializer_list>
#include <optional>

/// KILN_COUNTS_ALLOCATIONS is 1 if this build counts allocations, and 0 in a
/// build with a sanitizer.
#if defined(__has_feature)
#define KILN_HAS_FEATURE(x) __has_feature(x)
#else
#define KILN_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||           \
    KILN_HAS_FEATURE(address_sanitizer) || KILN_HAS_FEATURE(thread_sanitizer)
#define KILN_COUNTS_ALLOCATIONS 0
#else
#define KILN_COUNTS_ALLOCATIONS 1
#endif

namespace kiln::runtime {

/// Returns the allocation counts of this process, or nullopt if this build does
/// not count allocations.
std::optional<AllocationCounts> allocationCounts();

/// Returns the number of resident bytes in the anonymous mappings that the
/// process has made with mmap(), except in mappings that contain an address in
/// `excluded`. If `excluded` lists the arenas, the remaining mappings are the
/// memory pools of libraries.
int64_t residentMappedBytes(std::initializer_list<const void *> excluded);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_ALLOCATIONCOUNTER_H
