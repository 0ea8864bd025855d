//===- KilnOps.td - all kiln ops ---------------------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNOPS_TD
#define KILN_DIALECT_KILN_IR_KILNOPS_TD

include "kiln/Dialect/Kiln/IR/KilnElementwiseOps.td"
include "kiln/Dialect/Kiln/IR/KilnRowOps.td"
include "kiln/Dialect/Kiln/IR/KilnMatrixOps.td"
include "kiln/Dialect/Kiln/IR/KilnShapeOps.td"
include "kiln/Dialect/Kiln/IR/KilnCompressionOps.td"
include "kiln/Dialect/Kiln/IR/KilnQuantizationOps.td"
include "kiln/Dialect/Kiln/IR/KilnStateOps.td"
include "kiln/Dialect/Kiln/IR/KilnRankOps.td"
include "kiln/Dialect/Kiln/IR/KilnUpdateOps.td"
include "kiln/Dialect/Kiln/IR/KilnEncodedUpdateOps.td"

#endif
