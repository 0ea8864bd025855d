//===- DamagedDescription.h - Descriptions with one damage ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_DAMAGEDDESCRIPTION_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_DAMAGEDDESCRIPTION_H

#include "ToyProgram.h"
#include "kiln/Runtime/Engine/Program.h"

#include <gtest/gtest.h>
#include <string>

namespace kiln::runtime::toy {

/// Parses the description of a program with the kernels of ToyProgram.h.
inline Result<ProgramFile> read(const nlohmann::json &description) {
  return parseProgramFile(description.dump(), kernelCount);
}

/// A change of one value of a description.
struct Damage {
  const char *name;
  const char *pointer;  ///< JSON pointer, relative to the `root` of a test.
  nlohmann::json value; ///< New value; "discarded" removes the member.
  const char *message;  ///< A part of the expected error.
};

/// Applies `damage` below the member `root` of a description, and expects that
/// the reader reports it as an error of one line.
inline void expectOneClearError(nlohmann::json json, const std::string &root,
                                const Damage &damage) {
  nlohmann::json::json_pointer pointer(root + damage.pointer);
  if (damage.value == "discarded")
    json[pointer.parent_pointer()].erase(pointer.back());
  else
    json[pointer] = damage.value;
  Status status = read(json).status();
  EXPECT_EQ(status.code(), ExitCode::Error);
  EXPECT_NE(status.message().find(damage.message), std::string::npos)
      << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_DAMAGEDDESCRIPTION_H
