//===- CountSketch.cpp - Sums of count sketches of gradients --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks first sum sketches of matrices. The sums tell all ranks where the
// largest elements of the summed matrices are. The ranks then sum only these
// elements, and each rank adds its other elements to its next gradient (N.
// Ivkin et al., "Communication-efficient Distributed SGD with Sketching",
// NeurIPS 2019, arXiv:1903.04488). The sketches are count sketches (M.
// Charikar, K. Chen and M. Farach-Colton, "Finding Frequent Items in Data
// Streams", 2002).
//
// A sketch has three tables. Row t of the matrix, times a random sign, is added
// to row t mod k of a table with k rows. The numbers of rows of the tables are
// pairwise coprime, so that two rows of the matrix are added to the same row of
// at most one table, unless their distance is a multiple of the product of two
// of these numbers. The estimate of an element is the median of the estimates
// of the three tables.
//
// In every block of elements, the element whose estimate has the largest
// magnitude is chosen. The number of elements of a block is kBlockPerFactor
// times the compression factor, so that the chosen elements add few bytes.
//
//===----------------------------------------------------------------------===//

#include "GradientSchemes.h"
#include "kiln/Support/GradientCompression.h"

#include "llvm/Support/MathExtras.h"

#include <array>
#include <numeric>

using namespace mlir;
using namespace kiln;

static constexpr int64_t kTables = 3;
/// The fewest rows of a table.
static constexpr int64_t kLeastRows = 3;
static constexpr int64_t kBlockPerFactor = 8;
/// To allow for rounding, an element is also chosen if the magnitude of its
/// estimate is smaller than the largest magnitude in the block by at most this
/// fraction.
static constexpr double kTie = 1e-6;
/// Added to the number of chosen elements of a block, which may be 0, before a
/// division by this number.
static constexpr double kLeastCount = 1e-30;

namespace {

/// The sizes of the sketch of a matrix.
struct SketchShape {
  int64_t rows = 0, columns = 0; ///< The shape of the matrix.
  std::array<int64_t, kTables> tableRows;
  int64_t block = 0; ///< The number of elements of a block.

  static std::optional<SketchShape> of(RankedTensorType matrix, int64_t factor);
  int64_t sketchRows() const {
    return std::accumulate(tableRows.begin(), tableRows.end(), int64_t(0));
  }
  /// Returns the number of blocks. The last block may be padded.
  int64_t blocks() const { return llvm::divideCeil(rows * columns, block); }
};

/// Builds sketches of matrices of one shape.
struct SketchOps : LayerOps {
  SketchOps(OpBuilder &builder, Value like, SketchShape shape, Value numbers);

  /// Returns the sketch of a matrix: its tables, concatenated along dimension
  /// 0.
  Value sketch(Value matrix);
  /// Returns an estimate of the matrix that has the sketch `sketch`.
  Value estimate(Value sketch);
  /// Chooses in each block the element whose estimate has the largest
  /// magnitude.
  void choose(Value estimate);
  /// Returns, for each block of a matrix, the mean of its chosen elements. A
  /// block has one chosen element, unless several estimates are equally large,
  /// or all are zero.
  Value chosenOf(Value matrix);
  /// Returns a matrix in which each chosen element has the value of its block
  /// in `ofBlocks`, and all others are 0. If an estimate is not finite, all
  /// elements of its block are NaN, so that a run that diverges is noticed.
  Value spread(Value ofBlocks);

private:
  Value onlyChosen(Value blocks) { return create<ReluGradOp>(margin, blocks); }
  RankedTensorType blockedType() const {
    return type.clone({shape.blocks(), shape.block});
  }
  Value toBlocks(Value matrix);
  Value fromBlocks(Value blocks);
  Value sumOfBlocks(Value blocks) {
    return create<ReduceOp>(type.clone({shape.blocks()}), Reduction::Sum,
                            blocks, ArrayRef<int64_t>{1});
  }
  Value median(Value a, Value b, Value c);
  /// Multiplies each row of a matrix by the sign of the row in a table.
  Value signedRows(Value matrix, int64_t table) {
    Value factors = create<BroadcastOp>(matrix.getType(), signs[table],
                                        ArrayRef<int64_t>{0});
    return create<MulOp>(matrix, factors);
  }
  /// Returns the number of rows of the matrix that are added to the first row
  /// of a table.
  int64_t sumsOf(int64_t table) const {
    return llvm::divideCeil(shape.rows, shape.tableRows[table]);
  }

  SketchShape shape;
  RankedTensorType type; ///< The type of the matrix.
  std::array<Value, kTables> signs;
  /// [block, element]: positive if the element is chosen, because the magnitude
  /// of its estimate is the largest in the block.
  Value margin;
  /// For each block: 0, or NaN if an estimate is not finite.
  Value poison;
};

/// A gradient of the bucket (the gradients that the ranks sum together).
struct Sketched : CompressedGradient {
  StateOp error;
  Value corrected; ///< The gradient plus the error of the previous step.
  Value chosen;    ///< The chosen elements of this rank.
  SketchOps ops;
};

class CountSketch final : public GradientScheme {
public:
  using GradientScheme::GradientScheme;

