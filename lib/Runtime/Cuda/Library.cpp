//===- Library.cpp - Shared library loaded at run time --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Library.h"

#include <dlfcn.h>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

Result<Library> Library::open(const std::vector<std::string> &names) {
  std::string reason;
  for (const std::string &name : names) {
    if (void *handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return Library(handle, name);
    if (const char *text = ::dlerror(); text && reason.empty())
      reason = text;
  }
  return Status::error(reason.empty() ? "no library name is given" : reason);
}

void *Library::symbol(const char *name) const { return ::dlsym(handle_, name); }
