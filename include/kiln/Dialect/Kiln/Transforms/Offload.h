//===- Offload.h - What leaves the device between its readers ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which values wait for the backward pass, and the marks that send them to the
// host meanwhile. kiln-place-copies turns marks into copies.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_OFFLOAD_H
#define KILN_DIALECT_KILN_TRANSFORMS_OFFLOAD_H

#include "kiln/Dialect/Kiln/Transforms/StageChain.h"

#include <optional>

namespace kiln {

/// Results of the forward pass that the backward pass reads, views as what they
/// look at, in program order; without small ones.
llvm::SmallVector<mlir::OpResult> residualsOf(const StageChain &chain);

/// Adds `value` to its op's `kiln.offload`.
void markOffload(mlir::OpResult value, int64_t lag, int64_t lead);

/// The commands (dispatches, products, loops) of a block on the dispatched
/// level, in order.
class CommandOrder {
public:
  explicit CommandOrder(mlir::Block &block);
  /// The position of a command, or -1.
  int64_t of(mlir::Operation *op) const;
  int64_t size() const { return static_cast<int64_t>(commands.size()); }
  mlir::Operation *operator[](int64_t position) const {
    return commands[position];
  }
  /// The op in front of which something has to stand that is to happen before
  /// command `position`; the block's end behind the last one.
  mlir::Operation *inFrontOf(int64_t position) const;

private:
  llvm::SmallVector<mlir::Operation *> commands;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  mlir::Operation *end;
};

/// One reader of a value: the operand of a command, and the views between, the
/// one that reads the value first.
struct Reader {
  mlir::OpOperand *operand;
  llvm::SmallVector<mlir::Operation *, 2> views;
};

/// Commands in the value's block (or in `block`) that read it, in order.
/// Nothing if something else reads it: a concat, a return, an op in a region.
std::optional<llvm::SmallVector<Reader>> readersOf(mlir::Value value,
                                                   const CommandOrder &order);

/// The readers of a value that `kiln.offload` names, split at the longest
/// stretch of commands without one.
struct OffloadGap {
  int64_t made = 0; ///< position of the value's command
  int64_t left = 0; ///< of the last reader before the gap, or `made`
  int64_t back = 0; ///< of the first reader behind it
  llvm::SmallVector<Reader> behind;
};
std::optional<OffloadGap> findGap(mlir::Value value, const CommandOrder &order);

/// Visits what the commands of a block on the dispatched level leave in memory,
/// and the result of the op, perhaps in a dispatch, that computes it.
void forEachMemoryValue(
    mlir::Block &block,
    llvm::function_ref<void(mlir::Value value, mlir::OpResult computed)> visit);

/// A value of the dispatched level and its mark.
struct MarkedValue {
  mlir::Value value;
  mlir::Operation *marked; ///< the op with the mark
  int64_t lag = 0, lead = 0;
};
/// What `kiln.offload` names in a block, as far as it is in memory at all.
llvm::SmallVector<MarkedValue> markedValues(mlir::Block &block);

/// Readers of a state on the host, group by group: those of a group are near
/// each other and share a copy.
llvm::SmallVector<llvm::SmallVector<Reader>>
readerGroups(ReadOp read, const CommandOrder &order);

/// Begins the copy to the device of a state on the host this many commands
/// ahead, where nothing else is said.
inline constexpr int64_t kDefaultLead = 6;

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_OFFLOAD_H
