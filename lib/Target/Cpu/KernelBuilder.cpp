//===- KernelBuilder.cpp - Builder of a CPU kernel ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory accesses have the alignment of one element. bf16 and 8-bit
// floating-point elements are loaded and stored as integers, since few
// processors have registers for these types.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Target/Common/ByteFloats.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

/// Returns the size of an element in bytes. `element` is not i1, because masks
/// are never stored.
unsigned bytesOf(Type element) { return elementBytes(element); }

/// Returns the type in which a scalar or vector of `type` is loaded and stored.
Type memoryType(Type type) {
  bool isInteger = getElementTypeOrSelf(type).isBF16() || isByteFloat(type);
  return isInteger ? integerOfBits(type) : type;
}

} // namespace

void loadKernelDialects(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, LLVM::LLVMDialect, scf::SCFDialect,
                      vector::VectorDialect>();
}

KernelBuilder::KernelBuilder(ModuleOp module, StringRef name, unsigned numArgs,
                             unsigned numImmediates)
    : ArithBuilder(module.getLoc(), kLanes) {
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

void KernelBuilder::finish() {
  LLVM::ReturnOp::create(b, ValueRange{});
  expandByteFloats(function);
}

Value KernelBuilder::reserve(Type element, int64_t count) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&function.getBody().front());
  return LLVM::AllocaOp::create(b, pointer(), memoryType(element),
                                i64Constant(count), /*alignment=*/64);
}

Type KernelBuilder::pointer() {
  return LLVM::LLVMPointerType::get(b.getContext());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value KernelBuilder::element(Value base, Type type, Value offset) {
  return LLVM::GEPOp::create(b, pointer(), memoryType(type), base,
                             ValueRange{offset});
}

Value KernelBuilder::element(Value base, Type type, int64_t offset) {
  if (offset == 0)
    return base;
  return element(base, type, i64Constant(offset));
}

Value KernelBuilder::recast(Value x, Type type) {
  return x.getType() == type ? x : bitcast(x, type);
}

Value KernelBuilder::load(Value address, Type element) {
  return recast(LLVM::LoadOp::create(b, memoryType(element), address), element);
}

void KernelBuilder::store(Value scalar, Value address) {
  LLVM::StoreOp::create(b, recast(scalar, memoryType(scalar.getType())),
                        address);
}

Value KernelBuilder::loadVector(Value address, Type element, Value mask) {
  return loadAs(address, vectorOf(element), mask);
}

void KernelBuilder::storeVector(Value vector, Value address, Value mask) {
  vector = recast(vector, memoryType(vector.getType()));
  unsigned alignment = bytesOf(getElementTypeOrSelf(vector));
  if (mask)
    LLVM::MaskedStoreOp::create(b, vector, address, mask, alignment);
  else
    LLVM::StoreOp::create(b, vector, address, alignment);
}

Value KernelBuilder::loadAs(Value address, VectorType type, Value mask) {
  Type stored = memoryType(type);
  Type element = getElementTypeOrSelf(stored);
  unsigned alignment = bytesOf(element);
  if (!mask)
    return recast(LLVM::LoadOp::create(b, stored, address, alignment), type);
  Value zero =
      isa<FloatType>(element) ? constantF(0, stored) : constantI(0, stored);
  return recast(
      LLVM::MaskedLoadOp::create(b, stored, address, mask, zero, alignment),
      type);
}

Value KernelBuilder::callScalar(StringRef name, Value scalar) {
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

Value KernelBuilder::callLibrary(StringRef name, Value x) {
  if (!isa<VectorType>(x.getType()))
    return callScalar(name, x);
  return callShared(("kiln." + name + ".f64x16").str(), x, [&](Value lanes) {
    Value result = constantF(0, lanes.getType());
    for (int64_t i = 0; i < kLanes; ++i)
      result = insertLane(callScalar(name, lane(lanes, i)), result, i);
    return result;
  });
}

/// Stores the index vector on the stack and looks up its lanes one by one. The
/// gather instructions of current processors take several times as long as
/// scalar loads, and extracting the indices in registers would occupy the
/// execution units that insert the results. The store is volatile, so that LLVM
/// does not replace the loads of the indices by such extractions.
Value KernelBuilder::lookUp(StringRef table, ArrayRef<int32_t> elements,
                            Value index) {
  auto module = function->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(table)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    createTable(b, table, elements, /*addressSpace=*/0);
  }
  Value base = LLVM::AddressOfOp::create(b, pointer(), table);
  auto read = [&](Value i) {
    i = arith::ExtUIOp::create(b, i64(), i);
    return load(element(base, i32(), i), i32());
  };
  auto lanes = dyn_cast<VectorType>(index.getType());
  if (!lanes)
    return read(index);
  if (!lookUpLanes)
    lookUpLanes = reserve(i32(), kLanes);
  Type type = lanes.getElementType();
  LLVM::StoreOp::create(b, index, lookUpLanes, /*alignment=*/64,
                        /*isVolatile=*/true);
  Value result = constantI(0, like(lanes, i32()));
  for (int64_t i = 0, e = lanes.getNumElements(); i < e; ++i) {
    Value lane = load(element(lookUpLanes, type, i), type);
    result = insertLane(read(lane), result, i);
  }
  return result;
}

} // namespace kiln::cpu
