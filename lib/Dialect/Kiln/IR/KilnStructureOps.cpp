//===- KilnStructureOps.cpp - Ops for states, programs and regions --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements verifiers, builders, parsers and printers of states, programs,
// regions and copies. Labels such as C1 and E1 name the constraints in the
// descriptions of the ops.
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "ReferenceRules.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/IR/Quantization.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Nf4.h"

#include "mlir/Interfaces/FunctionImplementation.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::reference;

//===----------------------------------------------------------------------===//
// States and programs
//===----------------------------------------------------------------------===//

/// Checks C3: the initial values of a state are finite and fit its shape.
static LogicalResult checkInit(StateOp state) {
  auto finite = [](std::initializer_list<FloatAttr> numbers) {
    return llvm::all_of(numbers, [](FloatAttr number) {
      return std::isfinite(number.getValueAsDouble());
    });
  };
  bool isFinite = true;
  Attribute init = state.getInit();
  if (auto normal = dyn_cast<NormalAttr>(init)) {
    isFinite = finite({normal.getMean(), normal.getStddev()});
    ArrayRef<int64_t> shape = state.getWeightType().getShape();
    int64_t rows = shape.empty() ? 0 : shape.front();
    std::optional<int64_t> row = normal.getZeroRow();
    if (row && (*row < 0 || *row >= rows))
      return state.emitOpError("zero_row of the initial values is ")
             << *row << ", expected the index of a row of the state, below "
             << rows;
  } else if (auto uniform = dyn_cast<UniformAttr>(init)) {
    isFinite = finite({uniform.getLow(), uniform.getHigh()});
  } else if (auto splat = dyn_cast<SplatAttr>(init)) {
    isFinite = finite({splat.getValue()});
  } else if (isa<Nf4TableAttr>(init)) {
    RankedTensorType type = state.getTensorType();
    if (type.getShape() != ArrayRef<int64_t>{kNf4TableElements} ||
        !type.getElementType().isF32())
      return state.emitOpError("has type ")
             << type << ", expected tensor<272xf32> for a #kiln.nf4_table";
  } else if (auto table = dyn_cast<RopeTableAttr>(init)) {
    ArrayRef<double> frequencies = table.getInvFreq().asArrayRef();
    isFinite =
        finite({table.getScale()}) &&
        llvm::all_of(frequencies, [](double f) { return std::isfinite(f); });
    ArrayRef<int64_t> shape = state.getTensorType().getShape();
    if (shape.size() != 2 ||
        shape[1] != static_cast<int64_t>(frequencies.size()))
      return state.emitOpError("has shape ")
             << toString(shape) << ", expected a rotary table of rank 2 with "
             << frequencies.size() << " columns, one per frequency";
  } else {
    return state.emitOpError("init is ")
           << init
           << ", expected #kiln.normal, #kiln.uniform, #kiln.splat, "
              "#kiln.rope_table or #kiln.nf4_table";
  }
  if (!isFinite)
    return state.emitOpError("init is ") << init << ", expected finite numbers";
  return success();
}

/// Checks C4: an integer state is initialized with one integer that its type
/// can represent, and is not trainable.
static LogicalResult checkIntegers(StateOp state) {
  auto type = dyn_cast<IntegerType>(state.getTensorType().getElementType());
  if (!type)
    return success();
  if (state.isTrainable())
    return state.emitOpError("is trainable and has element type ")
           << type
           << ", expected a floating-point type; change the type, or declare "
              "the state frozen";
  double limit = std::ldexp(1.0, int(type.getWidth()) - 1);
  auto splat = dyn_cast<SplatAttr>(state.getInit());
  double value = splat ? splat.getValue().getValueAsDouble() : limit;
  if (value >= -limit && value < limit && value == std::trunc(value))
    return success();
  return state.emitOpError("has element type ")
         << type << " and the initial value " << state.getInit()
         << ", expected a #kiln.splat of an integer that the type can "
            "represent";
}

/// Checks C6: the bytes of a quantized state encode its weight.
static LogicalResult checkQuantized(StateOp state) {
  RankedTensorType weight = state.getWeightType(), type = state.getTensorType();
  bool isWeight = weight.hasStaticShape() && weight.getRank() == 2 &&
                  !weight.getEncoding() && weight.getNumElements() > 0 &&
                  isStoredReal(weight.getElementType());
  if (!isWeight)
    return state.emitOpError("encodes a weight of type ")
           << weight << ", expected a matrix of floating-point numbers";
  int64_t bytes = support::Nf4Layout(weight.getNumElements()).bytes;
  if (!type.getElementType().isInteger(8) ||
      type.getShape() != ArrayRef<int64_t>{bytes})
    return state.emitOpError("has type ")
           << type << ", expected " << bytes
           << " elements of i8, the bytes that encode " << weight << " as "
           << stringifyQuantization(state.getQuantizedAttr().getEncoding());
  if (state.getRole() == Role::Parameter && state.getFrozen())
    return success();
  return state.emitOpError("is quantized, expected a frozen parameter");
}

