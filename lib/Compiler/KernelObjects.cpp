//===- KernelObjects.cpp - Compilation of each kernel by itself -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names of kernels are numbered by program, so equal kernels of two
// programs have different names. A kernel is therefore compiled under a common
// name, and the symbol in its object file is renamed afterwards.
//
//===----------------------------------------------------------------------===//

#include "KernelObjects.h"

#include "kiln/Target/Cpu/CodeGen.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Threading.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/Binary.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kiln;

/// The name of a kernel while it is compiled.
static constexpr llvm::StringLiteral kCommonName = "kernel";

namespace {
/// A kernel in a module of its own.
struct Unit {
  std::string name;
  OwningOpRef<ModuleOp> module;
  std::string source; ///< Everything that the object code depends on.
  SmallVector<char, 0> object;
  bool isCached = false;
};
} // namespace

/// Adds the functions and tables that the ops in `symbol` refer to, to `used`.
static void addUses(Operation *symbol, SymbolTable &table,
                    llvm::SetVector<Operation *> &used) {
  symbol->walk([&](Operation *op) {
    for (NamedAttribute attribute : op->getAttrs())
      attribute.getValue().walk([&](SymbolRefAttr reference) {
        if (Operation *other = table.lookup(reference.getRootReference()))
          used.insert(other);
      });
  });
}

/// Divides a module into modules with one kernel each.
static std::vector<Unit> divide(ModuleOp host) {
  SymbolTable table(host);
  std::vector<Unit> units;
  for (auto kernel : host.getOps<LLVM::LLVMFuncOp>()) {
    if (kernel.isExternal() || kernel.getLinkage() == LLVM::Linkage::Internal)
      continue;
    llvm::SetVector<Operation *> used;
    used.insert(kernel);
    for (size_t i = 0; i < used.size(); ++i)
      addUses(used[i], table, used);
    Unit &unit = units.emplace_back();
    unit.name = kernel.getSymName().str();
    unit.module = ModuleOp::create(host.getLoc());
    OpBuilder b = OpBuilder::atBlockEnd(unit.module->getBody());
    for (Operation *symbol : used)
      b.clone(*symbol);
    cast<LLVM::LLVMFuncOp>(unit.module->getBody()->front())
        .setSymName(kCommonName);
  }
  return units;
}

static std::string sourceOf(ModuleOp module, const Processor &processor) {
  std::string source = processor.name + " " + processor.featureString + "\n";
  llvm::raw_string_ostream stream(source);
  module.print(stream, OpPrintingFlags().printGenericOpForm());
  return source;
}

/// Renames the symbol of the kernel in an object file.
static llvm::Error renameKernel(SmallVector<char, 0> &object, StringRef name) {
  llvm::MemoryBufferRef buffer(StringRef(object.data(), object.size()), name);
  auto binary = llvm::object::createBinary(buffer);
  if (!binary)
    return binary.takeError();
  llvm::objcopy::ConfigManager config;
  config.Common.SymbolsToRename[kCommonName] = name;
  SmallVector<char, 0> renamed;
  llvm::raw_svector_ostream stream(renamed);
  if (llvm::Error error =
          llvm::objcopy::executeObjcopyOnBinary(config, **binary, stream))
    return error;
  object = std::move(renamed);
  return llvm::Error::success();
}

llvm::Expected<KernelObjects> kiln::compileKernels(ModuleOp host,
                                                   const Processor &processor,
                                                   const KernelCache *cache) {
  std::vector<Unit> units = divide(host);
  host.getBody()->clear();
  MLIRContext *context = host.getContext();
  if (cache)
    parallelForEach(context, units, [&](Unit &unit) {
      unit.source = sourceOf(*unit.module, processor);
      if (auto object = cache->load(unit.source)) {
        unit.object = std::move(*object);
        unit.isCached = true;
      }
    });
  KernelObjects objects;
  // The passes load dialects into the context, so they do not run in parallel.
  for (Unit &unit : units) {
    objects.fromCache += unit.isCached;
    if (!unit.isCached)
      if (llvm::Error error = cpu::lowerKernels(*unit.module))
        return std::move(error);
  }
  std::vector<std::string> errors(units.size());
  std::vector<Status> stored(units.size());
  parallelFor(context, 0, units.size(), [&](size_t i) {
    Unit &unit = units[i];
    if (!unit.isCached) {
      auto object = cpu::compileLowered(*unit.module, processor);
      if (!object) {
        errors[i] = llvm::toString(object.takeError());
        return;
      }
      unit.object = std::move(*object);
      if (cache)
        stored[i] = cache->store(unit.source, unit.object);
    }
    if (llvm::Error error = renameKernel(unit.object, unit.name))
      errors[i] = llvm::toString(std::move(error));
  });
  for (size_t i = 0; i < units.size(); ++i) {
    if (!errors[i].empty())
      return llvm::createStringError(errors[i]);
    if (objects.stored.ok())
      objects.stored = std::move(stored[i]);
    objects.files.push_back(std::move(units[i].object));
  }
  return objects;
}
