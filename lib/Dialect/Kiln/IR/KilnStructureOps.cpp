//===- KilnStructureOps.cpp - Ops for programs and regions ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements verifiers, builders, parsers and printers of programs, regions and
// copies. Labels such as C1 and E1 name the constraints in the descriptions of
// the ops.
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "ReferenceRules.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::reference;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void ProgramOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                      FunctionType type, ProgramKind kind) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getKindAttrName(state.name),
                     ProgramKindAttr::get(builder.getContext(), kind));
  state.addRegion();
}

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments,
                      ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), buildType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void ProgramOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

StringRef ProgramOp::getInputName(unsigned index) {
  auto name = getArgAttrOfType<StringAttr>(index, "kiln.name");
  return name ? name.getValue() : StringRef();
}

StringRef ProgramOp::getOutputName(unsigned index) {
  auto name = getResultAttrOfType<StringAttr>(index, "kiln.name");
  return name ? name.getValue() : StringRef();
}

BlockArgument ProgramOp::getInput(StringRef name) {
  for (BlockArgument argument : getBlock().getArguments())
    if (getInputName(argument.getArgNumber()) == name)
      return argument;
  return {};
}

InputAttr kiln::inputFactOfName(StringRef name, MLIRContext *context) {
  std::optional<InputRole> role = symbolizeInputRole(name);
  if (!role || *role == InputRole::Data)
    return {};
  bool isBatched = *role == InputRole::Tokens || *role == InputRole::Targets ||
                   *role == InputRole::Rng;
  return InputAttr::get(context, *role,
                        isBatched ? std::optional<int64_t>(0) : std::nullopt);
}

InputAttr ProgramOp::getInputFact(unsigned index) {
  if (auto declared = getArgAttrOfType<InputAttr>(index, kInputAttr))
    return declared;
  return inputFactOfName(getInputName(index), getContext());
}

BlockArgument ProgramOp::getInput(InputRole role) {
  for (BlockArgument argument : getBlock().getArguments())
    if (InputAttr fact = getInputFact(argument.getArgNumber());
        fact && fact.getRole() == role)
      return argument;
  return {};
}

LogicalResult ProgramOp::verifyRegions() {
  for (auto [i, type] : llvm::enumerate(getArgumentTypes()))
    if (!isKilnTensor(type) || memoryOf(type) != MemorySpace::Device) // C1
      return emitOpError("argument ")
             << i << " has type " << type
             << ", expected a device tensor with static positive extents, at "
                "most 2^48 elements, and an element type that can be stored: a "
                "float type, i8, i32 or i64";
  for (auto [i, type] : llvm::enumerate(getResultTypes()))
    if (isKilnTensor(type) && memoryOf(type) != MemorySpace::Device) // C1
      return emitOpError("result ") << i << " has type " << type
                                    << ", expected a tensor on the device";
  for (auto [i, type] : llvm::enumerate(getArgumentTypes()))
    if (auto fact = getArgAttrOfType<InputAttr>(i, kInputAttr);
        fact && fact.getBatchDim() &&
        cast<RankedTensorType>(type).getRank() == 0)
      return emitOpError("argument ")
             << i
             << " is declared with batch_dim = 0, but is a scalar; declare it "
                "with #kiln.input<data>";
  if (failed(checkOnlyKilnOps(*this)))
    return failure();
  if (getBlock().empty() || !isa<ReturnOp>(getBlock().back())) // C2
    return emitOpError("does not end with kiln.return");
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &tables) {
  for (unsigned i = 0; i < getNumResults(); ++i) {
    auto name = getResultAttrOfType<FlatSymbolRefAttr>(i, "kiln.gradient");
    if (!name)
      continue;
    auto state = tables.lookupNearestSymbolFrom<StateOp>(*this, name);
    if (!state) // C3
      return emitOpError("result ") << i << " is the gradient of " << name
                                    << ", which is not a kiln.state";
  }
  return success();
}

