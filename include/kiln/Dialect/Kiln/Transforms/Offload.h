//===- Offload.h - Offloading of values to the host -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the values that are live from the forward pass to the backward pass,
// and marks those that are stored in host memory between the two passes.
// kiln-place-copies inserts the copies of marked values.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_OFFLOAD_H
#define KILN_DIALECT_KILN_TRANSFORMS_OFFLOAD_H

#include "kiln/Dialect/Kiln/Transforms/StageChain.h"

#include <optional>

namespace kiln {

/// Returns the results of the forward pass that the backward pass reads, in
/// program order. Omits small values (see kSmallShare), and replaces views by
/// their sources.
llvm::SmallVector<mlir::OpResult> residualsOf(const StageChain &chain);

/// Marks `value` as offloaded in the attribute `kiln.offload` of the op that
/// computes it. `lag` is the number of commands that may run before the copy to
/// the host is complete. `lead` is the number of commands by which the copy
/// back precedes the next reader.
void markOffload(mlir::OpResult value, int64_t lag, int64_t lead);

/// The commands (dispatches, matmuls, micro-batches) of a block at the level
/// Dispatched (see Levels.h), in order. The commands of a forward segment are
/// followed by those of the backward segment.
class CommandOrder {
public:
  explicit CommandOrder(mlir::Block &block);
  /// Returns the position of a command, or -1 if `op` is not a command.
  int64_t of(mlir::Operation *op) const;
  /// Returns the position of the command before which the operands of `op` must
  /// be available:
  ///   - a command: its own position
  ///   - a collective, its wait, or a kiln.take_shard: the next command
  ///   - the terminator, or a write of a state, which can be moved to the end:
  ///     size()
  ///   - any other op: -1
  int64_t readingPosition(mlir::Operation *op) const;
  /// Returns the position of the command after which the results of `op` are
  /// available:
  ///   - a command: its own position
  ///   - a collective, its wait, or a kiln.take_shard: the previous command
  ///   - any other op: -1
  int64_t completingPosition(mlir::Operation *op) const;
  int64_t size() const { return static_cast<int64_t>(commands.size()); }
  mlir::Operation *operator[](int64_t position) const {
    return commands[position];
  }
  /// Returns the insertion point for ops that must run before command
  /// `position`: the command itself, or the terminator if `position` is size().
  mlir::Operation *inFrontOf(int64_t position) const;

private:
  llvm::SmallVector<mlir::Operation *> commands;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  /// For each collective, wait for a collective, and kiln.take_shard: the
  /// position of the next command.
  llvm::DenseMap<mlir::Operation *, int64_t> between;
  mlir::Operation *end = nullptr;
};

/// A reader of a value: the operand of a command, and the chain of views from
/// the value to this operand.
struct Reader {
  mlir::OpOperand *operand;
  llvm::SmallVector<mlir::Operation *, 2> views;
};

/// Returns the commands of `order` that read a value, in order. Returns
/// std::nullopt if an op that is not a command reads the value, such as a
/// concat, a return or an op in a region, or if a kiln.microbatches reads it.
std::optional<llvm::SmallVector<Reader>> readersOf(mlir::Value value,
                                                   const CommandOrder &order);

/// The longest range of consecutive commands that do not read a value, after
/// the command that computes the value and before the last reader of the value.
struct OffloadGap {
  int64_t made = 0; ///< Position of the command that computes the value.
  /// Position of the last reader before the gap; `made` if there is none.
  int64_t left = 0;
  int64_t back = 0; ///< Position of the first reader after the gap.
  llvm::SmallVector<Reader> behind; ///< All readers after the gap.
};
/// Returns the gap of a value, or std::nullopt if nothing reads the value or if
/// some reader is not a command.
std::optional<OffloadGap> findGap(mlir::Value value, const CommandOrder &order);

/// Visits every value that the commands of a block at the level Dispatched (see
/// Levels.h) store in memory. `computed` is `value` itself if a matmul computes
/// `value`. If `value` is a result of a dispatch, `computed` is the value in
/// the body of the dispatch that the terminator yields as this result.
void forEachMemoryValue(
    mlir::Block &block,
    llvm::function_ref<void(mlir::Value value, mlir::OpResult computed)> visit);

/// A value of a program at the dispatched level that is marked by
/// `kiln.offload`.
struct MarkedValue {
  mlir::Value value;
  mlir::Operation *marked; ///< The op with the attribute.
  int64_t lag = 0, lead = 0;
};
/// Returns the values of a block that are marked by `kiln.offload` and stored
/// in memory.
llvm::SmallVector<MarkedValue> markedValues(mlir::Block &block);

/// Returns the ops in a program that read a state in host memory and have a
/// result in device memory.
llvm::SmallVector<ReadOp> readsAcross(ProgramOp program);

/// Returns the readers, in the block of `order`, of the result of `read`, as a
/// list of groups. readsAcross() must contain `read`. Consecutive readers with
/// few commands between them form a group, and all readers of a group share one
/// copy.
llvm::SmallVector<llvm::SmallVector<Reader>>
readerGroups(ReadOp read, const CommandOrder &order);

/// Default number of commands by which the copy of a host state to the device
/// precedes the first command that reads the copy.
inline constexpr int64_t kDefaultLead = 6;

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_OFFLOAD_H
