//===- PermuteKernel.cpp - Strided copies, reductions and padding ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   flat(src, dst):                      // one thread per vector of dst
//     index = delinearize(blockIdx.x * 256 + threadIdx.x);
//     dst[index . dstStrides] = src[index . srcStrides];
//                                        // or a reduction, in index order
//   tiles(src, dst):                     // one thread block per tile
//     __shared__ T tile[32 * w][33 * w]; // w elements per access
//     tile[r][c] = src[..];              // rows contiguous in src
//     __syncthreads();
//     dst[..] = tile[c][r];              // rows contiguous in dst
//   padded(src, dst):                    // one thread per vector of dst
//     index = delinearize(offset, dstStrides);
//     dst[offset] = index is inside of the copied region ? src[..] : 0;
//
// Launch: 256 threads per block; one tile per block, or one vector per thread.
// Shared: one tile of 32 * w by 33 * w elements.
// Bytes: dst is written once; src is read once, or once per repetition of a
// broadcast.
//
// The dimensions are first normalized: sorted by destination stride, merged if
// they are contiguous in both source and destination, and dropped if they have
// size one. The kernel uses tiles if one dimension is contiguous in the
// destination, another one is contiguous in the source, and both are long.
// Loads and stores then both access contiguous elements. 16-bit elements are
// accessed in pairs if all rows of the source and of the destination consist of
// whole pairs. Reductions compute in full precision.
//
//===----------------------------------------------------------------------===//

#include "VectorizedAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace kiln::gpu {

namespace {

constexpr int64_t kThreads = 256;
/// Rows and columns of a tile, and distance between the starts of adjacent
/// rows, in units of one access of a thread. The padding places the elements of
/// a column in different banks.
constexpr int64_t kTile = 32;
constexpr int64_t kPitch = kTile + 1;
/// Bytes of an access to a tile: the width of a bank.
constexpr int64_t kTileBytes = 4;
/// Minimum size of a tiled dimension; a shorter dimension would leave most of a
/// tile empty.
constexpr int64_t kMinTiled = 8;
/// Elements that a thread loads before it reduces any of them.
constexpr int64_t kReadAhead = 8;

struct Dim {
  int64_t size, src, dst;
};

/// Merges each dimension with the next inner one if the two are contiguous in
/// both source and destination.
SmallVector<Dim> merge(ArrayRef<Dim> dims) {
  SmallVector<Dim> merged;
  for (const Dim &dim : dims) {
    if (dim.size == 1)
      continue;
    if (!merged.empty() && merged.back().src == dim.src * dim.size &&
        merged.back().dst == dim.dst * dim.size) {
      merged.back() = {merged.back().size * dim.size, dim.src, dim.dst};
      continue;
    }
    merged.push_back(dim);
  }
  return merged;
}

class PermuteEmitter {
public:
  PermuteEmitter(mlir::gpu::GPUModuleOp kernels, StringRef name,
                 const PermuteShape &shape, Alignments alignments);
  FailureOr<KernelLaunch> emit();

private:
  /// Returns true if the kernel uses tiles. In this case, moves two dimensions
  /// to the end of `dims`: the dimension that is contiguous in the source, then
  /// the dimension that is contiguous in the destination.
  bool findTiles();
  /// Returns the elements per access of a tiled kernel.
  int64_t tileWidth() const;
  int64_t emitTiles(int64_t width);
  int64_t emitFlat(int64_t width);
  int64_t emitPadded(int64_t width);
  int64_t flatWidth() const;

  /// Emits `width` adjacent elements of the result, which are computed from the
  /// source elements at offset `src`.
  Value value(Value src, int64_t width);
  Value reduced(ArrayRef<Dim> dims, Value src, Value initial, int64_t width);
  Value combine(Value partial, Value x);
  /// Loads `width` elements at source offset `src` without conversion.
  Value read(Value src, int64_t width);
  Value readWide(Value src, int64_t width) { return k.widen(read(src, width)); }

  Value number(int64_t x) { return k.i64Constant(x); }
  Value plus(Value x, Value i, int64_t stride) {
    return stride == 0 ? x : k.add(x, k.mul(i, number(stride)));
  }
  Value destination(Value offset) { return k.element(k.arg(1), type, offset); }
  Value zeros(Type of) {
    return arith::ConstantOp::create(k.b, k.b.getZeroAttr(of));
  }

