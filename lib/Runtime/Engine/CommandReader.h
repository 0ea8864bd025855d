//===- CommandReader.h - Reads the commands of a program --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the commands of a segment (a list in the description), and checks each
// command against the arenas, the kernel table, the queues and the executions
// of the segment. TransferOrder.h declares the checks that involve several
// commands: the checks of the order of asynchronous transfers.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COMMANDREADER_H
#define KILN_LIB_RUNTIME_ENGINE_COMMANDREADER_H

#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/JsonReader.h"

namespace kiln::runtime {

/// Reads the offset of a range of `bytes` bytes, which must be within an arena
/// of `file`.
int64_t readOffset(const support::Node &node, int64_t bytes,
                   const ProgramFile &file, ArenaKind arena);

/// Reads "arena" of a state or slot; the default is "device".
ArenaKind readArena(const support::Node &node);

/// Reads the index of a data-parallel rank that owns a tensor or executes a
/// command alone.
int64_t readOwner(const support::Node &owner, const ProgramFile &file);

/// The properties of a segment (a list of commands) that its commands are
/// checked against.
struct SegmentContext {
  /// The number of micro-batches that execute the segment, or 0 if the segment
  /// does not belong to the micro-batches.
  int64_t microbatches = 0;
  int64_t slots = 1; ///< Maximum number of micro-batches in flight.
  bool isBackward = false;
};

class CommandReader {
public:
  CommandReader(const ProgramFile &file, int64_t kernelCount,
                const SegmentContext &segment)
      : file_(file), kernelCount_(kernelCount), segment_(segment) {}

  Command read(const support::Node &node);

private:
  void readKernel(const support::Node &node, Command &command);
  void readGrid(const support::Node &node, Command &command);
  void readGroup(const support::Node &node, Command &command);
  void readCall(const support::Node &node, Command &command);
  void readExtents(const support::Node &node, KernelCall &call);
  void readUnits(const support::Node &node, Command &command);
  void checkGpuArgs(const support::Node &args, const Command &command) const;
  void readGemmKernel(const support::Node &node, Command &command);
  void readGemm(const support::Node &node, Command &command);
  void readTransfer(const support::Node &node, Command &command);
  CollectiveElements readElements(const support::Node &place,
                                  const support::Node &count,
                                  support::ElementType type);
  /// Returns the index of an axis of the mesh.
  int64_t readAxis(const support::Node &axis);
  void checkShard(const support::Node &shard, int64_t count, int64_t whole,
                  int64_t axis) const;
  void checkPlace(const support::Node &place,
                  const CollectiveElements &elements) const;
  void readTensors(const support::Node &node, Command &command);
  void readCollective(const support::Node &node, Command &command);
  void readAttention(const support::Node &node, Command &command);
  void readTypes(const support::Node &node, Command &command);
  void readWorkspace(const support::Node &node, Command &command);
  void readLibrary(const support::Node &node, Command &command);
  GemmOperand readOperand(const support::Node &node, ElementType type,
                          int64_t rows, int64_t columns,
                          const Command &command);
  Ref readRef(const support::Node &node, int64_t bytes);
  void checkExecutions(const support::Node &node, const Ref &ref,
                       int64_t bytes) const;
  Token readToken(const support::Node &node) const;
  When readWhen(const support::Node &node) const;

  bool hasGpu() const {
    return file_.description.target.kind != TargetKind::Cpu;
  }

  const ProgramFile &file_;
  int64_t kernelCount_;
  SegmentContext segment_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COMMANDREADER_H
