//===- Library.h - A shared library, opened at run time ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A driver and its libraries are on the machine that trains, not where kiln is
// built: their functions are found by name at the start of a run.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_LIBRARY_H
#define KILN_LIB_RUNTIME_CUDA_LIBRARY_H

#include "kiln/Support/Status.h"

#include <string>
#include <vector>

namespace kiln::runtime::cuda {

/// A function of a library, under the name that it is exported with.
template <typename Signature> struct Entry {
  const char *name;
  Signature *function = nullptr;
};

/// Stays loaded until the process ends: threads of a driver may run in it.
class Library {
public:
  /// Opens the first of `names` that can be; a failure says why the first one
  /// cannot.
  static Result<Library> open(const std::vector<std::string> &names);

  /// The one that was opened.
  const std::string &name() const { return name_; }

  /// Finds the function of an entry; false: the library lacks it.
  template <typename Signature> bool find(Entry<Signature> &entry) const {
    entry.function = reinterpret_cast<Signature *>(symbol(entry.name));
    return entry.function != nullptr;
  }

private:
  Library(void *handle, std::string name)
      : handle_(handle), name_(std::move(name)) {}
  void *symbol(const char *name) const;

  void *handle_;
  std::string name_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_LIBRARY_H
