//===- Processors.h - Processor affinity of threads -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The processors that this process may use. If OMP_PROC_BIND is set, libgomp
// binds the main thread to the first OpenMP place (a set of processors) at
// program start. Threads that the main thread creates inherit this affinity.
// Therefore the affinity of each of these threads must be set explicitly.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_PROCESSORS_H
#define KILN_LIB_RUNTIME_ENGINE_PROCESSORS_H

#include <optional>
#include <sched.h>

namespace kiln::runtime {

/// Returns the number of processors that this process may use, at least 1.
int availableProcessors();

/// Returns the processors of all OpenMP places, or nullopt if OMP_PROC_BIND
/// defines no places.
std::optional<cpu_set_t> processorsOfPlaces();

/// Returns the processors that OMP_PROC_BIND assigns to thread `thread` of a
/// team of `threads` threads, or nullopt if OMP_PROC_BIND defines no places.
std::optional<cpu_set_t> processorsOfThread(int thread, int threads);

/// Moves the calling thread from `processor` to another processor that it may
/// use, if there is one. The scheduler may later move the thread back.
void leaveProcessor(int processor);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_PROCESSORS_H
