//===- LibraryThread.h - Marks the thread of the MPI library ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The MPI library may allocate memory at any time. Only the communication
// thread calls the library. An executable that counts its allocations excludes
// those of this thread.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_COMM_LIBRARYTHREAD_H
#define KILN_RUNTIME_COMM_LIBRARYTHREAD_H

namespace kiln::runtime {

/// True on the communication thread. Functions that replace malloc() read it,
/// so it needs no initialization at run time and no allocation.
extern __thread bool isLibraryThread
    __attribute__((tls_model("initial-exec")));

} // namespace kiln::runtime

#endif // KILN_RUNTIME_COMM_LIBRARYTHREAD_H
