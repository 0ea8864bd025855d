//===- DequantizeInt8.cpp - CPU kernel that decodes int8 weights ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit of work is a row of the weight matrix of a layer. Some input features
// of the layer are outliers, whose weights are stored in bf16. The thread that
// decodes the codes of a row then overwrites the elements that belong to
// outliers:
//
//   for row in [begin, end):
//     for block that overlaps the row:
//       for i in block and row:                         // 16 at a time
//         y[i] = round(scales[block] * codes[i])
//     for slot in outliers:
//       if each column is an input:
//         y[row][indexes[slot]] = values[row][slot]
//       else if indexes[slot] == row:
//         y[row] = values[slot]
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "kiln/Target/Cpu/Kernels.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using kiln::support::Int8Layout;

namespace kiln::cpu {

/// Minimum number of elements per call.
static constexpr int64_t kGrain = 1 << 14;

namespace {

class Int8Emitter {
public:
  Int8Emitter(ModuleOp module, StringRef name, const Int8Layout &layout,
              Type type)
      : k(module, name, /*numArgs=*/2, /*numImmediates=*/0), layout(layout),
        type(type), codes(k.arg(0)), y(k.arg(1)) {}

  KernelLaunch emit() {
    k.loop(k.begin(), k.end(), 1, [&](Value row) {
      Value first = k.mul(row, k.i64Constant(layout.columns));
      if (layout.columns % layout.block == 0)
        decodeWholeBlocks(row, first);
      else
        decodeParts(first);
      if (layout.outliers > 0)
        layout.inputs == 1 ? writeColumns(row, first) : writeRow(row, first);
    });
    k.finish();
    return KernelLaunch{layout.rows,
                        std::max<int64_t>(kGrain / layout.columns, 1)};
  }

private:
  Value part(int64_t place) { return k.element(codes, k.b.getI8Type(), place); }
  Value scaleOf(Value block) {
    Value scale =
        k.load(k.element(part(layout.scalesAt), k.f32(), block), k.f32());
    return k.broadcast(scale);
  }
  Value outlierIndex(Value slot) {
    Value index = k.load(
        k.element(part(layout.outlierIndexesAt), k.i32(), slot), k.i32());
    return arith::ExtUIOp::create(k.b, k.i64(), index);
  }
  Value outlierValue(Value place) {
    return k.element(part(layout.outlierValuesAt), k.b.getBF16Type(), place);
  }

  /// Decodes the 16 elements that start at `first`. If `mask` is not null,
  /// decodes only the elements that it selects. All of them have the scale
  /// `scale`.
  void decode(Value first, Value scale, Value mask = {}) {
    Type byte = k.b.getI8Type();
    Value code = k.loadVector(k.element(codes, byte, first), byte, mask);
    Value number = arith::SIToFPOp::create(k.b, k.vectorOf(k.f32()), code);
    k.storeRounded(k.mul(number, scale), k.element(y, type, first), type, mask);
  }

  /// Decodes a row that consists of whole blocks.
  void decodeWholeBlocks(Value row, Value first) {
    int64_t blocks = layout.columns / layout.block;
    int64_t rest = layout.block % kBlock;
    Value firstBlock = k.mul(row, k.i64Constant(blocks));
    k.loop(k.i64Constant(0), k.i64Constant(blocks), 1, [&](Value block) {
      Value scale = scaleOf(k.add(firstBlock, block));
      Value low = k.add(first, k.mul(block, k.i64Constant(layout.block)));
      k.loop(k.i64Constant(0), k.i64Constant(layout.block - rest), kBlock,
             [&](Value i) {
               for (int64_t j = 0; j < kBlock; j += kLanes)
                 decode(k.add(k.add(low, i), k.i64Constant(j)), scale);
             });
      for (int64_t j = 0; j < rest; j += kLanes)
        decode(k.add(low, k.i64Constant(layout.block - rest + j)), scale,
               rest - j < kLanes ? k.firstLanes(rest - j) : Value());
    });
  }

  /// Decodes a row. Its first and last block can contain elements of other
  /// rows, too.
  void decodeParts(Value first) {
    Value end = k.add(first, k.i64Constant(layout.columns));
    Value size = k.i64Constant(layout.block);
    Value lastBlock = k.divUnsigned(k.sub(end, k.i64Constant(1)), size);
    k.loop(k.divUnsigned(first, size), k.add(lastBlock, k.i64Constant(1)), 1,
           [&](Value block) {
             Value scale = scaleOf(block);
             Value start = k.mul(block, size);
             Value low = k.max(first, start),
                   high = k.min(end, k.add(start, size));
             k.loop(low, high, kLanes, [&](Value i) {
               decode(i, scale, k.lanesBetween(i, low, high));
             });
           });
  }

  void writeColumns(Value row, Value first) {
    Value outliers = k.i64Constant(layout.outliers);
    Type stored = k.b.getBF16Type();
    k.loop(k.i64Constant(0), outliers, 1, [&](Value slot) {
      Value place = outlierValue(k.add(k.mul(row, outliers), slot));
      Value value = k.widen(k.load(place, stored));
      k.store(k.roundTo(value, type),
              k.element(y, type, k.add(first, outlierIndex(slot))));
    });
  }

  void writeRow(Value row, Value first) {
    Type stored = k.b.getBF16Type();
    Value columns = k.i64Constant(layout.columns);
    int64_t rest = layout.columns % kLanes;
    k.loop(
        k.i64Constant(0), k.i64Constant(layout.outliers), 1, [&](Value slot) {
          k.ifThen(k.equal(outlierIndex(slot), row), [&] {
            Value values = k.mul(slot, columns);
            auto copy = [&](Value column, Value mask) {
              Value value =
                  k.loadWide(outlierValue(k.add(values, column)), stored, mask);
              k.storeRounded(value, k.element(y, type, k.add(first, column)),
                             type, mask);
            };
            k.loop(k.i64Constant(0), k.i64Constant(layout.columns - rest),
                   kLanes, [&](Value column) { copy(column, {}); });
            if (rest)
              copy(k.i64Constant(layout.columns - rest), k.firstLanes(rest));
          });
        });
  }

  KernelBuilder k;
  const Int8Layout &layout;
  Type type;
  Value codes, y;
};

} // namespace

KernelLaunch emitDequantize(ModuleOp module, StringRef name,
                            const Int8Layout &layout, Type type) {
  return Int8Emitter(module, name, layout, type).emit();
}

} // namespace kiln::cpu
