//===- Quantization.cpp - Quantized weights -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "ReferenceRules.h"
#include "SequenceRules.h"

#include "kiln/Dialect/Kiln/IR/Quantization.h"
#include "kiln/Support/Nf4.h"

#include <vector>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::reference;
using namespace kiln::sequences;
using support::Nf4Layout;

LogicalResult DequantizeOp::verify() {
  Type element = getY().getType().getElementType();
  if (!element.isF32() && !isNarrowFloat(element)) // C3
    return emitOpError("decodes elements of type ")
           << element << ", expected f32 or a narrower type";
  Nf4Layout layout(getY().getType().getNumElements());
  if (failed(checkShape(*this, "codes", getCodes(), layout.bytes,
                        Value()))) // C1
    return failure();
  RankedTensorType table = getTable().getType();
  if (table.getShape() != ArrayRef<int64_t>{kNf4TableElements} ||
      !table.getElementType().isF32()) // C2
    return emitOpError("'table' has type ") << table << ", expected 272xf32";
  return success();
}

StringRef DequantizeOp::getKernelFamily() { return "dequantize"; }

/// A weight has no dimension that repeats per sequence.
void DequantizeOp::inferSequences(Facts operands, int64_t,
                                  MutableFacts results) {
  results[0] = allShared(operands) ? SequenceFact::shared(operands[1].degree)
                                   : explain(*this, operands);
}

LogicalResult DequantizeOp::evaluate(Operands operands, Results results) {
  const std::vector<double> &table = operands[1]->reals;
  Nf4Layout layout(getY().getType().getNumElements());
  std::vector<unsigned char> bytes;
  for (int64_t byte : operands[0]->integers)
    bytes.push_back(static_cast<unsigned char>(byte));
  auto number = [&](int64_t place) {
    float value;
    std::memcpy(&value, bytes.data() + place, sizeof(value));
    return value;
  };
  float offset = number(layout.offsetAt);
  for (int64_t i = 0; i < layout.elements; ++i) {
    int64_t block = i / Nf4Layout::blockElements;
    int64_t group = block / Nf4Layout::groupBlocks;
    int code = bytes[i / 2] >> (i % 2 ? 0 : 4) & 15;
    auto scale = static_cast<float>(table[bytes[layout.scaleCodesAt + block]]);
    scale *= number(layout.nestedScalesAt + 4 * group);
    scale += offset;
    results[0].reals[i] = static_cast<float>(table[kScaleCodes + code]) * scale;
  }
  return success();
}
