//===- TcpTransport.h - Messages by TCP -------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sends messages over TCP connections between all pairs of ranks, for launchers
// without MPI such as torchrun. It carries the agreements of ranks, and pieces
// of states; the sums of ranks with GPUs are NCCL's.
//
// A message is a frame: a header with its tag and its size, and the data. The
// transport receives directly to the memory of the first posted receive that
// has the tag. Frames of up to `mostStashedBytes` that no receive is posted for
// are stored; a larger one remains in the connection, whose sender waits.
//
// A rank that ends without an error says goodbye to all others, and waits until
// they have done so. Any other end of a connection is an error of all later
// messages of its rank, and of idle().
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_TCPTRANSPORT_H
#define KILN_LIB_RUNTIME_COMM_TCPTRANSPORT_H

#include "TcpRendezvous.h"
#include "Transport.h"

#include <memory>

namespace kiln::runtime {

/// Connects this process to the other ranks, and returns its transport.
Result<std::unique_ptr<Transport>> openTcp(const TcpOptions &options);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_TCPTRANSPORT_H
