//===- WrittenStates.h - Finds the states that programs write ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_WRITTENSTATES_H
#define KILN_LIB_RUNTIME_ENGINE_WRITTENSTATES_H

#include "kiln/Runtime/Engine/Program.h"

namespace kiln::runtime {

/// Sets StateInfo::written of every state to whether a command of any program
/// writes the state.
void markWrittenStates(ProgramFile &file);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_WRITTENSTATES_H
