//===- KilnRTDialect.cpp - The scheduled level ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::rt;

#include "kiln/Dialect/KilnRT/IR/KilnRTDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTTypes.cpp.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTOps.cpp.inc"

void KilnRTDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "kiln/Dialect/KilnRT/IR/KilnRTTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kiln/Dialect/KilnRT/IR/KilnRTOps.cpp.inc"
      >();
}

Type GemmOp::getResultElement() {
  return getWide() ? Float32Type::get(getContext()) : getElement();
}

ProductEpilogue GemmOp::getLibraryEpilogue() {
  if (std::optional<StringRef> name = getLibrary())
    return productEpilogueOf(*name).value_or(ProductEpilogue::None);
  return ProductEpilogue::None;
}

static LogicalResult verifyLibrary(GemmOp op) {
  ProductEpilogue library = op.getLibraryEpilogue();
  if (op.getLibrary() && library == ProductEpilogue::None)
    return op.emitOpError("has a library epilogue ")
           << op.getLibraryAttr() << ", which is not known";
  if (!!op.getBias() != hasBias(library) || !!op.getAux() != hasAux(library))
    return op.emitOpError("has a bias or aux that its library epilogue does "
                          "not have, or the reverse");
  if (library == ProductEpilogue::None)
    return success();
  if (op.getBatch() != 1 || op.getBeta() != 0 || op.getEpilogue() ||
      op.getElement().isF64()) // C4
    return op.emitOpError("has a library epilogue, which needs batch 1, beta "
                          "0, no epilogue, and operands of bf16 or f32");
  if (takesGelu(library) && op.getWide()) // C4
    return op.emitOpError("takes gelu of a wide result, expected one of the "
                          "type of its operands");
  if (hasAux(library) && op.getN() % auxRowMultiple != 0)
    return op.emitOpError("has an aux with rows of ")
           << op.getN() << " elements, expected a multiple of "
           << auxRowMultiple;
  return success();
}

LogicalResult GemmOp::verify() {
  size_t count =
      3 + (getBias() ? 1 : 0) + (getAux() ? 1 : 0) + getEpilogueSlots().size();
  if (getOffsets().size() != count || getStrides().size() != count)
    return emitOpError("has ")
           << count << " slots, " << getOffsets().size() << " offsets and "
           << getStrides().size() << " strides";
  if (getWide() && !getElement().isBF16()) // C3
    return emitOpError("has a wide result, which needs operands of bf16, but "
                       "they are ")
           << getElement();
  if (failed(verifyLibrary(*this)))
    return failure();
  if (!getEpilogue())
    return success();
  if (getBatch() != 1 || getBeta() != 0) // C2
    return emitOpError("has an epilogue, which needs batch 1 and beta 0, but "
                       "they are ")
           << getBatch() << " and " << getBeta();
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(
      (*this)->getParentOfType<ModuleOp>(), getEpilogueAttr());
  if (!kernel || !kernel.getEpilogue())
    return emitOpError("names ")
           << getEpilogueAttr() << ", which is no epilogue";
  auto reject = [&](const Twine &what) -> LogicalResult {
    InFlightDiagnostic diagnostic = emitOpError(what);
    diagnostic.attachNote(kernel.getLoc()) << "the kernel is declared here";
    return diagnostic;
  };
  Block &body = kernel.getBody().front();
  auto product =
      body.getNumArguments() == 0
          ? RankedTensorType()
          : dyn_cast<RankedTensorType>(body.getArgument(0).getType());
  int64_t shape[] = {static_cast<int64_t>(getM()),
                     static_cast<int64_t>(getN())};
  if (!product || product.getShape() != ArrayRef(shape) ||
      product.getElementType() != getResultElement()) // C1
    return reject("has an epilogue whose first operand is not the product");
  size_t expected =
      body.getNumArguments() + body.getTerminator()->getNumOperands() - 1;
  if (getEpilogueSlots().size() != expected)
    return reject("passes " + Twine(getEpilogueSlots().size()) +
                  " slots to its epilogue, expected " + Twine(expected));
  return success();
}

LogicalResult LaunchOp::verify() {
  size_t count = getSlots().size();
  if (getOffsets().size() != count || getStrides().size() != count)
    return emitOpError("has ")
           << count << " slots, " << getOffsets().size() << " offsets and "
           << getStrides().size() << " strides";
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(
      (*this)->getParentOfType<ModuleOp>(), getKernelAttr());
  if (!kernel)
    return emitOpError("names ")
           << getKernelAttr() << ", which is no kilnrt.kernel";
  if (kernel.getEpilogue())
    return emitOpError("launches ")
           << getKernelAttr() << ", which is the epilogue of a product";
  Block &body = kernel.getBody().front();
  size_t expected =
      body.getNumArguments() + body.getTerminator()->getNumOperands();
  if (count != expected) {
    InFlightDiagnostic diagnostic = emitOpError("passes ")
                                    << count << " slots, expected " << expected;
    diagnostic.attachNote(kernel.getLoc()) << "the kernel is declared here";
    return diagnostic;
  }
  return success();
}

/// What the caller touches lies on the device (C1).
template <typename Boundary> static LogicalResult verifyBoundary(Boundary op) {
  auto slot = op.getSlot().template getDefiningOp<SlotOp>();
  if (slot && !slot.getHost())
    return success();
  return op.emitOpError("'") << op.getName() << "' has to lie in a device slot";
}

LogicalResult InputOp::verify() { return verifyBoundary(*this); }

LogicalResult OutputOp::verify() { return verifyBoundary(*this); }

/// One offset and stride for each side, and slots.
template <typename Copy> static LogicalResult verifySides(Copy copy) {
  if (copy.getOffsets().size() != 2 || copy.getStrides().size() != 2)
    return copy.emitOpError("has ")
           << copy.getOffsets().size() << " offsets and "
           << copy.getStrides().size() << " strides, expected two of each";
  if (!copy.getFrom().template getDefiningOp<SlotOp>() ||
      !copy.getTo().template getDefiningOp<SlotOp>())
    return copy.emitOpError("needs a kilnrt.slot on each side");
  return success();
}

template <typename Copy> static bool crosses(Copy copy) {
  return copy.getFrom().template getDefiningOp<SlotOp>().getHost() !=
         copy.getTo().template getDefiningOp<SlotOp>().getHost();
}

LogicalResult CopyOp::verify() {
  if (failed(verifySides(*this)))
    return failure();
  if (crosses(*this)) // C1
    return emitOpError("copies between device and host, which is what "
                       "kilnrt.copy_start does");
  return success();
}

LogicalResult CopyStartOp::verify() {
  if (failed(verifySides(*this)))
    return failure();
  if (!crosses(*this)) // C1
    return emitOpError("copies within one memory; exactly one side is a host "
                       "slot");
  auto wait = getToken().hasOneUse()
                  ? dyn_cast<WaitOp>(*getToken().user_begin())
                  : WaitOp();
  if (!wait || wait->getBlock() != (*this)->getBlock())
    return emitOpError("needs exactly one kilnrt.wait, in the same block");
  return success();
}

bool CopyStartOp::isOut() { return getTo().getDefiningOp<SlotOp>().getHost(); }

WaitOp CopyStartOp::getWait() { return cast<WaitOp>(*getToken().user_begin()); }

CopyStartOp WaitOp::getStart() {
  return getToken().getDefiningOp<CopyStartOp>();
}
