//===- Collectives.cpp - Communication between ranks ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "ReferenceRules.h"
#include "kiln/Dialect/Kiln/IR/RankGroup.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::gradients;
using namespace kiln::reference;

int64_t kiln::meshSizeOf(ModuleOp module, StringRef axis) {
  auto mesh = module->getAttrOfType<DictionaryAttr>(kMeshAttr);
  auto size = mesh ? mesh.getAs<IntegerAttr>(axis) : IntegerAttr();
  return size ? size.getInt() : 0;
}

/// Verifies that the mesh of the module has the axis `axis`.
static LogicalResult verifyAxis(Operation *op, StringRef axis) {
  auto module = op->getParentOfType<ModuleOp>();
  if (module && meshSizeOf(module, axis) == 0)
    return op->emitOpError("is over the axis '")
           << axis
           << "', which the module's attribute 'kiln.mesh' does not have";
  return success();
}

/// Verifies that `shard` has the element type of `whole`, has at most as many
/// elements, and has enough elements for the shards of all ranks to cover
/// `whole`.
static LogicalResult verifyShard(Operation *op, StringRef axis, Type whole,
                                 Type shard) {
  auto module = op->getParentOfType<ModuleOp>();
  if (!module)
    return success();
  if (succeeded(checkShard(cast<RankedTensorType>(whole),
                           cast<RankedTensorType>(shard),
                           meshSizeOf(module, axis))))
    return success();
  int64_t elements = cast<RankedTensorType>(whole).getNumElements();
  return op->emitOpError("has a shard of type ")
         << shard << ", expected the element type of " << whole << " and "
         << llvm::divideCeil(elements, meshSizeOf(module, axis)) << " to "
         << elements << " elements";
}

LogicalResult kiln::checkShard(RankedTensorType whole, RankedTensorType shard,
                               int64_t ranks, int64_t blocks) {
  int64_t elements = whole.getNumElements(), part = shard.getNumElements();
  if (whole.getElementType() != shard.getElementType() || ranks < 1 ||
      blocks < 1 || elements % blocks != 0 || part % blocks != 0)
    return failure();
  elements /= blocks;
  part /= blocks;
  return success(part <= elements &&
                 part >= int64_t(llvm::divideCeil(elements, ranks)));
}

LogicalResult ShardAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                RankedTensorType type, StringRef axis,
                                int64_t blocks, int64_t owner, Attribute of) {
  if (blocks < 1 || type.getNumElements() % blocks != 0)
    return emitError() << "expected a number of blocks that divides the "
                       << type.getNumElements() << " elements of " << type
                       << ", got " << blocks;
  if (owner < -1 || (owner >= 0 && blocks != 1))
    return emitError() << "a tensor with an owner must have a single block and "
                          "an owner of at least 0, got owner "
                       << owner << " and " << blocks << " blocks";
  auto outer = dyn_cast_or_null<ShardAttr>(of);
  if (of && !outer)
    return emitError() << "expected #kiln.shard after 'of', got " << of;
  for (; outer; outer = outer.getOuter())
    if (outer.getAxis() == axis)
      return emitError() << "the tensor is already divided over the axis '"
                         << axis << "', expected another axis";
  return success();
}

RankedTensorType ShardAttr::getWholeType() {
  ShardAttr outer = getOuter();
  return outer ? outer.getWholeType() : getType();
}

ShardAttr ShardAttr::withElementType(Type element) {
  ShardAttr outer = getOuter();
  return ShardAttr::get(getContext(), getType().clone(element), getAxis(),
                        getBlocks(), getOwner(),
                        outer ? outer.withElementType(element) : ShardAttr());
}

static bool isCodes(Type type) {
  return cast<RankedTensorType>(type).getElementType().isInteger(8);
}