  const PermuteShape &shape;
  Alignments alignments;
  Type type, sourceType;
  GpuBuilder k;
  SmallVector<Dim> dims;       ///< Sorted by destination stride.
  SmallVector<Dim> reductions; ///< Reduced dimensions in index order.
  /// Shape and row stride of the padded tensor. A dense tensor is treated as
  /// one row.
  int64_t zeroRows, zeroColumns, zeroStride;
};

} // namespace

PermuteEmitter::PermuteEmitter(mlir::gpu::GPUModuleOp kernels, StringRef name,
                               const PermuteShape &shape, Alignments alignments)
    : shape(shape), alignments(alignments), type(shape.elementType),
      sourceType(shape.sourceType),
      k(kernels, name, /*numArgs=*/2, /*numImmediates=*/0, kThreads) {
  SmallVector<Dim> all, inside;
  for (auto [size, src, dst] :
       llvm::zip_equal(shape.shape, shape.srcStrides, shape.dstStrides))
    all.push_back({size, src, dst});
  // Drop dimensions of size one, whose strides are arbitrary, before sorting.
  llvm::erase_if(all, [](const Dim &dim) { return dim.size == 1; });
  llvm::sort(all, [](const Dim &x, const Dim &y) { return x.dst > y.dst; });
  dims = merge(all);
  if (dims.empty())
    dims.push_back({1, 1, 1});
  // Reduced dimensions have no destination stride. Pass the source stride as
  // both strides, so that merge() depends on the source only.
  for (auto [size, src] :
       llvm::zip_equal(shape.reduceShape, shape.srcReduceStrides))
    inside.push_back({size, src, src});
  reductions = merge(inside);
  bool isDense = shape.zeroRows <= 1 || shape.zeroStride == shape.zeroColumns;
  zeroRows = isDense ? 1 : shape.zeroRows;
  zeroColumns =
      isDense ? shape.zeroRows * shape.zeroColumns : shape.zeroColumns;
  zeroStride = isDense ? zeroColumns : shape.zeroStride;
}

bool PermuteEmitter::findTiles() {
  const Dim &across = dims.back();
  if (shape.zeroRows > 0 || !shape.reduceShape.empty() || across.dst != 1 ||
      across.src <= 1 || across.size < kMinTiled)
    return false;
  auto along = llvm::find_if(dims, [](const Dim &dim) {
    return dim.src == 1 && dim.size >= kMinTiled;
  });
  if (along == dims.end())
    return false;
  std::rotate(along, std::next(along), std::prev(dims.end()));
  return true;
}

int64_t PermuteEmitter::flatWidth() const {
  const Dim &inner = dims.back();
  if (inner.dst != 1 || (inner.src != 0 && inner.src != 1))
    return 1;
  SmallVector<int64_t> src = {shape.srcOffset, inner.size},
                       dst = {shape.dstOffset, inner.size};
  for (const Dim &dim : ArrayRef(dims).drop_back()) {
    src.push_back(dim.src);
    dst.push_back(dim.dst);
  }
  for (const Dim &dim : reductions)
    src.push_back(dim.src);
  if (shape.zeroRows > 0)
    dst.append({zeroColumns, zeroStride});
  int64_t width = accessWidth(type, alignments[1], dst);
  return inner.src == 0 ? width
                        : accessWidth(sourceType, alignments[0], src, width);
}

FailureOr<KernelLaunch> PermuteEmitter::emit() {
  int64_t units, unitsPerBlock = kThreads;
  if (shape.zeroRows > 0) {
    units = emitPadded(flatWidth());
  } else if (findTiles()) {
    units = emitTiles(tileWidth());
    unitsPerBlock = 1;
  } else {
    units = emitFlat(flatWidth());
  }
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{units, unitsPerBlock, kThreads, k.sharedBytes()};
}

//===----------------------------------------------------------------------===//
// Units of work
//===----------------------------------------------------------------------===//

int64_t PermuteEmitter::tileWidth() const {
  const Dim &along = dims[dims.size() - 2], &across = dims.back();
  SmallVector<int64_t> src = {shape.srcOffset, along.size, across.src},
                       dst = {shape.dstOffset, across.size, along.dst};
  for (const Dim &dim : ArrayRef(dims).drop_back(2)) {
    src.push_back(dim.src);
    dst.push_back(dim.dst);
  }
  int64_t most = std::max<int64_t>(1, kTileBytes / elementBytes(type));
  return accessWidth(type, alignments[1], dst,
                     accessWidth(type, alignments[0], src, most));
}

