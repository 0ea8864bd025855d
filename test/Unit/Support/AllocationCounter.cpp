//===- AllocationCounter.cpp - Counter of allocations in tests ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See AllocationCounter.h. The nothrow and array forms of operator new call the
// operator that this file defines.
//
//===----------------------------------------------------------------------===//

#include "AllocationCounter.h"
#include <cstdlib>
#include <new>

using namespace kiln;

static thread_local Allocations current;

Allocations kiln::allocations() { return current; }
void kiln::resetAllocations() { current = {}; }

void *operator new(std::size_t size) {
  ++current.count;
  if (size > current.largest)
    current.largest = size;
  if (void *memory = std::malloc(size ? size : 1))
    return memory;
  throw std::bad_alloc();
}

void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
