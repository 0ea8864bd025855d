//===- PermuteKernel.cpp - Strided copies, reductions and padding ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dimensions are first normalized: sorted by destination stride, merged if
// they are contiguous in source and destination, and dropped if they have size
// one. The innermost dimension then selects how elements are copied:
//
//   Rows       the destination is contiguous, and the source is contiguous or
//              repeats one element: the kernel copies vectors, and a reduction
//              accumulates a vector of results
//   Transpose  the destination is contiguous, and the source is contiguous in
//              another dimension: the kernel transposes squares of 16x16
//              elements in registers
//   Elements   all other cases: the kernel copies single elements
//
// A unit of work is a panel, which is a range of the vectorized dimension (for
// Transpose, of the dimension that is contiguous in the source), at one index
// of each of the outermost dimensions. Loops within a unit iterate over the
// remaining dimensions, which are small. With padding, a unit is instead a
// slice of the destination, which it fills with zeros before it copies: a chunk
// of one long vector, a slab along the outermost dimension or, in the general
// case, the whole tensor.
//
// A copy moves bits, so it treats narrow floats such as bf16 as integers. A sum
// of narrow floats is computed in f32.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "Transpose.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Target/Cpu/Kernels.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace kiln::cpu {

namespace {

/// Minimum elements per call.
constexpr int64_t kGrainElements = 16 * 1024;
/// Approximate maximum elements per unit of work.
constexpr int64_t kUnitElements = 4 * 1024;
/// Minimum columns per panel: a few cache lines.
constexpr int64_t kMinPanel = 64;
/// Minimum elements per slab, a contiguous part of a padded destination.
constexpr int64_t kMinSlab = 64;

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
  PermuteEmitter(ModuleOp module, StringRef name, const PermuteShape &shape);
  KernelLaunch emit();

private:
  enum class Kind { Rows, Transpose, Elements };

  KernelLaunch emitPanels();
  KernelLaunch emitChunks();
  KernelLaunch emitSlabs();
  KernelLaunch emitWhole();
  bool slabsSuffice() const;
  int64_t slabCount(int64_t slab) const;

  /// Copies the elements at all indices of `loops` and at indices [low, high)
  /// of the inner dimension, starting at offsets `src` and `dst`. `low` is a
  /// multiple of 16.
  void region(ArrayRef<Dim> loops, Value src, Value dst, Value low, Value high);
  void rows(Value src, Value dst, Value low, Value high);
  void squares(Value src, Value dst, Value low, Value high);
  void elements(Value src, Value dst, Value low, Value high);
  /// Returns the value at a source offset: a vector, or one element if
  /// `scalar`.
  Value value(Value src, bool scalar, Value mask = {});
  Value reduced(ArrayRef<Dim> dims, Value src, Value initial,
                llvm::function_ref<Value(Value src)> read);
  void fill(Value low, Value high);
  /// Fills rows [first, end) of the padded tensor with zeros.
  void fillRows(Value first, Value end);

  Value number(int64_t x) { return k.i64Constant(x); }
  Value plus(Value x, Value i, int64_t stride) {
    return stride == 0 ? x : k.add(x, k.mul(i, number(stride)));
  }
  Value source(Value offset) { return k.element(k.arg(0), from, offset); }
  Value destination(Value offset) { return k.element(k.arg(1), to, offset); }
  Value zeros(Type of) {
    return isa<FloatType>(getElementTypeOrSelf(of)) ? k.constantF(0, of)
                                                    : k.constantI(0, of);
  }

  const PermuteShape &shape;
  KernelBuilder k;
  Type from, to;               ///< Element types in memory.
  Type type;                   ///< Element type in registers.
  SmallVector<Dim> outer;      ///< All dimensions but `inner` and `across`.
  Dim inner;                   ///< The vectorized dimension.
  Dim across{1, 0, 0};         ///< Transpose: contiguous destination dimension.
  SmallVector<Dim> reductions; ///< Reduced dimensions in index order.
  int64_t reducedElements = 1;
  /// Shape of the padded tensor. A dense tensor is treated as one row.
  int64_t zeroRows, zeroColumns;
  Kind kind = Kind::Elements;
};

} // namespace

