//===- AlgorithmSearch.h - The fastest way to compute a product -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times what the library proposes for a product, once: the answer is kept in a
// file, and equal answers give equal bits. Trials write to the places of the
// product, so they are made before anything there has a value.
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
  /// Proposals that are worth a trial; the library's order is that of its
  /// estimates.
  static constexpr int mostProposals = 8;

  /// The driver must outlive the search.
  static Result<AlgorithmSearch> begin(const Driver &driver,
                                       StreamHandle stream, AlgorithmFile file);

  /// The index of the proposal to take; `queue(i)` queues the product as
  /// proposal i computes it.
  Result<std::size_t> choose(const std::string &problem,
                             const std::vector<Algorithm> &proposals,
                             const std::function<Status(std::size_t)> &queue);

  /// Writes down what was found.
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
