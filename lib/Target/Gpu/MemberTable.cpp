//===- MemberTable.cpp - Kernels that serve a group of launches -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A member is one of the launches that a grouped launch replaces. Each thread
// loads the argument addresses of its member once, at kernel entry, from the
// parameter memory of the launch. A GPU reads the parameter memory through the
// constant cache, which is fast here because all threads of a block read the
// same addresses.
//
//===----------------------------------------------------------------------===//

#include "MemberTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

void kiln::gpu::addMemberTable(mlir::gpu::GPUFuncOp kernel, int64_t members) {
  Location loc = kernel.getLoc();
  OpBuilder b(kernel.getContext());
  auto isPointer = [](Type type) { return isa<LLVM::LLVMPointerType>(type); };
  auto count = static_cast<unsigned>(
      llvm::count_if(kernel.getArgumentTypes(), isPointer));
  Type address = kernel.getArgumentTypes().front();
  auto row = LLVM::LLVMArrayType::get(address, count);
  NamedAttribute byValue(LLVM::LLVMDialect::getByValAttrName(),
                         TypeAttr::get(LLVM::LLVMArrayType::get(row, members)));
  (void)kernel.insertArgument(0, LLVM::LLVMPointerType::get(b.getContext()),
                              b.getDictionaryAttr(byValue), loc);

  Block &entry = kernel.getBody().front();
  b.setInsertionPointToStart(&entry);
  Value member = arith::IndexCastOp::create(
      b, loc, b.getI64Type(),
      mlir::gpu::BlockIdOp::create(b, loc, mlir::gpu::Dimension::y));
  for (unsigned i = 0; i < count; ++i) {
    Value at = LLVM::GEPOp::create(
        b, loc, entry.getArgument(0).getType(), row, entry.getArgument(0),
        ArrayRef<LLVM::GEPArg>{member, static_cast<int32_t>(i)});
    entry.getArgument(i + 1).replaceAllUsesWith(
        LLVM::LoadOp::create(b, loc, address, at, /*alignment=*/8));
  }
  llvm::BitVector pointers(kernel.getNumArguments());
  pointers.set(1, 1 + count);
  (void)kernel.eraseArguments(pointers);
}
