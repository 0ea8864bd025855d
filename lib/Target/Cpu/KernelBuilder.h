//===- KernelBuilder.h - Builder of a CPU kernel ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All CPU emitters build their loops with this class. A kernel is an llvm.func
// with the kernel ABI. Control flow uses scf.for over i64, arithmetic uses
// arith on scalars and 16-lane vectors, and memory accesses are llvm loads and
// stores through plain pointers. Kernels use no memref and no index types, so
// the lowering is small.
//
// Vectors have kLanes lanes for every element type, so a row program has the
// same structure in f32 and f64; LLVM splits vectors that are wider than a
// register. Operations have no fast-math flags, so a formula gives identical
// bits in every kernel.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_CPU_KERNELBUILDER_H
#define KILN_LIB_TARGET_CPU_KERNELBUILDER_H

#include "kiln/Target/Common/ArithBuilder.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln::cpu {

/// Lanes per vector.
constexpr int64_t kLanes = 16;
/// Columns per block: four vectors. Row reductions have this many partial
/// results.
constexpr int64_t kBlock = 64;

class KernelBuilder : public ArithBuilder {
public:
  /// Starts the function `name` in `module` and loads the pointers of all
  /// arguments and all immediates.
  KernelBuilder(mlir::ModuleOp module, llvm::StringRef name, unsigned numArgs,
                unsigned numImmediates);
  /// Ends the function.
  void finish();

  // Values passed by the caller.
  Value arg(unsigned i) const { return args[i]; }
  Value immediate(unsigned i) const { return immediates[i]; } ///< i64.
  Value begin() const { return beginUnit; }                   ///< i64.
  Value end() const { return endUnit; }                       ///< i64.
  Value scratch() const { return scratchPointer; }

  Type pointer();

  // Memory. Offsets count elements of the given type (i64). bf16 elements are
  // loaded and stored as bf16, but only widen() and roundTo() may use them;
  // loadWide and storeRounded combine both steps.
  Value element(Value pointer, Type type, Value offset);
  Value element(Value pointer, Type type, int64_t offset);
  Value load(Value pointer, Type element);
  void store(Value scalar, Value pointer);
  /// Access 16 consecutive elements. A mask selects the accessed lanes; other
  /// lanes load zero. A null mask selects all lanes. loadAs loads vectors with
  /// another number of lanes.
  Value loadVector(Value pointer, Type element, Value mask = {});
  void storeVector(Value vector, Value pointer, Value mask = {});
  Value loadAs(Value pointer, mlir::VectorType type, Value mask = {});
  /// Access elements that may be bf16 in memory, with values in full precision.
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
  /// Calls a function of this module that is private and never inlined, for
  /// code that is too long to repeat. `body` emits the function on first use.
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
