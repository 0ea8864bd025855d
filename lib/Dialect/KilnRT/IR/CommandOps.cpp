//===- CommandOps.cpp - Launches and gemms ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandChecks.h"
#include "Limits.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln::rt;
using namespace kiln;

//===----------------------------------------------------------------------===//
// All commands.
//===----------------------------------------------------------------------===//

LogicalResult rt::verifyCommand(Operation *command) {
  for (Value operand : command->getOperands()) {
    bool isDefined = isa<PlaceType>(operand.getType())
                         ? viewOf(operand) && viewOf(operand).isWellFormed()
                     : isa<SlotType>(operand.getType())
                         ? operand.getDefiningOp<SlotOp>() != nullptr
                         : operand.getDefiningOp<TokenOp>() != nullptr;
    if (!isDefined)
      return command->emitOpError(
          "has an operand that is not the result of a preceding "
          "valid kilnrt.view, kilnrt.slot or "
          "kilnrt.token");
  }
  When when = cast<CommandOpInterface>(command).getWhen();
  if (when != When::Always && !isa<rt::MicrobatchesOp>(command->getParentOp()))
    return command->emitOpError("has 'when ")
           << stringifyWhen(when) << "', but is not in kilnrt.microbatches";
  return success();
}

LogicalResult rt::verifyQueues(Operation *command, bool isTransfer,
                               SymbolTableCollection &tables) {
  auto op = cast<CommandOpInterface>(command);
  auto find = [&](FlatSymbolRefAttr name) {
    return tables.lookupNearestSymbolFrom<QueueOp>(command, name);
  };
  QueueOp queue = find(op.getQueueAttr());
  if (!queue)
    return command->emitOpError("is on ")
           << op.getQueueAttr() << ", which is not a kilnrt.queue";
  if ((queue.getEngine() == Engine::Link) != isTransfer)
    return command->emitOpError("is on ")
           << op.getQueueAttr() << ", whose engine is "
           << stringifyEngine(queue.getEngine()) << ": expected the engine "
           << (isTransfer ? "link" : "device or host");
  if (queue.getEngine() == Engine::Device &&
      rt::memoryOf(op) != MemorySpace::Device)
    return command->emitOpError("is on ")
           << op.getQueueAttr()
           << ", whose engine is device, but the command accesses host memory: "
              "expected only device memory";
  if (ArrayAttr after = op.getAfterAttr())
    for (auto other : after.getAsRange<FlatSymbolRefAttr>()) {
      QueueOp queue = find(other);
      if (!queue)
        return command->emitOpError("is ordered after ")
               << other << ", which is not a kilnrt.queue";
      if (queue.getEngine() == Engine::Link)
        return command->emitOpError("is ordered after ")
               << other
               << ", whose engine is link: wait for the token of a transfer "
                  "with kilnrt.wait instead";
    }
  return success();
}

void rt::addAccesses(SmallVectorImpl<MemoryAccess> &accesses, ValueRange places,
                     Access access) {
  for (Value place : places)
    accesses.push_back({viewOf(place).getSlot(), place, access});
}

static Access accessOf(Accumulation accumulate) {
  return accumulate == Accumulation::Overwrite ? Access::Write
                                               : Access::ReadWrite;
}

//===----------------------------------------------------------------------===//
// Launches.
//===----------------------------------------------------------------------===//

SmallVector<Value> LaunchOp::getPlaces() {
  SmallVector<Value> places(getReads());
  llvm::append_range(places, getWrites());
  return places;
}

KernelOp LaunchOp::getKernelOp() {
  return SymbolTable::lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
}

SmallVector<MemoryAccess> LaunchOp::getAccesses() {
  SmallVector<MemoryAccess> accesses;
  addAccesses(accesses, getReads(), Access::Read);
  addAccesses(accesses, getWrites(), accessOf(getAccumulate()));
  if (getScratch())
    accesses.push_back({getScratch(), Value(), Access::Write});
  return accesses;
}

/// Verifies that the arguments of a kernel are numbers.
static LogicalResult verifyNumbers(Operation *command, ArrayAttr args) {
  for (Attribute arg : args ? args.getValue() : ArrayRef<Attribute>())
    if (!isa<IntegerAttr, FloatAttr>(arg))
      return command->emitOpError("has the argument ")
             << arg << ", expected an i64 or an f64";
  return success();
}

LogicalResult LaunchOp::verify() { return verifyNumbers(*this, getArgsAttr()); }

