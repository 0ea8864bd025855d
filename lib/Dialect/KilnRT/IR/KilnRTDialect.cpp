//===- KilnRTDialect.cpp - The scheduled level ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln::rt;
using namespace kiln;

#include "kiln/Dialect/KilnRT/IR/KilnRTDialect.cpp.inc"

#include "kiln/Dialect/KilnRT/IR/KilnRTEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTTypes.cpp.inc"

static ParseResult parseSlotClassKind(OpAsmParser &parser,
                                      SlotClassAttr &slotClass) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<SlotClass> value = symbolizeSlotClass(keyword);
  if (!value)
    return parser.emitError(loc) << "unknown slot class '" << keyword << "'";
  slotClass = SlotClassAttr::get(parser.getContext(), *value);
  return success();
}

static void printSlotClassKind(OpAsmPrinter &printer, Operation *,
                               SlotClassAttr slotClass) {
  printer << stringifySlotClass(slotClass.getValue());
}

#define GET_OP_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTOps.cpp.inc"

void KilnRTDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Dialect/KilnRT/IR/KilnRTAttrs.cpp.inc"
      >();
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

/// Nothing in a program is larger: what is computed of places and sizes then
/// stays within 64 bits.
static constexpr uint64_t kMostBytes = uint64_t(1) << 48;

//===----------------------------------------------------------------------===//
// Programs, kernels, slots
//===----------------------------------------------------------------------===//

LogicalResult ArenaOp::verify() {
  for (auto [states, height] : {std::pair(getStates(), getHeight()),
                                std::pair(getHostStates(), getHostHeight())})
    if (height > kMostBytes || states > height) // C1
      return emitOpError("has states of ")
             << static_cast<int64_t>(states) << " bytes in a height of "
             << static_cast<int64_t>(height) << ", expected at most "
             << kMostBytes << " bytes and states that fit";
  return success();
}

/// The ops of a region's one block are of `dialect` alone.
static LogicalResult checkOps(Operation *parent, StringRef dialect) {
  for (Operation &op : parent->getRegion(0).front())
    if (op.getName().getDialectNamespace() != dialect) {
      InFlightDiagnostic diagnostic = parent->emitOpError("contains '")
                                      << op.getName()
                                      << "', expected ops of the " << dialect
                                      << " dialect alone";
      diagnostic.attachNote(op.getLoc()) << "the op is here";
      return diagnostic;
    }
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  Block &body = getBody().front();
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!yield || !llvm::all_of(body.getArgumentTypes(), isKilnTensor)) // C2
    return emitOpError("needs tensors as arguments, with static positive "
                       "extents, and a body that ends in kiln.yield");
  if (failed(checkOps(*this, KilnDialect::getDialectNamespace())))
    return failure();
  size_t count = body.getNumArguments() + yield.getNumOperands();
  if (getRowStrides().size() != count ||
      llvm::any_of(getRowStrides(), [](int64_t n) { return n < 0; })) // C1
    return emitOpError("has ")
           << getRowStrides().size() << " row strides, expected " << count
           << ", none of them negative";
  return success();
}

/// A body of commands, which share values with nothing but slots.
static LogicalResult checkCommands(Operation *op) {
  if (op->getRegion(0).front().getNumArguments() != 0)
    return op->emitOpError("has block arguments, expected none");
  return checkOps(op, KilnRTDialect::getDialectNamespace());
}

LogicalResult rt::ProgramOp::verifyRegions() {
  return checkCommands(*this); // C1
}

LogicalResult LoopOp::verifyRegions() {
  if (static_cast<int64_t>(getCount()) < 1) // C1
    return emitOpError("runs ")
           << static_cast<int64_t>(getCount()) << " times, expected at least 1";
  return checkCommands(*this); // C2
}

LogicalResult SlotOp::verify() {
  if (getOffset() > kMostBytes || getBytes() > kMostBytes) // C2
    return emitOpError("has bytes [")
           << static_cast<int64_t>(getOffset()) << ", +"
           << static_cast<int64_t>(getBytes()) << "), expected from 0 to "
           << kMostBytes;
  return success();
}

LogicalResult SlotOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (getState() && // C1
      !tables.lookupNearestSymbolFrom<StateOp>(*this, getStateAttr()))
    return emitOpError("names ")
           << getStateAttr() << ", which is no kiln.state";
  return success();
}

//===----------------------------------------------------------------------===//
// Products and launches
//===----------------------------------------------------------------------===//

GemmEpilogue GemmOp::getLibraryEpilogue() {
  if (std::optional<StringRef> name = getLibrary())
    return gemmEpilogueOf(*name).value_or(GemmEpilogue::None);
  return GemmEpilogue::None;
}

static LogicalResult verifyLibrary(GemmOp op) {
  GemmEpilogue library = op.getLibraryEpilogue();
  if (op.getLibrary() && library == GemmEpilogue::None)
    return op.emitOpError("has a library epilogue ")
           << op.getLibraryAttr() << ", which is not known";
  if (!!op.getBias() != hasBias(library) || !!op.getAux() != hasAux(library))
    return op.emitOpError("has a bias or aux that its library epilogue does "
                          "not have, or the reverse");
  if (library == GemmEpilogue::None)
    return success();
  if (op.getBatch() != 1 || op.getBeta() != 0 || op.getEpilogue() ||
      op.getElement().isF64()) // C4
    return op.emitOpError("has a library epilogue, which needs batch 1, beta "
                          "0, no epilogue, and operands of bf16 or f32");
  if (usesGelu(library) && op.getWide()) // C4
    return op.emitOpError("takes gelu of a wide result, expected one of the "
                          "type of its operands");
  if (hasAux(library) && op.getN() % auxRowMultiple != 0)
    return op.emitOpError("has an aux with rows of ")
           << op.getN() << " elements, expected a multiple of "
           << auxRowMultiple;
  return success();
}

