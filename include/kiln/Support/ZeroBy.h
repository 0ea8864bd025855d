//===- ZeroBy.h - How ZeRO divides states -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_ZEROBY_H
#define KILN_SUPPORT_ZEROBY_H

#include <optional>
#include <string_view>

namespace kiln::support {

/// How the states of training are divided over data-parallel ranks.
enum class ZeroBy {
  Elements, ///< Each rank has a part of each tensor.
  Owner,    ///< Each tensor belongs to one rank, which has the whole tensor.
  Server    ///< All tensors belong to rank 0.
};

/// Returns the value with the name "elements", "owner" or "server", or nullopt.
inline std::optional<ZeroBy> zeroByNamed(std::string_view name) {
  if (name == "elements")
    return ZeroBy::Elements;
  if (name == "owner")
    return ZeroBy::Owner;
  if (name == "server")
    return ZeroBy::Server;
  return std::nullopt;
}

} // namespace kiln::support

#endif // KILN_SUPPORT_ZEROBY_H