/// Verifies that the places (memory operands) of a command have the types of
/// the kernel's parameters, starting at parameter `first`.
static LogicalResult verifyPlaces(Operation *command, KernelOp kernel,
                                  ValueRange reads, ValueRange writes,
                                  unsigned first) {
  auto reject = [&](const Twine &what) -> LogicalResult {
    InFlightDiagnostic diagnostic = command->emitOpError(what);
    diagnostic.attachNote(kernel.getLoc()) << "the kernel is declared here";
    return diagnostic;
  };
  SmallVector<Value> parameters = kernel.getParameters();
  unsigned operands = kernel.getNumOperandParameters();
  if (reads.size() + first != operands ||
      writes.size() + operands != parameters.size())
    return reject("has " + Twine(reads.size()) + " reads and " +
                  Twine(writes.size()) + " writes, expected " +
                  Twine(operands - first) + " reads and " +
                  Twine(parameters.size() - operands) + " writes");
  SmallVector<Value> places(reads);
  llvm::append_range(places, writes);
  for (auto [i, place] : llvm::enumerate(places)) {
    ViewOp view = viewOf(place);
    RankedTensorType expected = tensorTypeOf(parameters[first + i]);
    MemRefType type = view.getMemRefType();
    if (type.getShape() == expected.getShape() &&
        type.getElementType() == expected.getElementType() &&
        view.hasUniformRows() &&
        (getRowCount(expected) == 1 ||
         view.getRowPitch() == kernel.getRowStrides()[first + i]))
      continue;
    InFlightDiagnostic diagnostic =
        command->emitOpError("passes a view of type ")
        << type << " as parameter " << first + i << ", expected " << expected
        << " with a row stride of " << kernel.getRowStrides()[first + i]
        << " elements";
    diagnostic.attachNote(kernel.getLoc()) << "the kernel is declared here";
    return diagnostic;
  }
  return success();
}

static LogicalResult verifyArguments(Operation *command, KernelOp kernel,
                                     ArrayAttr args) {
  SmallVector<Type> expected = kernel.getArgumentTypes(), types;
  for (Attribute arg : args ? args.getValue() : ArrayRef<Attribute>())
    types.push_back(cast<TypedAttr>(arg).getType());
  if (types == expected)
    return success();
  InFlightDiagnostic diagnostic =
      command->emitOpError("passes arguments of types (")
      << types << "), expected (" << expected << ")";
  diagnostic.attachNote(kernel.getLoc()) << "the kernel is declared here";
  return diagnostic;
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto kernel =
      tables.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("names ")
           << getKernelAttr() << ", which is not a kilnrt.kernel";
  if (kernel.getEpilogue())
    return emitOpError("launches ")
           << getKernelAttr()
           << ", which is an epilogue: only a kilnrt.gemm can use it";
  KernelOpInterface op = kernel.getSingleOp();
  if (getAccumulate() != Accumulation::Overwrite &&
      !(op && op.accumulatesInPlace()))
    return emitOpError("accumulates, but a kernel of the family '")
           << kernel.getKind() << "' overwrites its results";
  return failure(
      failed(verifyPlaces(*this, kernel, getReads(), getWrites(), 0)) || // C1
      failed(verifyArguments(*this, kernel, getArgsAttr())) ||           // C2
      failed(verifyQueues(*this, /*isTransfer=*/false, tables)));
}

//===----------------------------------------------------------------------===//
// Gemms.
//===----------------------------------------------------------------------===//

ViewOp GemmOp::getMatrix(unsigned i) {
  return viewOf(i == 0 ? getA() : i == 1 ? getB() : getC());
}

/// Returns the extent of dimension rank - fromLast of a matrix; fromLast is 1
/// for the last dimension.
static int64_t extent(ViewOp matrix, unsigned fromLast) {
  ArrayRef<int64_t> shape = matrix.getMemRefType().getShape();
  return shape[shape.size() - fromLast];
}

int64_t GemmOp::getM() { return extent(getMatrix(2), 2); }
int64_t GemmOp::getN() { return extent(getMatrix(2), 1); }
int64_t GemmOp::getK() { return extent(getMatrix(0), getTransA() ? 2 : 1); }
int64_t GemmOp::getBatch() {
  MemRefType type = getMatrix(2).getMemRefType();
  return type.getRank() == 3 ? type.getDimSize(0) : 1;
}

int64_t GemmOp::getLead(unsigned i) { return getMatrix(i).getRowPitch(); }

Type GemmOp::getElement() { return getMatrix(0).getElementType(); }
Type GemmOp::getResultElement() { return getMatrix(2).getElementType(); }

int64_t GemmOp::getBatchStride(unsigned i) {
  MemRefType type = getMatrix(i).getMemRefType();
  if (type.getRank() != 3)
    return 0;
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  return succeeded(type.getStridesAndOffset(strides, offset)) ? strides[0] : 0;
}

GemmEpilogue GemmOp::getVendorEpilogue() {
  if (std::optional<StringRef> name = getLibrary())
    return gemmEpilogueOf(*name).value_or(GemmEpilogue::None);
  return GemmEpilogue::None;
}

