//===- ProgramWriter.h - Writes the program description ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the JSON of docs/reference/program-format.md for a scheduled module.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_PROGRAMWRITER_H
#define KILN_TARGET_COMMON_PROGRAMWRITER_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Target/Interface/CodeGenerator.h"

#include "llvm/ADT/EnumeratedArray.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace kiln {

class TargetBackend;

/// The index of a kernel in the kernel table and its launch geometry.
struct TableEntry : LaunchGeometry {
  int64_t index = 0;
};

/// The kernels that a module launches, by the memory space of the launch: if
/// the target is a GPU, a kernel may run both on the device and on the host.
struct KernelIndex {
  llvm::EnumeratedArray<llvm::StringMap<TableEntry>, MemorySpace,
                        MemorySpace::Host>
      inMemory;

  const TableEntry &of(rt::LaunchOp launch) const {
    return inMemory[rt::memoryOf(launch)].at(launch.getKernel());
  }
};

/// The processor that host code is compiled for.
struct Processor {
  std::string name;                  ///< LLVM's name, e.g. "sapphirerapids".
  std::vector<std::string> features; ///< Features required at run time.
  /// Feature string for llvm::TargetMachine.
  std::string featureString;
};

/// The options and inputs that the executable was built with.
struct BuildRecord {
  std::string version, optimizer, lossy, precision, commandLine, machineHash;
  int64_t microbatches = 1, maxThreads = 1, batch = 1;
  bool clip = true, eval = true;
  double dropout = 0;
  /// Predicted time of a step on the machine of the plan, and a lower bound on
  /// this time.
  double predictedStepMs = 0, lowerBoundMs = 0;
  /// Predicted time for averaging the states of the ranks; 0 if states are not
  /// averaged.
  double predictedSyncMs = 0;
  /// Rate of copies between device and host, in each direction; 0 if copies run
  /// at memory bandwidth.
  double linkBytesPerSecond = 0;
  /// Rate at which a rank sends to another rank; 0 if the rate is not limited.
  double networkBytesPerSecond = 0;
  /// Link rates that the cost model of the plan used.
  double plannedOutBytesPerSecond = 0, plannedInBytesPerSecond = 0;
  Processor processor;
  /// Small files of the model directory, as pairs of name and contents.
  std::vector<std::pair<std::string, std::string>> files;
};

/// Returns the JSON of a slot: its name, class, location and lifetime.
llvm::json::Object slotObject(rt::SlotOp slot, const TargetBackend &target);

/// Returns the memory plan (`--emit=plan`): the peak, the bytes of each class
/// of buffers, and the buffers.
llvm::json::Object writePlan(mlir::ModuleOp scheduled,
                             const TargetBackend &target,
                             const BuildRecord &record);

/// Returns the complete program description.
llvm::json::Object writeProgram(mlir::ModuleOp scheduled,
                                const TargetBackend &target,
                                const KernelIndex &kernels,
                                const BuildRecord &record);

} // namespace kiln

#endif // KILN_TARGET_COMMON_PROGRAMWRITER_H
