//===- KernelBuilder.cpp - Writing one cpu kernel -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every operation is the plain one of its dialect; what is decided here is that
// loops carry the annotation that keeps LLVM from unrolling them, and that
// memory is accessed with the alignment of one element.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

/// Bytes of an element; masks are never stored.
unsigned bytesOf(Type element) { return element.getIntOrFloatBitWidth() / 8; }

bool isFloat(Value x) { return isa<FloatType>(getElementTypeOrSelf(x)); }

LLVM::LoopAnnotationAttr noUnrolling(MLIRContext *context) {
  auto unroll = LLVM::LoopUnrollAttr::get(
      context, /*disable=*/BoolAttr::get(context, true), {}, {}, {}, {}, {},
      {});
  return LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {},
                                       {}, {}, {}, {}, {}, {}, {}, {});
}

} // namespace

void loadKernelDialects(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, LLVM::LLVMDialect, scf::SCFDialect,
                      vector::VectorDialect>();
}

KernelBuilder::KernelBuilder(ModuleOp module, StringRef name, unsigned numArgs,
                             unsigned numImmediates)
    : b(module.getLoc(), module.getContext()) {
  loadKernelDialects(*module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()),
      {pointer(), pointer(), i64(), i64(), pointer()});
  function = LLVM::LLVMFuncOp::create(b, name, type);
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  for (unsigned i = 0; i < numArgs; ++i)
    args.push_back(
        load(element(entry->getArgument(0), pointer(), i), pointer()));
  for (unsigned i = 0; i < numImmediates; ++i)
    immediates.push_back(load(element(entry->getArgument(1), i64(), i), i64()));
  beginUnit = entry->getArgument(2);
  endUnit = entry->getArgument(3);
  scratchPointer = entry->getArgument(4);
}

void KernelBuilder::finish() { LLVM::ReturnOp::create(b, ValueRange{}); }

//===----------------------------------------------------------------------===//
// Types and constants
//===----------------------------------------------------------------------===//

Type KernelBuilder::pointer() {
  return LLVM::LLVMPointerType::get(b.getContext());
}

VectorType KernelBuilder::vectorOf(Type element) {
  return VectorType::get({kLanes}, element);
}

Type KernelBuilder::like(Type shape, Type element) {
  if (auto vector = dyn_cast<VectorType>(shape))
    return vector.clone(element);
  return element;
}

Value KernelBuilder::constantF(double value, Type type) {
  TypedAttr attr = b.getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, attr);
}

Value KernelBuilder::constantI(int64_t value, Type type) {
  TypedAttr attr = b.getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, attr);
}

Value KernelBuilder::lanes(Type integer) {
  SmallVector<Attribute> values;
  for (int64_t i = 0; i < kLanes; ++i)
    values.push_back(b.getIntegerAttr(integer, i));
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(vectorOf(integer), values));
}

Value KernelBuilder::firstLanes(int64_t count) {
  SmallVector<bool> set(kLanes, false);
  std::fill_n(set.begin(), std::clamp<int64_t>(count, 0, kLanes), true);
  return arith::ConstantOp::create(b,
                                   DenseElementsAttr::get(vectorOf(i1()), set));
}

Value KernelBuilder::lanesBetween(Value first, Value low, Value high) {
  // Relative to `first` the bounds may be far outside 0..16; compare in i64.
  Value position = add(broadcast(first), lanes(i64()));
  Value inside = less(position, broadcast(high));
  Value outside = less(position, broadcast(low));
  return select(outside, constantI(0, inside.getType()), inside);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value KernelBuilder::add(Value x, Value y) {
  if (isFloat(x))
    return arith::AddFOp::create(b, x, y);
  return arith::AddIOp::create(b, x, y);
}

Value KernelBuilder::sub(Value x, Value y) {
  if (isFloat(x))
    return arith::SubFOp::create(b, x, y);
  return arith::SubIOp::create(b, x, y);
}

Value KernelBuilder::mul(Value x, Value y) {
  if (isFloat(x))
    return arith::MulFOp::create(b, x, y);
  return arith::MulIOp::create(b, x, y);
}

Value KernelBuilder::div(Value x, Value y) {
  return arith::DivFOp::create(b, x, y);
}

Value KernelBuilder::divUnsigned(Value x, Value y) {
  return arith::DivUIOp::create(b, x, y);
}

Value KernelBuilder::remUnsigned(Value x, Value y) {
  return arith::RemUIOp::create(b, x, y);
}

Value KernelBuilder::neg(Value x) { return arith::NegFOp::create(b, x); }

Value KernelBuilder::abs(Value x) { return LLVM::FAbsOp::create(b, x); }

Value KernelBuilder::sqrt(Value x) { return LLVM::SqrtOp::create(b, x); }

Value KernelBuilder::copySign(Value magnitude, Value sign) {
  return LLVM::CopySignOp::create(b, magnitude, sign);
}

Value KernelBuilder::fma(Value x, Value y, Value z) {
  return LLVM::FMAOp::create(b, x, y, z);
}

Value KernelBuilder::polynomial(Value x, ArrayRef<double> coefficients) {
  Value result = constantF(coefficients.front(), x.getType());
  for (double c : coefficients.drop_front())
    result = fma(result, x, constantF(c, x.getType()));
  return result;
}

Value KernelBuilder::bitAnd(Value x, Value y) {
  return arith::AndIOp::create(b, x, y);
}

Value KernelBuilder::bitOr(Value x, Value y) {
  return arith::OrIOp::create(b, x, y);
}

Value KernelBuilder::bitXor(Value x, Value y) {
  return arith::XOrIOp::create(b, x, y);
}

Value KernelBuilder::shiftLeft(Value x, int64_t bits) {
  return arith::ShLIOp::create(b, x, constantI(bits, x.getType()));
}

Value KernelBuilder::shiftRight(Value x, int64_t bits) {
  return arith::ShRUIOp::create(b, x, constantI(bits, x.getType()));
}

Value KernelBuilder::bitcast(Value x, Type type) {
  return LLVM::BitcastOp::create(b, type, x);
}

Value KernelBuilder::less(Value x, Value y) {
  if (isFloat(x))
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
}

Value KernelBuilder::lessUnsigned(Value x, Value y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, y);
}

