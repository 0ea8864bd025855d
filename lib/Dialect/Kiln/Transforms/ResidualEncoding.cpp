//===- ResidualEncoding.cpp - Encoding of a single residual -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements few-bit derivatives (Novikov et al., 2022) and randomized matmuls
// (Bershatsky et al., 2022). In contrast to Bershatsky et al., every row of the
// random matrix has only one nonzero element, a random sign. The matrix is not
// stored. The residual is multiplied by the matrix in one pass: each row of the
// residual, times its sign, is added to one row of the sketch. Let
// RHO = (rows of the sketch) / (rows of the residual), and let V be the
// variance of the estimate if all elements of the matrix are random signs. The
// variance here is (1 - RHO) V, because rows of the residual that are added to
// different rows of the sketch contribute no cross terms.
//
//===----------------------------------------------------------------------===//

#include "ResidualEncoding.h"

#include "RandomInputs.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

//===----------------------------------------------------------------------===//
// Derivatives.
//===----------------------------------------------------------------------===//

static double normalCdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

static double siluDerivative(double x) {
  return sigmoid(x) * (1 + x * sigmoid(-x));
}

static double geluDerivative(double x) {
  return normalCdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

/// Derivative of x * sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3).
static double geluTanhDerivative(double x) {
  double root = std::sqrt(2 / M_PI);
  double u = root * (x + 0.044715 * x * x * x);
  double slope = root * (1 + 3 * 0.044715 * x * x);
  return sigmoid(2 * u) + x * 2 * slope * sigmoid(2 * u) * sigmoid(-2 * u);
}

/// Returns true if an op multiplies a derivative by a cotangent; its operands
/// are (x, dy).
static bool isDerivative(Operation *op) {
  return isa<ReluGradOp, SiluGradOp, GeluGradOp>(op);
}

using Derivative = double (*)(double);

static double step(double x) { return x > 0; }

static Derivative derivativeOf(Operation *op) {
  if (isa<ReluGradOp>(op))
    return step;
  if (auto gelu = dyn_cast<GeluGradOp>(op))
    return gelu.getTanh() ? geluTanhDerivative : geluDerivative;
  return siluDerivative;
}

static std::optional<ResidualEncoding> findCodes(ResidualEncoding encoding,
                                                 const LossySpec &spec) {
  Operation *first = encoding.readers.front();
  for (Operation *reader : encoding.readers)
    if (!isDerivative(reader) || derivativeOf(reader) != derivativeOf(first) ||
        reader->getOperand(0) != encoding.through ||
        reader->getOperand(1) == encoding.through)
      return std::nullopt;
  encoding.lossy = !isa<ReluGradOp>(first);
  encoding.bits = encoding.lossy ? spec.fewbit : 1;
  if (encoding.bits == 0)
    return std::nullopt;
  int64_t elements = tensorTypeOf(encoding.through).getNumElements();
  encoding.encodedBytes =
      static_cast<int64_t>(llvm::divideCeil(encoding.bits * elements, 8));
  return encoding;
}

const StepFunction &EncodingBuilder::stepsFor(Operation *op, int64_t bits) {
  Derivative derivative = derivativeOf(op);
  auto [it, isNew] = steps.insert({{derivative, bits}, {}});
  if (isNew && derivative == step)
    it->second.borders = {0}, it->second.levels = {0, 1};
  else if (isNew)
    it->second = StepFitter(derivative).fit(int32_t(1) << bits);
  return it->second;
}

void EncodingBuilder::applyCodes(const ResidualEncoding &encoding) {
  Value x = encoding.through;
  const StepFunction &steps = stepsFor(encoding.readers.front(), encoding.bits);
  OpBuilder builder(x.getContext());
  builder.setInsertionPointAfterValue(x);
  auto type =
      RankedTensorType::get({encoding.encodedBytes}, builder.getIntegerType(8));
  auto codes =
      BucketEncodeOp::create(builder, x.getLoc(), type, x,
                             builder.getDenseF64ArrayAttr(steps.borders));
  setLayer(codes, getDefiningLayer(x));
  for (Operation *reader : encoding.readers) {
    builder.setInsertionPoint(reader);
    Value dx = BucketDecodeOp::create(
        builder, reader->getLoc(), reader->getResult(0).getType(), codes,
        reader->getOperand(1), builder.getDenseF64ArrayAttr(steps.levels));
    reader->replaceAllUsesWith(ValueRange(dx));
    reader->erase();
  }
}

//===----------------------------------------------------------------------===//
// Sketches.
//===----------------------------------------------------------------------===//

/// Returns true if a value reaches the results of the program only through
/// linear ops and conversions and has no other users. The value is then only
/// used as a gradient.
static bool isOnlyReturned(Value gradient) {
  return llvm::all_of(gradient.getUsers(), [](Operation *user) {
    if (isa<ReturnOp>(user))
      return true;
    return isa<AddOp, CastOp, ReshapeOp, TransposeOp, SliceOp, ConcatOp, PadOp>(
               user) &&
           isOnlyReturned(user->getResult(0));
  });
}

/// Returns true if an op computes x^T y over all rows of two matrices x and y,
/// and the result of the op is used only as the gradient of a state.
static bool isWeightGradient(Operation *op) {
  auto matmul = dyn_cast<MatmulOp>(op);
  return matmul && matmul.getTransA() && !matmul.getTransB() &&
         !matmul.getAccumulate() &&
         tensorTypeOf(matmul.getA()).getRank() == 2 &&
         isOnlyReturned(matmul.getResult());
}

static std::optional<ResidualEncoding> findSketch(ResidualEncoding encoding,
                                                  const LossySpec &spec) {
  if (spec.rmm == 0 || !llvm::all_of(encoding.readers, isWeightGradient))
    return std::nullopt;
  int64_t rows = tensorTypeOf(encoding.through).getDimSize(0);
  if (rows % encoding.sequences)
    return std::nullopt;
  encoding.rows =
      encoding.sequences * sketchRows(rows / encoding.sequences, spec.rmm);
  if (encoding.rows == 0)
    return std::nullopt;
  encoding.encodedBytes =
      bytesOf(encoding.through.getType()) / rows * encoding.rows;
  return encoding;
}

void EncodingBuilder::applySketch(const ResidualEncoding &encoding) {
  Value x = encoding.through, rng = getOrAddRng(program);
  OpBuilder builder(x.getContext());
  auto key = builder.getI64IntegerAttr(nextKey++);
  auto sketch = [&](Value of, Location loc) {
    auto type = tensorTypeOf(of);
    return SketchRowsOp::create(
        builder, loc, type.clone({encoding.rows, type.getDimSize(1)}), of, rng,
        key, builder.getI64IntegerAttr(encoding.sequences));
  };
  builder.setInsertionPointAfterValue(x);
  SketchRowsOp kept = sketch(x, x.getLoc());
  setLayer(kept, getDefiningLayer(x));
  Value rows = kept;
  for (Operation *reader : encoding.readers) {
    auto matmul = cast<MatmulOp>(reader);
    bool isLeft = matmul.getA() == x;
    builder.setInsertionPoint(reader);
    Value dy = sketch(isLeft ? matmul.getB() : matmul.getA(), reader->getLoc());
    auto gradient =
        MatmulOp::create(builder, reader->getLoc(), isLeft ? rows : dy,
                         isLeft ? dy : rows, true, false);
    gradient.getResult().setType(matmul.getType());
    reader->replaceAllUsesWith(gradient);
    reader->erase();
  }
}

//===----------------------------------------------------------------------===//
// Interface for both kinds of encodings.
//===----------------------------------------------------------------------===//

RankedTensorType ResidualEncoding::getSketchType() const {
  auto type = tensorTypeOf(through);
  return type.clone({rows, type.getDimSize(1)});
}

std::string ResidualEncoding::describe() const {
  if (!lossy)
    return "mask";
  if (!isSketch())
    return "fewbit:" + std::to_string(bits);
  int64_t length = tensorTypeOf(through).getDimSize(0) / sequences;
  return llvm::formatv("rmm:{0}/{1}", rows / sequences, length);
}

std::optional<ResidualEncoding> kiln::findEncoding(Value residual,
                                                   ArrayRef<ResidualRead> reads,
                                                   const LossySpec &spec,
                                                   int64_t sequences) {
  ResidualEncoding encoding;
  encoding.residual = residual;
  encoding.sequences = sequences;
  for (const ResidualRead &read : reads) {
    if (encoding.through && encoding.through != read.through)
      return std::nullopt;
    encoding.through = read.through;
    if (llvm::is_contained(encoding.readers, read.reader))
      return std::nullopt;
    encoding.readers.push_back(read.reader);
  }
  if (encoding.readers.empty() ||
      !isa<FloatType>(tensorTypeOf(residual).getElementType()) ||
      tensorTypeOf(encoding.through).getNumElements() !=
          tensorTypeOf(residual).getNumElements())
    return std::nullopt;
  llvm::sort(encoding.readers,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  auto found = isDerivative(encoding.readers.front())
                   ? findCodes(encoding, spec)
                   : findSketch(encoding, spec);
  if (found && found->encodedBytes >= bytesOf(residual.getType()))
    return std::nullopt;
  return found;
}

EncodingBuilder::EncodingBuilder(ProgramOp program)
    : program(program), nextKey(firstFreeKey(program)) {}

void EncodingBuilder::apply(const ResidualEncoding &encoding) {
  if (encoding.isSketch())
    applySketch(encoding);
  else
    applyCodes(encoding);
}
