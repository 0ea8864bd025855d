//===- BufferNames.h - Buffer names for messages ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_BUFFERNAMES_H
#define KILN_LIB_RUNTIME_GPU_BUFFERNAMES_H

#include "StreamProgram.h"
#include "kiln/Runtime/Engine/Program.h"

#include <string>
#include <string_view>
#include <vector>

namespace kiln::runtime {

/// The names of the buffers of a program. `file` and `program` must outlive
/// this object.
class BufferNames {
public:
  BufferNames(const ProgramFile &file, const Program &program);

  /// Returns the indices of the slots (the planned buffers) that are live at
  /// the command.
  const std::vector<std::size_t> &living(std::size_t command) const {
    return living_[command];
  }
  /// Returns the name of the slot or state that contains the byte at `place` in
  /// an execution of the command, or an empty string if no slot or state does.
  /// If a result is stored in the memory of an operand, the slots of both
  /// contain the byte. In that case, returns the name of the result if `writes`
  /// is true, and otherwise the name of the operand.
  std::string_view nameAt(std::size_t command, const abi::SegmentRun &run,
                          const Place &place, bool writes) const;
  /// Formats an execution of a command, such as "launch 'h.0.ln_1'
  /// (commands[12] for micro-batch 3)".
  std::string title(std::size_t command, const abi::SegmentRun &run) const;

private:
  const ProgramFile &file_;
  const Program &program_;
  /// The indices of the live slots, indexed by command.
  std::vector<std::vector<std::size_t>> living_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_BUFFERNAMES_H
