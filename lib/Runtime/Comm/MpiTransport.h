//===- MpiTransport.h - Messages by MPI -------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sends messages with nonblocking point-to-point functions of MPI. The library
// is opened at run time, so that neither MPI nor its headers are needed to
// build kiln, and one executable works with the library of each cluster.
//
// MPI does not define a binary interface: Open MPI's handles are pointers to
// exported objects, and MPICH's are integers. MpiTransport.cpp has a table of
// the values that it uses for each of the two families. Both families guarantee
// these values for all versions with the same library name (libmpi.so.40 of
// Open MPI 4 and 5, libmpi.so.12 of the MPICH ABI initiative).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_MPITRANSPORT_H
#define KILN_LIB_RUNTIME_COMM_MPITRANSPORT_H

#include "Launcher.h"
#include "Transport.h"

#include <memory>

namespace kiln::runtime {

/// Opens the library that belongs to the launcher, initializes MPI, and returns
/// the transport of this process. The calling thread becomes the only thread
/// that may use MPI; it must also destroy the transport, which finalizes MPI
/// and waits for all other ranks to do so. An error names the library and the
/// package that provides it.
Result<std::unique_ptr<Transport>> openMpi(const Launch &launch);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_MPITRANSPORT_H