/// Verifies a tensor with an owner, the rank whose shard is the whole tensor.
/// `owner` must be the index of a rank, and the shard must have the type of the
/// whole tensor.
static LogicalResult verifyOwner(Operation *op, StringRef axis, int64_t owner,
                                 Type whole, Type shard) {
  auto module = op->getParentOfType<ModuleOp>();
  if (module && (owner < 0 || owner >= meshSizeOf(module, axis)))
    return op->emitOpError("names rank ")
           << owner << " as the owner of a tensor, expected a rank below "
           << meshSizeOf(module, axis) << ", the size of the axis '" << axis
           << "'";
  if (whole != shard)
    return op->emitOpError("has a shard of type ")
           << shard << ", expected " << whole
           << ", because one rank owns the whole tensor";
  return success();
}

/// Verifies the operands, the axis and the owners of a collective or of its
/// start, and the types of its results.
static LogicalResult
verifyCollective(Operation *op, Collective collective, StringRef axis,
                 std::optional<ArrayRef<int64_t>> owners = std::nullopt) {
  if (op->getNumOperands() == 0)
    return op->emitOpError("has no operand, expected at least one tensor");
  if (op->getNumOperands() != op->getNumResults())
    return op->emitOpError("has ")
           << op->getNumOperands() << " operands and " << op->getNumResults()
           << " results, expected one result for each operand";
  for (TypeRange types :
       {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (memoryOf(type) != MemorySpace::Device)
        return op->emitOpError("has a tensor of type ")
               << type << ", expected tensors in device memory";
  if (failed(verifyAxis(op, axis)))
    return failure();
  if (owners && (collective == Collective::AllReduce ||
                 owners->size() != op->getNumOperands()))
    return op->emitOpError("has ")
           << owners->size() << " owner ranks, expected "
           << (collective == Collective::AllReduce
                   ? "none, because all ranks get the sums"
                   : "one for each tensor");
  for (auto [i, from, to] :
       llvm::enumerate(op->getOperandTypes(), op->getResultTypes())) {
    if (collective != Collective::AllReduce && isCodes(from))
      return op->emitOpError("has an operand of type ")
             << from << ", but only an all_reduce supports i8 elements";
    if (collective == Collective::AllReduce && from != to)
      return op->emitOpError("has an operand of type ")
             << from << " and a result of type " << to
             << ", expected the same type";
    if (owners) {
      bool gathers = collective == Collective::AllGather;
      if (failed(verifyOwner(op, axis, (*owners)[i], gathers ? to : from,
                             gathers ? from : to)))
        return failure();
      continue;
    }
    if (collective == Collective::ReduceScatter &&
        failed(verifyShard(op, axis, from, to)))
      return failure();
    if (collective == Collective::AllGather &&
        failed(verifyShard(op, axis, to, from)))
      return failure();
  }
  return success();
}

static LogicalResult inferSameTypes(ValueRange operands,
                                    SmallVectorImpl<Type> &results) {
  llvm::append_range(results, operands.getTypes());
  return success();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Collective AllReduceOp::getCollective() { return Collective::AllReduce; }
Collective ReduceScatterOp::getCollective() {
  return Collective::ReduceScatter;
}
Collective AllGatherOp::getCollective() { return Collective::AllGather; }

Family AllReduceOp::getFamily() { return Family::Copy; }
Family ReduceScatterOp::getFamily() { return Family::Copy; }
Family AllGatherOp::getFamily() { return Family::Copy; }

LogicalResult AllReduceOp::verify() {
  return verifyCollective(*this, getCollective(), getAxis());
}
LogicalResult ReduceScatterOp::verify() {
  return verifyCollective(*this, getCollective(), getAxis(), getOwners());
}
LogicalResult AllGatherOp::verify() {
  return verifyCollective(*this, getCollective(), getAxis(), getOwners());
}

LogicalResult AllReduceOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location>,
                                            ValueRange operands,
                                            DictionaryAttr, OpaqueProperties,
                                            RegionRange,
                                            SmallVectorImpl<Type> &results) {
  return inferSameTypes(operands, results);
}

bool AllReduceOp::isLinear() { return true; }

LogicalResult AllReduceOp::buildGradient(OpBuilder &, ValueRange cotangents,
                                         Wanted, Gradients gradients) {
  for (auto [gradient, cotangent] : llvm::zip_equal(gradients, cotangents))
    gradient = cotangent;
  return success();
}

/// Builds the tensor whose shards are the cotangents of all ranks.
static Value gatherCotangent(OpBuilder &builder, Location loc, Value cotangent,
                             Type whole, StringRef axis) {
  auto gather =
      AllGatherOp::create(builder, loc, TypeRange(whole), cotangent, axis);
  return gather.getOutputs().front();
}

LogicalResult ReduceScatterOp::buildGradient(OpBuilder &builder,
                                             ValueRange cotangents, Wanted,
                                             Gradients gradients) {
  for (auto [gradient, cotangent, input] :
       llvm::zip_equal(gradients, cotangents, getInputs()))
    if (cotangent)
      gradient = gatherCotangent(builder, getLoc(), cotangent, input.getType(),
                                 getAxis());
  return success();
}

/// If an all_reduce over `axis` without other results defines `value`, and no
/// op reads `value`, returns the all_reduce. Otherwise returns null. The caller
/// must not erase the op, because its result may also be the cotangent of
/// another value.
static AllReduceOp soleSum(Value value, StringRef axis) {
  auto sum = value.getDefiningOp<AllReduceOp>();
  bool isSole = sum && sum.getAxis() == axis && sum->getNumOperands() == 1 &&
                value.use_empty();
  return isSole ? sum : AllReduceOp();
}

/// If a reduce_scatter with the operand and the axis of `sum` exists, and its
/// result has the type `shard`, returns this result. Otherwise returns null.
static Value shardOfSum(AllReduceOp sum, Type shard) {
  for (Operation *user : sum.getInputs().front().getUsers())
    if (auto scatter = dyn_cast<ReduceScatterOp>(user);
        scatter && scatter.getAxis() == sum.getAxis() &&
        scatter->getNumOperands() == 1 &&
        scatter.getOutputs().front().getType() == shard)
      return scatter.getOutputs().front();
  return Value();
}

LogicalResult AllGatherOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted,
                                         Gradients gradients) {
  for (auto [gradient, cotangent, input] :
       llvm::zip_equal(gradients, cotangents, getInputs())) {
    if (!cotangent)
      continue;
    AllReduceOp sum = soleSum(cotangent, getAxis());
    if (!sum) {
      gradient = TakeShardOp::create(builder, getLoc(), input.getType(),
                                     cotangent, getAxis());
      continue;
    }
    gradient = shardOfSum(sum, input.getType());
    if (gradient)
      continue;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(sum);
    gradient =
        ReduceScatterOp::create(builder, getLoc(), TypeRange(input.getType()),
                                sum.getInputs(), getAxis())
            .getOutputs()
            .front();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// share
//===----------------------------------------------------------------------===//

Family ShareOp::getFamily() { return Family::View; }

LogicalResult ShareOp::verify() { return verifyAxis(*this, getAxis()); }

bool ShareOp::isLinear() { return true; }

OpFoldResult ShareOp::fold(FoldAdaptor) {
  auto program = (*this)->getParentOfType<ProgramOp>();
  bool mayBeDifferentiated =
      !program || program.getKind() == ProgramKind::Forward;
  return mayBeDifferentiated ? OpFoldResult() : getX();
}

/// Inserts an all_reduce of the cotangent directly after the definition of the
/// cotangent. The all_reduce thus precedes the ops that were built after the
/// cotangent, such as gradients of weights, and overlaps with these ops.
LogicalResult ShareOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                     Wanted, Gradients gradients) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(cotangents[0]);
  auto sum = AllReduceOp::create(builder, getLoc(), cotangents[0], getAxis());
  gradients[0] = sum.getOutputs().front();
  return success();
}

//===----------------------------------------------------------------------===//
// Starts and waits
//===----------------------------------------------------------------------===//

Family CollectiveStartOp::getFamily() { return Family::Copy; }
Family CollectiveWaitOp::getFamily() { return Family::Copy; }

CollectiveWaitOp CollectiveStartOp::getWait() {
  return cast<CollectiveWaitOp>(*getTokens().front().user_begin());
}

LogicalResult CollectiveStartOp::verify() {
  if (failed(verifyCollective(*this, getCollective(), getAxis(), getOwners())))
    return failure();
  CollectiveWaitOp wait;
  for (auto [i, token] : llvm::enumerate(getTokens())) {
    auto user = token.hasOneUse()
                    ? dyn_cast<CollectiveWaitOp>(*token.user_begin())
                    : CollectiveWaitOp();
    bool isInOrder = user && user->getBlock() == (*this)->getBlock() &&
                     user->getNumOperands() == getNumResults() &&
                     user->getOperand(i) == token && (!wait || wait == user);
    if (!isInOrder)
      return emitOpError(
          "must have exactly one user, a kiln.collective_wait in the same "
          "block with all tokens as its operands, in order");
    wait = user;
  }
  return success();
}

LogicalResult CollectiveWaitOp::verify() {
  auto start = getNumOperands() == 0
                   ? CollectiveStartOp()
                   : getOperand(0).getDefiningOp<CollectiveStartOp>();
  if (!start || !llvm::equal(start.getTokens(), getTokens()))
    return emitOpError("must have all results of one kiln.collective_start as "
                       "its operands, in order");
  return success();
}

LogicalResult CollectiveWaitOp::inferReturnTypes(
    MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
    OpaqueProperties, RegionRange, SmallVectorImpl<Type> &results) {
  return inferSameTypes(operands, results);
}

//===----------------------------------------------------------------------===//
// take_shard
//===----------------------------------------------------------------------===//

Family TakeShardOp::getFamily() { return Family::Copy; }

LogicalResult TakeShardOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted,
                                         Gradients gradients) {
  gradients[0] = gatherCotangent(builder, getLoc(), cotangents[0],
                                 getX().getType(), getAxis());
  return success();
}