ReturnOp ProgramOp::getReturn() {
  return cast<ReturnOp>(getBlock().getTerminator());
}

LogicalResult ReturnOp::verify() {
  auto program = cast<ProgramOp>((*this)->getParentOp());
  if (getValues().getTypes() != program.getResultTypes()) { // C1
    InFlightDiagnostic diagnostic =
        emitOpError("returns ") << getValues().size()
                                << " values, but their number or types differ "
                                   "from those of the program's results";
    diagnostic.attachNote(program.getLoc())
        << "the program has type " << program.getFunctionType();
    return diagnostic;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

/// Checks that the body contains only ops of the kiln dialect, that its
/// arguments have the types of the operands of `op`, and that the yielded
/// values have the types of the results of `op`.
static LogicalResult checkIsolatedRegion(Operation *op) {
  Block &block = op->getRegion(0).front();
  if (failed(checkOnlyKilnOps(op)))
    return failure();
  if (block.getArgumentTypes() != op->getOperandTypes())
    return op->emitOpError("body has arguments whose number or types differ "
                           "from those of the operands");
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().getTypes() != op->getResultTypes())
    return op->emitOpError("body yields values whose number or types differ "
                           "from those of the results");
  return success();
}

LogicalResult RecomputeOp::verifyRegions() {
  return checkIsolatedRegion(*this);
}

/// Checks a dispatch whose family is neither 'row' nor 'gemm': the body must
/// contain exactly one op and yield the results of that op.
static LogicalResult checkSingleOp(DispatchOp dispatch) {
  Block &body = dispatch.getBody().front();
  KernelOpInterface op = kernelOpOf(dispatch);
  if (!op || familyOf(op) != Family::Kernel ||
      op.getKernelFamily() != dispatch.getKind() ||
      op->getNextNode() != body.getTerminator() ||
      op->getResults() != body.getTerminator()->getOperands())
    return dispatch.emitOpError("of the family '")
           << dispatch.getKind()
           << "' must have a body that contains one op of this family and "
              "yields exactly the results of that op";
  return success();
}

/// Checks a dispatch of the family 'gemm': the body must contain a matmul and
/// its epilogue.
static LogicalResult checkProduct(DispatchOp dispatch) {
  Block &body = dispatch.getBody().front();
  auto fail = [&](const Twine &what) {
    return dispatch.emitOpError("of the family 'gemm' ") << what;
  };
  auto isOperand = [&](Value value, unsigned i) {
    return i < body.getNumArguments() && value == body.getArgument(i) &&
           value.hasOneUse();
  };
  auto matmul = dyn_cast<MatmulOp>(body.front());
  if (!matmul || !isOperand(matmul.getA(), 0) || !isOperand(matmul.getB(), 1) ||
      matmul.getAccumulate() || matmul.getType().getRank() != 2) // E1
    return fail("must have a body that begins with a kiln.matmul of rank 2 "
                "without 'accumulate'; its operands must be the first two body "
                "arguments, which no other op may use");
  int64_t space[] = {matmul.getM(), matmul.getN()};
  if (!dispatch.getSpace() || *dispatch.getSpace() != ArrayRef(space)) // E2
    return fail("must have a 'space' equal to the shape of its matmul, ")
           << toString(space);
  auto yielded = body.getTerminator()->getOperands();
  if (yielded.empty() ||
      llvm::is_contained(yielded.drop_back(), matmul.getResult())) // E4
    return fail("must yield at least one value; if it yields the result of "
                "the matmul, this must be the last value");
  for (Operation &op : llvm::drop_begin(body.without_terminator())) // E6
    if (auto dispatchable = dyn_cast<DispatchableOpInterface>(op))
      for (unsigned i = 0; i < op.getNumResults(); ++i)
        if (dispatchable.getTiedOperand(i) >= 0)
          return fail(
              "must not have an epilogue that updates an operand in place");
  auto rows = buildRowProgram(dispatch);
  if (failed(rows) ||
      !row::isEpilogue(*rows, 0, dispatch.keepsMatmul())) // E3, E5
    return fail("must have an epilogue that can be computed on one tile of the "
                "matmul at a time");
  return success();
}

MatmulOp DispatchOp::getMatmul() {
  return getFamily() == Family::Gemm ? cast<MatmulOp>(getBody().front().front())
                                     : MatmulOp();
}

bool DispatchOp::keepsMatmul() {
  MatmulOp matmul = getMatmul();
  auto yielded = getBody().front().getTerminator()->getOperands();
  return matmul && !yielded.empty() && yielded.back() == matmul.getResult();
}

bool DispatchOp::isGemm() { return getFamily() == Family::Gemm; }

EpilogueKind DispatchOp::getEpilogueKind() { return EpilogueKind::Tiles; }

Value DispatchOp::getMatrix() {
  return keepsMatmul() ? Value(getResults().back()) : Value();
}

RankedTensorType DispatchOp::getMatrixType() { return getMatmul().getType(); }

ResultRange DispatchOp::getEpilogueResults() {
  return getResults().drop_back(keepsMatmul() ? 1 : 0);
}

bool DispatchOp::getTransA() { return getMatmul().getTransA(); }

bool DispatchOp::getTransB() { return getMatmul().getTransB(); }

DenseI64ArrayAttr DispatchOp::getGridAttr() {
  return getMatmul().getGridAttr();
}

abi::GemmKernel DispatchOp::getGemmKernel() {
  return getMatmul().getGemmKernel();
}

void DispatchOp::setGridAttr(DenseI64ArrayAttr grid) {
  getMatmul().setGridAttr(grid);
}

Value kiln::getTiedOperand(OpResult result) {
  if (auto gemm = dyn_cast<GemmOpInterface>(result.getOwner()))
    return result == gemm.getMatrix() ? gemm.getAccumulate() : Value();
  auto dispatch = dyn_cast<DispatchOp>(result.getOwner());
  if (!dispatch)
    return {};
  Operation *yield = dispatch.getBody().front().getTerminator();
  auto inner = dyn_cast<OpResult>(yield->getOperand(result.getResultNumber()));
  auto op = inner ? dyn_cast<DispatchableOpInterface>(inner.getOwner())
                  : DispatchableOpInterface();
  int64_t tied = op ? op.getTiedOperand(inner.getResultNumber()) : -1;
  if (tied < 0)
    return {};
  // If the tied operand is computed inside the kernel, it has no buffer that
  // could be updated in place, so return null.
  auto argument = dyn_cast<BlockArgument>(op->getOperand(tied));
  return argument ? dispatch.getInputs()[argument.getArgNumber()] : Value();
}

LogicalResult DispatchOp::verifyRegions() {
  if (failed(checkIsolatedRegion(*this)))
    return failure();
  if (getFamily() == Family::Gemm)
    return checkProduct(*this);
  if (getFamily() != Family::Row)
    return checkSingleOp(*this);
  auto space = getSpace();
  if (!space || space->size() != 2 || (*space)[0] < 1 || (*space)[1] < 1)
    return emitOpError("of the family 'row' must have a 'space' of two "
                       "positive extents, [rows, columns]");
  return success();
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Returns true if `a` and `b` are the same value, possibly in the forward and
/// the backward segment of micro-batches:
/// - they are equal, or the forward segment yields one of them as a residual,
///   and the other is the argument of the backward segment for this residual;
/// - they are the arguments of the two segments for the same sliced input; or
/// - they are equal views of two values that are the same value.
static bool isSameInSegments(Value a, Value b) {
  a = yieldedResidual(a);
  b = yieldedResidual(b);
  if (a == b)
    return true;
  Operation *of = a.getParentBlock()->getParentOp();
  if (!isa_and_nonnull<MicrobatchesOp>(of) ||
      of != b.getParentBlock()->getParentOp())
    return false;
  auto argument = dyn_cast<BlockArgument>(a),
       other = dyn_cast<BlockArgument>(b);
  if (argument && other)
    return argument.getArgNumber() == other.getArgNumber() &&
           argument.getArgNumber() <
               cast<MicrobatchesOp>(of).getSliced().size();
  Operation *view = a.getDefiningOp(), *again = b.getDefiningOp();
  return view && again && familyOf(view) == Family::View &&
         view->getName() == again->getName() && view->getNumOperands() == 1 &&
         again->getNumOperands() == 1 &&
         view->getResultTypes() == again->getResultTypes() &&
         view->getAttrDictionary() == again->getAttrDictionary() &&
         isSameInSegments(view->getOperand(0), again->getOperand(0));
}

/// Checks C1 of kiln.copy_out and kiln.copy_in: the only user of the result is
/// the kiln.copy_wait of this copy.
static LogicalResult checkToken(Operation *copy) {
  SmallVector<OpOperand *> uses;
  forEachUse(copy->getResult(0), [&](OpOperand &use) { uses.push_back(&use); });
  auto wait = uses.size() == 1 ? dyn_cast<CopyWaitOp>(uses.front()->getOwner())
                               : CopyWaitOp();
  // The wait may not have been verified yet, so check its operand count.
  bool hasWait = wait && wait->getNumOperands() == 2 &&
                 uses.front()->getOperandNumber() == 0 &&
                 isSameInSegments(wait.getSource(), copy->getOperand(0)) &&
                 (wait->getBlock() == copy->getBlock() ||
                  wait->getBlock() == backwardSegmentOf(*copy->getBlock()));
  if (!hasWait)
    return copy->emitOpError(
        "must have exactly one user, a kiln.copy_wait with the same source, in "
        "the same block or in the backward segment of the same micro-batch");
  return success();
}

/// Checks constraint C2 of kiln.copy_out and kiln.copy_in: the source is in
/// memory `from`, and the result has the same type in memory `to`.
static LogicalResult checkCopy(Operation *copy, MemorySpace from,
                               MemorySpace to) {
  Type source = copy->getOperand(0).getType(),
       result = copy->getResult(0).getType();
  if (memoryOf(source) != from || result != inMemory(source, to))
    return copy->emitOpError("copies ")
           << source << " to " << result << ", expected a source on the "
           << stringifyMemorySpace(from)
           << " and a result of the same type on the "
           << stringifyMemorySpace(to);
  return checkToken(copy);
}

LogicalResult CopyOutOp::verify() {
  return checkCopy(*this, MemorySpace::Device, MemorySpace::Host);
}

LogicalResult CopyInOp::verify() {
  return checkCopy(*this, MemorySpace::Host, MemorySpace::Device);
}

LogicalResult CopyWaitOp::verify() {
  Operation *copy = yieldedResidual(getToken()).getDefiningOp();
  if (!isa_and_nonnull<CopyOutOp, CopyInOp>(copy))
    return emitOpError(
        "has a token that is not the result of kiln.copy_out or kiln.copy_in");
  return success();
}

LogicalResult CopyOutOp::evaluate(Operands operands, Results results) {
  return evaluateCopy(operands, results);
}

LogicalResult CopyInOp::evaluate(Operands operands, Results results) {
  return evaluateCopy(operands, results);
}

LogicalResult CopyWaitOp::evaluate(Operands operands, Results results) {
  return evaluateCopy(operands, results);
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

Family ReadOp::getFamily() { return Family::State; }
Family WriteOp::getFamily() { return Family::State; }
Family CopyOutOp::getFamily() { return Family::Copy; }
Family CopyInOp::getFamily() { return Family::Copy; }
Family CopyWaitOp::getFamily() { return Family::Copy; }
