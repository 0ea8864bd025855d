//===- PlanAttrs.cpp - Verifiers of plan attributes -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

static LogicalResult verifyNotNegative(EmitError emitError, StringRef name,
                                       int64_t number) {
  if (number >= 0)
    return success();
  return emitError() << "has '" << name << "' = " << number
                     << ", expected a number of at least 0";
}

static LogicalResult verifyMilliseconds(EmitError emitError, StringRef name,
                                        FloatAttr number) {
  double value = number.getValueAsDouble();
  if (number.getType().isF64() && value >= 0 && std::isfinite(value))
    return success();
  return emitError() << "has '" << name << "' = " << number
                     << ", expected a finite f64 of at least 0";
}

static LogicalResult verifyNames(EmitError emitError, StringRef name,
                                 ArrayAttr names) {
  if (llvm::all_of(names, llvm::IsaPred<StringAttr>))
    return success();
  return emitError() << "has '" << name << "' = " << names
                     << ", expected an array of strings";
}

LogicalResult StageChoiceAttr::verify(
    EmitError emitError, int64_t stage, StringAttr, int64_t forwardRuns, bool,
    ArrayAttr keeps, ArrayAttr offloads, ArrayAttr repeats, int64_t keptBytes,
    int64_t offloadedBytes, int64_t repeatedBytes, FloatAttr repeatedMs) {
  for (auto [name, number] :
       std::initializer_list<std::pair<StringRef, int64_t>>{
           {"stage", stage},
           {"forward_runs", forwardRuns},
           {"kept_bytes", keptBytes},
           {"offloaded_bytes", offloadedBytes},
           {"repeated_bytes", repeatedBytes}})
    if (failed(verifyNotNegative(emitError, name, number)))
      return failure();
  for (auto [name, names] :
       std::initializer_list<std::pair<StringRef, ArrayAttr>>{
           {"keeps", keeps}, {"offloads", offloads}, {"repeats", repeats}})
    if (failed(verifyNames(emitError, name, names)))
      return failure();
  return verifyMilliseconds(emitError, "repeated_ms", repeatedMs);
}

LogicalResult PlanAttr::verify(EmitError emitError,
                               std::optional<int64_t> budget,
                               std::optional<int64_t> hostBudget,
                               int64_t predictedPeak, int64_t predictedHost,
                               FloatAttr predictedMs, FloatAttr lowerBoundMs,
                               FloatAttr unplannedMs, int64_t unplannedPeak,
                               ArrayAttr choices) {
  for (auto [name, number] :
       std::initializer_list<std::pair<StringRef, int64_t>>{
           {"budget", budget.value_or(0)},
           {"host_budget", hostBudget.value_or(0)},
           {"predicted_peak_bytes", predictedPeak},
           {"predicted_host_bytes", predictedHost},
           {"unplanned_peak_bytes", unplannedPeak}})
    if (failed(verifyNotNegative(emitError, name, number)))
      return failure();
  for (auto [name, number] :
       std::initializer_list<std::pair<StringRef, FloatAttr>>{
           {"predicted_step_ms", predictedMs},
           {"lower_bound_ms", lowerBoundMs},
           {"unplanned_step_ms", unplannedMs}})
    if (failed(verifyMilliseconds(emitError, name, number)))
      return failure();
  if (llvm::all_of(choices, llvm::IsaPred<StageChoiceAttr>))
    return success();
  return emitError() << "has 'choices' = " << choices
                     << ", expected an array of #kiln.stage";
}

LogicalResult EncodedAttr::verify(EmitError emitError, StringAttr, StringAttr,
                                  bool, int64_t bytes, int64_t encodedBytes) {
  if (failed(verifyNotNegative(emitError, "bytes", bytes)))
    return failure();
  return verifyNotNegative(emitError, "encoded_bytes", encodedBytes);
}
