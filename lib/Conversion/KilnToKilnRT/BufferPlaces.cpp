//===- BufferPlaces.cpp - Places of values in buffers -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Assigns a Place, which is a location in a buffer, to each value of a program:
// results of ops, views, operands of concats, and sums over micro-batches.
// BufferPlan.h describes the rules.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"
#include "kiln/Dialect/Kiln/Transforms/PaddedRows.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;

int32_t PlanBuilder::newBuffer(std::string name, rt::SlotClass slotClass,
                               int64_t bytes, std::string why) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.slotClass = slotClass;
  buffer.bytes = bytes;
  buffer.why = std::move(why);
  plan.buffers.push_back(std::move(buffer));
  return static_cast<int32_t>(plan.buffers.size()) - 1;
}

int32_t PlanBuilder::newBuffer(std::string name, rt::SlotClass slotClass,
                               Type type, std::string why) {
  int32_t index =
      newBuffer(std::move(name), slotClass, bytesOf(type), std::move(why));
  plan.buffers[index].memory = memoryOf(type);
  return index;
}

Place PlanBuilder::densePlace(int32_t buffer, Type type) {
  Place place;
  place.buffer = buffer;
  place.rowStride = getColumnCount(cast<RankedTensorType>(type));
  return place;
}

/// Returns the row pitch, in elements, that a result has in a separate buffer.
int64_t PlanBuilder::rowStrideOf(OpResult result) {
  auto type = tensorTypeOf(result);
  int64_t columns = getColumnCount(type), width = elementBytes(type);
  int64_t alignment = target.getRowAlignment();
  if (getRowCount(type) == 1 || width == 0 ||
      columns * width % alignment == 0 ||
      !mayHavePaddedRows(result, rowPrograms))
    return columns;
  return llvm::alignTo(columns * width, alignment) / width;
}

/// Creates a separate buffer for a result.
Place PlanBuilder::ownPlace(OpResult result, std::string name,
                            std::string why) {
  auto type = tensorTypeOf(result);
  int64_t stride = rowStrideOf(result), columns = getColumnCount(type);
  int32_t index = newBuffer(std::move(name), rt::SlotClass::Activation, type,
                            std::move(why));
  Buffer &buffer = plan.buffers[index];
  Place place = densePlace(index, type);
  if (stride != columns) {
    int64_t width = elementBytes(type);
    place.rowStride = stride;
    buffer.rowBytes = columns * width;
    buffer.rowPitch = stride * width;
    buffer.bytes = (getRowCount(type) - 1) * buffer.rowPitch + buffer.rowBytes;
  }
  return place;
}

void PlanBuilder::setPlace(Value value, Place place) {
  places[value] = place;
  Buffer &buffer = plan.buffers[place.buffer];
  buffer.lastUse = std::max(buffer.lastUse, lastUse(value));
}

bool PlanBuilder::coversBuffer(const Place &place, Type type) {
  const Buffer &buffer = plan.buffers[place.buffer];
  auto tensor = cast<RankedTensorType>(type);
  int64_t columns = getColumnCount(tensor);
  if (place.offset != 0 || place.stride != 0)
    return false;
  if (hasPaddedRows(place))
    return buffer.rowBytes == elementBytes(tensor, columns);
  return buffer.bytes == bytesOf(type) && place.rowStride == columns;
}

/// Returns the location of the result of a reshape or slice, or std::nullopt if
/// the rows of the result do not have a constant distance in memory.
std::optional<Place> PlanBuilder::viewPlace(Operation *view) {
  auto from = tensorTypeOf(view->getOperand(0)),
       to = tensorTypeOf(view->getResult(0));
  Place place = places.lookup(view->getOperand(0));
  int64_t width = elementBytes(from);
  bool dense =
      place.rowStride == getColumnCount(from) || getRowCount(from) == 1;
  if (isa<ReshapeOp>(view)) {
    if (dense)
      place.rowStride = getColumnCount(to);
    else if (getColumnCount(from) != getColumnCount(to))
      return std::nullopt;
    return place;
  }
  auto slice = cast<SliceOp>(view);
  int64_t rank = from.getRank();
  if (rank == 0)
    return place;
  int64_t row = 0, scale = 1;
  for (int64_t dim = rank - 2; dim >= 0; --dim) {
    row += slice.getOffsets()[dim] * scale;
    scale *= from.getDimSize(dim);
  }
  place.offset +=
      (row * place.rowStride + slice.getOffsets()[rank - 1]) * width;
  if (getRowCount(to) == 1)
    place.rowStride = getColumnCount(to);
  return place;
}

