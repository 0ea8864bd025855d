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

#include <initializer_list>
#include <optional>

/// 1 when this build counts allocations: when no sanitizer brings an allocator.
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

/// Nothing when this build does not count.
std::optional<AllocationCounts> allocationCounts();

/// Resident bytes of the mappings that exist, those that hold an `excluded`
/// address not among them: the pools of libraries.
int64_t residentMappedBytes(std::initializer_list<const void *> excluded);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_ALLOCATIONCOUNTER_H