  std::string needs() const override {
    return "matrices of at least " +
           std::to_string((kTables * (kLeastRows + 1)) * size) +
           " rows, in 16 bits if at most three quarters of the bytes are sent";
  }
  std::optional<int64_t> bytesOf(RankedTensorType gradient) const override;
  void begin(ArrayRef<CompressedGradient> gradients,
             Operation *position) override;
  SmallVector<Value> finish(Operation *position) override;

private:
  SmallVector<Sketched> bucket;
  SmallVector<Value> sketches; ///< The summed sketches of the bucket.
};

} // namespace

/// Returns the sizes of the sketch of a matrix, or std::nullopt if the tensor
/// is not a matrix or is too small.
std::optional<SketchShape> SketchShape::of(RankedTensorType matrix,
                                           int64_t factor) {
  if (matrix.getRank() != 2)
    return std::nullopt;
  SketchShape shape;
  shape.rows = matrix.getDimSize(0);
  shape.columns = matrix.getDimSize(1);
  // The tables have `least`, `least` + 1 and `least` + 2 rows. These numbers
  // are pairwise coprime if `least` is odd.
  int64_t least = shape.rows / factor / kTables - 1;
  if (least % 2 == 0)
    --least;
  if (least < kLeastRows)
    return std::nullopt;
  shape.tableRows = {least, least + 1, least + 2};
  shape.block = kBlockPerFactor * factor;
  return shape;
}

SketchOps::SketchOps(OpBuilder &builder, Value like, SketchShape shape,
                     Value numbers)
    : LayerOps(builder, like), shape(shape),
      type(RankedTensorType::get({shape.rows, shape.columns},
                                 tensorTypeOf(numbers).getElementType())) {
  RankedTensorType row = type.clone({1, shape.rows});
  RankedTensorType vector = type.clone({shape.rows});
  Value one = create<ConstantOp>(vector, 1.0);
  Value two = create<ConstantOp>(vector, 2.0);
  for (auto [i, sign] : llvm::enumerate(signs)) {
    Value own = create<SliceOp>(row, numbers,
                                ArrayRef<int64_t>{static_cast<int64_t>(i), 0});
    own = create<ReshapeOp>(vector, own);
    sign = create<SubOp>(create<ReluGradOp>(own, two), one);
  }
}

Value SketchOps::sketch(Value matrix) {
  SmallVector<Value> tables;
  for (int64_t i = 0; i < kTables; ++i) {
    int64_t rows = shape.tableRows[i], sums = sumsOf(i);
    Value summands = signedRows(matrix, i);
    if (sums * rows != shape.rows)
      summands = create<PadOp>(type.clone({sums * rows, shape.columns}),
                               summands, ArrayRef<int64_t>{0, 0});
    summands =
        create<ReshapeOp>(type.clone({sums, rows * shape.columns}), summands);
    Value table =
        create<ReduceOp>(type.clone({rows * shape.columns}), Reduction::Sum,
                         summands, ArrayRef<int64_t>{0});
    tables.push_back(
        create<ReshapeOp>(type.clone({rows, shape.columns}), table));
  }
  return create<ConcatOp>(type.clone({shape.sketchRows(), shape.columns}),
                          tables, 0);
}

/// Returns the median of three numbers. The rounding error is relative to the
/// largest of them, because max(a, b) is computed as b + relu(a - b), and
/// min(a, b) as a - relu(a - b).
Value SketchOps::median(Value a, Value b, Value c) {
  Value above = create<ReluOp>(create<SubOp>(a, b));
  Value low = create<SubOp>(a, above), high = create<AddOp>(b, above);
  Value beyond = create<ReluOp>(create<SubOp>(high, c));
  Value middle = create<SubOp>(high, beyond); // min(high, c)
  Value below = create<ReluOp>(create<SubOp>(low, middle));
  return create<AddOp>(middle, below);
}

Value SketchOps::estimate(Value sketch) {
  std::array<Value, kTables> estimates;
  int64_t first = 0;
  for (int64_t i = 0; i < kTables; ++i) {
    int64_t rows = shape.tableRows[i], sums = sumsOf(i);
    Value table = create<SliceOp>(type.clone({rows, shape.columns}), sketch,
                                  ArrayRef<int64_t>{first, 0});
    first += rows;
    table = create<ReshapeOp>(type.clone({rows * shape.columns}), table);
    Value repeated = create<BroadcastOp>(
        type.clone({sums, rows * shape.columns}), table, ArrayRef<int64_t>{1});
    repeated =
        create<ReshapeOp>(type.clone({sums * rows, shape.columns}), repeated);
    if (sums * rows != shape.rows)
      repeated = create<SliceOp>(type, repeated, ArrayRef<int64_t>{0, 0});
    estimates[i] = signedRows(repeated, i);
  }
  return median(estimates[0], estimates[1], estimates[2]);
}