/// Sets the location of `value` before the op that defines `value` is visited.
/// If this op accumulates onto an operand, also sets the location of that
/// operand.
void PlanBuilder::preplace(Value value, Place place) {
  setPlace(value, place);
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return;
  // Follow only operands of the same block. A residual must not be stored at
  // the location of a value of the backward segment, because, if several
  // micro-batches are in flight, only the residual has an instance for each of
  // them.
  Value tied = getTiedOperand(result);
  if (tied && tied.getDefiningOp() && !isa<ReadOp>(tied.getDefiningOp()) &&
      tied.getParentBlock() == value.getParentBlock() && tied.hasOneUse() &&
      !places.contains(tied))
    preplace(tied, place);
}

/// Assigns to each operand of a concat a location inside the result of the
/// concat. kiln-form-dispatches ensures that the ops that compute the operands
/// can write to these locations.
void PlanBuilder::placeConcats(Block &block) {
  for (Operation &op : llvm::reverse(block)) {
    auto concat = dyn_cast<ConcatOp>(op);
    if (!concat)
      continue;
    auto type = concat.getType();
    if (!places.contains(concat.getResult())) {
      int32_t buffer = newBuffer(describeOp(concat), rt::SlotClass::Activation,
                                 type, "operands written side by side");
      setPlace(concat.getResult(), densePlace(buffer, type));
    }
    Place whole = places.lookup(concat.getResult());
    int64_t width = elementBytes(type), rank = type.getRank(), at = 0;
    for (Value input : concat.getInputs()) {
      Place place = whole;
      if (static_cast<int64_t>(concat.getDim()) == rank - 1 &&
          getRowCount(type) > 1) {
        place.offset += at * width;
      } else {
        int64_t inner = 1;
        for (int64_t dim = concat.getDim() + 1; dim < rank; ++dim)
          inner *= type.getDimSize(dim);
        place.offset += at * inner * width;
        if (rank == 1)
          place.rowStride = getColumnCount(tensorTypeOf(input));
      }
      at += tensorTypeOf(input).getDimSize(concat.getDim());
      Value stored = getStoredOperand(concat, input);
      if (stored != input)
        place.rowStride = getColumnCount(tensorTypeOf(stored));
      preplace(yieldedResidual(stored), place);
    }
  }
}

/// Assigns the same location to a sum over micro-batches, to its block
/// argument, and to the value that the backward segment yields for it.
void PlanBuilder::placeSums(MicrobatchesOp op) {
  for (auto [sum, argument, yielded] : llvm::zip_equal(
           op.getSums(), op.getSumArguments(), op.getYieldedSums())) {
    if (!places.contains(sum)) {
      // If the backward segment yields a block argument, the yielded value has
      // no defining op.
      Operation *maker = yielded.getDefiningOp();
      int32_t buffer =
          newBuffer(describeOp(maker ? maker : op), rt::SlotClass::Gradient,
                    sum.getType(), "sum over micro-batches");
      setPlace(sum, densePlace(buffer, sum.getType()));
    }
    Place place = places.lookup(sum);
    setPlace(argument, place);
    // The operands of a concat may be residuals, which cannot be stored in the
    // buffer of a sum if several micro-batches are in flight.
    Operation *def = yielded.getDefiningOp();
    bool hasRings = op.getSegmentOrder().slots(op.getCount()) > 1;
    if (!places.contains(yielded) && def &&
        yielded.getParentBlock() == &op.getBackward() &&
        !(hasRings && isa<ConcatOp>(def)))
      preplace(yielded, place);
  }
}

