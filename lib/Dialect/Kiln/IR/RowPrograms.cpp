//===- RowPrograms.cpp - The row programs of a module ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements a cache of row programs. Each entry of the cache owns a copy of
// the ops from which its program was built. A lookup hashes the given ops and
// compares them with the copies in the entries of equal hash, so hash
// collisions cause no errors. Comparing ops is cheaper than building a program:
// attributes are compared by address, and no nodes are allocated.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace kiln;

namespace {

/// The data flow between ops. Values are numbered in the order of their first
/// occurrence, so the numbers do not depend on addresses.
class DataFlow {
public:
  explicit DataFlow(const RowOps &source) {
    for (Value operand : source.operands)
      use(operand);
    for (Operation *op : source.ops) {
      for (Value operand : op->getOperands())
        use(operand);
      for (Value result : op->getResults())
        numbers.try_emplace(result, numbers.size());
    }
    for (Value result : source.results)
      use(result);
  }

  /// The numbers of the values that are used: the operands of the program, then
  /// the operands of each op in program order, then the results of the program.
  SmallVector<unsigned, 32> uses;
  /// Values that none of the ops computes, in ascending order of their numbers.
  SmallVector<Value> inputs;

private:
  void use(Value value) {
    auto [it, isNew] = numbers.try_emplace(value, numbers.size());
    if (isNew)
      inputs.push_back(value);
    uses.push_back(it->second);
  }

  llvm::SmallDenseMap<Value, unsigned, 32> numbers;
};

} // namespace

/// Returns true if two ops are equal, ignoring their locations and the values
/// that they read. DataFlow compares these values.
static bool isSameOp(Operation *a, Operation *b) {
  return a->getName() == b->getName() &&
         a->getDiscardableAttrDictionary() ==
             b->getDiscardableAttrDictionary() &&
         a->getName().compareOpProperties(a->getPropertiesStorage(),
                                          b->getPropertiesStorage()) &&
         a->getResultTypes() == b->getResultTypes() &&
         llvm::all_of_zip(a->getRegions(), b->getRegions(),
                          [](Region &x, Region &y) {
                            return OperationEquivalence::isRegionEquivalentTo(
                                &x, &y, OperationEquivalence::IgnoreLocations);
                          });
}

static uint64_t hashOf(const RowOps &source, const DataFlow &flow) {
  llvm::hash_code hash = llvm::hash_combine(
      source.rows, source.cols,
      llvm::hash_combine_range(flow.uses.begin(), flow.uses.end()));
  for (Value input : flow.inputs)
    hash = llvm::hash_combine(hash, input.getType());
  for (Operation *op : source.ops)
    hash =
        llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                     op, OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::IgnoreLocations));
  return hash;
}

struct RowPrograms::Entry {
  Entry(const RowOps &source, const DataFlow &flow)
      : rows(source.rows), cols(source.cols), uses(ArrayRef(flow.uses)) {
    IRMapping mapping;
    for (Value input : flow.inputs)
      mapping.map(input, ops.addArgument(input.getType(), input.getLoc()));
    for (Operation *op : source.ops)
      ops.push_back(op->clone(mapping));
  }

  bool isOf(const RowOps &source, const DataFlow &flow) {
    return rows == source.rows && cols == source.cols && uses == flow.uses &&
           ValueRange(flow.inputs).getTypes() == ops.getArgumentTypes() &&
           source.ops.size() == ops.getOperations().size() &&
           llvm::all_of(llvm::zip(source.ops, ops), [](auto pair) {
             return isSameOp(std::get<0>(pair), &std::get<1>(pair));
           });
  }

  int64_t rows, cols;
  SmallVector<unsigned> uses;
  Block ops; ///< Copies of the ops. Block arguments stand for DataFlow::inputs.
  std::optional<row::RowProgram> program;
};

RowPrograms::RowPrograms() = default;
RowPrograms::~RowPrograms() = default;

const row::RowProgram *RowPrograms::get(const RowOps &source) {
  DataFlow flow(source);
  Bucket &bucket = entries[hashOf(source, flow)];
  for (std::unique_ptr<Entry> &entry : bucket)
    if (entry->isOf(source, flow))
      return entry->program ? &*entry->program : nullptr;

  bucket.push_back(std::make_unique<Entry>(source, flow));
  ++count;
  auto program = buildRowProgram(source);
  if (failed(program))
    return nullptr;
  return &bucket.back()->program.emplace(std::move(*program));
}

const row::RowProgram *RowPrograms::get(DispatchOp dispatch) {
  if (dispatch.getFamily() != Family::Row &&
      dispatch.getFamily() != Family::Gemm)
    return nullptr;
  return get(rowOpsOf(dispatch));
}
