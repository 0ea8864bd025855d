//===- LowerKernels.cpp - Common lowering of GPU kernels ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel ABI consists of the gpu operations handled below and the nvvm
// operations of TensorCore.h. All other gpu and nvvm operations are errors,
// even if PTX could express them: the emulated device cannot run a kernel with
// such operations, so the kernel would not have been tested.
//
//===----------------------------------------------------------------------===//

#include "LowerKernels.h"

#include "DeviceFacts.h"
#include "EmulateTensorCore.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

llvm::Error refuse(Operation *op, const llvm::Twine &why) {
  auto function = op->getParentOfType<LLVM::LLVMFuncOp>();
  return llvm::createStringError("kernel '" + function.getName() + "': '" +
                                 op->getName().getStringRef() + "' " + why);
}

/// Returns the integer type with as many bits as `type`, which is a scalar or a
/// fixed-length vector; returns null if `type` is neither.
IntegerType bitsType(Type type) {
  int64_t lanes = 1;
  if (auto vector = dyn_cast<VectorType>(type)) {
    if (vector.isScalable())
      return {};
    lanes = vector.getNumElements();
  }
  Type element = getElementTypeOrSelf(type);
  if (!element.isIntOrFloat())
    return {};
  return IntegerType::get(type.getContext(),
                          lanes * element.getIntOrFloatBitWidth());
}

llvm::Error replaceShuffle(mlir::gpu::ShuffleOp op, DeviceOps &device) {
  llvm::APInt width;
  if (!matchPattern(op.getWidth(), m_ConstantInt(&width)) || width != kWarp)
    return refuse(op, "has a width other than 32");
  if (op.getMode() != mlir::gpu::ShuffleMode::XOR &&
      op.getMode() != mlir::gpu::ShuffleMode::IDX)
    return refuse(op, "has a mode that is neither xor nor idx");
  Type type = op.getValue().getType();
  IntegerType narrow = bitsType(type);
  if (!narrow || narrow.getWidth() > 64)
    return refuse(op, "moves a value with more than 64 bits, or with elements "
                      "other than integers and floats");

  OpBuilder b(op);
  Location loc = op.getLoc();
  // A shuffle moves a register of 32 or 64 bits, so narrower values are
  // zero-extended.
  Type wide = b.getIntegerType(narrow.getWidth() <= 32 ? 32 : 64);
  Value bits = op.getValue();
  if (type != narrow)
    bits = LLVM::BitcastOp::create(b, loc, narrow, bits);
  if (narrow != wide)
    bits = LLVM::ZExtOp::create(b, loc, wide, bits);
  bits = device.shuffle(b, loc, op.getMode(), bits, op.getOffset());
  if (narrow != wide)
    bits = LLVM::TruncOp::create(b, loc, narrow, bits);
  if (type != narrow)
    bits = LLVM::BitcastOp::create(b, loc, type, bits);
  Value valid =
      arith::ConstantOp::create(b, loc, b.getIntegerAttr(b.getI1Type(), 1));
  op.replaceAllUsesWith(ValueRange{bits, valid});
  op.erase();
  return llvm::Error::success();
}

/// Replaces an op that returns a thread or block id by `id`. Ids are never
/// negative, so `id` is zero-extended to the index type.
void replaceId(Operation *op, Value id) {
  OpBuilder b(op);
  id = arith::IndexCastUIOp::create(b, op->getLoc(), b.getIndexType(), id);
  op->replaceAllUsesWith(ValueRange{id});
  op->erase();
}