int64_t PermuteEmitter::emitTiles(int64_t width) {
  Dim along = dims[dims.size() - 2], across = dims.back();
  ArrayRef<Dim> outer = ArrayRef(dims).drop_back(2);
  int64_t side = kTile * width, pitch = kPitch * width;
  SmallVector<int64_t> sizes;
  for (const Dim &dim : outer)
    sizes.push_back(dim.size);
  sizes.push_back(llvm::divideCeil(across.size, side));
  sizes.push_back(llvm::divideCeil(along.size, side));

  SmallVector<Value> index = splitIndex(k, k.block(), sizes);
  Value src = number(shape.srcOffset), dst = number(shape.dstOffset);
  for (auto [dim, i] : llvm::zip(outer, index)) {
    src = plus(src, i, dim.src);
    dst = plus(dst, i, dim.dst);
  }
  Value firstAcross = k.mul(index[outer.size()], number(side));
  Value firstAlong = k.mul(index[outer.size() + 1], number(side));
  Value column = k.bitAnd(k.thread(), number(kTile - 1));
  Value row = k.shiftRight(k.thread(), llvm::Log2_64(kTile));
  if (width > 1)
    column = k.mul(column, number(width));
  Value tile = k.shared(type, side * pitch);

  // Copies into and out of the tile both use this loop. A thread makes one
  // access in every eighth row, or in every eighth group of `together` rows.
  auto forRows = [&](int64_t together, const Dim &rows, Value firstRow,
                     const Dim &columns, Value firstColumn,
                     function_ref<void(Value i, Value r, Value c)> body) {
    Value c = k.add(firstColumn, column);
    Value hasColumn = k.less(c, number(columns.size));
    Value first = together > 1 ? k.mul(row, number(together)) : row;
    for (int64_t i = 0; i < side; i += together * kThreads / kTile) {
      Value tileRow = k.add(first, number(i));
      Value r = k.add(firstRow, tileRow);
      k.ifThen(k.bitAnd(hasColumn, k.less(r, number(rows.size))),
               [&] { body(tileRow, r, c); });
    }
  };
  forRows(1, across, firstAcross, along, firstAlong,
          [&](Value i, Value r, Value c) {
            Value from = plus(plus(src, r, across.src), c, along.src);
            Value place = plus(column, i, pitch);
            storeWide(k,
                      loadWide(k, k.element(k.arg(0), type, from), type, width),
                      k.element(tile, type, place));
          });
  k.barrier();
  // A row of the destination is a column of the tile. A thread transposes a
  // square of `width` rows and `width` columns.
  forRows(width, along, firstAlong, across, firstAcross,
          [&](Value i, Value r, Value c) {
            Value to = plus(plus(dst, r, along.dst), c, across.dst);
            Value place = plus(i, column, pitch);
            SmallVector<Value> pieces;
            for (int64_t n : llvm::seq(width))
              pieces.push_back(loadWide(
                  k, k.element(k.element(tile, type, place), type, n * pitch),
                  type, width));
            for (int64_t m : llvm::seq(width)) {
              SmallVector<Value> elements;
              for (Value piece : pieces)
                elements.push_back(wideElement(k, piece, m));
              storeWide(k, wideOf(k, elements),
                        k.element(destination(to), type, m * along.dst));
            }
          });
  int64_t units = 1;
  for (int64_t size : sizes)
    units *= size;
  return units;
}

int64_t PermuteEmitter::emitFlat(int64_t width) {
  SmallVector<int64_t> sizes;
  for (const Dim &dim : dims)
    sizes.push_back(dim.size);
  sizes.back() /= width;
  Value unit = k.add(k.mul(k.block(), number(kThreads)), k.thread());
  k.ifThen(k.less(unit, k.units()), [&] {
    SmallVector<Value> index = splitIndex(k, unit, sizes);
    index.back() = k.mul(index.back(), number(width));
    Value src = number(shape.srcOffset), dst = number(shape.dstOffset);
    for (auto [dim, i] : llvm::zip_equal(dims, index)) {
      src = plus(src, i, dim.src);
      dst = plus(dst, i, dim.dst);
    }
    storeWide(k, value(src, width), destination(dst));
  });
  int64_t units = 1;
  for (int64_t size : sizes)
    units *= size;
  return units;
}

