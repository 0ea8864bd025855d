//===- CodeGenerator.cpp - From kernels to code ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Interface/CodeGenerator.h"

#include "llvm/Support/ErrorHandling.h"

using namespace kiln;

CodeGenerator::~CodeGenerator() = default;

llvm::Expected<std::string> CodeGenerator::compileToPtx(mlir::ModuleOp,
                                                        llvm::StringRef) const {
  llvm_unreachable("asked for PTX that the traits exclude");
}

llvm::Expected<DeviceImages>
CodeGenerator::compileImages(mlir::ModuleOp,
                             llvm::ArrayRef<std::string>) const {
  llvm_unreachable("asked for images that the traits exclude");
}
