//===- Target.cpp - The name of a module's target -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Target.h"

#include "llvm/Support/ErrorHandling.h"

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

constexpr std::pair<TargetKind, llvm::StringLiteral> kNames[] = {
    {TargetKind::Cpu, "cpu"},
    {TargetKind::Cuda, "cuda"},
    {TargetKind::CudaEmu, "cuda-emu"}};

llvm::StringRef kiln::stringifyTarget(TargetKind target) {
  for (auto &[kind, name] : kNames)
    if (kind == target)
      return name;
  llvm_unreachable("a target without a name");
}

std::optional<TargetKind> kiln::symbolizeTarget(llvm::StringRef text) {
  for (auto &[kind, name] : kNames)
    if (name == text)
      return kind;
  return std::nullopt;
}

TargetKind kiln::targetOf(mlir::ModuleOp module) {
  auto name = module->getAttrOfType<mlir::StringAttr>(kTargetAttr);
  return name ? symbolizeTarget(name).value_or(TargetKind::Cpu)
              : TargetKind::Cpu;
}
