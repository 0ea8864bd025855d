//===- Views.cpp - Slots and views ------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Limits.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::rt;

//===----------------------------------------------------------------------===//
// Slots.
//===----------------------------------------------------------------------===//

/// Returns the name of a slot for use in an SSA name. Each '+', which separates
/// the names of fused ops, is replaced by '.'.
static std::string asmNameOf(SlotOp slot) {
  std::string name = slot.getName().str();
  std::replace(name.begin(), name.end(), '+', '.');
  return name;
}

void SlotOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getSlot(), asmNameOf(*this) + ".slot");
}

LogicalResult SlotOp::verify() {
  if (getOffset() > kMostBytes || getBytes() > kMostBytes) // C2
    return emitOpError("has the offset ")
           << static_cast<int64_t>(getOffset()) << " and the size "
           << static_cast<int64_t>(getBytes())
           << ", expected each of them from 0 to " << kMostBytes;
  if (static_cast<int64_t>(getFirst()) < 0 ||
      static_cast<int64_t>(getLast()) < 0) // C4
    return emitOpError("is live from command ")
           << static_cast<int64_t>(getFirst()) << " to "
           << static_cast<int64_t>(getLast())
           << ", expected command numbers of at least 0";
  if (!getRing())
    return success();
  int64_t stride = getRingStride(), instances = getInstances();
  if (stride < static_cast<int64_t>(getBytes()) || instances < 1) // C3
    return emitOpError("has a ring of ")
           << instances << " instances that are " << stride
           << " bytes apart, expected at least 1 instance and a distance of at "
              "least "
           << getBytes() << " bytes, the size of the slot";
  if (llvm::SaturatingMultiplyAdd<uint64_t>(stride, instances - 1,
                                            getBytes()) > kMostBytes) // C2
    return emitOpError("has a ring of ")
           << instances << " instances that are " << stride
           << " bytes apart, expected at most " << kMostBytes
           << " bytes in total";
  return success();
}

LogicalResult SlotOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (getState() && // C1
      !tables.lookupNearestSymbolFrom<StateOp>(*this, getStateAttr()))
    return emitOpError("names ")
           << getStateAttr() << ", which is not a kiln.state";
  return success();
}

void TokenOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getToken(), "token");
}

//===----------------------------------------------------------------------===//
// Views.
//===----------------------------------------------------------------------===//

MemRefType rt::viewType(RankedTensorType tensor, int64_t rowPitch,
                        MemorySpace memory) {
  Attribute space;
  if (memory != MemorySpace::Device)
    space = MemorySpaceAttr::get(tensor.getContext(), memory);
  MemRefLayoutAttrInterface layout;
  int64_t rank = tensor.getRank();
  if (getRowCount(tensor) > 1 && rowPitch != getColumnCount(tensor)) {
    SmallVector<int64_t> strides(rank, 1);
    for (int64_t i = rank - 2, stride = rowPitch; i >= 0; --i) {
      strides[i] = stride;
      stride *= tensor.getDimSize(i);
    }
    layout = StridedLayoutAttr::get(tensor.getContext(), /*offset=*/0, strides);
  }
  return MemRefType::get(tensor.getShape(), tensor.getElementType(), layout,
                         space);
}

void ViewOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (SlotOp slot = getSlotOp())
    setName(getPlace(), asmNameOf(slot));
}

SlotOp ViewOp::getSlotOp() { return slotOf(getSlot()); }