Value KernelBuilder::equal(Value x, Value y) {
  if (isFloat(x))
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, y);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, y);
}

Value KernelBuilder::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, condition, x, y);
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

Value KernelBuilder::broadcast(Value scalar) {
  return vector::BroadcastOp::create(b, vectorOf(scalar.getType()), scalar);
}

Value KernelBuilder::lane(Value vector, int64_t i) {
  return vector::ExtractOp::create(b, vector, i);
}

Value KernelBuilder::insertLane(Value scalar, Value vector, int64_t i) {
  return vector::InsertOp::create(b, scalar, vector, i);
}

Value KernelBuilder::reduceLanes(Value vector,
                                 function_ref<Value(Value, Value)> combine) {
  for (int64_t half = kLanes / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    vector = combine(vector::ShuffleOp::create(b, vector, vector, low),
                     vector::ShuffleOp::create(b, vector, vector, high));
  }
  return lane(vector, 0);
}

Value KernelBuilder::sumLanes(Value vector) {
  return reduceLanes(vector, [&](Value x, Value y) { return add(x, y); });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value KernelBuilder::element(Value base, Type type, Value offset) {
  return LLVM::GEPOp::create(b, pointer(), type, base, ValueRange{offset});
}

Value KernelBuilder::element(Value base, Type type, int64_t offset) {
  if (offset == 0)
    return base;
  return element(base, type, i64Constant(offset));
}

Value KernelBuilder::load(Value address, Type element) {
  return LLVM::LoadOp::create(b, element, address);
}

void KernelBuilder::store(Value scalar, Value address) {
  LLVM::StoreOp::create(b, scalar, address);
}

Value KernelBuilder::loadVector(Value address, Type element, Value mask) {
  VectorType type = vectorOf(element);
  if (!mask)
    return loadAs(address, type);
  Value zero =
      isa<FloatType>(element) ? constantF(0, type) : constantI(0, type);
  return LLVM::MaskedLoadOp::create(b, type, address, mask, zero,
                                    bytesOf(element));
}

void KernelBuilder::storeVector(Value vector, Value address, Value mask) {
  unsigned alignment = bytesOf(getElementTypeOrSelf(vector));
  if (mask)
    LLVM::MaskedStoreOp::create(b, vector, address, mask, alignment);
  else
    LLVM::StoreOp::create(b, vector, address, alignment);
}

Value KernelBuilder::loadAs(Value address, VectorType type) {
  return LLVM::LoadOp::create(b, type, address, bytesOf(type.getElementType()));
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::loop(Value low, Value high, int64_t step,
                                       ValueRange initial, LoopBody body) {
  auto loop = scf::ForOp::create(b, low, high, i64Constant(step), initial);
  // The spelling that convert-scf-to-cf understands.
  loop->setAttr("loop_annotation", noUnrolling(b.getContext()));
  OpBuilder::InsertionGuard guard(b);
  Block *block = loop.getBody();
  // A loop without results already has its terminator.
  if (initial.empty())
    b.setInsertionPoint(block->getTerminator());
  else
    b.setInsertionPointToEnd(block);
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!initial.empty())
    scf::YieldOp::create(b, next);
  return SmallVector<Value>(loop.getResults());
}

void KernelBuilder::loop(Value low, Value high, int64_t step,
                         function_ref<void(Value)> body) {
  loop(low, high, step, ValueRange{}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

void KernelBuilder::ifThen(Value condition, function_ref<void()> body,
                           function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/!!otherwise);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  body();
  if (!otherwise)
    return;
  b.setInsertionPoint(branch.elseBlock()->getTerminator());
  otherwise();
}

Value KernelBuilder::callLibrary(StringRef name, Value scalar) {
  auto module = function->getParentOfType<ModuleOp>();
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!callee) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    callee = LLVM::LLVMFuncOp::create(
        b, name,
        LLVM::LLVMFunctionType::get(scalar.getType(), scalar.getType()));
  }
  return LLVM::CallOp::create(b, callee, ValueRange{scalar}).getResult();
}

Value KernelBuilder::callShared(StringRef name, Value argument,
                                function_ref<Value(Value)> body) {
  auto module = function->getParentOfType<ModuleOp>();
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!callee) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    Type type = argument.getType();
    callee = LLVM::LLVMFuncOp::create(b, name,
                                      LLVM::LLVMFunctionType::get(type, type),
                                      LLVM::Linkage::Internal);
    callee.setNoInline(true);
    b.setInsertionPointToStart(callee.addEntryBlock(b));
    LLVM::ReturnOp::create(b, body(callee.getArgument(0)));
  }
  return LLVM::CallOp::create(b, callee, ValueRange{argument}).getResult();
}

} // namespace kiln::cpu
