//===- CommandReader.h - Reads the commands of a program --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads one command after the other and checks each against the arenas, the
// kernel table and the loop around it. What concerns several commands, the
// order of asynchronous copies, is checked by CopyOrder.h.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COMMANDREADER_H
#define KILN_LIB_RUNTIME_ENGINE_COMMANDREADER_H

#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/JsonReader.h"

namespace kiln {

/// Offset of `bytes` bytes in an arena of `file`.
int64_t readOffset(const Node &node, int64_t bytes, const ProgramFile &file,
                   ArenaKind arena);

/// "arena" of a state or slot: "device" when absent.
ArenaKind readArena(const Node &node);

/// Reads commands and keeps what their checks need.
class CommandReader {
public:
  CommandReader(const ProgramFile &file, int64_t kernelCount)
      : file_(file), kernelCount_(kernelCount) {}

  Command read(const Node &node);
  /// After a loop_begin whose loop_end has not been read.
  bool inLoop() const { return inLoop_; }

private:
  void readKernel(const Node &node, Command &command);
  void readGrid(const Node &node, Command &command);
  void readGroup(const Node &node, Command &command);
  void readCall(const Node &node, Command &command);
  void readExtents(const Node &node, KernelCall &call);
  void readUnits(const Node &node, Command &command);
  void checkGpuArgs(const Node &args, const Command &command) const;
  void readGemm(const Node &node, Command &command);
  void readTransfer(const Node &node, Command &command);
  void readAttention(const Node &node, Command &command);
  void readTypes(const Node &node, Command &command);
  void readWorkspace(const Node &node, Command &command);
  void readLibrary(const Node &node, Command &command);
  GemmOperand readOperand(const Node &node, ElementType type, int64_t rows,
                          int64_t columns, const Command &command);
  Ref readRef(const Node &node, int64_t bytes);

  bool hasGpu() const {
    return file_.description.target.kind != TargetKind::Cpu;
  }

  const ProgramFile &file_;
  int64_t kernelCount_;
  bool inLoop_ = false;
  int64_t iterations_ = 1;
};

} // namespace kiln

#endif // KILN_LIB_RUNTIME_ENGINE_COMMANDREADER_H
