//===- KilnOps.cpp - Op classes of the kiln dialect -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Includes the generated op classes and parses the enumerations of op syntax.
// Ops/ implements the ops, with one file per group. Labels such as C1 in
// verifiers name the constraints in the descriptions of the ops.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace mlir;
using namespace kiln;

static ParseResult parseReductionKind(OpAsmParser &parser,
                                      ReductionAttr &kind) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  auto value = symbolizeReduction(keyword);
  if (!value)
    return parser.emitError(loc) << "unknown reduction '" << keyword
                                 << "', expected sum, mean or max";
  kind = ReductionAttr::get(parser.getContext(), *value);
  return success();
}
static void printReductionKind(OpAsmPrinter &printer, Operation *,
                               ReductionAttr kind) {
  printer << stringifyReduction(kind.getValue());
}

ParseResult kiln::parseKernelKind(OpAsmParser &parser, StringAttr &kind) {
  std::string keyword;
  if (parser.parseKeywordOrString(&keyword))
    return failure();
  kind = parser.getBuilder().getStringAttr(keyword);
  return success();
}
void kiln::printKernelKind(OpAsmPrinter &printer, Operation *,
                           StringAttr kind) {
  printer.printKeywordOrString(kind);
}

#define GET_OP_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnOps.cpp.inc"
