//===- KernelCode.h - The kernels of a module as code -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Calls the emitters of a target for every kernel of a scheduled module. With a
// gpu a kernel may be needed twice: for the device and, where its launches work
// on the host's memory, for the host.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_KERNELCODE_H
#define KILN_LIB_COMPILER_KERNELCODE_H

#include "Link.h"

#include "kiln/Dialect/Kiln/IR/Target.h"
#include "kiln/Target/Common/ProgramWriter.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace kiln {

class KernelCode {
public:
  KernelCode(mlir::MLIRContext &context, mlir::ModuleOp scheduled,
             TargetKind target);

  /// Emits all kernels. Errors are reported on their ops.
  llvm::LogicalResult emit();

  /// What was emitted for the target's device.
  mlir::ModuleOp emitted() { return isGpu(target) ? *device : *host; }
  const KernelIndex &index() const { return entries; }
  /// The kernel table.
  llvm::ArrayRef<KernelSymbol> symbols() const { return table; }

  /// The object file with the functions of the kernel table. Consumes what was
  /// emitted.
  llvm::Expected<llvm::SmallVector<char, 0>>
  compile(const Processor &processor);

  /// A gpu's kernels as text.
  llvm::Expected<std::string> compileToPtx(llvm::StringRef chip);
  /// Machine code for each of `chips` where an assembler is installed, and PTX
  /// for the first, from which a driver makes code for others.
  llvm::Expected<std::vector<GpuImage>>
  compileImages(llvm::ArrayRef<std::string> chips);
  /// What the user should know of the images; empty: nothing.
  llvm::StringRef note() const { return remark; }

private:
  llvm::LogicalResult emitForHost(rt::KernelOp kernel,
                                  llvm::StringMap<TableEntry> &index,
                                  const std::string &symbol);
  llvm::LogicalResult emitForDevice(rt::KernelOp kernel);

  mlir::ModuleOp scheduled;
  TargetKind target;
  mlir::OwningOpRef<mlir::ModuleOp> host, device;
  KernelIndex entries;
  std::string remark;
  std::vector<KernelSymbol> table;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_KERNELCODE_H
