//===- KilnRT.h - The scheduled level ---------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILNRT_IR_KILNRT_H
#define KILN_DIALECT_KILNRT_IR_KILNRT_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "kiln/Dialect/KilnRT/IR/KilnRTDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTTypes.h.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTOps.h.inc"

#endif // KILN_DIALECT_KILNRT_IR_KILNRT_H
