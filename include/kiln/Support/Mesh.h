//===- Mesh.h - Axes of the ranks of a job ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ranks of a job form a mesh with named axes:
//
//   dp   data parallelism: each rank has all parameters and computes the
//        gradients of a part of the batch
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_MESH_H
#define KILN_SUPPORT_MESH_H

#include "kiln/Support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::support {

/// The axis of data parallelism.
inline constexpr std::string_view dataAxis = "dp";

/// Maximum number of ranks of an axis, and of a mesh.
inline constexpr int64_t maxRanks = 65536;

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

struct Mesh {
  std::vector<MeshAxis> axes; ///< Empty: one rank.

  /// Returns the number of ranks of an axis: 1 if the mesh does not have it.
  int64_t sizeOf(std::string_view axis) const;
  /// Returns the number of ranks.
  int64_t size() const;
};

/// Parses a list such as "dp=4". The empty text is a mesh of one rank. The
/// message of an error is a fragment that follows the text, such as "has the
/// unknown axis 'x', expected dp=N".
Result<Mesh> parseMesh(std::string_view text);

} // namespace kiln::support

#endif // KILN_SUPPORT_MESH_H
