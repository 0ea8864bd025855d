//===- TcpTransport.h - Messages by TCP -------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sends messages over TCP connections between all pairs of ranks, for launchers
// without MPI such as torchrun. It transfers the data of World::agree(),
// World::gather() and World::fetch(). The collectives of ranks with GPUs use
// NCCL instead.
//
// A message is a frame: a header with its tag and its size, and the data. The
// transport receives the data directly into the memory of the first posted
// receive with the same tag. If there is none, it stores a frame of up to
// `mostStashedBytes` bytes. A larger frame remains in the connection, and its
// sender waits.
//
// A rank that ends without an error sends a goodbye frame to all other ranks,
// and waits for theirs. If a connection ends without a goodbye frame, all later
// messages between its two ranks fail, and so does idle().
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