PermuteEmitter::PermuteEmitter(ModuleOp module, StringRef name,
                               const PermuteShape &shape)
    : shape(shape), k(module, name, /*numArgs=*/2, /*numImmediates=*/0),
      from(shape.sourceType), to(shape.elementType), type(fullPrecision(from)) {
  bool isCopy = shape.reduceShape.empty();
  if (isCopy && isNarrowFloat(to))
    from = to = type = k.b.getIntegerType(8 * elementBytes(to));
  SmallVector<Dim> dims, inside;
  for (auto [size, src, dst] :
       llvm::zip_equal(shape.shape, shape.srcStrides, shape.dstStrides))
    dims.push_back({size, src, dst});
  // Drop dimensions of size one, whose strides are arbitrary, before sorting.
  llvm::erase_if(dims, [](const Dim &dim) { return dim.size == 1; });
  llvm::sort(dims, [](const Dim &x, const Dim &y) { return x.dst > y.dst; });
  outer = merge(dims);
  for (auto [size, src] :
       llvm::zip_equal(shape.reduceShape, shape.srcReduceStrides)) {
    inside.push_back({size, src, 0});
    reducedElements *= size;
  }
  bool dense = shape.zeroRows <= 1 || shape.zeroStride == shape.zeroColumns;
  zeroRows = dense ? 1 : shape.zeroRows;
  zeroColumns = dense ? shape.zeroRows * shape.zeroColumns : shape.zeroColumns;
  // Reduced dimensions have no destination stride. Set the destination strides
  // to the source strides, so that merge() depends on the source only.
  for (Dim &dim : inside)
    dim.dst = dim.src;
  reductions = merge(inside);

  // If no dimension is left, copy a single element.
  inner = outer.empty() ? Dim{1, 1, 1} : outer.pop_back_val();
  // If a single row is padded to several rows, add an outer dimension of size
  // one, so that each unit of work can be a range of rows (see emitSlabs()).
  if (zeroRows > 1 && outer.empty())
    outer.push_back({1, 0, shape.zeroStride});
  if (inner.dst != 1)
    return;
  if (inner.src == 0 || inner.src == 1) {
    kind = Kind::Rows;
    return;
  }
  auto contiguous =
      llvm::find_if(outer, [](const Dim &dim) { return dim.src == 1; });
  if (!shape.reduceShape.empty() || contiguous == outer.end())
    return;
  kind = Kind::Transpose;
  across = inner;
  inner = *contiguous;
  outer.erase(contiguous);
}

KernelLaunch PermuteEmitter::emit() {
  KernelLaunch launch;
  if (shape.zeroRows == 0)
    launch = emitPanels();
  else if (outer.empty() && kind == Kind::Rows && reductions.empty() &&
           zeroRows == 1)
    launch = emitChunks();
  else if (slabsSuffice())
    launch = emitSlabs();
  else
    launch = emitWhole();
  k.finish();
  return launch;
}

//===----------------------------------------------------------------------===//
// Units of work
//===----------------------------------------------------------------------===//

