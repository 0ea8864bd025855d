//===- TcpRendezvous.h - Connects ranks by TCP ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connects each pair of ranks by a TCP connection:
//
//   1. Rank 0 listens on a port that all ranks know, and every other rank on a
//      free port.
//   2. Every other rank connects to rank 0, and sends a greeting with its rank
//      and its port. When all of them have connected, rank 0 sends each of them
//      a table of the addresses of all ranks.
//   3. Each rank connects in the same way to the other ranks with lower
//      numbers.
//
// A greeting begins with a number that identifies kiln, and a token that
// identifies the run. A connection that sends anything else, or nothing, is
// closed and ignored. Like the connections of MPI and NCCL, these connections
// are not encrypted, so the ranks must be in a network that strangers cannot
// use.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_TCPRENDEZVOUS_H
#define KILN_LIB_RUNTIME_COMM_TCPRENDEZVOUS_H

#include "Launcher.h"
#include "TcpSocket.h"

#include <string>
#include <vector>

namespace kiln::runtime {

struct TcpOptions {
  int rank = 0, size = 1;
  std::string host; ///< The name or address of the machine of rank 0.
  int port = 0;     ///< The port on which rank 0 listens.
  /// A number that is the same for all ranks of a run, and differs between
  /// runs.
  uint64_t token = 0;
  /// The time within which all ranks must connect.
  std::chrono::milliseconds connectTimeout = std::chrono::minutes(5);
  /// The time within which a connection must send its greeting.
  std::chrono::milliseconds greetingTimeout = std::chrono::seconds(10);
  /// If true, TcpTransport ends the process when another rank aborts the run.
  bool endsProcess = true;
};

/// Reads the variables that torchrun sets: RANK, WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT. torchrun itself listens on MASTER_PORT, so kiln uses the port
/// KILN_PORT or, if that variable is not set, MASTER_PORT + 1. An error names
/// the variable that is missing or invalid.
Result<TcpOptions> readTcpOptions(const Environment &environment);

/// Connects the ranks. Element r of the result is the connection to rank r; the
/// element of this rank has no file.
Result<std::vector<TcpSocket>> connectRanks(const TcpOptions &options);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_TCPRENDEZVOUS_H
