//===- ProgramWriter.h - The program description of an executable -*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes docs/program-format.md from a scheduled module.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_CPU_PROGRAMWRITER_H
#define KILN_TARGET_CPU_PROGRAMWRITER_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Target/Cpu/CodeGen.h"
#include "kiln/Target/Cpu/Kernels.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace kiln::cpu {

/// A kernel's place in the kernel table, and how it is run.
struct TableEntry {
  int64_t index = 0;
  KernelLaunch launch;
};
using KernelIndex = llvm::StringMap<TableEntry>;

/// What the executable was built with.
struct BuildRecord {
  std::string version, optimizer, lossy, precision, commandLine, machineHash;
  int64_t microbatches = 1, maxThreads = 1, batch = 1;
  bool clip = true, eval = true;
  double dropout = 0;
  /// Of a step on the machine that was planned for, and what no plan beats.
  double predictedStepMs = 0, lowerBoundMs = 0;
  /// Pace of copies between device and host, each way; 0: that of memory.
  double linkBytesPerSecond = 0;
  /// The link that the plan was priced with.
  double plannedOutBytesPerSecond = 0, plannedInBytesPerSecond = 0;
  Processor processor;
  /// Small files of the model directory: name and contents.
  std::vector<std::pair<std::string, std::string>> files;
};

/// The plan as users read it (`--emit=plan`): peak, classes, buffers.
llvm::json::Object writePlan(mlir::ModuleOp scheduled,
                             const BuildRecord &record);

/// The whole description.
llvm::json::Object writeProgram(mlir::ModuleOp scheduled,
                                const KernelIndex &kernels,
                                const BuildRecord &record);

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_PROGRAMWRITER_H