int64_t PermuteEmitter::emitPadded(int64_t width) {
  int64_t columns = zeroColumns / width;
  Value unit = k.add(k.mul(k.block(), number(kThreads)), k.thread());
  k.ifThen(k.less(unit, k.units()), [&] {
    SmallVector<Value> place = splitIndex(k, unit, {zeroRows, columns});
    Value offset = plus(k.mul(place[1], number(width)), place[0], zeroStride);
    // Compute the index of the element in each dimension, relative to the first
    // copied element.
    Value src = number(shape.srcOffset), rest = offset;
    int64_t low = shape.dstOffset;
    Value isCopied = k.constantI(1, k.i1());
    for (const Dim &dim : dims) {
      Value i =
          k.sub(k.divUnsigned(rest, number(dim.dst)), number(low / dim.dst));
      rest = k.remUnsigned(rest, number(dim.dst));
      low %= dim.dst;
      // Interpreted as unsigned numbers, negative indices exceed every size.
      isCopied = k.bitAnd(isCopied, k.lessUnsigned(i, number(dim.size)));
      src = plus(src, i, dim.src);
    }
    isCopied = k.bitAnd(isCopied, k.equal(rest, number(low)));
    Value to = destination(offset);
    k.ifThen(
        isCopied, [&] { storeWide(k, value(src, width), to); },
        [&] { storeWide(k, zeros(wideType(type, width)), to); });
  });
  return zeroRows * columns;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value PermuteEmitter::read(Value src, int64_t width) {
  Value from = k.element(k.arg(0), sourceType, src);
  if (dims.back().src == 1)
    return loadWide(k, from, sourceType, width);
  return wideOf(k, SmallVector<Value>(width, k.load(from, sourceType)));
}

Value PermuteEmitter::combine(Value partial, Value x) {
  if (!shape.reduceMax)
    return k.add(partial, x);
  // NaN propagates.
  Value isNaN = arith::CmpFOp::create(k.b, arith::CmpFPredicate::UNO, x, x);
  return k.select(k.bitOr(k.less(partial, x), isNaN), x, partial);
}

Value PermuteEmitter::reduced(ArrayRef<Dim> inside, Value src, Value initial,
                              int64_t width) {
  if (inside.empty())
    return combine(initial, readWide(src, width));
  Dim dim = inside.front();
  auto reduceFrom = [&](Value low, Value high, int64_t step, Value initial) {
    return k
        .loop(low, high, step, ValueRange{initial},
              [&](Value i, ValueRange carried) {
                Value from = plus(src, i, dim.src);
                if (inside.size() > 1)
                  return SmallVector<Value>{
                      reduced(inside.drop_front(), from, carried[0], width)};
                SmallVector<Value> terms;
                for (int64_t j : llvm::seq(step))
                  terms.push_back(
                      readWide(plus(from, number(j), dim.src), width));
                Value next = carried[0];
                for (Value term : terms)
                  next = combine(next, term);
                return SmallVector<Value>{next};
              })
        .front();
  };
  if (inside.size() > 1)
    return reduceFrom(number(0), number(dim.size), 1, initial);
  Value whole = number(dim.size / kReadAhead * kReadAhead);
  initial = reduceFrom(number(0), whole, kReadAhead, initial);
  return reduceFrom(whole, number(dim.size), 1, initial);
}

Value PermuteEmitter::value(Value src, int64_t width) {
  if (shape.reduceShape.empty())
    return read(src, width);
  Type of = wideType(fullPrecision(sourceType), width);
  double least = -std::numeric_limits<double>::infinity();
  Value initial = shape.reduceMax ? k.constantF(least, of) : zeros(of);
  return k.roundTo(reduced(reductions, src, initial, width), type);
}

FailureOr<KernelLaunch> emitPermute(mlir::gpu::GPUModuleOp kernels,
                                    StringRef name, const PermuteShape &shape,
                                    Alignments alignments) {
  return PermuteEmitter(kernels, name, shape, alignments).emit();
}

void addPermuteKernel(KernelEmitters &emitters) {
  KernelEmitter emitter = [](mlir::gpu::GPUModuleOp kernels,
                             rt::KernelOp kernel, Alignments alignments) {
    return emitPermute(kernels, kernel.getSymName(),
                       readPermute(SingleOp(kernel)), alignments);
  };
  emitters.add<TransposeOp>(emitter);
  emitters.add<BroadcastOp>(emitter);
  emitters.add<SliceOp>(emitter);
  emitters.add<PadOp>(emitter);
  emitters.add<ReduceOp>(emitter);
}

} // namespace kiln::gpu
