//===- Target.cpp - Name of a module's target -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Target.h"

using namespace kiln;

llvm::StringRef kiln::targetNameOf(mlir::ModuleOp module) {
  auto name = module->getAttrOfType<mlir::StringAttr>(kTargetAttr);
  return name ? name.getValue() : llvm::StringRef(kDefaultTarget);
}

std::string kiln::joinWithOr(llvm::ArrayRef<std::string> items) {
  std::string text;
  for (auto [i, item] : llvm::enumerate(items)) {
    if (i > 0)
      text += i + 1 == items.size() ? " or " : ", ";
    text += item;
  }
  return text;
}
