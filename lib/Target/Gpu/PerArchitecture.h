//===- PerArchitecture.h - Parallel work per architecture -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_PERARCHITECTURE_H
#define KILN_LIB_TARGET_GPU_PERARCHITECTURE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <thread>
#include <vector>

namespace kiln::gpu {

/// Runs work(0), ..., work(count - 1), each in its own thread. Returns their
/// results in order, or the first error in that order.
template <typename T>
llvm::Expected<std::vector<T>>
inParallel(size_t count, llvm::function_ref<llvm::Expected<T>(size_t)> work) {
  std::vector<std::optional<llvm::Expected<T>>> results(count);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i)
    threads.emplace_back([&, i] { results[i].emplace(work(i)); });
  if (count)
    results[0].emplace(work(0));
  for (std::thread &thread : threads)
    thread.join();

  std::vector<T> values;
  llvm::Error error = llvm::Error::success();
  for (std::optional<llvm::Expected<T>> &result : results) {
    if (*result)
      values.push_back(std::move(**result));
    else if (error)
      llvm::consumeError(result->takeError());
    else
      error = result->takeError();
  }
  if (error)
    return error;
  return values;
}

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_PERARCHITECTURE_H
