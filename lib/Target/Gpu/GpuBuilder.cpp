//===- GpuBuilder.cpp - Builder of a GPU kernel ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuBuilder.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Target/Common/ByteFloats.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

void loadKernelDialects(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, mlir::gpu::GPUDialect,
                      LLVM::LLVMDialect, NVVM::NVVMDialect, scf::SCFDialect,
                      vector::VectorDialect>();
}

/// Returns the type that loads and stores use for a scalar or vector of `type`:
/// integers for 8-bit floating-point types.
static Type memoryType(Type type) {
  return isByteFloat(type) ? integerOfBits(type) : type;
}

GpuBuilder::GpuBuilder(mlir::gpu::GPUModuleOp kernels, StringRef name,
                       unsigned numArgs, unsigned numImmediates,
                       int64_t threads, int64_t width)
    : ArithBuilder(kernels.getLoc(), width), kernels(kernels),
      threadCount(threads) {
  loadKernelDialects(*kernels.getContext());
  b.setInsertionPointToEnd(kernels.getBody());
  SmallVector<Type> types(
      numArgs, LLVM::LLVMPointerType::get(b.getContext(), kGlobalSpace));
  types.append(numImmediates + 1, i64());
  function =
      mlir::gpu::GPUFuncOp::create(b, name, b.getFunctionType(types, {}));
  function->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(),
                    b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    b.getDenseI32ArrayAttr({int32_t(threads), 1, 1}));
  // Without minctasm, the assembler may spill registers so that a
  // multiprocessor can hold one more block.
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    b.getI32IntegerAttr(1));
  Block &entry = function.getBody().front();
  auto values = ValueRange(entry.getArguments());
  args.assign(values.begin(), values.begin() + numArgs);
  immediates.assign(values.begin() + numArgs, std::prev(values.end()));
  unitCount = values.back();
  b.setInsertionPointToStart(&entry);
  auto index = [&](Value x) -> Value {
    return arith::IndexCastOp::create(b, i64(), x);
  };
  threadIndex =
      index(mlir::gpu::ThreadIdOp::create(b, mlir::gpu::Dimension::x));
  blockIndex = index(mlir::gpu::BlockIdOp::create(b, mlir::gpu::Dimension::x));
}

LogicalResult GpuBuilder::finish() {
  mlir::gpu::ReturnOp::create(b);
  expandByteFloats(function);
  if (sharedTotal > kMostSharedBytes)
    missing = std::to_string(sharedTotal) +
              " bytes of shared memory; at most " +
              std::to_string(kMostSharedBytes) + " are available";
  else if (sharedTotal > kSharedBytes)
    shareAtLaunch();
  if (missing.empty())
    return success();
  return emitError(kernels.getLoc())
         << "kernel '" << function.getName() << "' needs " << missing;
}

Value GpuBuilder::element(Value base, Type type, Value offset) {
  return LLVM::GEPOp::create(b, base.getType(), memoryType(type), base,
                             ValueRange{offset});
}

Value GpuBuilder::element(Value base, Type type, int64_t offset) {
  if (offset == 0)
    return base;
  return element(base, type, i64Constant(offset));
}

Value GpuBuilder::load(Value address, Type type, int64_t alignment) {
  Value loaded = LLVM::LoadOp::create(
      b, memoryType(type), address, alignment ? alignment : elementBytes(type));
  return loaded.getType() == type ? loaded : bitcast(loaded, type);
}

void GpuBuilder::store(Value value, Value address, int64_t alignment) {
  Type type = memoryType(value.getType());
  if (type != value.getType())
    value = bitcast(value, type);
  LLVM::StoreOp::create(b, value, address,
                        alignment ? alignment : elementBytes(type));
}

LLVM::GlobalOp GpuBuilder::sharedGlobal(Type type, StringRef suffix,
                                        LLVM::Linkage linkage) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(function);
  return LLVM::GlobalOp::create(b, type, /*isConstant=*/false, linkage,
                                (function.getName() + suffix).str(),
                                Attribute(), kWidestAccess, kSharedSpace);
}

Value GpuBuilder::shared(Type element, int64_t count) {
  LLVM::GlobalOp global = sharedGlobal(
      LLVM::LLVMArrayType::get(memoryType(element), count),
      "_shared" + std::to_string(sharedPlaces.size()), LLVM::Linkage::Internal);
  int64_t offset = llvm::alignTo(sharedTotal, kWidestAccess);
  sharedTotal = offset + count * elementBytes(element);
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), kSharedSpace);
  auto address = LLVM::AddressOfOp::create(b, pointer, global.getSymName());
  sharedPlaces.push_back({global, address, offset});
  return address;
}

/// Replaces all static shared memory, whose size exceeds the static limit, by
/// one external array. The launch specifies the size of the array.
void GpuBuilder::shareAtLaunch() {
  LLVM::GlobalOp whole =
      sharedGlobal(LLVM::LLVMArrayType::get(b.getI8Type(), 0), "_shared",
                   LLVM::Linkage::External);
  for (SharedPlace &place : sharedPlaces) {
    place.address.setGlobalName(whole.getSymName());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfter(place.address);
    Value part = element(place.address, b.getI8Type(), place.offset);
    if (part != place.address.getRes())
      place.address.getRes().replaceUsesWithIf(part, [&](OpOperand &use) {
        return use.getOwner() != part.getDefiningOp();
      });
    place.global.erase();
  }
}

void GpuBuilder::barrier() { mlir::gpu::BarrierOp::create(b); }

Value GpuBuilder::shuffleScalarXor(Value x, int64_t mask) {
  return mlir::gpu::ShuffleOp::create(b, x, int32_t(mask), int32_t(kWarp),
                                      mlir::gpu::ShuffleMode::XOR)
      .getShuffleResult();
}

Value GpuBuilder::shuffleXor(Value x, int64_t mask) {
  if (!isa<VectorType>(x.getType()))
    return shuffleScalarXor(x, mask);
  Value result = x;
  for (int64_t i = 0; i < laneCount; ++i)
    result = insertLane(shuffleScalarXor(lane(x, i), mask), result, i);
  return result;
}

Value GpuBuilder::shuffleIdx(Value x, Value lane) {
  return mlir::gpu::ShuffleOp::create(b, x, lane, constantI(kWarp, i32()),
                                      mlir::gpu::ShuffleMode::IDX)
      .getShuffleResult();
}

Value GpuBuilder::callLibrary(StringRef name, Value x) {
  missing = (name +
             " of f64, which GPU kernels do not have; cast its operands to f32")
                .str();
  return x;
}

/// The table is in global memory, which the lanes of a warp can read at
/// different places at once, unlike constant memory.
Value GpuBuilder::lookUp(StringRef table, ArrayRef<int32_t> elements,
                         Value index) {
  if (!kernels.lookupSymbol(table)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(kernels.getBody());
    createTable(b, table, elements, kGlobalSpace);
  }
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), kGlobalSpace);
  Value base = LLVM::AddressOfOp::create(b, pointer, table);
  auto read = [&](Value i) {
    return load(element(base, i32(), arith::ExtUIOp::create(b, i64(), i)),
                i32());
  };
  auto lanes = dyn_cast<VectorType>(index.getType());
  if (!lanes)
    return read(index);
  Value result = constantI(0, like(lanes, i32()));
  for (int64_t i = 0; i < lanes.getNumElements(); ++i)
    result = insertLane(read(lane(index, i)), result, i);
  return result;
}

} // namespace kiln::gpu