SmallVector<MemoryAccess> GemmOp::getAccesses() {
  SmallVector<MemoryAccess> accesses;
  addAccesses(accesses, {getA(), getB()}, Access::Read);
  GemmEpilogue library = getVendorEpilogue();
  if (getBias() && !writesBias(library))
    addAccesses(accesses, getBias(), Access::Read);
  if (getAux() && !writesAux(library))
    addAccesses(accesses, getAux(), Access::Read);
  addAccesses(accesses, getEpilogueReads(), Access::Read);
  addAccesses(accesses, getC(), accessOf(getAccumulate()));
  if (getBias() && writesBias(library))
    addAccesses(accesses, getBias(), Access::Write);
  if (getAux() && writesAux(library))
    addAccesses(accesses, getAux(), Access::Write);
  addAccesses(accesses, getEpilogueWrites(), Access::Write);
  if (getScratch())
    accesses.push_back({getScratch(), Value(), Access::Write});
  return accesses;
}

GemmKernel GemmOp::getGemmKernel() {
  auto name = getKernel();
  return name ? gemmKernelOf(*name).value_or(GemmKernel::Blas)
              : GemmKernel::Blas;
}

static LogicalResult verifyKernel(GemmOp op) {
  if (op.getKernel() && !gemmKernelOf(*op.getKernel()))
    return op.emitOpError("has the kernel ")
           << op.getKernelAttr() << ", expected " << gemmKernelChoices;
  GemmKernel kernel = op.getGemmKernel();
  if (kernel == GemmKernel::Blas ||
      (canMultiply(kernel, elementTypeOf(op.getElement())) &&
       !op.getLibrary())) // C6
    return success();
  return op.emitOpError("has the kernel ")
         << op.getKernelAttr() << ", which supports only operands of "
         << operandTypesOf(kernel) << " and does not support library epilogues";
}

static LogicalResult verifyLibrary(GemmOp op) {
  GemmEpilogue library = op.getVendorEpilogue();
  if (op.getLibrary() && library == GemmEpilogue::None)
    return op.emitOpError("has the library epilogue ")
           << op.getLibraryAttr() << ", which does not exist";
  if (!!op.getBias() != hasBias(library) || !!op.getAux() != hasAux(library))
    return op.emitOpError(
        "must have an operand 'bias' or 'aux' if, and only if, its library "
        "epilogue uses it");
  if (library == GemmEpilogue::None)
    return success();
  if (op.getBatch() != 1 || op.getAccumulate() != Accumulation::Overwrite ||
      op.getEpilogue() || op.getElement().isF64()) // C4
    return op.emitOpError("has a library epilogue, so it must have a batch of "
                          "1, overwrite its result, have no kernel as an "
                          "epilogue, and multiply elements of at most 32 bits");
  if (usesGelu(library) && op.getElement() != op.getResultElement()) // C4
    return op.emitOpError(
        "applies gelu to a result whose element type is wider than that of the "
        "operands, expected equal element types");
  if (hasAux(library) && op.getN() % auxRowMultiple != 0)
    return op.emitOpError("has an 'aux' matrix with rows of ")
           << op.getN() << " elements, expected a multiple of "
           << auxRowMultiple;
  auto check = [&](Value place, ArrayRef<int64_t> shape,
                   StringRef name) -> LogicalResult {
    ViewOp view = viewOf(place);
    if (view.getMemRefType().getShape() == shape && view.isDense() &&
        view.getElementType() == op.getResultElement())
      return success();
    return op.emitOpError("passes a view of type ")
           << view.getMemRefType() << " as its '" << name
           << "', expected contiguous rows, the shape [" << shape
           << "] and the element type " << op.getResultElement();
  };
  int64_t length = biasLength(library, op.getM(), op.getN());
  if (op.getBias() && failed(check(op.getBias(), {length}, "bias")))
    return failure();
  if (op.getAux() && failed(check(op.getAux(), {op.getM(), op.getN()}, "aux")))
    return failure();
  return success();
}

