//===- AlgorithmSearch.h - Timed search for matmul algorithms ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures the algorithms that cuBLASLt proposes for a matmul and stores the
// fastest in an algorithm file. Later starts of the executable use the stored
// algorithm, so that all starts compute the same bits. A measurement overwrites
// the operands of the matmul, so it must be made before any buffer holds a
// value.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_ALGORITHMSEARCH_H
#define KILN_LIB_RUNTIME_CUDA_ALGORITHMSEARCH_H

#include "AlgorithmFile.h"
#include "Driver.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::runtime::cuda {

class AlgorithmSearch {
public:
  /// The maximum number of proposals to measure. cuBLASLt sorts proposals by
  /// estimated time, so later ones are unlikely to be faster.
  static constexpr int mostProposals = 8;

  /// Creates the timing events. `driver` must outlive the search.
  static Result<AlgorithmSearch> begin(const Driver &driver,
                                       StreamHandle stream, AlgorithmFile file);

  /// Returns the index of the proposal that is stored in the file or, if there
  /// is none, of the fastest proposal. `queue(i)` queues the matmul with
  /// proposal i.
  Result<std::size_t> choose(const std::string &problem,
                             const std::vector<Algorithm> &proposals,
                             const std::function<Status(std::size_t)> &queue);

  /// Writes the algorithm file.
  Status save() const { return file_.save(); }

private:
  AlgorithmSearch(const Driver &driver, StreamHandle stream, AlgorithmFile file)
      : driver_(&driver), stream_(stream), file_(std::move(file)) {}
  Result<double> time(const std::function<Status()> &queue) const;

  const Driver *driver_;
  StreamHandle stream_;
  AlgorithmFile file_;
  Event start_, end_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_ALGORITHMSEARCH_H
