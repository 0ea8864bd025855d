//===- KilnStateOps.cpp - States, and reads and writes of states ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements the verifiers of kiln.state, kiln.read and kiln.write. Labels such
// as C1 name the constraints in the descriptions of the ops.
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/IR/Quantization.h"
#include "kiln/Support/ElementConversion.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;

/// Checks constraint C3: the initial values of a state are finite and fit its
/// shape.
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
      return state.emitOpError("zero_row is ")
             << *row << ", expected the index of one of the " << rows
             << " rows";
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
    ArrayRef<int64_t> shape = state.getWholeType().getShape();
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

/// Checks constraint C4: an integer state is initialized with one integer that
/// its type can represent, and is not trainable.
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

/// Checks constraint C6: a quantized state is a frozen parameter with as many
/// bytes as the encoding of its weight.
static LogicalResult checkQuantized(StateOp state) {
  QuantizedAttr quantized = state.getQuantizedAttr();
  RankedTensorType type = state.getTensorType();
  int64_t bytes = support::bytesOf(layoutOf(quantized));
  if (!type.getElementType().isInteger(8) ||
      type.getShape() != ArrayRef<int64_t>{bytes})
    return state.emitOpError("has type ")
           << type << ", expected " << bytes
           << " elements of i8, the bytes that encode " << quantized.getType()
           << " as " << stringifyQuantization(quantized.getEncoding());
  if (state.getRole() == Role::Parameter && state.getFrozen())
    return success();
  return state.emitOpError(
      "is quantized, but only a frozen parameter may be quantized");
}

/// Checks constraint C7: if the state is a shard, the mesh has the axes over
/// which the tensor is divided, and the state has the type of a part of the
/// tensor.
static LogicalResult checkShardOf(StateOp state) {
  auto module = state->getParentOfType<ModuleOp>();
  RankedTensorType part = state.getPartType();
  for (ShardAttr shard = state.getShardAttr(); shard;
       shard = shard.getOuter()) {
    int64_t ranks = module ? meshSizeOf(module, shard.getAxis()) : 0;
    if (ranks == 0)
      return state.emitOpError("is divided over the axis '")
             << shard.getAxis()
             << "', which the module's attribute 'kiln.mesh' does not have";
    if (shard.getOwner() >= ranks)
      return state.emitOpError("is owned by rank ")
             << shard.getOwner() << ", expected a rank below " << ranks
             << ", the size of the axis '" << shard.getAxis() << "'";
    if (shard.getOwner() >= 0 && state.getQuantized())
      return state.emitOpError(
          "is quantized and owned by a single rank; remove the owner, because "
          "each data-parallel rank must have all quantized states");
    if (shard.getOwner() >= 0 &&
        (part.getShape() != shard.getType().getShape() ||
         part.getElementType() != shard.getType().getElementType()))
      return state.emitOpError("has type ")
             << part << ", expected " << shard.getType()
             << ", because one rank owns the whole tensor";
    if (shard.getOwner() < 0 &&
        failed(checkShard(shard.getType(), part, ranks, shard.getBlocks()))) {
      int64_t elements = shard.getType().getNumElements() / shard.getBlocks();
      InFlightDiagnostic diagnostic =
          state.emitOpError("has ")
          << (part == state.getTensorType() ? "type " : "a shard of type ")
          << part << ", expected the element type of " << shard.getType()
          << " and " << llvm::divideCeil(elements, ranks) << " to " << elements
          << " elements";
      if (shard.getBlocks() > 1)
        return diagnostic << " in each of " << shard.getBlocks() << " blocks";
      return diagnostic;
    }
    part = shard.getType();
  }
  return success();
}

/// Returns true if `a` and `b` divide their tensors in the same way, regardless
/// of the element types of the tensors, or if both are null.
static bool isSameDivision(ShardAttr a, ShardAttr b) {
  if (!a || !b)
    return a == b;
  return a.withElementType(b.getType().getElementType()) == b;
}

/// Returns true if `mirror`, a copy of `parameter`, has the shape and the
/// division over ranks of `parameter`. If `parameter` is a shard of a tensor,
/// also returns true if `mirror` has the shape and the division of this tensor.
static bool mirrorsPart(StateOp mirror, StateOp parameter) {
  ArrayRef<int64_t> shape = mirror.getTensorType().getShape();
  ShardAttr shard = parameter.getShardAttr();
  if (isSameDivision(shard, mirror.getShardAttr()))
    return parameter.getTensorType().getShape() == shape;
  return shard && isSameDivision(shard.getOuter(), mirror.getShardAttr()) &&
         shard.getType().getShape() == shape;
}

LogicalResult StateOp::verify() {
  if (failed(checkInit(*this)) || failed(checkShardOf(*this)) ||
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

/// Checks constraint C5 of kiln.state: if the state is a factor of an adapter
/// of rank r, its shape is [r, inputs] for factor A or [outputs, r] for factor
/// B, where `inputs` and `outputs` are the sizes of the adapted weight.
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
           << ", expected a parameter of rank 2 that does not have the "
              "attribute 'adapter' itself";
  if (state.getRole() != Role::Parameter)
    return state.emitOpError("has 'adapter' and role ")
           << stringifyRole(state.getRole()) << ", expected role parameter";
  if (!state->getParentOp()->hasAttr(kLoraAttr))
    return state.emitOpError(
               "has 'adapter', but the module does not have the attribute '")
           << kLoraAttr << "', which holds the options of the adapters";
  bool isA = adapter.getFactor() == Factor::A;
  bool isRows = isA == adapter.getTransposed();
  int64_t size = weight.getWeightType().getDimSize(isRows ? 0 : 1);
  RankedTensorType type = state.getWholeType();
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
      parameter.getWholeType().getShape() != getWholeType().getShape() ||
      !mirrorsPart(*this, parameter) ||
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
