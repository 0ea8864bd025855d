//===- Signals.h - Stopping at the end of a step ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// SIGTERM and SIGINT ask for a stop; the training loop looks after every step,
// saves and leaves. A second SIGINT ends the process at once.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_SIGNALS_H
#define KILN_LIB_RUNTIME_TRAINING_SIGNALS_H

namespace kiln {

void installStopSignals();
bool stopRequested();

} // namespace kiln

#endif // KILN_LIB_RUNTIME_TRAINING_SIGNALS_H
