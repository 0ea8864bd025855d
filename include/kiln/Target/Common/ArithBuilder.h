//===- ArithBuilder.h - Writing arithmetic in kernels -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the emitters of all targets write their formulas with: constants,
// arithmetic and loops over scalars and vectors of a fixed number of lanes.
// Memory, and who works on what, is the target's (cpu::KernelBuilder,
// gpu::GpuBuilder). No operation here carries fast-math flags and nothing is
// contracted: a formula has the same bits in every kernel and on every target.
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
  /// A vector of `element` with all lanes.
  mlir::VectorType vectorOf(Type element);
  /// `element`, as a vector if `shape` is one.
  static Type like(Type shape, Type element);

  // Constants. `type` may be a vector: all lanes.
  Value constantF(double value, Type type);
  Value constantI(int64_t value, Type type);
  Value i64Constant(int64_t value) { return constantI(value, i64()); }
  /// {0, 1, ...} of an integer type.
  Value lanes(Type integer);
  /// The mask with the first `count` lanes set.
  Value firstLanes(int64_t count);
  /// The mask of lanes j with low <= first + j < high, all i64.
  Value lanesBetween(Value first, Value low, Value high);

  // Arithmetic on scalars or vectors of one type. add, sub, mul choose between
  // float and integer by the type.
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value div(Value x, Value y);         ///< float
  Value divUnsigned(Value x, Value y); ///< integer
  Value remUnsigned(Value x, Value y); ///< integer
  Value neg(Value x);                  ///< float
  Value abs(Value x);                  ///< float
  Value sqrt(Value x);                 ///< float, correctly rounded
  Value copySign(Value magnitude, Value sign);
  /// x*y + z with one rounding.
  Value fma(Value x, Value y, Value z);
  /// Horner's rule with fma, highest coefficient first.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients);
  Value bitAnd(Value x, Value y);
  Value bitOr(Value x, Value y);
  Value bitXor(Value x, Value y);
  Value shiftLeft(Value x, int64_t bits);
  Value shiftRight(Value x, int64_t bits); ///< logical
  Value bitcast(Value x, Type type);

  // Elements of type bf16 are for memory alone; other types stay as they are.
  Value widen(Value stored); ///< bf16 as f32, exactly
  /// As elements of type `stored`: to nearest even, once.
  Value roundTo(Value x, Type stored);

  // Comparisons, false for NaN, signed; they give i1 or a vector of it.
  Value less(Value x, Value y);
  Value lessUnsigned(Value x, Value y); ///< integer
  Value equal(Value x, Value y);
  Value select(Value condition, Value x, Value y);
  /// x < y ? y : x and y < x ? y : x: NaN in x stays.
  Value max(Value x, Value y) { return select(less(x, y), y, x); }
  Value min(Value x, Value y) { return select(less(y, x), y, x); }

  // Lanes.
  Value broadcast(Value scalar);
  Value lane(Value vector, int64_t i);
  Value insertLane(Value scalar, Value vector, int64_t i);
  /// Combines the lanes of a vector by halving: lane j with j + n/2, then n/4,
  /// ..., 1.
  Value reduceLanes(Value vector,
                    llvm::function_ref<Value(Value, Value)> combine);
  Value sumLanes(Value vector);

  // Loops. LLVM must not unroll them: emitters decide that.
  using LoopBody = llvm::function_ref<llvm::SmallVector<Value>(
      Value i, mlir::ValueRange carried)>;
  /// for (i = low; i < high; i += step) with carried values; returns their
  /// final values.
  llvm::SmallVector<Value> loop(Value low, Value high, int64_t step,
                                mlir::ValueRange initial, LoopBody body);
  void loop(Value low, Value high, int64_t step,
            llvm::function_ref<void(Value i)> body);
  void ifThen(Value condition, llvm::function_ref<void()> body,
              llvm::function_ref<void()> otherwise = nullptr);

  /// The elementary function `name` ("exp", "log", "tanh", "erf") of f64
  /// scalars or vectors. Only targets with a C library have it.
  virtual Value callLibrary(llvm::StringRef name, Value x) = 0;

  /// Insertion point and location of everything above.
  mlir::ImplicitLocOpBuilder b;

protected:
  ArithBuilder(mlir::Location location, int64_t laneCount)
      : b(location, location.getContext()), laneCount(laneCount) {}

  /// Of every vector.
  const int64_t laneCount;
};

} // namespace kiln

#endif // KILN_TARGET_COMMON_ARITHBUILDER_H
