//===- AttentionCheck.h - Is a library's attention kiln's? ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs kiln's kernel and the library on the same random numbers, in the places
// that a launch will have, before any of them has a value, and compares what
// they write. Both round weights and results to bf16, each in its own way:
// they agree where every head is within 1/64 of the other in the root of the
// mean square, no element is off by more than 1/16 of the head's largest, and
// lse within 1/1024.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_ATTENTIONCHECK_H
#define KILN_LIB_RUNTIME_CUDA_ATTENTIONCHECK_H

#include "Gpu.h"
#include "kiln/Abi/VendorAttention.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::runtime::cuda {

class AttentionCheck {
public:
  /// Whether a result shares bytes with what is read.
  static bool overlap(const abi::VendorAttention &attention,
                      const std::vector<DevicePointer> &arguments);

  /// The arguments of a launch, as VendorAttention has them, which do not
  /// overlap(). The driver outlives the check.
  AttentionCheck(const Driver &driver, StreamHandle stream,
                 const abi::VendorAttention &attention, double scale,
                 std::vector<DevicePointer> arguments);

  /// Both queue their work on the stream. What differs, or nothing; fails where
  /// the device or the kernel does. A failure of the library is a difference.
  Result<std::string> run(const std::function<Status()> &kernel,
                          const std::function<Status()> &library);

private:
  using Buffer = std::vector<char>;

  Buffer input(std::size_t argument);
  /// A number in [-limit, limit].
  float random(float limit);
  Status fill();
  Status clearResults();
  Result<std::vector<Buffer>> readResults();
  std::string compare(std::size_t argument, const Buffer &expected,
                      const Buffer &found) const;
  std::string compareLse(const Buffer &expected, const Buffer &found) const;

  const Driver &driver_;
  StreamHandle stream_;
  abi::VendorAttention attention_;
  double scale_;
  std::vector<DevicePointer> arguments_;
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_ATTENTIONCHECK_H
