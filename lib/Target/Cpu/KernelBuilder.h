//===- KernelBuilder.h - Writing one cpu kernel -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All emitters write their loops with this class. A kernel is an llvm.func with
// the kernel ABI; control flow is scf.for over i64, arithmetic is arith on
// scalars and 16-lane vectors, memory is llvm loads and stores through plain
// pointers. There is no memref and no index type: the lowering stays small.
//
// Vectors have kLanes lanes whatever the element type, so that one row program
// gives the same structure in f32 and f64; LLVM splits what is wider than a
// register. No operation here carries fast-math flags: a formula has the same
// bits in every kernel.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_CPU_KERNELBUILDER_H
#define KILN_LIB_TARGET_CPU_KERNELBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace kiln::cpu {

/// Lanes of every vector.
constexpr int64_t kLanes = 16;
/// Columns of a block: four vectors. Row reductions keep this many partial
/// results.
constexpr int64_t kBlock = 64;

class KernelBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  /// Starts the function `name` in `module`; loads the pointers of all
  /// arguments and all immediates once.
  KernelBuilder(mlir::ModuleOp module, llvm::StringRef name, unsigned numArgs,
                unsigned numImmediates);
  /// Ends the function.
  void finish();

  // What the caller passed.
  Value arg(unsigned i) const { return args[i]; }
  Value immediate(unsigned i) const { return immediates[i]; } ///< i64
  Value begin() const { return beginUnit; }                   ///< i64
  Value end() const { return endUnit; }                       ///< i64
  Value scratch() const { return scratchPointer; }

  // Types.
  Type i1() { return b.getI1Type(); }
  Type i32() { return b.getI32Type(); }
  Type i64() { return b.getI64Type(); }
  Type f32() { return b.getF32Type(); }
  Type f64() { return b.getF64Type(); }
  Type pointer();
  /// 16 lanes of `element`.
  mlir::VectorType vectorOf(Type element);
  /// `element`, as a vector if `shape` is one.
  static Type like(Type shape, Type element);

  // Constants. `type` may be a vector: all lanes.
  Value constantF(double value, Type type);
  Value constantI(int64_t value, Type type);
  Value i64Constant(int64_t value) { return constantI(value, i64()); }
  /// {0, 1, ..., 15} of an integer type.
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
  /// Combines the lanes of a vector by halving: lane j with j + 8, then 4,
  /// 2, 1.
  Value reduceLanes(Value vector,
                    llvm::function_ref<Value(Value, Value)> combine);
  Value sumLanes(Value vector);

  // Memory. Offsets count elements of the given type (i64).
  Value element(Value pointer, Type type, Value offset);
  Value element(Value pointer, Type type, int64_t offset);
  Value load(Value pointer, Type element);
  void store(Value scalar, Value pointer);
  /// 16 consecutive elements. A mask (may be null: all lanes) selects the lanes
  /// that are touched; others read zero. A vector of one lane more or less is
  /// loaded by its own type with loadAs.
  Value loadVector(Value pointer, Type element, Value mask = {});
  void storeVector(Value vector, Value pointer, Value mask = {});
  Value loadAs(Value pointer, mlir::VectorType type);

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

  /// A function of the C library, declared on first use (f64 kernels only).
  Value callLibrary(llvm::StringRef name, Value scalar);
  /// A function of this module, private and never inlined, for code that would
  /// be too long to repeat. `body` emits it on first use.
  Value callShared(llvm::StringRef name, Value argument,
                   llvm::function_ref<Value(Value)> body);

  /// Insertion point and location of everything above.
  mlir::ImplicitLocOpBuilder b;

private:
  mlir::LLVM::LLVMFuncOp function;
  llvm::SmallVector<Value> args, immediates;
  Value beginUnit, endUnit, scratchPointer;
};

/// Loads the dialects that emitted kernels use.
void loadKernelDialects(mlir::MLIRContext &context);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGET_CPU_KERNELBUILDER_H
