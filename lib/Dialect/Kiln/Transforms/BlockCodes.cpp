//===- BlockCodes.cpp - Residuals as codes of blocks ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockCodes.h"

using namespace mlir;
using namespace kiln;

/// A value is encoded only if it has at least this many elements per sequence.
/// The scales and codes of a value take one or two launches in the forward pass
/// and one in the backward pass. For smaller values, which save at most 3 KiB
/// per sequence with codes of 8 bits, these launches are too expensive.
static constexpr int64_t kLeastElements = 1024;

/// Numbers of elements that may share a scale. With fewer than 16, scales would
/// take more than two bits per element.
static constexpr int64_t kBlockLengths[] = {256, 128, 64, 32, 16};

std::optional<BlockCodes> BlockCodeChooser::find(RankedTensorType type) const {
  if (bits == 0 || !isa<FloatType>(type.getElementType()))
    return std::nullopt;
  // The length of blocks depends only on the number of elements of one
  // sequence, and no block has elements of two sequences. The codes therefore
  // do not depend on the number of micro-batches.
  int64_t elements = type.getNumElements();
  int64_t part = elements % sequences == 0 ? elements / sequences : elements;
  if (part < kLeastElements)
    return std::nullopt;
  int64_t codesPerByte = 8 / bits;
  for (int64_t length : kBlockLengths) {
    if (part % (codesPerByte * length) != 0)
      continue;
    BlockCodes codes{
        bits, elements / codesPerByte,
        RankedTensorType::get({elements / length},
                              fullPrecision(type).getElementType())};
    if (codes.bytes() < bytesOf(type))
      return codes;
  }
  return std::nullopt;
}

BlockCodeChooser::BlockCodeChooser(ProgramOp program, Operation *phase,
                                   int64_t bits)
    : phase(phase), bits(bits), sequences(countSequences(program)) {
  if (bits == 0)
    return;
  for (BlockArgument input : program.getArguments())
    activations.insert(input);
  for (auto it = program.getBlock().begin(); &*it != phase; ++it)
    if (llvm::any_of(it->getOperands(), [&](Value operand) {
          return activations.contains(operand);
        }))
      activations.insert(it->result_begin(), it->result_end());
}

/// Returns true if an op of the forward pass other than a view reads the value,
/// directly or through views.
bool BlockCodeChooser::isReadInForward(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (user->getBlock() != phase->getBlock() || !user->isBeforeInBlock(phase))
      return false;
    return familyOf(user) != Family::View ||
           llvm::any_of(user->getResults(),
                        [&](Value view) { return isReadInForward(view); });
  });
}

std::optional<BlockCodes>
BlockCodeChooser::find(Value residual, ArrayRef<ResidualRead> reads) const {
  // Do not encode weights that the forward pass has rounded or decoded. Do not
  // encode values that only the backward pass reads, either: they are
  // statistics of rows, whose errors would change all gradients of the row, or
  // gradients that the loss computes. A sketch is an exception: only the
  // backward pass reads it, but it replaces an activation.
  if (!activations.contains(residual) ||
      !(isReadInForward(residual) || residual.getDefiningOp<SketchRowsOp>()))
    return std::nullopt;
  // Do not encode results of the program.
  if (llvm::any_of(reads, [](const ResidualRead &read) {
        return isa<ReturnOp>(read.reader);
      }))
    return std::nullopt;
  return find(tensorTypeOf(residual));
}