KernelLaunch PermuteEmitter::emitPanels() {
  int64_t workPerElement = across.size * reducedElements;
  int64_t panel = llvm::alignTo(
      std::max<int64_t>(kUnitElements / workPerElement, kMinPanel), kLanes);
  int64_t panels = llvm::divideCeil(inner.size, panel);
  int64_t work = std::min(inner.size, panel) * workPerElement;

  // Add inner dimensions to the unit of work while it is small.
  ArrayRef<Dim> unitDims = outer;
  while (panels == 1 && !unitDims.empty() &&
         work * unitDims.back().size <= kUnitElements) {
    work *= unitDims.back().size;
    unitDims = unitDims.drop_back();
  }
  ArrayRef<Dim> loops = ArrayRef<Dim>(outer).drop_front(unitDims.size());

  int64_t units = panels;
  for (const Dim &dim : unitDims)
    units *= dim.size;
  k.loop(k.begin(), k.end(), 1, [&](Value unit) {
    Value src = number(shape.srcOffset), dst = number(shape.dstOffset);
    Value low = k.mul(k.remUnsigned(unit, number(panels)), number(panel));
    Value index = k.divUnsigned(unit, number(panels));
    for (const Dim &dim : llvm::reverse(unitDims)) {
      Value i = k.remUnsigned(index, number(dim.size));
      index = k.divUnsigned(index, number(dim.size));
      src = plus(src, i, dim.src);
      dst = plus(dst, i, dim.dst);
    }
    Value high = k.min(k.add(low, number(panel)), number(inner.size));
    region(loops, src, dst, low, high);
  });
  return {units, std::max<int64_t>(1, kGrainElements / work), 0};
}

KernelLaunch PermuteEmitter::emitChunks() {
  int64_t end = shape.dstOffset + inner.size;
  int64_t total = std::max(end, zeroColumns);
  k.loop(k.begin(), k.end(), 1, [&](Value unit) {
    Value low = k.mul(unit, number(kUnitElements));
    Value high = k.min(k.add(low, number(kUnitElements)), number(total));
    Value copyLow = k.max(low, number(shape.dstOffset));
    Value copyHigh = k.min(high, number(end));
    fill(low, k.min(high, number(shape.dstOffset)));
    fill(k.max(low, number(end)), high);
    k.ifThen(k.less(copyLow, copyHigh), [&] {
      // region() requires a lower bound that is a multiple of 16, which
      // `copyLow` need not be. Copy full vectors starting at `copyLow`, then
      // the remaining elements one by one.
      Value whole =
          k.add(copyLow, k.bitAnd(k.sub(copyHigh, copyLow), number(-kLanes)));
      Value first = number(shape.dstOffset);
      auto sourceOf = [&](Value i) {
        return plus(number(shape.srcOffset), k.sub(i, first), inner.src);
      };
      k.loop(copyLow, whole, kLanes, [&](Value i) {
        k.storeVector(value(sourceOf(i), /*scalar=*/false), destination(i));
      });
      k.loop(whole, copyHigh, 1, [&](Value i) {
        k.store(value(sourceOf(i), /*scalar=*/true), destination(i));
      });
    });
  });
  return {static_cast<int64_t>(llvm::divideCeil(total, kUnitElements)),
          kGrainElements / kUnitElements, 0};
}

/// Divides the destination into slabs, whose size is the destination stride of
/// the outermost dimension. Returns true if all elements with the same index in
/// this dimension are written to one slab.
bool PermuteEmitter::slabsSuffice() const {
  if (outer.empty() || outer.front().dst < kMinSlab ||
      outer.front().dst < std::max(inner.dst, across.dst))
    return false;
  int64_t slab = outer.front().dst;
  if (zeroRows > 1 && slab % shape.zeroStride != 0)
    return false;
  int64_t last = shape.dstOffset % slab + (inner.size - 1) * inner.dst +
                 (across.size - 1) * across.dst;
  for (const Dim &dim : ArrayRef<Dim>(outer).drop_front())
    last += (dim.size - 1) * dim.dst;
  return last < slab &&
         shape.dstOffset / slab + outer.front().size <= slabCount(slab);
}

int64_t PermuteEmitter::slabCount(int64_t slab) const {
  return zeroRows == 1 ? llvm::divideCeil(zeroColumns, slab)
                       : llvm::divideCeil(zeroRows, slab / shape.zeroStride);
}

