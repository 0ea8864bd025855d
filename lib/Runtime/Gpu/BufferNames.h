//===- BufferNames.h - What lies where, for messages ------------*- C++ -*-===//
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

/// The buffers of one program of a file; both must outlive it.
class BufferNames {
public:
  BufferNames(const ProgramFile &file, const Program &program);

  /// Slots that live at a command: their indexes.
  const std::vector<std::size_t> &living(std::size_t command) const {
    return living_[command];
  }
  /// Of the slot or state that holds a byte at a command. Where a result takes
  /// the place of an operand, a write is to the result.
  std::string_view nameAt(std::size_t command, const Place &place,
                          bool writes) const;
  /// "launch 'h.0.ln_1' (commands[12])", and in which iteration.
  std::string title(std::size_t command, int64_t iteration) const;

private:
  const ProgramFile &file_;
  const Program &program_;
  std::vector<std::vector<std::size_t>> living_; ///< Per command.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_BUFFERNAMES_H