/// Verifies constraint C5 of kilnrt.gemm: after transposition, 'a' is m x k,
/// 'b' is k x n and 'c' is m x n, all with the same batch size.
static LogicalResult verifyExtents(GemmOp op) {
  int64_t rank = op.getMatrix(2).getMemRefType().getRank();
  for (unsigned i = 0; i < 3; ++i)
    if (MemRefType type = op.getMatrix(i).getMemRefType();
        type.getRank() != rank || rank < 2 || rank > 3)
      return op.emitOpError("has a matrix of type ")
             << type
             << ", expected equal ranks of 'a', 'b' and 'c': 2, or 3 with a "
                "batch";
  int64_t m = op.getM(), n = op.getN(), k = op.getK(), batch = op.getBatch();
  auto hasExtents = [&](unsigned i, int64_t rows, int64_t columns) {
    ViewOp matrix = op.getMatrix(i);
    return extent(matrix, 2) == rows && extent(matrix, 1) == columns &&
           (rank == 2 || extent(matrix, 3) == batch);
  };
  if (!hasExtents(0, op.getTransA() ? k : m, op.getTransA() ? m : k) ||
      !hasExtents(1, op.getTransB() ? n : k, op.getTransB() ? k : n))
    return op.emitOpError("multiplies ")
           << op.getMatrix(0).getMemRefType() << " by "
           << op.getMatrix(1).getMemRefType() << " into "
           << op.getMatrix(2).getMemRefType()
           << ", but the extents of these matrices do not match";
  auto fits = [&](int64_t rows, int64_t columns) {
    uint64_t elements = llvm::SaturatingMultiply(
        llvm::SaturatingMultiply<uint64_t>(rows, columns), uint64_t(batch));
    return elements <= kMostBytes;
  };
  if (m < 1 || n < 1 || k < 1 || batch < 1 || !fits(m, n) || !fits(m, k) ||
      !fits(k, n))
    return op.emitOpError("has the extents m, n, k = ")
           << m << ", " << n << ", " << k << " and a batch of " << batch
           << ", expected positive numbers and matrices of at most 2^48 "
              "elements";
  ArrayRef<int64_t> grid = op.getGrid();
  if (grid.size() != 2 || grid[0] < 1 || grid[1] < 1 || grid[0] > m ||
      grid[1] > n)
    return op.emitOpError(
               "has an invalid grid, expected two tile counts: from 1 to ")
           << m << " tiles that split the rows, and from 1 to " << n
           << " tiles that split the columns";
  return success();
}

LogicalResult GemmOp::verify() {
  if (failed(verifyExtents(*this)))
    return failure();
  Type element = getElement(), result = getResultElement();
  bool isHalf = isNarrowFloat(element) && element.getIntOrFloatBitWidth() == 16;
  bool isWide = isHalf && result.isF32();
  if (getMatrix(1).getElementType() != element ||
      (result != element && !isWide) ||
      !(isHalf || element.isF32() || element.isF64())) // C3
    return emitOpError("multiplies ")
           << element << " by " << getMatrix(1).getElementType() << " into "
           << result
           << ", expected three equal float types of 16 to 64 bits, bf16 by "
              "bf16 into f32, or f16 by f16 into f32";
  if (failed(verifyKernel(*this)) || failed(verifyLibrary(*this)))
    return failure();
  if (getEpilogue() &&
      (getBatch() != 1 || getAccumulate() != Accumulation::Overwrite)) // C2
    return emitOpError("has an epilogue, which needs a batch of 1 and the "
                       "accumulation 'overwrite', but the batch is ")
           << getBatch() << " and the accumulation is "
           << stringifyAccumulation(getAccumulate());
  if (!getEpilogue() && (!getEpilogueReads().empty() ||
                         !getEpilogueWrites().empty() || getArgsAttr()))
    return emitOpError(
        "has reads, writes or arguments of an epilogue, but no epilogue");
  return verifyNumbers(*this, getArgsAttr());
}

/// MLIR verifies symbol uses after it has verified all ops, so the kernel of
/// the epilogue is already verified here.
LogicalResult GemmOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(verifyQueues(*this, /*isTransfer=*/false, tables)))
    return failure();
  if (!getEpilogue())
    return success();
  auto kernel =
      tables.lookupNearestSymbolFrom<KernelOp>(*this, getEpilogueAttr());
  if (!kernel || !kernel.getEpilogue())
    return emitOpError("names ")
           << getEpilogueAttr() << ", which is not an epilogue";
  Block &body = kernel.getBody().front();
  auto gemm = body.getNumArguments() == 0
                  ? RankedTensorType()
                  : dyn_cast<RankedTensorType>(body.getArgument(0).getType());
  int64_t shape[] = {getM(), getN()};
  if (!gemm || gemm.getShape() != ArrayRef(shape) ||
      gemm.getElementType() != getResultElement() ||
      (getM() > 1 && kernel.getRowStrides().front() != getLead(2))) { // C1
    InFlightDiagnostic diagnostic =
        emitOpError("has an epilogue whose first operand differs from the "
                    "result of the gemm in shape, element type or row stride");
    diagnostic.attachNote(kernel.getLoc()) << "the kernel is declared here";
    return diagnostic;
  }
  return failure(failed(verifyPlaces(*this, kernel, getEpilogueReads(),
                                     getEpilogueWrites(), 1)) ||
                 failed(verifyArguments(*this, kernel, getArgsAttr())));
}