KernelLaunch PermuteEmitter::emitSlabs() {
  Dim dim = outer.front();
  int64_t firstSlab = shape.dstOffset / dim.dst;
  k.loop(k.begin(), k.end(), 1, [&](Value unit) {
    // The size of a slab (a contiguous part of the destination): in elements if
    // the padded tensor is one row, otherwise in rows.
    int64_t size = zeroRows == 1 ? dim.dst : dim.dst / shape.zeroStride;
    int64_t end = zeroRows == 1 ? zeroColumns : zeroRows;
    Value low = k.mul(unit, number(size));
    Value high = k.min(k.add(low, number(size)), number(end));
    zeroRows == 1 ? fill(low, high) : fillRows(low, high);
    // For slabs before the first copied slab, i is negative. The unsigned
    // comparison excludes them and the slabs after the last copied slab.
    Value i = k.sub(unit, number(firstSlab));
    k.ifThen(k.lessUnsigned(i, number(dim.size)), [&] {
      region(ArrayRef<Dim>(outer).drop_front(),
             plus(number(shape.srcOffset), i, dim.src),
             plus(number(shape.dstOffset), i, dim.dst), number(0),
             number(inner.size));
    });
  });
  return {slabCount(dim.dst), std::max<int64_t>(1, kGrainElements / dim.dst),
          0};
}