LogicalResult TakeShardOp::verify() {
  if (memoryOf(getX().getType()) != memoryOf(getShard().getType()))
    return emitOpError("has an operand of type ")
           << getX().getType() << " and a result of type "
           << getShard().getType() << ", expected tensors in the same memory";
  if (failed(verifyAxis(*this, getAxis())))
    return failure();
  if (std::optional<uint64_t> owner = getOwner())
    return verifyOwner(*this, getAxis(), static_cast<int64_t>(*owner),
                       getX().getType(), getShard().getType());
  return verifyShard(*this, getAxis(), getX().getType(), getShard().getType());
}

//===----------------------------------------------------------------------===//
// Reference evaluation
//===----------------------------------------------------------------------===//

/// The ranks with which the calling thread evaluates collectives (see
/// RankGroup), or null if it evaluates a program for one rank only.
static thread_local RankGroup *currentRanks = nullptr;

RankGroup *kiln::currentRankGroup() { return currentRanks; }

RankGroupScope::RankGroupScope(RankGroup &ranks) : before(currentRanks) {
  currentRanks = &ranks;
}
RankGroupScope::~RankGroupScope() { currentRanks = before; }

/// Returns the range [begin, end) of the elements of a tensor that are in the
/// shard of `rank`. The tensor has `whole` elements, and each shard has `shard`
/// elements. If the range has fewer elements, the shard is padded with zeros.
static std::pair<size_t, size_t> rangeOfShard(size_t whole, size_t shard,
                                              int64_t rank) {
  size_t begin = std::min(shard * static_cast<size_t>(rank), whole);
  return {begin, std::min(begin + shard, whole)};
}

