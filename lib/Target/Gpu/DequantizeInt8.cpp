//===- DequantizeInt8.cpp - GPU kernel that decodes int8 weights ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   first = 8 * (blockIdx.x * 256 + threadIdx.x);      // 8 elements
//   words = codes[first : first + 8];
//   for (i = 0; i < 8; ++i)
//     y[first + i] = round(scales[(first + i) / block] * code i of words);
//   if (any code is -128)                              // in an outlier
//     for (slot = 0; slot < outliers; ++slot)
//       for (i = 0; i < 8; ++i)
//         if (indexes[slot] == input of first + i)
//           y[first + i] = value of first + i in slot;
//
// Launch: 256 threads per block, no shared memory; units = ceil(elements / 8).
// Bytes: every code is read once and every element is written once. Outliers
// are input features of the layer. Their weights are stored in bf16, too, so
// that the elements of these weights are written twice. All codes of a thread
// have the same scale if the size of a block is a multiple of 8. Most threads
// have no outliers; the others read the indexes from the L1 cache.
//
//===----------------------------------------------------------------------===//

#include "VectorizedAccess.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using kiln::support::Int8Layout;

namespace kiln::gpu {

static constexpr int64_t kThreads = 256;
/// Elements per thread.
static constexpr int64_t kGroup = 8;
/// Number of codes that are loaded as one word.
static constexpr int64_t kWordCodes = 4;

namespace {

class Int8Emitter {
public:
  Int8Emitter(mlir::gpu::GPUModuleOp kernels, StringRef name,
              const Int8Layout &layout, Type type, Alignments alignments)
      : k(kernels, name, /*numArgs=*/2, /*numImmediates=*/0, kThreads),
        layout(layout), type(type), alignments(alignments), codes(k.arg(0)),
        y(k.arg(1)) {}

  FailureOr<KernelLaunch> emit() {
    group = k.add(k.mul(k.block(), k.i64Constant(kThreads)), k.thread());
    first = k.mul(group, k.i64Constant(kGroup));
    int64_t whole = layout.elements / kGroup, rest = layout.elements % kGroup;
    if (whole > 0)
      k.ifThen(k.less(group, k.i64Constant(whole)), [&] { decode(kGroup); });
    if (rest)
      k.ifThen(k.equal(group, k.i64Constant(whole)), [&] { decode(rest); });
    if (failed(k.finish()))
      return failure();
    return KernelLaunch{whole + (rest ? 1 : 0), kThreads, kThreads, 0};
  }

private:
  Value part(int64_t place) { return k.element(codes, k.b.getI8Type(), place); }
  Value elementAt(int64_t i) { return k.add(first, k.i64Constant(i)); }
  Value scaleOf(Value element) {
    Value block = k.divUnsigned(element, k.i64Constant(layout.block));
    return k.load(k.element(part(layout.scalesAt), k.f32(), block), k.f32());
  }

  /// Returns the codes of the first `count` elements as i8. Loads whole words,
  /// which is safe because the codes start at a multiple of 8 bytes and at
  /// least 4 bytes of scales follow them.
  SmallVector<Value> loadCodes(int64_t count) {
    SmallVector<Value> bytes;
    for (int64_t i = 0; i < count; i += kWordCodes) {
      Value word = k.load(k.element(k.element(codes, k.b.getI8Type(), first),
                                    k.i32(), i / kWordCodes),
                          k.i32());
      for (int64_t j : llvm::seq(std::min(kWordCodes, count - i))) {
        Value shifted = j == 0 ? word : k.shiftRight(word, 8 * j);
        bytes.push_back(arith::TruncIOp::create(k.b, k.b.getI8Type(), shifted));
      }
    }
    return bytes;
  }

  /// Decodes the first `count` elements of the thread.
  void decode(int64_t count) {
    SmallVector<Value> bytes = loadCodes(count);
    bool isUniform = layout.block % kGroup == 0;
    Value scale = isUniform ? scaleOf(first) : Value();
    SmallVector<Value> values;
    for (int64_t i : llvm::seq(count)) {
      Value number = arith::SIToFPOp::create(k.b, k.f32(), bytes[i]);
      values.push_back(
          k.mul(isUniform ? scale : scaleOf(elementAt(i)), number));
    }
    Value to = k.element(y, type, first);
    int64_t width = accessWidth(type, alignments[1], {kGroup, count});
    for (int64_t i = 0; i < count; i += width)
      storeWide(k, k.roundTo(wideOf(k, ArrayRef(values).slice(i, width)), type),
                k.element(to, type, i));
    if (layout.outliers > 0)
      writeOutliers(bytes);
  }

  /// Overwrites the elements that belong to outliers. Their codes are -128.
  void writeOutliers(ArrayRef<Value> bytes) {
    Value mark = k.constantI(Int8Layout::outlierCode, k.b.getI8Type());
    Value found = k.equal(bytes[0], mark);
    for (Value byte : bytes.drop_front())
      found = k.bitOr(found, k.equal(byte, mark));
    k.ifThen(found, [&] {
      k.loop(
          k.i64Constant(0), k.i64Constant(layout.outliers), 1, [&](Value slot) {
            Value index = arith::ExtUIOp::create(
                k.b, k.i64(),
                k.load(k.element(part(layout.outlierIndexesAt), k.i32(), slot),
                       k.i32()));
            for (int64_t i : llvm::seq<int64_t>(bytes.size()))
              writeIfOutlier(elementAt(i), slot, index);
          });
    });
  }

  /// Writes `element` if it belongs to outlier `slot`, which is the input with
  /// the index `index`.
  void writeIfOutlier(Value element, Value slot, Value index) {
    Value columns = k.i64Constant(layout.columns);
    Value row = k.divUnsigned(element, columns);
    Value column = k.remUnsigned(element, columns);
    bool isColumn = layout.inputs == 1;
    k.ifThen(k.equal(isColumn ? column : row, index), [&] {
      Value place =
          isColumn ? k.add(k.mul(row, k.i64Constant(layout.outliers)), slot)
                   : k.add(k.mul(slot, columns), column);
      Type stored = k.b.getBF16Type();
      Value value = k.widen(k.load(
          k.element(part(layout.outlierValuesAt), stored, place), stored));
      k.store(k.roundTo(value, type), k.element(y, type, element));
    });
  }

  GpuBuilder k;
  const Int8Layout &layout;
  Type type;
  Alignments alignments;
  Value codes, y;
  /// The index of the group of up to kGroup elements that this thread decodes,
  /// and the index of the first of these elements.
  Value group, first;
};

} // namespace

FailureOr<KernelLaunch> emitDequantize(mlir::gpu::GPUModuleOp kernels,
                                       StringRef name, const Int8Layout &layout,
                                       Type type, Alignments alignments) {
  return Int8Emitter(kernels, name, layout, type, alignments).emit();
}

} // namespace kiln::gpu
