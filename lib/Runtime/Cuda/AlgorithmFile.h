//===- AlgorithmFile.h - File of fastest matmul algorithms ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A JSON file with the fastest measured cuBLASLt algorithm for each matmul
// problem, grouped by GPU, driver version and cuBLASLt version. An entry only
// selects among the algorithms that cuBLASLt proposes at run time, so a wrong
// entry can make a matmul slower but not incorrect.
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
  /// Reads `path` if the file exists. `device` is the key under which
  /// measurements are stored: the GPU and the versions of the driver and
  /// library. Returns an error if the file is not a valid algorithm file.
  static Result<AlgorithmFile> open(std::string path, std::string device);

  std::optional<Algorithm> find(const std::string &problem) const;
  void add(const std::string &problem, const Algorithm &algorithm);

  /// If anything was added, creates the directory of the file and writes the
  /// file.
  Status save() const;

private:
  /// Maps each problem to its algorithm, as hexadecimal digits.
  using Problems = std::map<std::string, std::string>;

  AlgorithmFile(std::string path, std::string device)
      : path_(std::move(path)), device_(std::move(device)) {}

  std::string path_, device_;
  bool isChanged_ = false;
  std::map<std::string, Problems> devices_;
};

/// Returns the path of the algorithm file in the user's cache directory, or an
/// empty string if neither XDG_CACHE_HOME nor HOME is an absolute path.
std::string defaultAlgorithmFile();

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_ALGORITHMFILE_H
