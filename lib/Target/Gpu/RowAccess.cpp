//===- RowAccess.cpp - Accesses to adjacent columns of a row --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowAccess.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"

#include "DeviceFacts.h"

using namespace mlir;

namespace kiln::gpu {

static int64_t vectorAlignment(const GpuBuilder &k, Type element) {
  return std::min<int64_t>(kWidestAccess, elementBytes(element, k.width()));
}

bool isVectorAligned(const GpuBuilder &k, Type element, int64_t alignment,
                     int64_t stride) {
  int64_t wanted = vectorAlignment(k, element);
  return alignment % wanted == 0 && elementBytes(element, stride) % wanted == 0;
}

/// Emits an scf.if. Returns the value of `body` if `condition` is true, else
/// the value of `otherwise`.
static Value eitherOf(GpuBuilder &k, Value condition, Type type,
                      function_ref<Value()> body,
                      function_ref<Value()> otherwise) {
  auto branch = scf::IfOp::create(k.b, TypeRange{type}, condition,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(k.b);
  k.b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(k.b, body());
  k.b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(k.b, otherwise());
  return branch.getResult(0);
}

/// Returns the value of `body` if `condition` is true or null, else 0. The code
/// that `body` emits is executed only in the first case.
static Value onlyIf(GpuBuilder &k, Value condition, Type type,
                    function_ref<Value()> body) {
  if (!condition)
    return body();
  return eitherOf(k, condition, type, body, [&] {
    return isa<FloatType>(getElementTypeOrSelf(type)) ? k.constantF(0, type)
                                                      : k.constantI(0, type);
  });
}

static void doIf(GpuBuilder &k, Value condition, function_ref<void()> body) {
  if (condition)
    k.ifThen(condition, body);
  else
    body();
}

Value loadScalar(GpuBuilder &k, Value pointer, Type type, Value condition) {
  return onlyIf(k, condition, type, [&] { return k.load(pointer, type); });
}

Value loadColumns(GpuBuilder &k, Value pointer, Type element, bool aligned,
                  const Mask &mask) {
  VectorType type = k.vectorOf(element);
  auto loadLanes = [&](ArrayRef<Value> conditions) {
    Value vector;
    for (int64_t i = 0; i < k.width(); ++i) {
      Value lane = loadScalar(k, k.element(pointer, element, i), element,
                              conditions.empty() ? Value() : conditions[i]);
      vector = k.insertLane(lane, vector ? vector : k.broadcast(lane), i);
    }
    return vector;
  };
  auto loadVector = [&]() -> Value {
    return k.load(pointer, type, vectorAlignment(k, element));
  };
  if (!mask.lanes.empty() && mask.whole && aligned)
    return eitherOf(k, mask.whole, type, loadVector,
                    [&] { return loadLanes(mask.lanes); });
  if (!mask.lanes.empty())
    return loadLanes(mask.lanes);
  return onlyIf(k, mask.all, type, [&]() -> Value {
    return aligned ? loadVector() : loadLanes({});
  });
}

void storeColumns(GpuBuilder &k, Value vector, Value pointer, bool aligned,
                  const Mask &mask) {
  Type element = getElementTypeOrSelf(vector);
  auto storeLanes = [&](ArrayRef<Value> conditions) {
    for (int64_t i = 0; i < k.width(); ++i)
      doIf(k, conditions.empty() ? Value() : conditions[i],
           [&] { k.store(k.lane(vector, i), k.element(pointer, element, i)); });
  };
  auto storeVector = [&] {
    k.store(vector, pointer, vectorAlignment(k, element));
  };
  if (!mask.lanes.empty() && mask.whole && aligned)
    return k.ifThen(mask.whole, storeVector, [&] { storeLanes(mask.lanes); });
  if (!mask.lanes.empty())
    return storeLanes(mask.lanes);
  doIf(k, mask.all, [&] {
    if (aligned)
      storeVector();
    else
      storeLanes({});
  });
}

Value selectColumns(GpuBuilder &k, const Mask &mask, Value x, Value y) {
  if (mask.lanes.empty())
    return mask.all ? k.select(mask.all, x, y) : x;
  Value lanes = k.broadcast(mask.lanes[0]);
  for (int64_t i = 1; i < k.width(); ++i)
    lanes = k.insertLane(mask.lanes[i], lanes, i);
  return k.select(lanes, x, y);
}

} // namespace kiln::gpu
