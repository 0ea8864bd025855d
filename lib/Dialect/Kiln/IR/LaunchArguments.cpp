//===- LaunchArguments.cpp - Kernel arguments from op attributes ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/LaunchArguments.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace mlir;
using namespace kiln;

/// Calls visit(op, name) in block order for every attribute that a launch
/// passes as an argument.
static void
forEachArgument(Block &body,
                llvm::function_ref<void(Operation &, StringRef)> visit) {
  for (Operation &op : body)
    if (auto arguments = dyn_cast<LaunchArgumentsOpInterface>(op))
      for (StringRef name : arguments.getLaunchArgumentNames())
        visit(op, name);
}

SmallVector<Attribute> kiln::launchArgumentsOf(Block &body) {
  SmallVector<Attribute> values;
  forEachArgument(body, [&](Operation &op, StringRef name) {
    Attribute value = op.getAttr(name);
    if (isa<FloatAttr>(value) || !llvm::is_contained(values, value))
      values.push_back(value);
  });
  return values;
}

void kiln::removeLaunchArguments(Block &body) {
  SmallVector<Attribute> values;
  Builder builder(body.getParentOp()->getContext());
  forEachArgument(body, [&](Operation &op, StringRef name) {
    Attribute value = op.getAttr(name);
    if (isa<FloatAttr>(value)) {
      values.push_back(value);
      op.setAttr(name, builder.getF64FloatAttr(1.0));
      return;
    }
    auto place = llvm::find(values, value) - values.begin();
    if (place == std::ptrdiff_t(values.size()))
      values.push_back(value);
    op.setAttr(name, builder.getI64IntegerAttr(place));
  });
}

/// Calls visit(op, name, number, isNew) for every attribute of a kernel body
/// that is a launch argument, until a call returns false. `number` is the
/// argument number, and `isNew` is true at the first use of an argument.
static bool forEachNumber(
    Block &body,
    llvm::function_ref<bool(Operation &, StringRef, int64_t, bool)> visit) {
  int64_t count = 0;
  bool goesOn = true;
  forEachArgument(body, [&](Operation &op, StringRef name) {
    if (!goesOn)
      return;
    auto integer = dyn_cast<IntegerAttr>(op.getAttr(name));
    int64_t number = integer ? integer.getInt() : count;
    bool isNew = number == count;
    goesOn = visit(op, name, number, isNew);
    count += isNew;
  });
  return goesOn;
}

SmallVector<Type> kiln::launchArgumentTypes(Block &body) {
  SmallVector<Type> types;
  forEachNumber(body, [&](Operation &op, StringRef name, int64_t, bool isNew) {
    if (isNew)
      types.push_back(cast<TypedAttr>(op.getAttr(name)).getType());
    return true;
  });
  return types;
}

LogicalResult kiln::verifyLaunchArguments(Block &body) {
  // True for an f64 argument and false for an i64 argument; indexed by argument
  // number.
  SmallVector<bool> isReal;
  LogicalResult result = success();
  forEachNumber(body,
                [&](Operation &op, StringRef name, int64_t number, bool isNew) {
                  auto count = static_cast<int64_t>(isReal.size());
                  if (number < 0 || number > count || number >= 64)
                    result = op.emitOpError("has launch argument number ")
                             << number << " for '" << name
                             << "', expected a number from 0 to "
                             << std::min<int64_t>(count, 63);
                  else if (!isNew && isReal[number])
                    result = op.emitOpError("has launch argument number ")
                             << number << " for '" << name
                             << "', but launch argument " << number
                             << " is an f64, expected an i64";
                  else if (isNew)
                    isReal.push_back(isa<FloatAttr>(op.getAttr(name)));
                  return succeeded(result);
                });
  return result;
}

void kiln::bindLaunchArguments(Block &body, ArrayRef<Attribute> arguments) {
  forEachNumber(body, [&](Operation &op, StringRef name, int64_t number, bool) {
    // The attribute can be replaced here, because forEachNumber() has already
    // read the number from it.
    op.setAttr(name, arguments[number]);
    return true;
  });
}
