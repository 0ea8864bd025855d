//===- KernelTable.cpp - Distinct kernels of a module -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTable.h"

#include "kiln/Dialect/Kiln/IR/LaunchArguments.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kiln;

/// Copies the epilogue of a matmul into the body of a kernel. The result of the
/// matmul becomes the first argument.
static void copyEpilogue(DispatchOp dispatch, Region &region) {
  Block &from = dispatch.getBody().front(), &to = region.emplaceBlock();
  MatmulOp matmul = dispatch.getMatmul();
  IRMapping mapping;
  mapping.map(matmul.getResult(),
              to.addArgument(matmul.getType(), dispatch.getLoc()));
  for (BlockArgument argument : from.getArguments().drop_front(2))
    mapping.map(argument,
                to.addArgument(argument.getType(), argument.getLoc()));
  auto builder = OpBuilder::atBlockEnd(&to);
  for (Operation &op : llvm::drop_begin(from))
    builder.clone(op, mapping);
  if (dispatch.keepsMatmul())
    to.getTerminator()->eraseOperand(to.getTerminator()->getNumOperands() - 1);
}

/// Removes the memory space from all tensor types of a body. A kernel does not
/// depend on the memory spaces of its operands, because the views of each
/// launch specify them.
static void dropMemory(Region &region) {
  region.walk([](Operation *op) {
    for (Value result : op->getResults())
      setMemory(result, MemorySpace::Device);
    if (auto constant = dyn_cast<ConstantOp>(op))
      if (auto value = dyn_cast<DenseElementsAttr>(constant.getValue()))
        constant.setValueAttr(value.reshape(constant.getType()));
  });
  for (BlockArgument argument : region.getArguments())
    setMemory(argument, MemorySpace::Device);
}

/// Returns the attributes of a kernel except for its name.
static DictionaryAttr attributesOf(rt::KernelOp kernel) {
  NamedAttrList attributes(kernel->getAttrDictionary());
  attributes.erase(kernel.getSymNameAttrName());
  return attributes.getDictionary(kernel.getContext());
}

/// Returns a hash that is the same for kernels that differ only in their names
/// and locations.
static uint64_t hashOf(rt::KernelOp kernel) {
  llvm::hash_code hash =
      llvm::hash_value(attributesOf(kernel).getAsOpaquePointer());
  Block &body = kernel.getBody().front();
  for (Type type : body.getArgumentTypes())
    hash = llvm::hash_combine(hash, type);
  for (Operation &op : body)
    hash =
        llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                     &op, OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::IgnoreLocations));
  return hash;
}

/// Returns true if two kernels differ only in their names and locations.
static bool isSame(rt::KernelOp a, rt::KernelOp b) {
  return attributesOf(a) == attributesOf(b) &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

rt::KernelOp KernelTable::get(DispatchOp dispatch,
                              ArrayRef<int64_t> rowStrides) {
  // The buffer plan may have created the kernel already, to compute its scratch
  // size. Reuse the kernel if the row strides are the same.
  auto &[strides, found] = ofDispatches[dispatch];
  if (!found || ArrayRef(strides) != rowStrides) {
    strides.assign(rowStrides.begin(), rowStrides.end());
    found = make(dispatch, rowStrides);
  }
  return found;
}

rt::KernelOp KernelTable::make(DispatchOp dispatch,
                               ArrayRef<int64_t> rowStrides) {
  bool isEpilogue = dispatch.getFamily() == Family::Gemm;
  OpBuilder builder(module.getContext());
  OwningOpRef<rt::KernelOp> kernel = rt::KernelOp::create(
      builder, dispatch.getLoc(), "k",
      isEpilogue ? stringifyFamily(Family::Row) : dispatch.getKind(),
      dispatch.getSpaceAttr(), builder.getDenseI64ArrayAttr(rowStrides),
      isEpilogue);
  IRMapping mapping;
  if (isEpilogue)
    copyEpilogue(dispatch, kernel->getBody());
  else
    dispatch.getBody().cloneInto(&kernel->getBody(), mapping);
  dropMemory(kernel->getBody());
  kernel->walk([](Operation *op) { op->removeAttr(kLayerAttr); });
  removeLaunchArguments(kernel->getBody().front());

  SmallVector<rt::KernelOp> &alike = kernels[hashOf(*kernel)];
  auto *known = llvm::find_if(
      alike, [&](rt::KernelOp other) { return isSame(other, *kernel); });
  if (known != alike.end())
    return *known;
  kernel->setSymName("k" + std::to_string(count++) + "_" +
                     (isEpilogue ? "epilogue" : dispatch.getKind()).str());
  // Insert the kernel before the programs, even if some of them are already
  // emitted. The symbol table renames the kernel if a state has its name.
  auto arenas = module.getOps<rt::ArenaOp>();
  symbols.insert(*kernel, arenas.empty() ? Block::iterator()
                                         : Block::iterator(*arenas.begin()));
  return alike.emplace_back(kernel.release());
}
