//===- Process.h - Stop signals and standard streams ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// SIGTERM, SIGHUP and SIGINT request a stop: a handler sets a flag, and long
// operations check the flag where they can end cleanly. The training loop
// checks it after every step, saves a checkpoint and ends. A second SIGINT ends
// the process immediately.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_PROCESS_H
#define KILN_SUPPORT_PROCESS_H

#include "kiln/Support/Status.h"

#include <string_view>

namespace kiln::support {

/// Prepares the process; every program calls this first. Writing to a closed
/// pipe or beyond a file size limit then returns an error instead of killing
/// the process, and closed standard descriptors are reserved, so that no file
/// opened later becomes standard output or standard error.
void prepareProcess();

/// Installs the signal handler. A SIGHUP or SIGINT that is ignored at startup
/// stays ignored, because nohup and shells without job control start programs
/// with these signals ignored. If `restart` is true, interrupted system calls
/// are restarted.
void installStopSignals(bool restart = true);
bool stopRequested();

/// Returns a failure with ExitCode::Stopped if a stop was requested. Used by
/// operations that have nothing to save.
Status checkStop();

/// Waits until `fd` can be written without blocking, and returns true. Returns
/// false if a stop is requested before `fd` can be written. Without this wait,
/// a run that writes to a full pipe would block until the pipe is read, and
/// could not save its checkpoint after a stop request.
bool waitForWriting(int fd);

/// Writes a result, as opposed to progress output, to standard output.
Status printResult(std::string_view text);

} // namespace kiln::support

#endif // KILN_SUPPORT_PROCESS_H
