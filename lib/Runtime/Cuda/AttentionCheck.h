//===- AttentionCheck.h - Numerical check of library attention --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs kiln's kernel and cuDNN on the same random inputs, and compares the
// results. The check overwrites the buffers of the launch with its inputs and
// results, so it must run before the buffers contain values that are needed.
// Both implementations round weights and results to bf16, but at different
// points. For each head, the root mean square of the difference must be at most
// 1/64 of the root mean square of the kernel's result, and no element may
// differ by more than 1/16 of the largest magnitude in the kernel's result. The
// log-sum-exp of a row of logits (lse) may differ by at most
// max(1, |lse|) / 1024.
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
  /// Returns true if a result overlaps an operand.
  static bool overlap(const abi::VendorAttention &attention,
                      const std::vector<DevicePointer> &arguments);

  /// `arguments` are the addresses of the launch's arguments in the order of
  /// VendorAttention; overlap() must be false for them. `driver` must outlive
  /// the check.
  AttentionCheck(const Driver &driver, StreamHandle stream,
                 const abi::VendorAttention &attention, double scale,
                 std::vector<DevicePointer> arguments);

  /// Runs both implementations and returns a description of the first
  /// difference, or an empty string if the results agree. `kernel` and
  /// `library` queue their work on the stream. A failure of `library` counts as
  /// a difference; a failure of the device or of `kernel` is an error.
  Result<std::string> run(const std::function<Status()> &kernel,
                          const std::function<Status()> &library);

private:
  using Buffer = std::vector<char>;

  Buffer input(std::size_t argument);
  /// Returns a uniform random number in [-limit, limit].
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
