//===- EmulateTensorCore.cpp - Emulation of tensor core operations --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulateTensorCore.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

/// Words per lane of an MMA: those of the operands a and b together, and those
/// of the f32 accumulators.
constexpr int32_t kFactorWords = 6, kSums = 4;
constexpr int32_t kWords = kFactorWords + kSums;

bool isExp2(Operation *op) {
  auto intrinsic = dyn_cast<LLVM::CallIntrinsicOp>(op);
  return intrinsic && intrinsic.getIntrin() == "llvm.nvvm.ex2.approx.ftz.f32";
}

Value constantOf(OpBuilder &b, Location loc, Type type, int64_t value) {
  return LLVM::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
}

} // namespace

bool TensorCoreEmulation::handles(Operation *op) {
  return isa<NVVM::MmaOp, NVVM::LdMatrixOp, NVVM::CpAsyncOp,
             NVVM::CpAsyncCommitGroupOp, NVVM::CpAsyncWaitGroupOp>(op) ||
         isExp2(op);
}

std::optional<std::string> TensorCoreEmulation::lower(Operation *op,
                                                      Call call) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  if (isa<NVVM::MmaOp>(op))
    return multiply(op, call);
  if (isa<NVVM::LdMatrixOp>(op))
    return load(op, call);
  if (isa<NVVM::CpAsyncOp>(op))
    return copy(op, call);
  if (isa<NVVM::CpAsyncCommitGroupOp>(op)) {
    call(b, loc, "kiln_emu_copy_commit", {}, {});
  } else if (auto wait = dyn_cast<NVVM::CpAsyncWaitGroupOp>(op)) {
    call(b, loc, "kiln_emu_copy_wait", {},
         constantOf(b, loc, b.getI64Type(), wait.getN()));
  } else {
    Value x = call(b, loc, "kiln_emu_exp2", b.getF32Type(), op->getOperand(0));
    op->replaceAllUsesWith(ValueRange{x});
  }
  op->erase();
  return std::nullopt;
}

Value TensorCoreEmulation::word(OpBuilder &b, Location loc, int32_t index) {
  Type i32 = b.getI32Type();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  if (!words) {
    auto atEntry = OpBuilder::atBlockBegin(&function.getBody().front());
    Value count = constantOf(atEntry, loc, i32, kWords);
    words = LLVM::AllocaOp::create(atEntry, loc, pointer, i32, count);
  }
  return LLVM::GEPOp::create(b, loc, pointer, i32, words,
                             ArrayRef<LLVM::GEPArg>{index});
}

void TensorCoreEmulation::replaceByWords(Operation *op, int32_t first) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  auto type = cast<LLVM::LLVMStructType>(op->getResult(0).getType());
  Value result = LLVM::PoisonOp::create(b, loc, type);
  for (auto [i, element] : llvm::enumerate(type.getBody())) {
    Value x =
        LLVM::LoadOp::create(b, loc, element, word(b, loc, first + int32_t(i)));
    result = LLVM::InsertValueOp::create(b, loc, result, x, int64_t(i));
  }
  op->replaceAllUsesWith(ValueRange{result});
  op->erase();
}

std::optional<std::string> TensorCoreEmulation::multiply(Operation *op,
                                                         Call call) {
  auto mma = cast<NVVM::MmaOp>(op);
  auto shape = mma.getShape();
  bool isHalf = mma.getMultiplicandAPtxType() == NVVM::MMATypes::f16;
  auto hasType = [&](std::optional<NVVM::MMATypes> type) {
    return type == (isHalf ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16);
  };
  if (shape.getM() != 16 || shape.getN() != 8 || shape.getK() != 16 ||
      !hasType(mma.getMultiplicandAPtxType()) ||
      !hasType(mma.getMultiplicandBPtxType()) ||
      mma.getLayoutA() != NVVM::MMALayout::row ||
      mma.getLayoutB() != NVVM::MMALayout::col)
    return "must multiply a 16 x 16 by a 16 x 8 matrix of bf16 or f16";
  OpBuilder b(op);
  Location loc = op->getLoc();
  int32_t index = 0;
  for (Value operand : mma->getOperands())
    LLVM::StoreOp::create(b, loc, operand, word(b, loc, index++));
  call(b, loc, "kiln_emu_multiply_matrices", {},
       {word(b, loc, 0), word(b, loc, kFactorWords),
        constantOf(b, loc, b.getI32Type(), isHalf)});
  replaceByWords(op, kFactorWords);
  return std::nullopt;
}

std::optional<std::string> TensorCoreEmulation::load(Operation *op, Call call) {
  auto load = cast<NVVM::LdMatrixOp>(op);
  auto shape = load.getShape();
  // A load of a single matrix returns no struct and is not supported.
  if (load.getEltType() != NVVM::LdStMatrixEltType::B16 || shape.getM() != 8 ||
      shape.getN() != 8 || load.getNum() == 1)
    return "must load 2 or 4 matrices of 8 x 8 16-bit elements";
  OpBuilder b(op);
  Location loc = op->getLoc();
  Type i32 = b.getI32Type();
  bool isTransposed = load.getLayout() == NVVM::MMALayout::col;
  call(b, loc, "kiln_emu_load_matrices", {},
       {load.getPtr(), constantOf(b, loc, i32, load.getNum()),
        constantOf(b, loc, i32, isTransposed), word(b, loc, 0)});
  replaceByWords(op, 0);
  return std::nullopt;
}

std::optional<std::string> TensorCoreEmulation::copy(Operation *op, Call call) {
  auto copy = cast<NVVM::CpAsyncOp>(op);
  OpBuilder b(op);
  Location loc = op->getLoc();
  Value bytes = constantOf(b, loc, b.getI64Type(), copy.getSize());
  Value present = bytes;
  if (Value given = copy.getCpSize())
    present = LLVM::ZExtOp::create(b, loc, b.getI64Type(), given);
  call(b, loc, "kiln_emu_copy_async", {},
       {copy.getDst(), copy.getSrc(), bytes, present});
  op->erase();
  return std::nullopt;
}

} // namespace kiln::gpu
