//===- Products.h - Matrix products through cuBLASLt ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The library counts along columns first, and programs along rows: a row-major
// C = A B is the library's C^T = B^T A^T on the same bytes, without a copy.
//
// How a product is computed is chosen once for each distinct problem, before
// any run, among the ways that need no more than the workspace and add up in
// one pass, so that equal runs give equal bits.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_PRODUCTS_H
#define KILN_LIB_RUNTIME_CUDA_PRODUCTS_H

#include "Gpu.h"
#include "ProductsApi.h"
#include "kiln/Runtime/Engine/Program.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace kiln::cuda {

/// Where the operands of a gemm command begin.
struct ProductPlaces {
  DevicePointer a = 0, b = 0, c = 0;
};

class Products {
public:
  /// Opens the first of `libraries`. Products use `workspaceBytes` of memory of
  /// their own.
  static Result<Products> open(const std::vector<std::string> &libraries,
                               int64_t workspaceBytes);

  /// "cuBLASLt 13.1.0".
  const std::string &name() const { return name_; }

  /// Chooses how a command is computed at these places; the index is for run().
  Result<std::size_t> choose(const Command &command,
                             const ProductPlaces &places);
  Status run(std::size_t choice, const ProductPlaces &places, bool accumulate,
             DevicePointer workspace, StreamHandle stream) const;

private:
  /// What decides the choice.
  using Problem = std::array<int64_t, 16>;
  struct Choice {
    Owned<ProductDescHandle> desc;
    Owned<LayoutHandle> a, b, c; ///< The library's own a and b.
    Algorithm algorithm;
    bool isF64 = false;
  };

  Products() = default;
  template <typename... Parameters, typename... Arguments>
  Status call(const Entry<int(Parameters...)> &entry,
              Arguments... arguments) const {
    int code = entry.function(arguments...);
    return code == 0 ? Status() : failure(code, entry.name);
  }
  Status failure(int code, const char *function) const;
  Status makeLayout(Owned<LayoutHandle> &layout, const Command &command,
                    const GemmOperand &operand, int64_t rows, int64_t columns);
  Status describe(const Command &command, Choice &choice);
  Status propose(const Problem &problem, Choice &choice);

  ProductsApi api_;
  std::string name_;
  int64_t workspaceBytes_ = 0;
  Owned<ProductsHandle> handle_;
  std::vector<Choice> choices_;
  std::map<Problem, std::size_t> chosen_;
};

} // namespace kiln::cuda

#endif // KILN_LIB_RUNTIME_CUDA_PRODUCTS_H