Value SketchOps::toBlocks(Value matrix) {
  int64_t elements = type.getNumElements();
  RankedTensorType blocked = blockedType();
  if (elements != blocked.getNumElements()) {
    matrix = create<ReshapeOp>(type.clone({elements}), matrix);
    matrix = create<PadOp>(type.clone({blocked.getNumElements()}), matrix,
                           ArrayRef<int64_t>{0});
  }
  return create<ReshapeOp>(blocked, matrix);
}

Value SketchOps::fromBlocks(Value blocks) {
  int64_t elements = type.getNumElements();
  RankedTensorType blocked = blockedType();
  if (elements != blocked.getNumElements()) {
    blocks = create<ReshapeOp>(type.clone({blocked.getNumElements()}), blocks);
    blocks =
        create<SliceOp>(type.clone({elements}), blocks, ArrayRef<int64_t>{0});
  }
  return create<ReshapeOp>(type, blocks);
}

void SketchOps::choose(Value estimate) {
  Value elements = toBlocks(estimate);
  Value magnitudes = create<AddOp>(create<ReluOp>(elements),
                                   create<ReluOp>(create<NegOp>(elements)));
  Value most = create<ReduceOp>(type.clone({shape.blocks()}), Reduction::Max,
                                magnitudes, ArrayRef<int64_t>{1});
  poison = create<SubOp>(most, most);
  most = create<BroadcastOp>(blockedType(), most, ArrayRef<int64_t>{0});
  margin = create<SubOp>(scale(magnitudes, 1 + kTie), most);
}

Value SketchOps::chosenOf(Value matrix) {
  Value sum = sumOfBlocks(onlyChosen(toBlocks(matrix)));
  Value ones = create<ConstantOp>(blockedType(), 1.0);
  Value count = sumOfBlocks(onlyChosen(ones));
  Value least = create<ConstantOp>(tensorTypeOf(count), kLeastCount);
  return create<DivOp>(sum, create<AddOp>(count, least));
}

Value SketchOps::spread(Value ofBlocks) {
  auto toElements = [&](Value vector) -> Value {
    return create<BroadcastOp>(blockedType(), vector, ArrayRef<int64_t>{0});
  };
  Value chosen = onlyChosen(toElements(ofBlocks));
  return fromBlocks(create<AddOp>(chosen, toElements(poison)));
}

/// A matrix is compressed if its sketch and its chosen elements have at most
/// three quarters of its bytes. This is always the case for f32, but not always
/// for f16 and bf16, because the sketch has f32 elements.
std::optional<int64_t> CountSketch::bytesOf(RankedTensorType gradient) const {
  std::optional<SketchShape> shape = SketchShape::of(gradient, size);
  if (!shape)
    return std::nullopt;
  int64_t elements = shape->sketchRows() * shape->columns + shape->blocks();
  int64_t bytes = kiln::bytesOf(fullPrecision(gradient.clone({elements})));
  if (4 * bytes > 3 * kiln::bytesOf(gradient))
    return std::nullopt;
  return bytes;
}

void CountSketch::begin(ArrayRef<CompressedGradient> gradients,
                        Operation *position) {
  builder.setInsertionPoint(position);
  bucket.clear();
  sketches.clear();
  for (const CompressedGradient &each : gradients) {
    RankedTensorType type = fullPrecision(tensorTypeOf(each.part));
    SketchShape shape = *SketchShape::of(type, size);
    StateOp numbers = addState(each.parameter, support::signsSlot,
                               type.clone({kTables, shape.rows}),
                               NormalAttr::get(module.getContext(), 0.0, 1.0));
    SketchOps o(builder, each.part, shape, read(numbers));
    StateOp error = addError(each.parameter, type);
    Value corrected =
        o.create<AddOp>(o.cast(each.part, type.getElementType()), read(error));
    sketches.push_back(o.sketch(corrected));
    bucket.push_back({each, error, corrected, /*chosen=*/Value(), o});
  }
  sketches = sum(sketches);
}

SmallVector<Value> CountSketch::finish(Operation *position) {
  builder.setInsertionPoint(position);
  SmallVector<Value> chosen, sums;
  for (auto [gradient, sketch] : llvm::zip_equal(bucket, sketches)) {
    gradient.ops.choose(gradient.ops.estimate(sketch));
    gradient.chosen = gradient.ops.chosenOf(gradient.corrected);
    chosen.push_back(gradient.chosen);
  }
  for (auto [gradient, summed] : llvm::zip_equal(bucket, sum(chosen))) {
    SketchOps &o = gradient.ops;
    write(gradient.error,
          o.create<SubOp>(gradient.corrected, o.spread(gradient.chosen)));
    sums.push_back(o.spread(summed));
  }
  return sums;
}

std::unique_ptr<GradientScheme>
kiln::createCountSketch(const support::GradientCompression &compression,
                        ModuleOp module, ProgramOp train) {
  return std::make_unique<CountSketch>(compression, module, train);
}
