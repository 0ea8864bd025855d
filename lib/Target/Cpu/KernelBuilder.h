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
// few lowering passes are needed.
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

  /// Reserves `count` elements on the stack, aligned to 64 bytes, for the whole
  /// function.
  Value reserve(Type element, int64_t count);

  Type pointer();

  // Memory accesses. Offsets are i64 and count elements of the given type.
  // Narrow floats such as bf16 are loaded and stored without conversion:
  // widen() must convert loaded values before any other use, and roundTo() must
  // compute the values to be stored. loadWide() loads and widens, and
  // storeRounded() rounds and stores.
  Value element(Value pointer, Type type, Value offset);
  Value element(Value pointer, Type type, int64_t offset);
  Value load(Value pointer, Type element);
  void store(Value scalar, Value pointer);
  /// Access consecutive elements. loadVector() loads 16 elements, loadAs()
  /// loads as many elements as `type` has, and storeVector() stores all
  /// elements of `vector`. A mask selects the accessed lanes; loads return zero
  /// in the lanes that are not selected. A null mask selects all lanes.
  Value loadVector(Value pointer, Type element, Value mask = {});
  void storeVector(Value vector, Value pointer, Value mask = {});
  Value loadAs(Value pointer, mlir::VectorType type, Value mask = {});
  /// Load and store elements that may be narrow floats in memory. The values in
  /// registers have full precision.
  Value loadWide(Value pointer, Type element, Value mask = {}) {
    return widen(loadVector(pointer, element, mask));
  }
  void storeRounded(Value vector, Value pointer, Type element,
                    Value mask = {}) {
    storeVector(roundTo(vector, element), pointer, mask);
  }

  Value callLibrary(llvm::StringRef name, Value x) override;
  Value lookUp(llvm::StringRef table, llvm::ArrayRef<int32_t> elements,
               Value index) override;

private:
  Value recast(Value x, Type type);
  /// Calls the private function `name` of the module, which is never inlined.
  /// This avoids emitting long code at every use. The first call of
  /// callShared() for `name` emits the function with `body`.
  Value callShared(llvm::StringRef name, Value argument,
                   llvm::function_ref<Value(Value)> body);
  Value callScalar(llvm::StringRef name, Value scalar);

  mlir::LLVM::LLVMFuncOp function;
  llvm::SmallVector<Value> args, immediates;
  Value beginUnit, endUnit, scratchPointer;
  Value lookUpLanes; ///< Stack memory for the index vector of lookUp().
};

/// Loads the dialects that emitted kernels use.
void loadKernelDialects(mlir::MLIRContext &context);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGET_CPU_KERNELBUILDER_H
