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
//   tp   tensor parallelism: the ranks divide the matrices of each layer, and
//        compute with the same sequences
//
// The number of a rank follows from its index on each axis. The last axis
// varies fastest: with dp=2,tp=3, the rank with index 1 on dp and index 2 on tp
// is 1 * 3 + 2 = 5. The *group* of a rank on an axis consists of all ranks that
// have the same indexes as this rank on all other axes: rank 5 is in the groups
// {2, 5} on dp and {3, 4, 5} on tp.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_MESH_H
#define KILN_SUPPORT_MESH_H

#include "kiln/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::support {

/// The approximate default size of a bucket, which is a set of tensors that
/// ranks sum or gather together.
inline constexpr int64_t defaultBucketBytes = 24 << 20;

/// The axis of data parallelism.
inline constexpr std::string_view dataAxis = "dp";

/// The axis of tensor parallelism.
inline constexpr std::string_view tensorAxis = "tp";

/// Maximum number of ranks of an axis, and of a mesh.
inline constexpr int64_t maxRanks = 65536;
/// Maximum number of axes of a mesh.
inline constexpr std::size_t maxMeshAxes = 8;

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

/// The ranks first + i * stride, for i from 0 to size - 1.
struct MeshGroup {
  int64_t first = 0, stride = 1, size = 1;

  int64_t rankAt(int64_t index) const { return first + index * stride; }
  /// Returns the position of `rank` in this group. The group must contain
  /// `rank`.
  int64_t indexOf(int64_t rank) const { return (rank - first) / stride; }
};

struct Mesh {
  std::vector<MeshAxis> axes; ///< Empty: one rank.

  /// Returns the number of ranks of an axis: 1 if the mesh does not have the
  /// axis.
  int64_t sizeOf(std::string_view axis) const;
  /// Returns the number of ranks.
  int64_t size() const;
  /// Returns the index of a rank on an axis: 0 if the mesh does not have the
  /// axis.
  int64_t indexOn(std::string_view axis, int64_t rank) const;
  /// Returns the group of a rank on an axis: only the rank itself if the mesh
  /// does not have the axis.
  MeshGroup groupOf(std::string_view axis, int64_t rank) const;
  /// Returns the first rank that has the same indexes as `rank` on the axes
  /// `kept`: its indexes on all other axes are 0.
  int64_t firstWith(const std::vector<std::string> &kept, int64_t rank) const;
  /// Returns a text that parseMesh() accepts, such as "dp=2,tp=4".
  std::string text() const;
};

/// Parses a list such as "dp=2,tp=4", in any order. The axes of the mesh are in
/// the order dp, tp; axes of one rank are omitted. The empty text is a mesh of
/// one rank. The message of an error is a fragment that follows the text, such
/// as "has the unknown axis 'x', expected dp=N or tp=N".
Result<Mesh> parseMesh(std::string_view text);

} // namespace kiln::support

#endif // KILN_SUPPORT_MESH_H
