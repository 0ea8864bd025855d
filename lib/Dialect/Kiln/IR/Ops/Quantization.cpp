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

#include <cstring>
#include <vector>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::reference;
using namespace kiln::sequences;
using support::Nf4Layout;

support::WeightLayout kiln::layoutOf(QuantizedAttr quantized) {
  RankedTensorType type = quantized.getType();
  switch (quantized.getEncoding()) {
  case Quantization::Nf4:
    return support::Nf4Layout(type.getNumElements());
  case Quantization::Int8:
    return support::Int8Layout(
        type.getDimSize(0), type.getDimSize(1),
        {quantized.getBlock(), quantized.getOutliers(), quantized.getInputs()});
  }
  llvm_unreachable("unknown encoding");
}

LogicalResult
QuantizedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      Quantization encoding, RankedTensorType type,
                      int64_t block, int64_t outliers, int64_t inputs) {
  bool isWeight = type.hasStaticShape() && type.getRank() == 2 &&
                  !type.getEncoding() && type.getNumElements() > 0 &&
                  isStoredReal(type.getElementType());
  if (!isWeight) // C1
    return emitError() << "encodes a weight of type " << type
                       << ", expected a matrix of floating-point numbers";
  if (encoding == Quantization::Nf4) {
    if (block == 0 && outliers == 0 && inputs == 0)
      return success();
    return emitError() << "sets 'block', 'outliers' or 'inputs', which only "
                          "int8 supports; omit them for nf4"; // C2
  }
  std::string problem = support::Int8Layout::problem(
      type.getDimSize(0), type.getDimSize(1), {block, outliers, inputs});
  if (!problem.empty())
    return emitError() << "the int8 encoding of " << type << " " << problem;
  return success();
}

LogicalResult DequantizeOp::verify() {
  Type element = getY().getType().getElementType();
  if (!element.isF32() && !isNarrowFloat(element)) // C3
    return emitOpError("decodes to elements of type ")
           << element << ", expected f32 or a narrower float type";
  RankedTensorType weight = getEncoding().getType();
  if (getY().getType().getShape() != weight.getShape()) // C4
    return emitOpError("'y' has type ")
           << getY().getType() << ", but the weight has type " << weight
           << ": expected equal shapes";
  if (failed(checkShape(*this, "codes", getCodes(),
                        support::bytesOf(layoutOf(getEncoding())),
                        Value()))) // C1
    return failure();
  if (getEncoding().getEncoding() != Quantization::Nf4) {
    if (!getTable())
      return success();
    return emitOpError(
        "has a 'table', which only nf4 uses; omit it for int8"); // C2
  }
  if (!getTable())
    return emitOpError(
        "has no 'table', expected a tensor of type 272xf32"); // C2
  auto table = tensorTypeOf(getTable());
  if (table.getShape() != ArrayRef<int64_t>{kNf4TableElements} ||
      !table.getElementType().isF32()) // C2
    return emitOpError("'table' has type ") << table << ", expected 272xf32";
  return success();
}

StringRef DequantizeOp::getKernelFamily() { return "dequantize"; }

/// A weight does not depend on sequences, so the result is Shared, and no
/// dimension repeats per sequence.
void DequantizeOp::inferSequences(Facts operands, int64_t,
                                  MutableFacts results) {
  results[0] = allShared(operands)
                   ? SequenceFact::shared(operands.back().degree)
                   : explain(*this, operands);
}

/// Decodes an NF4 weight. `table` has the values of the 4-bit codes and of the
/// 8-bit codes of the scales.
static void decodeWithTable(ArrayRef<char> bytes, ArrayRef<double> table,
                            const Nf4Layout &layout,
                            MutableArrayRef<double> results) {
  auto number = [&](int64_t place) {
    float value;
    std::memcpy(&value, bytes.data() + place, sizeof(value));
    return value;
  };
  auto byte = [&](int64_t place) {
    return static_cast<unsigned char>(bytes[place]);
  };
  float offset = number(layout.offsetAt);
  for (int64_t i = 0; i < layout.elements; ++i) {
    int64_t block = i / Nf4Layout::blockElements;
    int64_t group = block / Nf4Layout::groupBlocks;
    int code = byte(i / 2) >> (i % 2 ? 0 : 4) & 15;
    auto scale = static_cast<float>(table[byte(layout.scaleCodesAt + block)]);
    scale *= number(layout.nestedScalesAt + 4 * group);
    scale += offset;
    results[i] = static_cast<float>(table[kScaleCodes + code]) * scale;
  }
}

LogicalResult DequantizeOp::evaluate(Operands operands, Results results) {
  std::vector<char> bytes;
  for (int64_t byte : operands[0]->integers)
    bytes.push_back(static_cast<char>(byte));
  support::WeightLayout layout = layoutOf(getEncoding());
  if (auto *nf4 = std::get_if<Nf4Layout>(&layout)) {
    decodeWithTable(bytes, operands[1]->reals, *nf4, results[0].reals);
    return success();
  }
  int64_t elements = getY().getType().getNumElements();
  std::vector<float> values(elements);
  support::decodeWeight(bytes.data(), layout, 0, elements, values.data());
  llvm::copy(values, results[0].reals.begin());
  return success();
}
