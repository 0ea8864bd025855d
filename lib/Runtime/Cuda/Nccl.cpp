//===- Nccl.cpp - NCCL access ---------------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nccl.h"

#include "kiln/Support/Messages.h"

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

static constexpr const char *howToInstall =
    "; install NCCL 2.13 or later for the CUDA version of the driver (the "
    "package libnccl2 of NVIDIA, or nvidia-nccl of PyPI), or add its folder to "
    "LD_LIBRARY_PATH";

Status Nccl::failure(int code, const char *function) const {
  const char *text = api_.ncclGetErrorString.function(code);
  // NCCL ignores the argument. The text is empty if there are no details.
  const char *details = api_.ncclGetLastError.function(nullptr);
  return Status::error(
      "NCCL's " + std::string(function) + " failed: " +
      (text ? std::string(text) : "result " + std::to_string(code)) +
      (details && *details ? " (" + printable(details, 400) + ")"
                           : std::string()) +
      "; set NCCL_DEBUG=WARN for details");
}

Result<Nccl> Nccl::open(const std::vector<std::string> &libraries) {
  Result<Library> library = Library::open(libraries);
  if (!library.ok())
    return Status::error("the ranks of this executable communicate through "
                         "NVIDIA's NCCL, but it cannot be loaded: " +
                         library.status().message() + howToInstall);
  Nccl nccl;
  const char *missing = nullptr;
  auto find = [&](auto &entry) {
    if (!library->find(entry) && !missing)
      missing = entry.name;
  };
#define KILN_NCCL_FIND(symbol, ...) find(nccl.api_.symbol);
  KILN_NCCL_FUNCTIONS(KILN_NCCL_FIND)
#undef KILN_NCCL_FIND
  if (missing)
    return Status::error(library->name() + " lacks " + missing + howToInstall);
  Status status = nccl.call(nccl.api_.ncclGetVersion, &nccl.version_);
  if (!status.ok())
    return status;
  nccl.name_ = "NCCL " + std::to_string(nccl.version_ / 10000) + "." +
               std::to_string(nccl.version_ % 10000 / 100) + "." +
               std::to_string(nccl.version_ % 100);
  return nccl;
}