/// Returns the location of the matrix that a GEMM stores. The matrix shares the
/// location of a result of the epilogue if only the epilogue reads the matrix,
/// the row program permits the sharing, and the buffer contains no operand of
/// the command. Such an operand would be overwritten by a tile of the matrix
/// before the epilogue reads the operand.
Place PlanBuilder::placeMatrix(GemmOpInterface gemm) {
  if (Value matrix = gemm.getMatrix()) {
    if (!places.contains(matrix))
      setPlace(matrix,
               ownPlace(cast<OpResult>(matrix), describeOp(gemm), "result"));
    return places.lookup(matrix);
  }
  const row::RowProgram *rows =
      rowPrograms.get(cast<DispatchOp>(gemm.getOperation()));
  assert(rows && "the verifier checked it");
  auto results = gemm.getEpilogueResults();
  auto isRead = [&](const Place &place) {
    return llvm::any_of(gemm->getOperands(), [&](Value input) {
      return places.lookup(input).buffer == place.buffer;
    });
  };
  // The rows of a result can be longer or shorter than the rows of the matrix
  // that the GEMM stores, because the epilogue can contain reshapes.
  auto asProduct = [&](Place place, Type type) {
    auto tensor = cast<RankedTensorType>(type);
    if (place.rowStride == getColumnCount(tensor) || getRowCount(tensor) == 1)
      place.rowStride = gemm.getN();
    return place;
  };
  auto newPlace = [&](StringRef why) {
    return densePlace(newBuffer(describeOp(gemm), rt::SlotClass::Activation,
                                gemm.getMatrixType(), why.str()),
                      gemm.getMatrixType());
  };
  for (OpResult result : results)
    if (row::mayShareSlot(*rows, 0, result.getResultNumber()))
      if (auto it = places.find(result);
          it != places.end() && !isRead(it->second))
        return asProduct(it->second, result.getType());
  for (OpResult result : results)
    if (row::mayShareSlot(*rows, 0, result.getResultNumber()) &&
        !places.contains(result)) {
      Place place = newPlace("matmul, then result of its epilogue");
      Place dense = place;
      dense.rowStride =
          getColumnCount(cast<RankedTensorType>(result.getType()));
      setPlace(result, dense);
      return place;
    }
  return newPlace("matmul of which only the results of the epilogue are kept");
}

/// Returns true if a dispatch may store `result` at the location of `operand`,
/// whose lifetime ends at the dispatch. Of the ops without a row program, only
/// kiln.bucket_decode may store its result dx at the location of an operand:
/// its kernel reads each element of dy before it writes the same element of dx.
bool PlanBuilder::mayWriteOver(DispatchOp dispatch, unsigned operand,
                               unsigned result) {
  if (const row::RowProgram *rows = rowPrograms.get(dispatch))
    return row::mayShareSlot(*rows, operand, result);
  auto decode = dyn_cast<BucketDecodeOp>(dispatch.getBody().front().front());
  return decode &&
         decode.getDy() == dispatch.getBody().front().getArgument(operand);
}

/// If the only use of `result` is as the new value of a state, and neither `op`
/// nor a later op reads the state, returns the location of the state. Otherwise
/// returns std::nullopt.
std::optional<Place> PlanBuilder::writtenPlace(Operation *op, OpResult result) {
  auto write =
      result.hasOneUse() ? dyn_cast<WriteOp>(*result.user_begin()) : WriteOp();
  if (!write)
    return std::nullopt;
  StringAttr name = write.getStateAttr().getAttr();
  int32_t buffer = stateBuffers.lookup(name);
  if (isReadAfter(name, op) ||
      llvm::any_of(op->getOperands(), [&](Value value) {
        return places.lookup(value).buffer == buffer;
      }))
    return std::nullopt;
  return densePlace(buffer, result.getType());
}

