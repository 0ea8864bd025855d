//===- QueueReader.h - Reads the queues of a description --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the queues of a program description, and the uses of queues in
// commands: the queue that executes a command, the queues that a command waits
// for, and the queues that a copy_wait blocks.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_QUEUEREADER_H
#define KILN_LIB_RUNTIME_ENGINE_QUEUEREADER_H

#include "SegmentReader.h"
#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/JsonReader.h"

namespace kiln::runtime {

/// Reads the top-level member "queues" into `file`. The target of `file` must
/// have been read before.
void readQueues(const support::Node &node, ProgramFile &file);

/// Reads the uses of queues in a command. All other members of the command must
/// have been read before.
void readQueueUse(const support::Node &node, const ProgramFile &file,
                  Command &command);

/// Sets the transfer kind of each queue on which `program` starts transfers
/// (copies in one direction, or collectives). All transfers of one queue must
/// be of the same kind, because transfers of different kinds run independently
/// of each other.
void findTransferKinds(const SegmentReader &segments, const Program &program,
                       std::vector<Queue> &queues);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_QUEUEREADER_H
