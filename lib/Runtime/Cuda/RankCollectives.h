//===- RankCollectives.h - Collectives of commands through NCCL -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queues the collectives of commands. Those of one command are a group of NCCL
// (ncclGroupStart, ncclGroupEnd), in which NCCL may combine the tensors.
//
// NCCL's ncclReduceScatter and ncclAllGather need n shards of K elements each
// in the whole tensor, but kiln's whole tensors have N <= n K elements (see
// Collective.h). If N < n K, a reduce-scatter is one ncclReduce to each rank,
// and an all-gather one ncclBroadcast from each rank, with the elements that
// its shard has without padding. Shards without elements are left out.
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

/// Queues the collective of a command. Without RankGroups, this rank acts as
/// rank 0 of a group whose other ranks have zeros.
Status queueCollective(const CudaResources &resources, const Command &command,
                       const abi::SegmentRun &run, StreamHandle stream);

/// Returns the bytes that a rank sends in a collective of `ranks` ranks if NCCL
/// uses a ring. NCCL may choose another algorithm, which sends more or fewer.
int64_t ringBytes(const Command &command, const support::MeshGroup &group,
                  int64_t rank);

/// Waits until all work of the stream is complete. With several ranks, also
/// returns an error if NCCL reports one, or if the work is not complete after
/// World::peerTimeout(). Such an error ends the process.
Status waitForStream(const CudaResources &resources, StreamHandle stream);

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_RANKCOLLECTIVES_H
