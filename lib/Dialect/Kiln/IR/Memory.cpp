//===- Memory.cpp - The memory in a tensor type ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace mlir;
using namespace kiln;

#include "kiln/Dialect/Kiln/IR/KilnEncodings.cpp.inc"

//===----------------------------------------------------------------------===//
// #kiln.memory as an encoding
//===----------------------------------------------------------------------===//

MemorySpace MemorySpaceAttr::getMemory() const { return getValue(); }

Attribute MemorySpaceAttr::withMemory(MemorySpace memory) const {
  return memory == MemorySpace::Device ? Attribute()
                                       : get(getContext(), memory);
}

/// Rejects #kiln.memory<device>, so that each tensor on the device has exactly
/// one type, the one without an encoding.
LogicalResult MemorySpaceAttr::verifyEncoding(
    ArrayRef<int64_t>, Type,
    llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (getValue() != MemorySpace::Device)
    return success();
  return emitError()
         << "tensor has the encoding " << *this
         << "; remove the encoding, because a tensor without an encoding is on "
            "the device";
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

bool kiln::hasKnownEncoding(RankedTensorType type) {
  return !type.getEncoding() ||
         isa<TensorEncodingAttrInterface>(type.getEncoding());
}

MemorySpace kiln::memoryOf(Type type) {
  auto encoding = dyn_cast_or_null<TensorEncodingAttrInterface>(
      cast<RankedTensorType>(type).getEncoding());
  return encoding ? encoding.getMemory() : MemorySpace::Device;
}

RankedTensorType kiln::inMemory(Type type, MemorySpace memory) {
  auto tensor = cast<RankedTensorType>(type);
  Attribute encoding = tensor.getEncoding();
  if (encoding)
    encoding = cast<TensorEncodingAttrInterface>(encoding).withMemory(memory);
  else if (memory != MemorySpace::Device)
    encoding = MemorySpaceAttr::get(type.getContext(), memory);
  return tensor.cloneWithEncoding(encoding);
}

void kiln::setMemory(Value value, MemorySpace memory) {
  value.setType(inMemory(value.getType(), memory));
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

MemorySpace kiln::memoryOf(Operation *op) {
  return op->getNumResults() ? memoryOf(op->getResult(0)) : MemorySpace::Device;
}

LogicalResult kiln::verifyRunsInOneMemory(Operation *op) {
  if (op->getNumResults() == 0)
    return success();
  MemorySpace memory = memoryOf(op);
  for (Value result : op->getResults())
    if (memoryOf(result) != memory)
      return op->emitOpError("has results on the device and on the host, "
                             "expected results in one memory");
  for (Value operand : op->getOperands()) {
    MemorySpace from = memoryOf(operand);
    bool isReadable = from == memory || (from == MemorySpace::Device &&
                                         tensorTypeOf(operand).getRank() == 0);
    if (!isReadable)
      return op->emitOpError("runs on the ")
             << stringifyMemorySpace(memory)
             << " and cannot read an operand that is on the "
             << stringifyMemorySpace(from);
  }
  if (isa<GemmOpInterface>(op) && memory != MemorySpace::Device)
    return op->emitOpError("runs on the ")
           << stringifyMemorySpace(memory)
           << ", expected the device: GEMMs only run there";
  return success();
}