/// C5.
static LogicalResult verifyExtents(GemmOp op) {
  int64_t m = op.getM(), n = op.getN(), k = op.getK(), batch = op.getBatch();
  auto fits = [&](int64_t rows, int64_t columns) {
    uint64_t elements = llvm::SaturatingMultiply(
        llvm::SaturatingMultiply<uint64_t>(rows, columns), uint64_t(batch));
    return elements <= kMostBytes;
  };
  if (m < 1 || n < 1 || k < 1 || batch < 1 || !fits(m, n) || !fits(m, k) ||
      !fits(k, n))
    return op.emitOpError("has extents ")
           << m << ", " << n << ", " << k << " and a batch of " << batch
           << ", expected positive numbers and matrices of at most 2^48 "
              "elements";
  auto isStride = [](int64_t n) { return n >= 0 && n <= int64_t(kMostBytes); };
  if (op.getLead().size() != 3 || op.getBatchStrides().size() != 3 ||
      !llvm::all_of(op.getLead(), isStride) ||
      !llvm::all_of(op.getBatchStrides(), isStride))
    return op.emitOpError(
               "needs three of 'lead' and of 'batch_strides', from 0 "
               "to ")
           << kMostBytes;
  ArrayRef<int64_t> grid = op.getGrid();
  if (grid.size() != 2 || grid[0] < 1 || grid[1] < 1 || grid[0] > m ||
      grid[1] > n)
    return op.emitOpError("needs a grid of tiles over ")
           << m << " rows and " << n << " columns";
  if (op.getBeta() > 2)
    return op.emitOpError("has beta ")
           << static_cast<int64_t>(op.getBeta()) << ", expected 0, 1 or 2";
  return success();
}

LogicalResult GemmOp::verify() {
  if (failed(verifyExtents(*this)))
    return failure();
  size_t count =
      3 + (getBias() ? 1 : 0) + (getAux() ? 1 : 0) + getEpilogueSlots().size();
  if (getOffsets().size() != count || getStrides().size() != count)
    return emitOpError("has ")
           << count << " slots, " << getOffsets().size() << " offsets and "
           << getStrides().size() << " strides";
  if (getWide() && !isNarrowFloat(getElement())) // C3
    return emitOpError("has a wide result, which needs operands of bf16, but "
                       "they are ")
           << getElement();
  if (failed(verifyLibrary(*this)))
    return failure();
  if (getEpilogue() && (getBatch() != 1 || getBeta() != 0)) // C2
    return emitOpError("has an epilogue, which needs batch 1 and beta 0, but "
                       "they are ")
           << getBatch() << " and " << getBeta();
  if (getEpilogue().has_value() != getImmediates().has_value() ||
      (!getEpilogue() && !getEpilogueSlots().empty()))
    return emitOpError("has an epilogue without immediates, or immediates or "
                       "slots of an epilogue without one");
  return success();
}

/// Symbol uses are verified after all ops, so the kernel that the symbol names is
/// well-formed.
LogicalResult GemmOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (!getEpilogue())
    return success();
  auto kernel =
      tables.lookupNearestSymbolFrom<KernelOp>(*this, getEpilogueAttr());
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
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto kernel =
      tables.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("names ")
           << getKernelAttr() << ", which is no kilnrt.kernel";
  if (kernel.getEpilogue())
    return emitOpError("launches ")
           << getKernelAttr() << ", which is the epilogue of a product";
  Block &body = kernel.getBody().front();
  size_t expected =
      body.getNumArguments() + body.getTerminator()->getNumOperands();
  if (getSlots().size() != expected) {
    InFlightDiagnostic diagnostic = emitOpError("passes ")
                                    << getSlots().size() << " slots, expected "
                                    << expected;
    diagnostic.attachNote(kernel.getLoc()) << "the kernel is declared here";
    return diagnostic;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Boundaries and copies
//===----------------------------------------------------------------------===//

/// What the caller touches lies on the device (C1).
template <typename Boundary> static LogicalResult verifyBoundary(Boundary op) {
  auto slot = op.getSlot().template getDefiningOp<SlotOp>();
  if (slot && !slot.getHost())
    return success();
  return op.emitOpError("'") << op.getName() << "' has to lie in a device slot";
}

InputAttr InputOp::getInputFact() {
  InputAttr declared = getFactAttr();
  return declared ? declared : inputFactOfName(getName(), getContext());
}

LogicalResult InputOp::verify() {
  InputAttr declared = getFactAttr();
  if (declared && (declared.getRole() != InputRole::Data ||
                   declared.getBatchDim().value_or(0) != 0)) // C2
    return emitOpError("'") << getName() << "' is declared as " << declared
                            << ", expected #kiln.input<data> or "
                               "#kiln.input<data, batch_dim = 0>";
  if (declared && declared.getBatchDim() &&
      cast<RankedTensorType>(getType()).getRank() == 0) // C2
    return emitOpError("'")
           << getName() << "' is a scalar, which has no batch dimension";
  return verifyBoundary(*this);
}

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

LogicalResult WaitOp::verify() {
  if (getStart()) // C1
    return success();
  return emitOpError("waits for what no kilnrt.copy_start began");
}

bool CopyStartOp::isOut() { return getTo().getDefiningOp<SlotOp>().getHost(); }

WaitOp CopyStartOp::getWait() { return cast<WaitOp>(*getToken().user_begin()); }

CopyStartOp WaitOp::getStart() {
  return getToken().getDefiningOp<CopyStartOp>();
}
