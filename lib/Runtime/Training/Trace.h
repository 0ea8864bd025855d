//===- Trace.h - Perfetto traces --------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_TRACE_H
#define KILN_LIB_RUNTIME_TRAINING_TRACE_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <string>
#include <vector>

namespace kiln::runtime {

/// Returns the events of a rank for traceFile(): one slice per command,
/// separate tracks for the copies between the arenas and for the sums over
/// ranks, and a counter of the live bytes of every buffer class.
std::string traceOfRank(const std::string &processName, int rank,
                        const std::vector<TraceEvent> &events);

/// Combines the events of all ranks into a JSON trace for Perfetto and
/// chrome://tracing, in which each rank is a process. `ranks` contains the
/// result of traceOfRank() for each rank.
std::string traceFile(const std::vector<std::string> &ranks);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_TRACE_H