RankedTensorType ViewOp::getTensorType() {
  MemRefType type = getMemRefType();
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

/// Returns the strides of a type in elements, or std::nullopt if the layout is
/// dynamic or has an offset.
static std::optional<SmallVector<int64_t>> stridesOf(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  if (failed(type.getStridesAndOffset(strides, offset)) || offset != 0 ||
      llvm::any_of(strides, ShapedType::isDynamic))
    return std::nullopt;
  return strides;
}

int64_t ViewOp::getRowPitch() {
  MemRefType type = getMemRefType();
  int64_t rank = type.getRank();
  if (rank < 2 || type.getLayout().isIdentity())
    return rank == 0 ? 1 : type.getShape().back();
  return (*stridesOf(type))[rank - 2];
}

int64_t ViewOp::getExtent() {
  MemRefType type = getMemRefType();
  int64_t elements = type.getNumElements();
  if (!type.getLayout().isIdentity()) {
    elements = 1;
    for (auto [size, stride] : llvm::zip(type.getShape(), *stridesOf(type)))
      elements += (size - 1) * stride;
  }
  return elementBytes(type.getElementType(), elements);
}

int64_t ViewOp::getAddress() {
  return static_cast<int64_t>(getSlotOp().getOffset() + getOffset());
}

bool ViewOp::hasUniformRows() {
  MemRefType type = getMemRefType();
  int64_t rank = type.getRank();
  if (rank < 3 || type.getLayout().isIdentity())
    return true;
  SmallVector<int64_t> strides = *stridesOf(type);
  for (int64_t i = 0; i < rank - 2; ++i)
    if (type.getDimSize(i) > 1 &&
        strides[i] != strides[i + 1] * type.getDimSize(i + 1))
      return false;
  return true;
}

static bool hasSaneStrides(MemRefType type);

bool ViewOp::isWellFormed() {
  TypeAttr attribute = getViewTypeAttr();
  auto type =
      attribute ? dyn_cast<MemRefType>(attribute.getValue()) : MemRefType();
  return type && type.hasStaticShape() && getSlotOp() &&
         isTensorElement(type.getElementType()) && hasSaneStrides(type);
}

bool ViewOp::isDense() {
  MemRefType type = getMemRefType();
  return type.getLayout().isIdentity() ||
         getExtent() ==
             elementBytes(type.getElementType(), type.getNumElements());
}

/// Returns true if constraint C3 of the op holds: the last stride is 1, and
/// dimensions do not overlap.
static bool hasSaneStrides(MemRefType type) {
  if (type.getLayout().isIdentity())
    return true;
  std::optional<SmallVector<int64_t>> strides = stridesOf(type);
  if (!strides)
    return false;
  uint64_t least = 1;
  for (auto [size, stride] :
       llvm::zip(llvm::reverse(type.getShape()), llvm::reverse(*strides))) {
    if (stride < 0 || uint64_t(stride) < least || uint64_t(stride) > kMostBytes)
      return false;
    least = llvm::SaturatingMultiply<uint64_t>(size, stride);
  }
  return strides->empty() || strides->back() == 1;
}

/// Returns the number of bytes that a view spans in `count` micro-batches: from
/// its first byte in the first micro-batch to its last byte in the last one.
/// Saturates instead of overflowing.
static uint64_t reachOf(ViewOp view, uint64_t count) {
  MemRefType type = view.getMemRefType();
  bool overflows = false;
  uint64_t elements = 1;
  if (type.getLayout().isIdentity()) {
    for (int64_t size : type.getShape())
      elements = llvm::SaturatingMultiply<uint64_t>(elements, size, &overflows);
  } else {
    for (auto [size, stride] : llvm::zip(type.getShape(), *stridesOf(type)))
      elements = llvm::SaturatingMultiplyAdd<uint64_t>(size - 1, stride,
                                                       elements, &overflows);
  }
  if (overflows || elements > kMostBytes)
    return UINT64_MAX;
  return llvm::SaturatingMultiplyAdd<uint64_t>(
      count - 1, view.getStride(),
      static_cast<uint64_t>(
          elementBytes(type.getElementType(), static_cast<int64_t>(elements))));
}

LogicalResult ViewOp::verify() {
  SlotOp slot = getSlotOp();
  if (!slot)
    return emitOpError(
        "has an operand that is not the result of a kilnrt.slot");
  MemRefType type = getMemRefType();
  auto space = dyn_cast_or_null<MemorySpaceAttr>(type.getMemorySpace());
  if (type.getMemorySpace() && !space)
    return emitOpError("has the memory space ")
           << type.getMemorySpace() << ", expected none or #kiln.memory<host>";
  MemorySpace memory = space ? space.getValue() : MemorySpace::Device;
  if (memory != slot.getMemory() ||
      (space && memory == MemorySpace::Device)) // C2
    return emitOpError("has the type ")
           << type << ", but slot '" << slot.getName() << "' is in "
           << stringifyMemorySpace(slot.getMemory()) << " memory: expected "
           << (slot.getMemory() == MemorySpace::Host
                   ? "the memory space #kiln.memory<host>"
                   : "no memory space");
  if (!isTensorElement(type.getElementType()))
    return emitOpError("has elements of ")
           << type.getElementType() << ", which kilnrt.view does not support";
  if (llvm::is_contained(type.getShape(), 0))
    return emitOpError("has the type ")
           << type << ", expected positive extents";
  if (!hasSaneStrides(type)) // C3
    return emitOpError("has the type ")
           << type
           << ", expected static strides: stride[i] >= extent[i + 1] * "
              "stride[i + 1], and stride[i] = 1 for the last dimension";
  auto microbatches = dyn_cast<rt::MicrobatchesOp>((*this)->getParentOp());
  if (!microbatches && (getStride() != 0 || slot.getRing())) // C1
    return emitOpError("has ") << (slot.getRing() ? "a slot with a ring"
                                                  : "a stride per micro-batch")
                               << ", but is not in kilnrt.microbatches";
  uint64_t offset = getOffset();
  uint64_t reach = reachOf(*this, microbatches ? microbatches.getCount() : 1);
  if (getStride() > kMostBytes || offset > slot.getBytes() ||
      reach > slot.getBytes() - offset) // C4
    return emitOpError("reaches outside of slot '")
           << slot.getName() << "' of " << static_cast<int64_t>(slot.getBytes())
           << " bytes: offset " << static_cast<int64_t>(offset) << ", stride "
           << static_cast<int64_t>(getStride()) << " per micro-batch, type "
           << type;
  return success();
}
