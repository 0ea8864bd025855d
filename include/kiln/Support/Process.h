//===- Process.h - Signals and standard streams of a program ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// SIGTERM, SIGHUP and SIGINT ask for a stop: a handler sets a flag, and
// whatever takes long looks at the flag where it can end cleanly. The training
// loop looks after every step, saves and leaves. A second SIGINT ends the
// process at once.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_PROCESS_H
#define KILN_SUPPORT_PROCESS_H

#include "kiln/Support/Status.h"

#include <string_view>

namespace kiln::support {

/// To be called first by every program. Writing to a closed pipe or beyond a
/// file size limit then returns an error instead of killing the process, and a
/// file that is opened later never becomes standard output or standard error
/// because the caller had closed that.
void prepareProcess();

/// Installs the handler. A SIGHUP or SIGINT that is ignored stays ignored:
/// nohup and shells without job control start programs so. `restart`: system
/// calls that a signal interrupts go on.
void installStopSignals(bool restart = true);
bool stopRequested();

/// A failure with ExitCode::Stopped once a stop was requested, for work that
/// has nothing to save.
Status checkStop();

/// Waits until `fd` can be written without blocking. Returns false if a stop is
/// requested first, so that a reader that stands still keeps no run from
/// saving.
bool waitForWriting(int fd);

/// Writes a result, as opposed to progress, to standard output.
Status printResult(std::string_view text);

} // namespace kiln::support

#endif // KILN_SUPPORT_PROCESS_H
