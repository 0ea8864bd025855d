//===- Library.h - Shared library loaded at run time ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The CUDA driver and its libraries are installed on the machine that trains.
// The machine that builds kiln may lack them. Therefore their functions are
// resolved by name at run time.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_LIBRARY_H
#define KILN_LIB_RUNTIME_CUDA_LIBRARY_H

#include "kiln/Support/Status.h"

#include <string>
#include <vector>

namespace kiln::runtime::cuda {

/// The address of a library function, and the name under which the library
/// exports it.
template <typename Signature> struct Entry {
  const char *name;
  Signature *function = nullptr;
};

/// A loaded library. It is never unloaded, since driver threads may still
/// execute its code.
class Library {
public:
  /// Loads the first of `names` that can be loaded. If none can be loaded, the
  /// error states the reason for the first name.
  static Result<Library> open(const std::vector<std::string> &names);

  /// Returns the name of the loaded library.
  const std::string &name() const { return name_; }

  /// Looks up `entry.name` and sets `entry.function`. Returns false if the
  /// library does not export the function.
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
