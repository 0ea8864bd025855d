//===- RowRunner.h - Compares row kernels with the reference ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A RowCase is a short sequence of kiln ops as text. It is converted to one row
// program, whose printed form must parse to the same program, and to one row
// kernel. The kernel runs on random inputs in several ways that must give
// identical bits: in one call, in one call per unit of work, and with every
// result in the slot of every operand that mayShareSlot permits. The first run
// is compared with a naive evaluation of the ops or, in bf16 and f16, with
// kernels of single ops on f32 elements (RowSteps). Memory outside the results
// must not change. Except in f64, the GPU kernel must give the same bits on the
// emulated device.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_ROWRUNNER_H
#define KILN_TEST_UNIT_TARGET_ROWRUNNER_H

#include "KernelRunner.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Target/Cpu/Kernels.h"

#include <functional>
#include <memory>
#include <optional>

namespace kiln::test {

/// A tensor in kernel memory, between guard bytes.
class Buffer {
public:
  explicit Buffer(mlir::RankedTensorType type, int64_t rowStride = 0);
  explicit Buffer(const HostTensor &tensor, int64_t rowStride = 0);

  char *data() { return bytes.data() + kGuard; }
  /// Returns the bytes of the tensor including row padding.
  int64_t size() const { return bytes.size() - 2 * kGuard; }
  HostTensor read() const;
  bool hasIntactGuards() const;
  bool operator==(const Buffer &other) const;

private:
  static constexpr size_t kGuard = 64;
  int64_t offsetOf(int64_t element) const;
  mlir::RankedTensorType type;
  int64_t columns, rowStride, elementSize;
  std::vector<char> bytes;
};

struct RowCase {
  /// In all texts, $R, $C and $T are the number of rows, the number of columns
  /// and the element type. $F is the type of arithmetic: f32 for bf16 and f16.
  std::string arguments; ///< "%x: tensor<$Rx$Cx$T>, ..."
  std::string body;      ///< Ops.
  std::string results;   ///< "%y : tensor<$Rx$Cx$T>, ..."
  /// Bounds of |got - want| / max(1, largest |want|) for floating-point
  /// results. In an i8 result (8-bit codes), at most 1/256 of the elements may
  /// differ from the reference, each by 1, because the reference rounds less
  /// often.
  double tolerance32 = 2e-6, tolerance64 = 1e-12;
  /// Overwrites the default inputs, which are normally distributed numbers and
  /// integers in [0, rows).
  std::function<void(unsigned argument, HostTensor &tensor)> fill = nullptr;
  /// Number of padding elements per row of the arguments and results with C
  /// columns.
  int64_t padding = 0;
  /// True if the ops support bf16 and f16 elements.
  bool hasNarrowFloats = true;
  /// True if the ops support f64 elements.
  bool hasDoubles = true;
};

/// A parsed case and its row program.
struct RowInstance {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ProgramOp program;
  row::RowProgram rows;
  mlir::SmallVector<mlir::Value> operands, results;
};

class RowOnGpu;
class RowSteps;

/// Collects cases, compiles them as one module and runs each of them as
/// described at the top of this file.
class RowRunner {
public:
  RowRunner();
  ~RowRunner();

  /// Builds the row program. Reports failures to GoogleTest.
  std::optional<RowInstance> build(const RowCase &rowCase, int64_t rows,
                                   int64_t columns, const char *type);
  /// Returns the kernel shape of a case.
  std::optional<RowShape> shapeOf(const RowCase &rowCase, int64_t rows,
                                  int64_t columns, const char *type);
  /// Adds the kernels of a case for all element types and sizes.
  void add(const RowCase &rowCase,
           mlir::ArrayRef<std::pair<int64_t, int64_t>> sizes);
  void runAll();

  /// Returns (number of 32-byte sectors that the GPU kernel of a case accesses)
  /// / (number of sectors that a single access to each byte of the arguments
  /// needs).
  double sectorRatio(const RowCase &rowCase, int64_t rows, int64_t columns,
                     const char *type);

  mlir::MLIRContext context;

private:
  struct Compiled {
    RowCase rowCase;
    RowInstance instance;
    RowShape shape;
    cpu::KernelLaunch launch;
    llvm::SmallVector<Layout> layouts;
    std::string name, trace;
    bool hasGpu = false;
    /// Kernels that compute the expected results for narrow floats; null for
    /// other element types.
    std::unique_ptr<RowSteps> steps;
  };
  Compiled describe(const RowCase &rowCase, RowInstance instance);
  void run(const Compiled &compiled, const LoadedKernels &library);
  void runOnGpu(const Compiled &compiled, llvm::ArrayRef<HostTensor> inputs,
                llvm::ArrayRef<Buffer> expected);
  std::vector<Buffer> makeBuffers(const Compiled &compiled,
                                  llvm::ArrayRef<HostTensor> inputs);
  /// Calls body({operand, result}) for every result that may share the slot of
  /// an operand.
  void forEachShared(const Compiled &compiled,
                     llvm::function_ref<void(std::pair<int, int>)> body);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<Compiled> all;
  std::unique_ptr<RowOnGpu> onGpu;
};

/// Pairs of a number of rows and a number of columns. They cover every kind of
/// incomplete vector or block at the end of a row.
inline const std::vector<std::pair<int64_t, int64_t>> kRaggedSizes = {
    {3, 1}, {2, 7}, {3, 16}, {2, 63}, {2, 64}, {5, 65}, {1, 200}, {4, 1000}};

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_ROWRUNNER_H