template <typename Element>
static std::vector<Element> shardOf(const std::vector<Element> &whole,
                                    size_t shard, int64_t rank) {
  auto [begin, end] = rangeOfShard(whole.size(), shard, rank);
  std::vector<Element> part(whole.begin() + begin, whole.begin() + end);
  part.resize(shard);
  return part;
}

static LogicalResult needsRanks(Operation *op) {
  if (currentRanks)
    return success();
  return op->emitOpError("needs the tensors of other ranks, but the "
                         "interpreter runs as one rank: start it with mpirun");
}

// An all_gather is evaluated as a sum over ranks: each rank contributes a
// tensor that is zero outside of the shard of this rank.
LogicalResult
kiln::evaluateCollective(Operation *op, Collective collective, StringRef axis,
                         Operands operands, Results results,
                         std::optional<ArrayRef<int64_t>> owners) {
  if (failed(needsRanks(op)))
    return failure();
  int64_t rank = currentRanks->rank(axis);
  auto hasNone = [&](size_t i) { return owners && (*owners)[i] != rank; };
  SmallVector<HostTensor> wholes;
  for (auto [i, operand, result] : llvm::enumerate(operands, results)) {
    if (collective != Collective::AllGather) {
      HostTensor &whole = wholes.emplace_back(*operand);
      llvm::append_range(whole.reals, operand->integers);
      continue;
    }
    HostTensor &whole = wholes.emplace_back(result.type);
    if (hasNone(i))
      continue;
    auto [begin, end] = rangeOfShard(whole.reals.size(), operand->reals.size(),
                                     owners ? 0 : rank);
    std::copy_n(operand->reals.begin(), end - begin,
                whole.reals.begin() + begin);
  }
  if (!currentRanks->sum(axis, wholes))
    return op->emitOpError("cannot be completed, because another rank failed");
  for (auto [i, whole, result] : llvm::enumerate(wholes, results)) {
    if (hasNone(i) && collective == Collective::ReduceScatter)
      std::fill(result.reals.begin(), result.reals.end(), 0.0);
    else if (collective == Collective::ReduceScatter && !owners)
      result.reals = shardOf(whole.reals, result.type.getNumElements(), rank);
    else if (result.isReal())
      result.reals = std::move(whole.reals);
    else
      result.integers.assign(whole.reals.begin(), whole.reals.end());
  }
  return success();
}

