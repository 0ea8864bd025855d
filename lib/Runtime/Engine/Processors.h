//===- Processors.h - Where threads may run ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The processors that this process may use. With OMP_PROC_BIND, libgomp bound
// the main thread to the first of its places as the process started, and any
// thread that the main thread starts inherits that. Such threads must be given
// places of their own.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_PROCESSORS_H
#define KILN_LIB_RUNTIME_ENGINE_PROCESSORS_H

#include <optional>
#include <sched.h>

namespace kiln::runtime {

/// The number of processors that this process may use; at least 1.
int availableProcessors();

/// The processors of all places. Nothing if OMP_PROC_BIND made no places.
std::optional<cpu_set_t> processorsOfPlaces();

/// The processors that OMP_PROC_BIND gives to a thread of a team of `threads`.
/// Nothing if OMP_PROC_BIND made no places.
std::optional<cpu_set_t> processorsOfThread(int thread, int threads);

/// Moves the calling thread from `processor` to another one that it may use, if
/// there is one. It may come back later.
void leaveProcessor(int processor);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_PROCESSORS_H
