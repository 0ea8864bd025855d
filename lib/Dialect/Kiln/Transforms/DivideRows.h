//===- DivideRows.h - Division of rows over ranks ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sequence parallelism (Korthikanti et al., 2022, arXiv:2205.05198): the ranks
// of the axis tp divide the rows (tokens) of the values between two divided
// layers. Otherwise, each of these ranks would compute all of these rows:
//
//   %y = all_reduce %p              %s = reduce_scatter %p   rows of this rank
//   %n = layer_norm %y         ->   %n = layer_norm %s
//   %x = share %n                   %g = all_gather %n       all rows
//   ... = matmul %x, %w             %x = share %g
//                                   ... = matmul %x, %w
//
// The derivative of a reduce_scatter is an all_gather. The derivative of an
// all_gather whose result is shared is a reduce_scatter, so the backward pass
// has the same collectives in the reverse order.
//
// Each of n ranks has K rows of a value with at most n K rows. Rank r has the
// rows r K to r K + K - 1. Rows of a rank that are beyond the last row of the
// value are zeros where a reduce_scatter defines them. Nothing reads what is
// computed from these rows, so their cotangents are zero, and they contribute
// nothing to the gradients of parameters, as long as all values in them are
// finite. If there are such rows, an op is only divided if its results are
// finite for any finite operands.
//
// Ops that compute with the rows of one rank read a value that all ranks have,
// such as a parameter, through kiln.share, because the gradient of the value is
// the sum of the gradients of the ranks.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_DIVIDEROWS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_DIVIDEROWS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Applies sequence parallelism to a program: between two layers that are
/// divided over the ranks of the mesh axis tp, divides the rows of the values
/// over the same ranks. The program is a forward program, or a copy of one,
/// after kiln-partition-layers. Does nothing if the mesh has no axis tp.
void divideRows(ProgramOp program);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_DIVIDEROWS_H
