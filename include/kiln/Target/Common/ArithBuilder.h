//===- ArithBuilder.h - Builder of kernel arithmetic ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The emitters of all targets build their formulas with this class: constants,
// arithmetic and loops, on scalars and on vectors with a fixed number of lanes.
// Memory accesses and the distribution of work are target-specific
// (cpu::KernelBuilder, gpu::GpuBuilder). Operations have no fast-math flags and
// are not contracted, so a formula gives identical bits in every kernel and on
// every target.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_ARITHBUILDER_H
#define KILN_TARGET_COMMON_ARITHBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace kiln {

class ArithBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  virtual ~ArithBuilder() = default;

  // Types.
  Type i1() { return b.getI1Type(); }
  Type i32() { return b.getI32Type(); }
  Type i64() { return b.getI64Type(); }
  Type f32() { return b.getF32Type(); }
  Type f64() { return b.getF64Type(); }
  /// Returns the type of a vector of `element` with laneCount lanes.
  mlir::VectorType vectorOf(Type element);
  /// If `shape` is a vector type, returns the vector type with the same shape
  /// and the element type `element`. Otherwise returns `element`.
  static Type like(Type shape, Type element);

  // Constants. If `type` is a vector, all lanes have the value.
  Value constantF(double value, Type type);
  Value constantI(int64_t value, Type type);
  Value i64Constant(int64_t value) { return constantI(value, i64()); }
  /// Returns the vector {0, 1, ...} of an integer type.
  Value lanes(Type integer);
  /// Returns the mask with the first `count` lanes set.
  Value firstLanes(int64_t count);
  /// Returns the mask of lanes j with low <= first + j < high. All operands are
  /// i64.
  Value lanesBetween(Value first, Value low, Value high);

  // Arithmetic on scalars or vectors of one type. add, sub and mul select the
  // float or the integer operation by the type. "Float" and "Integer" mark
  // functions that accept only operands of such a type.
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value div(Value x, Value y);         ///< Float.
  Value divUnsigned(Value x, Value y); ///< Integer.
  Value remUnsigned(Value x, Value y); ///< Integer.
  Value neg(Value x);                  ///< Float.
  Value abs(Value x);                  ///< Float.
  Value sqrt(Value x);                 ///< Float, correctly rounded.
  Value copySign(Value magnitude, Value sign);
  /// Returns x*y + z with one rounding.
  Value fma(Value x, Value y, Value z);
  /// Evaluates a polynomial by Horner's rule with fma; the highest coefficient
  /// comes first.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients);
  Value bitAnd(Value x, Value y);
  Value bitOr(Value x, Value y);
  Value bitXor(Value x, Value y);
  Value shiftLeft(Value x, int64_t bits);
  Value shiftRight(Value x, int64_t bits); ///< Logical shift.
  Value bitcast(Value x, Type type);

  // Narrow floats (bf16, f16, 8-bit floats) are used only in memory: values are
  // widened to f32 after loads and rounded before stores. widen() and roundTo()
  // return values of other types unchanged.
  Value widen(Value stored); ///< Exact.
  /// Rounds to nearest even if `stored` is a narrow float.
  Value roundTo(Value x, Type stored);

  // Comparisons return i1 or a vector of i1. less() compares integers as signed
  // numbers. A comparison with NaN is false.
  Value less(Value x, Value y);
  Value lessUnsigned(Value x, Value y); ///< Integer.
  Value equal(Value x, Value y);
  Value select(Value condition, Value x, Value y);
  /// Return x < y ? y : x and y < x ? y : x, respectively. If either operand is
  /// NaN, they return x.
  Value max(Value x, Value y) { return select(less(x, y), y, x); }
  Value min(Value x, Value y) { return select(less(y, x), y, x); }

  // Lanes.
  Value broadcast(Value scalar);
  Value lane(Value vector, int64_t i);
  Value insertLane(Value scalar, Value vector, int64_t i);
  /// Reduces the n lanes of a vector as a binary tree: combines lane j with
  /// lane j + n/2, then with lane j + n/4, and so on to lane j + 1.
  Value reduceLanes(Value vector,
                    llvm::function_ref<Value(Value, Value)> combine);
  Value sumLanes(Value vector);

  // Loops, with annotations that prevent LLVM from unrolling them.
  using LoopBody = llvm::function_ref<llvm::SmallVector<Value>(
      Value i, mlir::ValueRange carried)>;
  /// Emits the loop for (i = low; i < high; i += step) with loop-carried
  /// values, and returns the final values.
  llvm::SmallVector<Value> loop(Value low, Value high, int64_t step,
                                mlir::ValueRange initial, LoopBody body);
  void loop(Value low, Value high, int64_t step,
            llvm::function_ref<void(Value i)> body);
  void ifThen(Value condition, llvm::function_ref<void()> body,
              llvm::function_ref<void()> otherwise = nullptr);

  /// Calls the elementary function `name` ("exp", "log", "tanh" or "erf") on
  /// f64 scalars or vectors. Supported only by targets with a C library.
  virtual Value callLibrary(llvm::StringRef name, Value x) = 0;

  /// Returns element `index` of a constant table as an i32. `index` is an
  /// unsigned scalar or vector of at most 32 bits, within the table. All tables
  /// with the same name must have the same elements.
  virtual Value lookUp(llvm::StringRef table, llvm::ArrayRef<int32_t> elements,
                       Value index) = 0;

  /// The insertion point and location of all emitted operations.
  mlir::ImplicitLocOpBuilder b;

protected:
  ArithBuilder(mlir::Location location, int64_t laneCount)
      : b(location, location.getContext()), laneCount(laneCount) {}

  /// Number of lanes of each vector.
  const int64_t laneCount;
};

/// Creates, at the insertion point of `b`, a constant global of the module that
/// contains the elements of a table; see ArithBuilder::lookUp().
mlir::LLVM::GlobalOp createTable(mlir::ImplicitLocOpBuilder &b,
                                 llvm::StringRef name,
                                 llvm::ArrayRef<int32_t> elements,
                                 unsigned addressSpace);

} // namespace kiln

#endif // KILN_TARGET_COMMON_ARITHBUILDER_H
