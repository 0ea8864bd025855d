//===- KilnPrecision.cpp - Precision in which ops run -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements PrecisionOpInterface and WideResultOpInterface for ops that differ
// from the default. Matmuls, attention and lookups run in low precision; exp,
// log and reductions run in f32, as in PyTorch's autocast. Norms follow their
// input, because their arithmetic is in f32 in any case.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace mlir;
using namespace kiln;

Precision MatmulOp::getPrecision() { return Precision::Low; }
Precision AttentionOp::getPrecision() { return Precision::Low; }
Precision LinearCrossEntropyOp::getPrecision() { return Precision::Low; }
Precision EmbeddingOp::getPrecision() { return Precision::Low; }

Precision ExpOp::getPrecision() { return Precision::Full; }
Precision LogOp::getPrecision() { return Precision::Full; }
Precision RsqrtOp::getPrecision() { return Precision::Full; }
Precision ReduceOp::getPrecision() { return Precision::Full; }

// A lookup reads its table in place, so only the gathered rows are rounded.
bool EmbeddingOp::keepsFullOperand(unsigned operand) { return operand == 1; }
bool RopeOp::keepsFullOperand(unsigned operand) { return operand > 0; }
bool LayerNormOp::keepsFullOperand(unsigned operand) { return operand > 0; }
bool RmsNormOp::keepsFullOperand(unsigned operand) { return operand > 0; }
bool NormalizeOp::keepsFullOperand(unsigned operand) { return operand > 0; }
bool AffineOp::keepsFullOperand(unsigned operand) { return operand > 0; }

bool AttentionOp::keepsFullResult(unsigned result) { return result == 1; }
bool LayerNormOp::keepsFullResult(unsigned result) { return result > 0; }
bool RmsNormOp::keepsFullResult(unsigned result) { return result > 0; }

unsigned LinearCrossEntropyGradOp::getWideResult() { return 2; }
