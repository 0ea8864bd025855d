//===- Collective.h - Collectives over tensors ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Describes collectives, which are operations on tensors of all ranks of a
// group. A group is either all ranks of a run, or one of the groups into which
// a mesh (Mesh.h) divides these ranks. In this file, the number of a rank is
// its index in the group.
//
// A *whole* tensor of N elements is divided over n ranks into *shards* of K
// elements each, where n K >= N. The shard of rank r has the elements
// [r K, min((r + 1) K, N)) of the whole tensor, in row-major order, followed by
// zeros up to K elements. These zeros are the padding, which is never sent. For
// N = 5, n = 3 and K = 2:
//
//   whole   a b c d e
//   shards  a b | c d | e 0
//
// A tensor may have an owner, a rank whose shard is the whole tensor (K = N).
// The shards of the other ranks then have no elements.
//
// A collective operates on one or several tensors. The elements of a tensor are
// contiguous in memory, but the tensors need not be adjacent:
//
//   all_reduce      sums the whole tensors of all ranks, in place
//   reduce_scatter  sums the whole tensors of all ranks; each rank receives its
//                   shards of the sums
//   all_gather      copies the shards of all ranks to the whole tensors of
//                   every rank
//
// lib/Runtime/Comm/RingCollective.h defines the order of the sums and the
// numbers of bytes.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_COMM_COLLECTIVE_H
#define KILN_RUNTIME_COMM_COLLECTIVE_H

#include "kiln/Support/ElementType.h"
#include "kiln/Support/Mesh.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace kiln::runtime {

enum class Collective : uint8_t { AllReduce, ReduceScatter, AllGather };

/// Returns the name of the operation, such as "all_reduce".
const char *nameOf(Collective collective);

/// One tensor of a collective. The memory of a shard must not overlap that of a
/// whole tensor.
struct CollectiveSpan {
  /// All elements of the tensor. A reduce-scatter destroys them: they may be
  /// partial sums afterwards. An all-gather overwrites them.
  char *whole = nullptr;
  int64_t count = 0; ///< Number of elements of the whole tensor.
  /// The shard of this rank. A reduce-scatter writes it, including its padding,
  /// and an all-gather reads it. Null for an all-reduce.
  char *shard = nullptr;
  int64_t shardCount = 0; ///< Elements of a shard; 0 for an all-reduce.
  /// The total number of elements of this span and of all spans before it. A
  /// span counts as `count` elements in an all-reduce, and as `shardCount`
  /// elements in other collectives. See setEnds().
  int64_t end = 0;
  int64_t owner = -1; ///< The rank that owns the tensor, or -1.
};

/// Sets CollectiveSpan::end of all spans of a collective. Must be called before
/// the collective begins.
void setEnds(Collective collective, CollectiveSpan *spans, std::size_t count);

/// Start and end of a transfer, in nanoseconds of the monotonic clock.
struct TransferTiming {
  int64_t begin = 0, end = 0;
};

/// Returns the first element of the shard of a rank in the whole tensor.
int64_t shardBegin(const CollectiveSpan &span, int rank);
/// Returns the number of elements of the shard of a rank, without padding.
int64_t shardElements(const CollectiveSpan &span, int rank);

struct CollectiveJob {
  Collective collective = Collective::AllReduce;
  /// The spans, which must outlive the job.
  const CollectiveSpan *spans = nullptr;
  std::size_t spanCount = 0;
  /// The element type of all tensors. An all-reduce and a reduce-scatter accept
  /// f64, f32, bf16, f16 and i8. An all-gather accepts all types whose elements
  /// are whole bytes.
  ElementType type = ElementType::F32;
  /// The name for messages, which must outlive the job.
  const char *name = "";
  /// If not null, the start and end of the transfer are stored here before the
  /// job is done.
  TransferTiming *timing = nullptr;
  /// The group of ranks that carries out the collective; nullopt: all ranks. If
  /// there are several groups on the same mesh axis, all of them begin this
  /// collective, each with its own tensors.
  std::optional<support::MeshGroup> group = std::nullopt;
};

/// Returns the group of a collective in a run of `size` ranks.
inline support::MeshGroup groupOf(const CollectiveJob &job, int size) {
  return job.group.value_or(support::MeshGroup{0, 1, size});
}

/// Sets the padding of all shards of this rank, whose index in the group is
/// `rank`, to zero.
void clearPadding(const CollectiveJob &job, int rank);

/// Carries out a collective without other ranks, on the calling thread. This
/// rank acts as rank 0 of a group. The tensors of the other ranks count as
/// zeros.
void carryOutAlone(const CollectiveJob &job);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_COMM_COLLECTIVE_H
