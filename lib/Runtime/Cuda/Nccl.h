//===- Nccl.h - NCCL access -------------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads NCCL and converts its error codes to messages.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_NCCL_H
#define KILN_LIB_RUNTIME_CUDA_NCCL_H

#include "Driver.h"
#include "NcclApi.h"
#include "kiln/Support/Status.h"

#include <string>
#include <vector>

namespace kiln::runtime::cuda {

/// A communicator, which ncclCommDestroy() destroys.
using Communicator = Owned<CommHandle>;

class Nccl {
public:
  /// Loads the first of `libraries` that exists.
  static Result<Nccl> open(const std::vector<std::string> &libraries);

  const NcclApi &api() const { return api_; }
  /// Returns the name and version, such as "NCCL 2.28.9".
  const std::string &name() const { return name_; }
  /// Returns the version as an integer in NCCL's encoding, such as 22809.
  int version() const { return version_; }

  /// Calls a function of NCCL. Converts an error code to a Status.
  template <typename... Parameters, typename... Arguments>
  Status call(const Entry<int(Parameters...)> &entry,
              Arguments... arguments) const {
    int code = entry.function(arguments...);
    return code == ncclOk ? Status() : failure(code, entry.name);
  }

  /// Returns the error for the error code `code` of a call of `function`.
  Status failure(int code, const char *function) const;

private:
  Nccl() = default;

  NcclApi api_;
  std::string name_;
  int version_ = 0;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_NCCL_H
