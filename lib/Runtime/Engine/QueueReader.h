//===- QueueReader.h - Reads the queues of a description --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the queues of a program description and the references of commands to
// them: the queue that executes a command, the queues that it waits for, and
// the queues that a copy_wait blocks.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_QUEUEREADER_H
#define KILN_LIB_RUNTIME_ENGINE_QUEUEREADER_H

#include "SegmentReader.h"
#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/JsonReader.h"

namespace kiln::runtime {

/// Reads "queues" of the top level into `file`, whose target has been read.
void readQueues(const support::Node &node, ProgramFile &file);

/// Reads the queues of a command whose other fields have been read.
void readQueueUse(const support::Node &node, const ProgramFile &file,
                  Command &command);

/// Sets the direction of each link that `program` uses. Copies of one queue
/// must all have the same direction, because the two directions of a link are
/// independent.
void findDirections(const SegmentReader &segments, const Program &program,
                    std::vector<Queue> &queues);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_QUEUEREADER_H
