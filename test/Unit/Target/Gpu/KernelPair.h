//===- KernelPair.h - One kernel for two targets ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel of the cpu target and the same one of the cuda target run on equal
// memory, the latter on the emulated device with its checks, under several
// schedules. All bytes of the memory must be equal afterwards: results, what
// lies between their rows, and what the kernels only read.
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

/// Where an argument lies in a Memory.
struct Place {
  int64_t offset = 0, bytes = 0;
  bool isRead = true, isWritten = false;
};

/// What the arguments of both kernels point into.
class Memory {
public:
  /// Adds `values`, `skip` bytes behind an address with the device's
  /// alignment.
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

/// The place as that of a result; the kernel writes all it reads of it first.
inline Place written(Place place) {
  place.isRead = false;
  place.isWritten = true;
  return place;
}
/// As that of a result that is an operand too.
inline Place updated(Place place) {
  place.isWritten = true;
  return place;
}
/// The part of a place from element `first` on.
template <typename T> Place from(Place place, int64_t first) {
  place.offset += first * sizeof(T);
  place.bytes -= first * sizeof(T);
  return place;
}

using EmitCpu = llvm::function_ref<cpu::KernelLaunch(
    mlir::ModuleOp, llvm::StringRef, mlir::Builder)>;
using EmitGpu = llvm::function_ref<llvm::FailureOr<gpu::KernelLaunch>(
    mlir::gpu::GPUModuleOp, llvm::StringRef, mlir::Builder, gpu::Alignments)>;

/// Runs both kernels and compares. Only bytes that are read are initialised for
/// the device.
void expectSameBits(const Memory &memory, llvm::ArrayRef<Place> args,
                    llvm::ArrayRef<int64_t> immediates, EmitCpu emitCpu,
                    EmitGpu emitGpu);

/// Runs the kernel of the cuda target alone. The memory afterwards, which every
/// schedule must leave alike.
std::vector<char> runOnGpu(const Memory &memory, llvm::ArrayRef<Place> args,
                           llvm::ArrayRef<int64_t> immediates, EmitGpu emitGpu);

/// The sectors of 32 bytes that the kernel of the cuda target moves, by the
/// least that it has to move: all of what it reads and writes once.
double sectorRatio(const Memory &memory, llvm::ArrayRef<Place> args,
                   llvm::ArrayRef<int64_t> immediates, EmitGpu emitGpu);

/// Values in about [-2, 2], without order.
inline std::vector<float> someFloats(size_t count, double seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = 2 * std::sin(12.9898 * i * i + 78.233 * i + seed);
  return values;
}

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_GPU_KERNELPAIR_H
