//===- CommandReader.h - Reads the commands of a program --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the commands of a program, and checks each command against the arenas,
// the kernel table, the queues and the enclosing loop. Checks that involve
// several commands are in CopyOrder.h (asynchronous copies) and LaunchGroups.h
// (launch groups).
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

/// Reads commands in order, and tracks the enclosing loop.
class CommandReader {
public:
  CommandReader(const ProgramFile &file, int64_t kernelCount)
      : file_(file), kernelCount_(kernelCount) {}

  Command read(const support::Node &node);
  /// Returns true after a loop_begin whose loop_end has not been read yet.
  bool inLoop() const { return inLoop_; }

private:
  void readKernel(const support::Node &node, Command &command);
  void readGrid(const support::Node &node, Command &command);
  void readGroup(const support::Node &node, Command &command);
  void readCall(const support::Node &node, Command &command);
  void readExtents(const support::Node &node, KernelCall &call);
  void readUnits(const support::Node &node, Command &command);
  void checkGpuArgs(const support::Node &args, const Command &command) const;
  void readGemm(const support::Node &node, Command &command);
  void readTransfer(const support::Node &node, Command &command);
  void readAttention(const support::Node &node, Command &command);
  void readTypes(const support::Node &node, Command &command);
  void readWorkspace(const support::Node &node, Command &command);
  void readLibrary(const support::Node &node, Command &command);
  GemmOperand readOperand(const support::Node &node, ElementType type,
                          int64_t rows, int64_t columns,
                          const Command &command);
  Ref readRef(const support::Node &node, int64_t bytes);

  bool hasGpu() const {
    return file_.description.target.kind != TargetKind::Cpu;
  }

  const ProgramFile &file_;
  int64_t kernelCount_;
  bool inLoop_ = false;
  int64_t iterations_ = 1;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COMMANDREADER_H
