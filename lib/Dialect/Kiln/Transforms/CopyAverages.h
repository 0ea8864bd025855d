//===- CopyAverages.h - Averages of states on the host ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_COPYAVERAGES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_COPYAVERAGES_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Writes the mirrors of the parameters that a program averages over ranks, and
/// copies the averages of states on the host there. So that few states are on
/// the device at a time, a copy to the host is waited for before the states of
/// the sum after the next one are read, and a state is copied in when it is
/// read.
void copyAverages(mlir::ModuleOp module,
                  const llvm::DenseSet<mlir::StringAttr> &statesOnHost);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_COPYAVERAGES_H