llvm::Error replaceGpuOp(Operation *op, DeviceOps &device) {
  OpBuilder b(op);
  if (auto thread = dyn_cast<mlir::gpu::ThreadIdOp>(op)) {
    if (thread.getDimension() != mlir::gpu::Dimension::x)
      return refuse(op, "is the thread index of dimension y or z, but thread "
                        "blocks have only dimension x");
    replaceId(op, device.threadId(b, op->getLoc()));
  } else if (auto block = dyn_cast<mlir::gpu::BlockIdOp>(op)) {
    if (block.getDimension() == mlir::gpu::Dimension::z)
      return refuse(
          op,
          "is the block index of dimension z, but grids have only dimension x "
          "for the blocks of a launch and dimension y for merged launches");
    replaceId(op, block.getDimension() == mlir::gpu::Dimension::x
                      ? device.blockId(b, op->getLoc())
                      : device.memberId(b, op->getLoc()));
  } else if (isa<mlir::gpu::BarrierOp>(op)) {
    device.barrier(b, op->getLoc());
    op->erase();
  } else if (auto shuffle = dyn_cast<mlir::gpu::ShuffleOp>(op)) {
    return replaceShuffle(shuffle, device);
  } else if (isa<mlir::gpu::ReturnOp>(op)) {
    LLVM::ReturnOp::create(b, op->getLoc(), ValueRange{});
    op->erase();
  } else {
    return refuse(op, "is not supported in a GPU kernel");
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<mlir::gpu::GPUModuleOp> findKernelModule(ModuleOp module) {
  auto kernels = module.getOps<mlir::gpu::GPUModuleOp>();
  if (!llvm::hasSingleElement(kernels))
    return llvm::createStringError(
        "expected one gpu.module of kernels, got " +
        llvm::Twine(std::distance(kernels.begin(), kernels.end())));
  return *kernels.begin();
}

llvm::Expected<PointerParameters> checkSignature(mlir::gpu::GPUFuncOp kernel) {
  auto refuseKernel = [&](const llvm::Twine &why) {
    return llvm::createStringError("kernel '" + kernel.getName() + "' " + why);
  };
  if (!kernel.isKernel() || kernel.getNumResults() != 0)
    return refuseKernel("must be a kernel without results");
  if (kernel.getNumWorkgroupAttributions() ||
      kernel.getNumPrivateAttributions())
    return refuseKernel("has memory attributions; shared memory is an "
                        "llvm.mlir.global in address space 3");
  ArrayRef<Type> types = kernel.getArgumentTypes();
  auto isPointer = [](Type type) {
    auto pointer = dyn_cast<LLVM::LLVMPointerType>(type);
    return pointer && pointer.getAddressSpace() == kGlobalSpace;
  };
  PointerParameters pointers;
  pointers.isTable =
      !types.empty() &&
      kernel.getArgAttr(0, LLVM::LLVMDialect::getByValAttrName());
  pointers.count = pointers.isTable
                       ? 1
                       : llvm::find_if_not(types, isPointer) - types.begin();
  ArrayRef<Type> rest = types.drop_front(pointers.count);
  if (rest.empty() ||
      !llvm::all_of(rest, [](Type type) { return type.isInteger(64); }))
    return refuseKernel(
        "has parameters other than a table or pointers to "
        "global memory followed by i64 immediates and the units");
  return pointers;
}

llvm::Error replaceGpuOps(LLVM::LLVMFuncOp function, DeviceOps &device) {
  SmallVector<Operation *> ops;
  Operation *foreign = nullptr;
  function.walk([&](Operation *op) {
    if (isa_and_present<mlir::gpu::GPUDialect>(op->getDialect()))
      ops.push_back(op);
    else if (isa_and_present<NVVM::NVVMDialect>(op->getDialect()) &&
             !TensorCoreEmulation::handles(op) && !foreign)
      foreign = op;
  });
  if (foreign)
    return refuse(foreign, "is an op that cuda-emu does not emulate");
  for (Operation *op : ops)
    if (llvm::Error error = replaceGpuOp(op, device))
      return error;
  return llvm::Error::success();
}

DiagnosticLine::DiagnosticLine(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (!text.empty())
          text += "; ";
        text += diagnostic.str();
        return success();
      }) {}

llvm::Error DiagnosticLine::error(const llvm::Twine &what) const {
  return llvm::createStringError(text.empty() ? what : what + ": " + text);
}

} // namespace kiln::gpu
