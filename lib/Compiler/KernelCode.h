//===- KernelCode.h - Code generation of a module's kernels -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the code of every kernel of a scheduled module. If the device is not
// the host, a kernel may be emitted twice: for the device, and for the host if
// some of its launches access host memory.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_KERNELCODE_H
#define KILN_LIB_COMPILER_KERNELCODE_H

#include "KernelObjects.h"
#include "Link.h"

#include "kiln/Target/Common/ProgramWriter.h"
#include "kiln/Target/Interface/CodeGenerator.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace kiln {

class KernelCode {
public:
  KernelCode(mlir::ModuleOp scheduled, const CodeGenerator &generator);

  /// Emits all kernels. Reports each error on the op that causes it.
  llvm::LogicalResult emit();

  /// Returns the module with the kernels of the target's device.
  mlir::ModuleOp deviceModule() { return modules().deviceCode; }
  const KernelIndex &index() const { return entries; }
  /// Returns the entries of the kernel table, to which the indices in index()
  /// refer.
  llvm::ArrayRef<KernelSymbol> symbols() const { return table; }

  /// Compiles the host module to one object file. Consumes the module.
  llvm::Expected<llvm::SmallVector<char, 0>>
  compileToObject(const Processor &processor);
  /// Compiles each kernel of the host module to an object file of its own.
  /// Consumes the module.
  llvm::Expected<KernelObjects> compile(const Processor &processor,
                                        const KernelCache *cache);

private:
  KernelModules modules() {
    return {traits.deviceIsHost ? *host : *device, *host};
  }
  llvm::LogicalResult emitForHost(rt::KernelOp kernel);
  llvm::LogicalResult emitForDevice(rt::KernelOp kernel);

  mlir::ModuleOp scheduled;
  const CodeGenerator &generator;
  CodeTraits traits;
  mlir::OwningOpRef<mlir::ModuleOp> host, device;
  KernelIndex entries;
  std::vector<KernelSymbol> table;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_KERNELCODE_H
