//===- RankCollectives.h - Collectives of commands through NCCL -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queues the collectives of commands. The tensors of one command are queued in
// an NCCL group (ncclGroupStart, ncclGroupEnd) or, if there are many, in
// several groups. NCCL may combine the tensors of a group.
//
// For n ranks, NCCL's ncclReduceScatter and ncclAllGather need whole tensors of
// n shards with K elements each, but kiln's whole tensors have N <= n K
// elements (see Collective.h). If N < n K, a reduce-scatter is one ncclReduce
// to each rank, and an all-gather is one ncclBroadcast from each rank. Each of
// these calls transfers the elements of one shard without its padding. Shards
// without elements need no call.
//
// The same calls are executed directly or captured into a graph. NCCL supports
// captures if all ranks capture, and later launch, the same collectives in the
// same order, which holds because all ranks execute the same programs.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_RANKCOLLECTIVES_H
#define KILN_LIB_RUNTIME_CUDA_RANKCOLLECTIVES_H

#include "CudaProgram.h"

namespace kiln::runtime::cuda {

/// Queues the collective of a command. If `resources.groups` is null, this rank
/// acts as rank 0 of a group in which all elements of the other ranks are zero.
Status queueCollective(const CudaResources &resources, const Command &command,
                       const abi::SegmentRun &run, StreamHandle stream);

/// Returns the bytes that `rank` sends in the collective of `command` over
/// `group` if NCCL uses a ring. NCCL may choose another algorithm, which sends
/// more or fewer bytes.
int64_t ringBytes(const Command &command, const support::MeshGroup &group,
                  int64_t rank);

/// Waits until all work of the stream is complete. With several ranks, calls
/// World::fail(), which ends the process, if NCCL reports an error, or if the
/// work is not complete after World::peerTimeout().
Status waitForStream(const CudaResources &resources, StreamHandle stream);

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_RANKCOLLECTIVES_H