FailureOr<std::vector<double>> kiln::evaluateShard(Operation *op,
                                                   StringRef axis,
                                                   const HostTensor &whole,
                                                   int64_t elements) {
  if (failed(needsRanks(op)))
    return failure();
  return shardOf(whole.reals, elements, currentRanks->rank(axis));
}

LogicalResult AllReduceOp::evaluate(Operands operands, Results results) {
  return evaluateCollective(*this, getCollective(), getAxis(), operands,
                            results);
}

LogicalResult ReduceScatterOp::evaluate(Operands operands, Results results) {
  return evaluateCollective(*this, getCollective(), getAxis(), operands,
                            results, getOwners());
}

LogicalResult AllGatherOp::evaluate(Operands operands, Results results) {
  return evaluateCollective(*this, getCollective(), getAxis(), operands,
                            results, getOwners());
}

LogicalResult CollectiveStartOp::evaluate(Operands operands, Results results) {
  return evaluateCollective(*this, getCollective(), getAxis(), operands,
                            results, getOwners());
}

LogicalResult CollectiveWaitOp::evaluate(Operands operands, Results results) {
  for (auto [operand, result] : llvm::zip_equal(operands, results)) {
    result.reals = operand->reals;
    result.integers = operand->integers;
  }
  return success();
}

LogicalResult ShareOp::evaluate(Operands operands, Results results) {
  results[0].reals = operands[0]->reals;
  return success();
}

LogicalResult TakeShardOp::evaluate(Operands operands, Results results) {
  if (getOwner()) {
    results[0].reals = operands[0]->reals;
    results[0].integers = operands[0]->integers;
    return success();
  }
  if (!results[0].isReal()) {
    if (failed(needsRanks(*this)))
      return failure();
    results[0].integers =
        shardOf(operands[0]->integers, results[0].type.getNumElements(),
                currentRanks->rank(getAxis()));
    return success();
  }
  auto shard = evaluateShard(*this, getAxis(), *operands[0],
                             results[0].type.getNumElements());
  if (failed(shard))
    return failure();
  results[0].reals = std::move(*shard);
  return success();
}
