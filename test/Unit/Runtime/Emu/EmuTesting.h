//===- EmuTesting.h - Helpers of handwritten kernels ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements the memory accesses of generated kernels in C++. Each accessor
// calls the device first. Accessors are inlined even into unoptimised code,
// because the device identifies an access by the code address of the call.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_RUNTIME_EMU_EMUTESTING_H
#define KILN_TEST_RUNTIME_EMU_EMUTESTING_H

#include "kiln/Runtime/Emu/EmuDevice.h"

#include <cstring>
#include <string>
#include <vector>

namespace kiln::runtime::testing {

template <typename T>
[[gnu::always_inline]] inline T load(const void *base, int64_t index = 0) {
  const T *address = static_cast<const T *>(base) + index;
  kiln_emu_global_access(address, sizeof(T), 0);
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

template <typename T>
[[gnu::always_inline]] inline void store(void *base, int64_t index, T value) {
  T *address = static_cast<T *>(base) + index;
  kiln_emu_global_access(address, sizeof(T), 1);
  std::memcpy(address, &value, sizeof(T));
}

[[gnu::always_inline]] inline float loadShared(int64_t index) {
  char *address = kiln_emu_shared(index * 4);
  kiln_emu_shared_access(address, 4, 0);
  float value;
  std::memcpy(&value, address, 4);
  return value;
}

[[gnu::always_inline]] inline void storeShared(int64_t index, float value) {
  char *address = kiln_emu_shared(index * 4);
  kiln_emu_shared_access(address, 4, 1);
  std::memcpy(address, &value, 4);
}

[[gnu::always_inline]] inline float shuffleXor(float value, int32_t mask) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = uint32_t(kiln_emu_shuffle_xor(bits, mask));
  std::memcpy(&value, &bits, 4);
  return value;
}

inline int64_t threadId() { return kiln_emu_thread_id(); }
inline int64_t blockId() { return kiln_emu_block_id(); }

/// A device whose memory has `floats` initialised elements.
class Device {
public:
  static constexpr int64_t floats = 16384;

  explicit Device(uint64_t seed) : device(seed) {
    std::memset(memory_, 0, sizeof(memory_));
    status = device.addMemory(memory_, sizeof(memory_));
    if (status.ok())
      status = device.markInitialised(memory_, sizeof(memory_));
  }

  float *at(int64_t index) {
    return reinterpret_cast<float *>(memory_) + index;
  }
  EmuArgument argument(int64_t index, int64_t count, bool isWritten,
                       std::string_view name = "") {
    return {memory_ + index * 4, memory_ + (index + count) * 4, isWritten,
            name};
  }

  /// Runs a launch and returns its error message, or an empty string.
  std::string run(const EmuLaunch &launch) {
    Result<EmuCounts> result = device.launch(launch);
    if (!result.ok())
      return result.status().message();
    counts = *result;
    return "";
  }

  EmuDevice device;
  Status status;
  EmuCounts counts; ///< Access counts of the last successful launch.

private:
  alignas(EmuDevice::memoryAlignment) char memory_[floats * 4];
};

} // namespace kiln::runtime::testing

#endif // KILN_TEST_RUNTIME_EMU_EMUTESTING_H