/// Assigns a location to each result of `op` that has none.
void PlanBuilder::placeResults(Operation *op) {
  auto dispatch = dyn_cast<DispatchOp>(op);
  bool isGemm = isa<GemmOpInterface>(op);
  const row::RowProgram *rows = dispatch ? rowPrograms.get(dispatch) : nullptr;
  llvm::SmallDenseSet<int32_t> taken;
  for (OpResult result : op->getResults()) {
    Value tied = getTiedOperand(result);
    if (tied) {
      Place from = places.lookup(tied);
      // Only the new value of a state may be stored at the location of the
      // state, and only if no later op reads the old value.
      auto read = tied.getDefiningOp<ReadOp>();
      bool update =
          read && llvm::any_of(result.getUsers(), [&](Operation *user) {
            auto write = dyn_cast<WriteOp>(user);
            return write && write.getStateAttr() == read.getStateAttr();
          });
      update = update && !isReadAfter(read.getStateAttr().getAttr(), op);
      const Buffer &buffer = plan.buffers[from.buffer];
      bool dies = !buffer.state && buffer.lastUse <= order.lookup(op);
      // A kernel that reads a row several times must not read the operand after
      // it has written the result.
      if (rows && row::planSweeps(*rows).sweeps > 1)
        if (auto input = llvm::find(dispatch.getInputs(), tied);
            input != dispatch.getInputs().end() &&
            !row::mayShareSlot(*rows, input - dispatch.getInputs().begin(),
                               result.getResultNumber()))
          update = dies = false;
      // A GEMM or a scatter reads its other operands after it has written parts
      // of the result.
      if ((isGemm || !rows) &&
          llvm::count_if(op->getOperands(), [&](Value operand) {
            return places.lookup(operand).buffer == from.buffer;
          }) > 1)
        update = dies = false;
      auto existing = places.find(result);
      if (existing == places.end() && (update || dies)) {
        setPlace(result, from);
        continue;
      }
      if (existing != places.end() && existing->second.buffer == from.buffer &&
          existing->second.offset == from.offset)
        continue;
      // The op accumulates onto the operand but cannot update the operand in
      // place: a later op or the op itself reads the operand, or the result
      // already has a different location. Before the op, copy the operand to
      // the location of the result.
      if (existing == places.end()) {
        int32_t buffer = newBuffer(
            describeOp(op), rt::SlotClass::Activation, result.getType(),
            "copy of an accumulation operand that is still read");
        setPlace(result, densePlace(buffer, result.getType()));
      }
      emitCopy(from, places.lookup(result), result.getType());
      continue;
    }
    if (places.contains(result))
      continue;
    if (dispatch && !isGemm)
      if (std::optional<Place> state = summedStatePlace(dispatch, result)) {
        setPlace(result, *state);
        continue;
      }
    if (std::optional<Place> state = writtenPlace(op, result)) {
      setPlace(result, *state);
      continue;
    }
    // A dispatch may write to the location of an operand whose lifetime ends at
    // the dispatch. An epilogue must not write to the operands of the matmul,
    // because the GEMM reads them again for later tiles.
    std::optional<Place> shared;
    if (dispatch)
      for (auto [i, input] : llvm::enumerate(dispatch.getInputs())) {
        if (isGemm && i < 2)
          continue;
        Place place = places.lookup(input);
        const Buffer &buffer = plan.buffers[place.buffer];
        if (shared || buffer.state ||
            buffer.slotClass == rt::SlotClass::Input ||
            buffer.memory != memoryOf(dispatch) ||
            taken.contains(place.buffer) || buffer.lastUse > order.lookup(op) ||
            !coversBuffer(place, input.getType()) ||
            bytesOf(input.getType()) != bytesOf(result.getType()) ||
            (hasPaddedRows(place) &&
             (input.getType() != result.getType() ||
              rowStrideOf(result) != place.rowStride)) ||
            !mayWriteOver(dispatch, isGemm ? i - 1 : i,
                          result.getResultNumber()))
          continue;
        // Overwrite the operand only if its buffer contains no other operand of
        // the dispatch.
        if (llvm::count_if(dispatch.getInputs(), [&](Value other) {
              return places.lookup(other).buffer == place.buffer;
            }) == 1)
          shared = place;
      }
    if (shared) {
      taken.insert(shared->buffer);
      if (!hasPaddedRows(*shared))
        shared->rowStride =
            getColumnCount(cast<RankedTensorType>(result.getType()));
      setPlace(result, *shared);
      continue;
    }
    setPlace(result, ownPlace(result, describeOp(op), "result"));
  }
}
