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

#include "kiln/Target/Common/ArithBuilder.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln::cpu {

/// Lanes of every vector.
constexpr int64_t kLanes = 16;
/// Columns of a block: four vectors. Row reductions keep this many partial
/// results.
constexpr int64_t kBlock = 64;

class KernelBuilder : public ArithBuilder {
public:
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

  Type pointer();

  // Memory. Offsets count elements of the given type (i64). Elements of type
  // bf16 are loaded and stored as such, but only widen() and roundTo() may look
  // at them: loadWide and storeRounded do both.
  Value element(Value pointer, Type type, Value offset);
  Value element(Value pointer, Type type, int64_t offset);
  Value load(Value pointer, Type element);
  void store(Value scalar, Value pointer);
  /// 16 consecutive elements. A mask (may be null: all lanes) selects the lanes
  /// that are touched; others read zero. A vector of one lane more or less is
  /// loaded by its own type with loadAs.
  Value loadVector(Value pointer, Type element, Value mask = {});
  void storeVector(Value vector, Value pointer, Value mask = {});
  Value loadAs(Value pointer, mlir::VectorType type, Value mask = {});
  /// The same in full precision, of elements that may be bf16 in memory.
  Value loadWide(Value pointer, Type element, Value mask = {}) {
    return widen(loadVector(pointer, element, mask));
  }
  void storeRounded(Value vector, Value pointer, Type element,
                    Value mask = {}) {
    storeVector(roundTo(vector, element), pointer, mask);
  }

  Value callLibrary(llvm::StringRef name, Value x) override;

private:
  Value recast(Value x, Type type);
  /// A function of this module, private and never inlined, for code that would
  /// be too long to repeat. `body` emits it on first use.
  Value callShared(llvm::StringRef name, Value argument,
                   llvm::function_ref<Value(Value)> body);
  Value callScalar(llvm::StringRef name, Value scalar);

  mlir::LLVM::LLVMFuncOp function;
  llvm::SmallVector<Value> args, immediates;
  Value beginUnit, endUnit, scratchPointer;
};

/// Loads the dialects that emitted kernels use.
void loadKernelDialects(mlir::MLIRContext &context);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGET_CPU_KERNELBUILDER_H
