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

/// Changes the programs that average states over ranks: they also write the
/// averages of parameters to the mirrors of the parameters (their copies on the
/// device), and copy the averages of the states in `statesOnHost` to host
/// memory. To limit the number of states on the device at a time, a state is
/// copied to the device only when it is read, and the averages of collective i
/// are on the host before the states for collective i + 2 are read.
void copyAverages(mlir::ModuleOp module,
                  const llvm::DenseSet<mlir::StringAttr> &statesOnHost);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_COPYAVERAGES_H
