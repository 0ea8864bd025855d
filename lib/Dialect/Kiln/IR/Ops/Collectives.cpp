//===- Collectives.cpp - Communication between ranks ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReferenceRules.h"
#include "kiln/Dialect/Kiln/IR/RankGroup.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::reference;

int64_t kiln::meshSizeOf(ModuleOp module, StringRef axis) {
  auto mesh = module->getAttrOfType<DictionaryAttr>(kMeshAttr);
  auto size = mesh ? mesh.getAs<IntegerAttr>(axis) : IntegerAttr();
  return size ? size.getInt() : 0;
}

/// Verifies that a collective has operands, and that the mesh of the module has
/// its axis.
static LogicalResult verifyCollective(Operation *op, StringRef axis) {
  if (op->getNumOperands() == 0)
    return op->emitOpError("has no operand, expected at least one tensor");
  for (Type type : op->getOperandTypes())
    if (memoryOf(type) != MemorySpace::Device)
      return op->emitOpError("has an operand of type ")
             << type << ", expected tensors in device memory";
  auto module = op->getParentOfType<ModuleOp>();
  if (module && meshSizeOf(module, axis) == 0)
    return op->emitOpError("is over the axis '")
           << axis
           << "', which the module's attribute 'kiln.mesh' does not have";
  return success();
}

//===----------------------------------------------------------------------===//
// all_reduce
//===----------------------------------------------------------------------===//

static LogicalResult inferSameTypes(ValueRange operands,
                                    SmallVectorImpl<Type> &results) {
  llvm::append_range(results, operands.getTypes());
  return success();
}

LogicalResult AllReduceOp::verify() {
  return verifyCollective(*this, getAxis());
}

LogicalResult AllReduceOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location>,
                                            ValueRange operands,
                                            DictionaryAttr, OpaqueProperties,
                                            RegionRange,
                                            SmallVectorImpl<Type> &results) {
  return inferSameTypes(operands, results);
}

LogicalResult AllReduceStartOp::verify() {
  if (failed(verifyCollective(*this, getAxis())))
    return failure();
  AllReduceWaitOp wait;
  for (auto [i, token] : llvm::enumerate(getTokens())) {
    auto user = token.hasOneUse()
                    ? dyn_cast<AllReduceWaitOp>(*token.user_begin())
                    : AllReduceWaitOp();
    bool isInOrder = user && user->getBlock() == (*this)->getBlock() &&
                     user->getNumOperands() == getNumResults() &&
                     user->getOperand(i) == token && (!wait || wait == user);
    if (!isInOrder)
      return emitOpError("must have one user, a kiln.all_reduce_wait of all "
                         "tokens, in order, in the same block");
    wait = user;
  }
  return success();
}

LogicalResult AllReduceStartOp::inferReturnTypes(
    MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
    OpaqueProperties, RegionRange, SmallVectorImpl<Type> &results) {
  return inferSameTypes(operands, results);
}

LogicalResult AllReduceWaitOp::verify() {
  auto start = getNumOperands() == 0
                   ? AllReduceStartOp()
                   : getOperand(0).getDefiningOp<AllReduceStartOp>();
  if (!start || !llvm::equal(start.getTokens(), getTokens()))
    return emitOpError(
        "has tokens that are not all results of one kiln.all_reduce_start");
  return success();
}

LogicalResult AllReduceWaitOp::inferReturnTypes(
    MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
    OpaqueProperties, RegionRange, SmallVectorImpl<Type> &results) {
  return inferSameTypes(operands, results);
}

Family AllReduceOp::getFamily() { return Family::Copy; }
Family AllReduceStartOp::getFamily() { return Family::Copy; }
Family AllReduceWaitOp::getFamily() { return Family::Copy; }

//===----------------------------------------------------------------------===//
// Reference evaluation
//===----------------------------------------------------------------------===//

/// The ranks of the calling thread, see RankGroup.
static thread_local RankGroup *currentRanks = nullptr;

RankGroup *kiln::currentRankGroup() { return currentRanks; }

RankGroupScope::RankGroupScope(RankGroup &ranks) : before(currentRanks) {
  currentRanks = &ranks;
}
RankGroupScope::~RankGroupScope() { currentRanks = before; }

/// Copies the operands to the results.
static void copyOperands(Operands operands, Results results) {
  for (auto [operand, result] : llvm::zip_equal(operands, results))
    result.reals = operand->reals;
}

static LogicalResult sumOverRanks(Operation *op, Operands operands,
                                  Results results) {
  if (!currentRanks)
    return op->emitOpError("needs the tensors of other ranks, but only one "
                           "rank is interpreted: start the program with mpirun");
  copyOperands(operands, results);
  return success(currentRanks->sum(results));
}

LogicalResult AllReduceOp::evaluate(Operands operands, Results results) {
  return sumOverRanks(*this, operands, results);
}

LogicalResult AllReduceStartOp::evaluate(Operands operands, Results results) {
  return sumOverRanks(*this, operands, results);
}

LogicalResult AllReduceWaitOp::evaluate(Operands operands, Results results) {
  copyOperands(operands, results);
  return success();
}