LogicalResult StateOp::verify() {
  if (failed(checkInit(*this)) ||
      failed(getQuantized() ? checkQuantized(*this) : checkIntegers(*this)))
    return failure();
  bool belongs = getRole() == Role::Optimizer || getRole() == Role::Mirror;
  if (belongs != getOf().has_value()) // C1
    return emitOpError("has role ")
           << stringifyRole(getRole()) << (getOf() ? " and" : " without")
           << " 'of'; optimizer states and mirrors must name their parameter "
              "with 'of', and states of other roles must not have 'of'";
  if ((getRole() == Role::Optimizer) != getSlot().has_value())
    return emitOpError("has role ")
           << stringifyRole(getRole()) << (getSlot() ? " and" : " without")
           << " 'slot'; optimizer states must have a 'slot', and states of "
              "other roles must not";
  return success();
}

/// Checks C5: a factor of an adapter has the shape [r, inputs] or [outputs, r]
/// for the inputs and outputs of its weight.
static LogicalResult checkAdapter(StateOp state,
                                  SymbolTableCollection &tables) {
  AdapterAttr adapter = state.getAdapterAttr();
  if (!adapter)
    return success();
  auto weight =
      tables.lookupNearestSymbolFrom<StateOp>(state, adapter.getBase());
  if (!weight || weight.getRole() != Role::Parameter || weight.getAdapter() ||
      weight.getWeightType().getRank() != 2)
    return state.emitOpError("adapts ")
           << adapter.getBase()
           << ", which is not a parameter of rank 2 without 'adapter'";
  if (state.getRole() != Role::Parameter)
    return state.emitOpError("has 'adapter' and role ")
           << stringifyRole(state.getRole()) << ", expected role parameter";
  if (!state->getParentOp()->hasAttr(kLoraAttr))
    return state.emitOpError("has an adapter, expected the attribute '")
           << kLoraAttr << "' of the module with the options of its adapters";
  bool isA = adapter.getFactor() == Factor::A;
  bool isRows = isA == adapter.getTransposed();
  int64_t size = weight.getWeightType().getDimSize(isRows ? 0 : 1);
  RankedTensorType type = state.getTensorType();
  if (type.getRank() == 2 && type.getDimSize(isA ? 1 : 0) == size)
    return success();
  return state.emitOpError("has type ")
         << type << ", expected a matrix with " << size
         << (isA ? " columns, one for each input of "
                 : " rows, one for each output of ")
         << adapter.getBase();
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(checkAdapter(*this, tables)))
    return failure();
  if (!getOf())
    return success();
  auto parameter = tables.lookupNearestSymbolFrom<StateOp>(*this, getOfAttr());
  bool isParameter = parameter && parameter.getRole() == Role::Parameter;
  if (getRole() == Role::Optimizer && !isParameter) // C1
    return emitOpError("belongs to ")
           << getOfAttr() << ", expected a kiln.state of role parameter";
  if (getRole() != Role::Mirror)
    return success();
  if (!isParameter || // C2
      parameter.getTensorType().getShape() != getTensorType().getShape() ||
      (elementTypeOf(parameter.getType()) != elementTypeOf(getType()) &&
       !isConvertible(elementTypeOf(parameter.getType()),
                      elementTypeOf(getType()))))
    return emitOpError("mirrors ")
           << getOfAttr()
           << ", expected a parameter that has the shape of the mirror and an "
              "element type that converts to the element type of the mirror";
  if (parameter.getType() == getType())
    return emitOpError("mirrors ")
           << getOfAttr() << ", but both states have the type " << getType()
           << "; the element type or the memory of a mirror must differ from "
              "that of its parameter";
  return success();
}

/// Checks that a state with this name and type exists. If `device` is true, the
/// type that the state would have on the device is accepted, too.
static LogicalResult checkState(Operation *op, FlatSymbolRefAttr name,
                                Type type, bool device,
                                SymbolTableCollection &tables) {
  auto state = tables.lookupNearestSymbolFrom<StateOp>(op, name);
  if (!state)
    return op->emitOpError("names ") << name << ", which is not a kiln.state";
  if (state.getType() != type &&
      !(device && inMemory(state.getType(), MemorySpace::Device) == type)) {
    InFlightDiagnostic diagnostic = op->emitOpError("has type ")
                                    << type << ", expected " << state.getType();
    diagnostic.attachNote(state.getLoc()) << "the state is declared here";
    return diagnostic;
  }
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &tables) {
  return checkState(*this, getStateAttr(), getType(), /*device=*/true, tables);
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &tables) {
  return checkState(*this, getStateAttr(), getValue().getType(),
                    /*device=*/false, tables);
}

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
             << " is a scalar, which has no batch dimension; declare it "
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
              "yields exactly the results of this op";
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
    return fail("must have as 'space' the shape of its matmul, ")
           << toString(space);
  auto yielded = body.getTerminator()->getOperands();
  if (yielded.empty() ||
      llvm::is_contained(yielded.drop_back(), matmul.getResult())) // E4
    return fail("must yield at least one value; only the last value may be the "
                "result of the matmul");
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

/// Returns true if two values are equal because one of them has the value of
/// the other in another segment of a micro-batch: as a residual, as a part of
/// the micro-batch, or as a view that is computed in both segments.
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

/// Checks C1 of kiln.copy_out and kiln.copy_in.
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

/// Checks C2 of kiln.copy_out and kiln.copy_in: the source is in memory `from`,
/// and the result has the same type in memory `to`.
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
