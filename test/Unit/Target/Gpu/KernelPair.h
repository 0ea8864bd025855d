//===- KernelPair.h - Compares a kernel on two targets ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a CPU kernel and the corresponding GPU kernel on equal memory. The GPU
// kernel runs on the emulated device with its checks, under several schedules.
// Afterwards all bytes of the memory must be equal: results, row padding, and
// operands.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_GPU_KERNELPAIR_H
#define KILN_TEST_UNIT_TARGET_GPU_KERNELPAIR_H

#include "kiln/Target/Cpu/Kernels.h"
#include "kiln/Target/Gpu/Kernels.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace kiln::test {

/// The location of an argument in a Memory.
struct Place {
  int64_t offset = 0, bytes = 0;
  bool isRead = true, isWritten = false;
};

/// The memory that holds the arguments of both kernels.
class Memory {
public:
  /// Adds `values` at `skip` bytes after an address aligned like device memory.
  template <typename T>
  Place add(const std::vector<T> &values, int64_t skip = 0) {
    int64_t offset = (bytes.size() + 255) / 256 * 256 + skip;
    int64_t size = values.size() * sizeof(T);
    bytes.resize(offset + size, 0x5a);
    std::memcpy(bytes.data() + offset, values.data(), size);
    return {offset, size};
  }
  std::vector<char> bytes;
};

/// Marks the argument as a result. The kernel must write every byte of a result
/// before it reads the byte.
inline Place written(Place place) {
  place.isRead = false;
  place.isWritten = true;
  return place;
}
/// Marks the argument as both an operand and a result.
inline Place updated(Place place) {
  place.isWritten = true;
  return place;
}
/// Returns the elements of the argument from element `first` on.
template <typename T> Place from(Place place, int64_t first) {
  place.offset += first * sizeof(T);
  place.bytes -= first * sizeof(T);
  return place;
}

using EmitCpu = llvm::function_ref<cpu::KernelLaunch(
    mlir::ModuleOp, llvm::StringRef, mlir::Builder)>;
using EmitGpu = llvm::function_ref<llvm::FailureOr<gpu::KernelLaunch>(
    mlir::gpu::GPUModuleOp, llvm::StringRef, mlir::Builder, gpu::Alignments)>;

/// Runs both kernels and compares the memory. On the device, only operands are
/// initialized.
void expectSameBits(const Memory &memory, llvm::ArrayRef<Place> args,
                    llvm::ArrayRef<int64_t> immediates, EmitCpu emitCpu,
                    EmitGpu emitGpu);

/// Runs only the GPU kernel, under several schedules, and returns the resulting
/// memory, which must not depend on the schedule.
std::vector<char> runOnGpu(const Memory &memory, llvm::ArrayRef<Place> args,
                           llvm::ArrayRef<int64_t> immediates, EmitGpu emitGpu);

/// Returns (number of 32-byte sectors that the GPU kernel accesses) / (number
/// of sectors that a single access to each operand and result needs).
double sectorRatio(const Memory &memory, llvm::ArrayRef<Place> args,
                   llvm::ArrayRef<int64_t> immediates, EmitGpu emitGpu);

/// Returns unsorted values in about [-2, 2].
inline std::vector<float> someFloats(size_t count, double seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = 2 * std::sin(12.9898 * i * i + 78.233 * i + seed);
  return values;
}

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_GPU_KERNELPAIR_H
