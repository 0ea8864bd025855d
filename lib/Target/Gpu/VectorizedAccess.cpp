//===- VectorizedAccess.cpp - Vectorized memory accesses ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VectorizedAccess.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"

#include "DeviceFacts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace kiln::gpu {

/// Returns min(bytes of `width` elements, bytes of the widest instruction),
/// which is the alignment that an access to `width` elements needs.
static int64_t wideAlignment(Type element, int64_t width) {
  return std::min(width * elementBytes(element), kWidestAccess);
}

int64_t accessWidth(Type element, int64_t alignment, ArrayRef<int64_t> strides,
                    int64_t most) {
  int64_t bytes = elementBytes(element), width = 1;
  while (2 * width <= most && 2 * width * bytes <= kWidestAccess &&
         alignment % (2 * width * bytes) == 0 &&
         llvm::all_of(strides, [&](int64_t stride) {
           return stride % (2 * width) == 0;
         }))
    width *= 2;
  return width;
}

Type wideType(Type element, int64_t width) {
  return width == 1 ? element : VectorType::get({width}, element);
}

Value loadWide(GpuBuilder &k, Value pointer, Type element, int64_t width) {
  return k.load(pointer, wideType(element, width),
                wideAlignment(element, width));
}

Value loadWideIf(GpuBuilder &k, Value condition, Value pointer, Type element,
                 int64_t width) {
  Type type = wideType(element, width);
  auto branch = scf::IfOp::create(
      k.b, condition,
      [&](OpBuilder &b, Location loc) {
        OpBuilder::InsertionGuard guard(k.b);
        k.b.setInsertionPoint(b.getInsertionBlock(), b.getInsertionPoint());
        scf::YieldOp::create(k.b, loadWide(k, pointer, element, width));
      },
      [&](OpBuilder &b, Location loc) {
        scf::YieldOp::create(
            b, loc,
            Value(arith::ConstantOp::create(b, loc, b.getZeroAttr(type))));
      });
  return branch.getResult(0);
}

void storeWide(GpuBuilder &k, Value value, Value pointer) {
  int64_t width = 1;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    width = vector.getNumElements();
  k.store(value, pointer,
          wideAlignment(getElementTypeOrSelf(value.getType()), width));
}

Value wideElement(GpuBuilder &k, Value value, int64_t i) {
  return isa<VectorType>(value.getType()) ? k.lane(value, i) : value;
}

Value wideOf(GpuBuilder &k, ArrayRef<Value> elements) {
  if (elements.size() == 1)
    return elements.front();
  auto type =
      VectorType::get({int64_t(elements.size())}, elements.front().getType());
  return vector::FromElementsOp::create(k.b, type, elements);
}

SmallVector<Value> splitIndex(GpuBuilder &k, Value index,
                              ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  // Use 32-bit arithmetic if all indices fit, because 64-bit divisions are
  // several times slower.
  bool isNarrow = product <= std::numeric_limits<int32_t>::max();
  Type type = isNarrow ? k.i32() : k.i64();
  Value rest = isNarrow ? arith::TruncIOp::create(k.b, type, index) : index;
  SmallVector<Value> indices(sizes.size());
  for (size_t dim = sizes.size(); dim-- > 0;) {
    Value i = rest;
    if (dim > 0) {
      Value size = k.constantI(sizes[dim], type);
      i = k.remUnsigned(rest, size);
      rest = k.divUnsigned(rest, size);
    }
    indices[dim] = isNarrow ? arith::ExtUIOp::create(k.b, k.i64(), i) : i;
  }
  return indices;
}

} // namespace kiln::gpu