KernelLaunch PermuteEmitter::emitWhole() {
  k.loop(k.begin(), k.end(), 1, [&](Value) {
    fillRows(number(0), number(zeroRows));
    region(outer, number(shape.srcOffset), number(shape.dstOffset), number(0),
           number(inner.size));
  });
  return {1, 1, 0};
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

void PermuteEmitter::fill(Value low, Value high) {
  high = k.max(low, high);
  Value whole = k.add(low, k.bitAnd(k.sub(high, low), number(-kLanes)));
  k.loop(low, whole, kLanes, [&](Value i) {
    k.storeVector(zeros(k.vectorOf(type)), destination(i));
  });
  k.loop(whole, high, 1,
         [&](Value i) { k.store(zeros(type), destination(i)); });
}

void PermuteEmitter::fillRows(Value first, Value end) {
  k.loop(first, end, 1, [&](Value row) {
    Value low = plus(number(0), row, shape.zeroStride);
    fill(low, k.add(low, number(zeroColumns)));
  });
}

void PermuteEmitter::region(ArrayRef<Dim> loops, Value src, Value dst,
                            Value low, Value high) {
  if (!loops.empty()) {
    const Dim &dim = loops.front();
    k.loop(number(0), number(dim.size), 1, [&](Value i) {
      region(loops.drop_front(), plus(src, i, dim.src), plus(dst, i, dim.dst),
             low, high);
    });
    return;
  }
  switch (kind) {
  case Kind::Rows:
    return rows(src, dst, low, high);
  case Kind::Transpose:
    return squares(src, dst, low, high);
  case Kind::Elements:
    return elements(src, dst, low, high);
  }
}

Value PermuteEmitter::reduced(ArrayRef<Dim> dims, Value src, Value initial,
                              function_ref<Value(Value)> read) {
  if (!dims.empty()) {
    const Dim &dim = dims.front();
    return k
        .loop(number(0), number(dim.size), 1, ValueRange{initial},
              [&](Value i, ValueRange carried) {
                return SmallVector<Value>{reduced(dims.drop_front(),
                                                  plus(src, i, dim.src),
                                                  carried[0], read)};
              })
        .front();
  }
  Value x = read(src);
  if (!shape.reduceMax)
    return k.add(initial, x);
  // NaN propagates.
  Value isNaN = arith::CmpFOp::create(k.b, arith::CmpFPredicate::UNO, x, x);
  return k.select(k.bitOr(k.less(initial, x), isNaN), x, initial);
}

Value PermuteEmitter::value(Value src, bool scalar, Value mask) {
  auto read = [&](Value offset) {
    if (!scalar && inner.src != 0)
      return k.loadWide(source(offset), from, mask);
    Value element = k.widen(k.load(source(offset), from));
    return scalar ? element : k.broadcast(element);
  };
  if (shape.reduceShape.empty())
    return read(src);
  Type of = scalar ? type : Type(k.vectorOf(type));
  double least = -std::numeric_limits<double>::infinity();
  Value initial = shape.reduceMax ? k.constantF(least, of) : zeros(of);
  return reduced(reductions, src, initial, read);
}

void PermuteEmitter::rows(Value src, Value dst, Value low, Value high) {
  int64_t rest = inner.size % kLanes;
  Value whole = number(inner.size - rest);
  auto move = [&](Value i, Value mask) {
    k.storeRounded(value(plus(src, i, inner.src), /*scalar=*/false, mask),
                   destination(k.add(dst, i)), to, mask);
  };
  k.loop(low, k.min(high, whole), kLanes, [&](Value i) { move(i, Value()); });
  if (rest)
    k.ifThen(k.less(whole, high), [&] { move(whole, k.firstLanes(rest)); });
}

void PermuteEmitter::squares(Value src, Value dst, Value low, Value high) {
  // Transposes `rows` vectors of `columns` elements. Vector r contains the
  // source elements with an index in [i, i + columns) in dimension `inner` and
  // the index j + r in dimension `across`.
  auto square = [&](Value i, int64_t columns, Value j, int64_t rows) {
    Value first = plus(plus(src, i, inner.src), j, across.src);
    Value target = plus(plus(dst, i, inner.dst), j, across.dst);
    Value loadMask = columns < kLanes ? k.firstLanes(columns) : Value();
    Value storeMask = rows < kLanes ? k.firstLanes(rows) : Value();
    SmallVector<Value> vectors(kLanes, zeros(k.vectorOf(type)));
    for (int64_t r : llvm::seq(rows))
      vectors[r] = k.loadVector(source(plus(first, number(r), across.src)),
                                type, loadMask);
    vectors = emitTranspose(k, vectors);
    for (int64_t c : llvm::seq(columns))
      k.storeVector(vectors[c], destination(plus(target, number(c), inner.dst)),
                    storeMask);
  };
  // The inner loop is over the indices [low, high) of `inner`, so that each
  // cache line of the source is used completely while it is cached.
  int64_t restColumns = inner.size % kLanes;
  int64_t restRows = across.size % kLanes;
  Value wholeColumns = number(inner.size - restColumns);
  Value wholeRows = number(across.size - restRows);
  auto strip = [&](Value j, int64_t rows) {
    k.loop(low, k.min(high, wholeColumns), kLanes,
           [&](Value i) { square(i, kLanes, j, rows); });
    if (restColumns)
      k.ifThen(k.less(wholeColumns, high),
               [&] { square(wholeColumns, restColumns, j, rows); });
  };
  k.loop(number(0), wholeRows, kLanes, [&](Value j) { strip(j, kLanes); });
  if (restRows)
    strip(wholeRows, restRows);
}

void PermuteEmitter::elements(Value src, Value dst, Value low, Value high) {
  k.loop(low, high, 1, [&](Value i) {
    k.store(k.roundTo(value(plus(src, i, inner.src), /*scalar=*/true), to),
            destination(plus(dst, i, inner.dst)));
  });
}

KernelLaunch emitPermute(ModuleOp module, StringRef name,
                         const PermuteShape &shape) {
  return PermuteEmitter(module, name, shape).emit();
}

void addPermuteKernel(KernelEmitters &emitters) {
  KernelEmitter emitter = {
      [](ModuleOp module, rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
        return emitPermute(module, kernel.getSymName(),
                           readPermute(SingleOp(kernel)));
      }};
  emitters.add<TransposeOp>(emitter);
  emitters.add<BroadcastOp>(emitter);
  emitters.add<SliceOp>(emitter);
  emitters.add<PadOp>(emitter);
  emitters.add<ReduceOp>(emitter);
}

} // namespace kiln::cpu
