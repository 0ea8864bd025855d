//===- AlgorithmFile.h - Algorithms that were found fastest -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file with the fastest algorithm of each product that was searched for, per
// GPU, driver and version of the library. It only ever chooses among what the
// library proposes itself, so that what it holds is at worst slow.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_ALGORITHMFILE_H
#define KILN_LIB_RUNTIME_CUDA_ALGORITHMFILE_H

#include "BlasLtApi.h"
#include "kiln/Support/Status.h"

#include <map>
#include <optional>
#include <string>

namespace kiln::runtime::cuda {

class AlgorithmFile {
public:
  /// Reads `path`, which need not be there. `device` names what measurements
  /// hold for.
  static Result<AlgorithmFile> open(std::string path, std::string device);

  std::optional<Algorithm> find(const std::string &problem) const;
  void add(const std::string &problem, const Algorithm &algorithm);

  /// Writes the file, with its directory, if anything was added.
  Status save() const;

private:
  using Problems = std::map<std::string, std::string>; ///< Algorithms as text.

  AlgorithmFile(std::string path, std::string device)
      : path_(std::move(path)), device_(std::move(device)) {}

  std::string path_, device_;
  bool isChanged_ = false;
  std::map<std::string, Problems> devices_;
};

/// In the user's folder for caches; empty when there is none.
std::string defaultAlgorithmFile();

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_ALGORITHMFILE_H
