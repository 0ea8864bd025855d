//===- CodeGenerator.cpp - Defaults of the code generator interface -------===//
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
  llvm_unreachable("compileToPtx() requires CodeTraits::ptx");
}

llvm::Expected<DeviceImages>
CodeGenerator::compileImages(mlir::ModuleOp,
                             llvm::ArrayRef<std::string>) const {
  llvm_unreachable("compileImages() requires CodeTraits::images");
}
