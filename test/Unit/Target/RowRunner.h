//===- RowRunner.h - Row kernels against the reference ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A RowCase is a few kiln ops as text. It becomes one row program, whose text
// must parse to the same program, and one row kernel, which runs on random
// inputs in several ways that must all give the same bits: in one call,
// in one call per unit, and with every result in the slot of every operand that
// mayShareSlot allows. The first is compared with the ops' naive evaluation, or
// in bf16 with kernels of single ops on f32 elements (RowSteps). Nothing may be
// written outside the results. In f32 and bf16 the gpu's kernel has to give the
// same bits on the emulated device.
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

/// One tensor in the memory of a kernel, between guards.
class Buffer {
public:
  explicit Buffer(mlir::RankedTensorType type, int64_t rowStride = 0);
  explicit Buffer(const HostTensor &tensor, int64_t rowStride = 0);

  char *data() { return bytes.data() + kGuard; }
  /// Of the tensor with the gaps between its rows.
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
  /// In all texts $R, $C, $T stand for rows, columns and the element type; $F
  /// is the type in which it is computed with, f32 for bf16.
  std::string arguments; ///< "%x: tensor<$Rx$Cx$T>, ..."
  std::string body;      ///< ops
  std::string results;   ///< "%y : tensor<$Rx$Cx$T>, ..."
  /// Bounds of |got - want| / max(1, largest |want|).
  double tolerance32 = 2e-6, tolerance64 = 1e-12;
  /// Overwrites the default inputs: normal numbers, integers in [0, rows).
  std::function<void(unsigned argument, HostTensor &tensor)> fill = nullptr;
  /// Elements between rows of the arguments and results with C columns, beyond
  /// C.
  int64_t padding = 0;
  /// Whether its ops take bf16 elements.
  bool hasBfloats = true;
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

/// Collects cases, then compiles them as one module and runs each as the header
/// says.
class RowRunner {
public:
  RowRunner();
  ~RowRunner();

  /// Builds the row program; a failure is one of the test.
  std::optional<RowInstance> build(const RowCase &rowCase, int64_t rows,
                                   int64_t columns, const char *type);
  /// What the kernel of a case is made for.
  std::optional<RowShape> shapeOf(const RowCase &rowCase, int64_t rows,
                                  int64_t columns, const char *type);
  /// The kernels of a case in all element types, for all sizes.
  void add(const RowCase &rowCase,
           mlir::ArrayRef<std::pair<int64_t, int64_t>> sizes);
  void runAll();

  /// Of a case in `type` on the gpu: the sectors of 32 bytes that it moves, by
  /// the least that it has to move, every byte of its arguments once.
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
    std::unique_ptr<RowSteps> steps; ///< in bf16
  };
  Compiled describe(const RowCase &rowCase, RowInstance instance);
  void run(const Compiled &compiled, const LoadedKernels &library);
  void runOnGpu(const Compiled &compiled, llvm::ArrayRef<HostTensor> inputs,
                llvm::ArrayRef<Buffer> expected);
  std::vector<Buffer> makeBuffers(const Compiled &compiled,
                                  llvm::ArrayRef<HostTensor> inputs);
  /// Calls body({operand, result}) where the result may take its slot.
  void forEachShared(const Compiled &compiled,
                     llvm::function_ref<void(std::pair<int, int>)> body);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<Compiled> all;
  std::unique_ptr<RowOnGpu> onGpu;
};

/// The sizes that meet every kind of tail.
inline const std::vector<std::pair<int64_t, int64_t>> kRaggedSizes = {
    {3, 1}, {2, 7}, {3, 16}, {2, 63}, {2, 64}, {5, 65}, {1, 200}, {4, 1000}};

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_ROWRUNNER_H
