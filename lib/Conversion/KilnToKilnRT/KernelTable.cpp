//===- KernelTable.cpp - Distinct kernels of a module -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTable.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace kiln;

/// Removes what a launch passes as immediates. Keys become their places among
/// them: ops with different keys stay different.
static void removeLaunchFacts(rt::KernelOp kernel) {
  Builder builder(kernel.getContext());
  SmallVector<int64_t> keys;
  for (Operation &op : kernel.getBody().front()) {
    if (auto key = op.getAttrOfType<IntegerAttr>("key")) {
      auto place = llvm::find(keys, key.getInt());
      op.setAttr("key", builder.getI64IntegerAttr(place - keys.begin()));
      if (place == keys.end())
        keys.push_back(key.getInt());
    }
    if (isa<AttentionOp, AttentionGradOp>(op))
      op.setAttr("scale", builder.getF64FloatAttr(1.0));
  }
}

/// Makes the epilogue of a product the body of a kernel.
static void copyEpilogue(DispatchOp dispatch, Region &region) {
  Block &from = dispatch.getBody().front(), &to = region.emplaceBlock();
  MatmulOp product = dispatch.getProduct();
  IRMapping mapping;
  mapping.map(product.getResult(),
              to.addArgument(product.getType(), dispatch.getLoc()));
  for (BlockArgument argument : from.getArguments().drop_front(2))
    mapping.map(argument,
                to.addArgument(argument.getType(), argument.getLoc()));
  auto builder = OpBuilder::atBlockEnd(&to);
  for (Operation &op : llvm::drop_begin(from))
    builder.clone(op, mapping);
  if (dispatch.keepsProduct())
    to.getTerminator()->eraseOperand(to.getTerminator()->getNumOperands() - 1);
}

rt::KernelOp KernelTable::get(DispatchOp dispatch,
                              ArrayRef<int64_t> rowStrides) {
  bool isEpilogue = dispatch.getFamily() == Family::Gemm;
  OpBuilder builder(module.getContext());
  OwningOpRef<rt::KernelOp> kernel = rt::KernelOp::create(
      builder, dispatch.getLoc(), "k",
      isEpilogue ? Family::Row : dispatch.getFamily(), dispatch.getSpaceAttr(),
      builder.getDenseI64ArrayAttr(rowStrides), isEpilogue);
  IRMapping mapping;
  if (isEpilogue)
    copyEpilogue(dispatch, kernel->getBody());
  else
    dispatch.getBody().cloneInto(&kernel->getBody(), mapping);
  removeLaunchFacts(*kernel);

  std::string key;
  llvm::raw_string_ostream stream(key);
  kernel->print(stream, OpPrintingFlags().printGenericOpForm().useLocalScope());
  rt::KernelOp &known = kernels[key];
  if (!known) {
    kernel->setSymName(
        "k" + std::to_string(kernels.size() - 1) + "_" +
        (isEpilogue ? "epilogue" : stringifyFamily(dispatch.getFamily()))
            .str());
    known = kernel.release();
    // Kernels stand in front of the programs, those of products too, which are
    // made while the programs are written. A state may have their name.
    auto arenas = module.getOps<rt::ArenaOp>();
    symbols.insert(known, arenas.empty() ? Block::iterator()
                                         : Block::iterator(*arenas.begin()));
  }
  return known;
}

SmallVector<int64_t> KernelTable::immediatesOf(DispatchOp dispatch) {
  if (const row::RowProgram *rows = rowPrograms.get(dispatch))
    return llvm::to_vector_of<int64_t>(rows->immediates);
  if (dispatch.getFamily() == Family::Attention) {
    Operation &op = dispatch.getBody().front().front();
    double scale = op.getAttrOfType<FloatAttr>("scale").getValueAsDouble();
    return {op.getAttrOfType<IntegerAttr>("key").getInt(),
            llvm::bit_cast<int64_t>(scale)};
  }
  if (dispatch.getFamily() == Family::Sketch)
    return {dispatch.getBody()
                .front()
                .front()
                .getAttrOfType<IntegerAttr>("key")
                .getInt()};
  return {};
}
