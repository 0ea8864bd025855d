//===- GroupedProgram.h - A program with a launch group ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernel 0 computes y = x + a with the arguments (x, y), an immediate a, and
// the number of units of work (elements). The first three of four launches form
// a group. Launch i computes y[j] for i * groupedUnits <= j < (i + 1) *
// groupedUnits.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_GPU_GROUPEDPROGRAM_H
#define KILN_TEST_UNIT_RUNTIME_GPU_GROUPEDPROGRAM_H

#include "HandProgram.h"

namespace kiln::runtime::testing {

constexpr int64_t groupedUnits = 40; ///< Elements of a launch.
constexpr int64_t groupedBytes = groupedUnits * 4;
constexpr int64_t groupedLaunches = 4, groupMembers = 3, tableMembers = 5;

inline Json groupedProgram(const char *target) {
  Json commands = Json::array();
  int64_t all = groupedLaunches * groupedBytes;
  for (int64_t i = 0; i < groupedLaunches; ++i) {
    std::string name = "add" + std::to_string(i);
    Json args = {device(i * groupedBytes), device(all + i * groupedBytes)};
    commands.push_back(deviceLaunch(name.c_str(), 0, args, groupedBytes, {1},
                                    {{2, 0}}, groupedUnits));
    commands.back()["members"] = tableMembers;
  }
  commands[0]["group"] = groupMembers;
  Json slots = {slot("x", "input", 0, all, 0, 3),
                slot("y", "output", all, all, 0, 4)};
  Json program = handProgram(
      commands, slots, {value("x", 0, groupedLaunches * groupedUnits)},
      {value("y", all, groupedLaunches * groupedUnits)}, 2 * all);
  program["target"]["kind"] = target;
  program["options"]["target"] = target;
  return program;
}

} // namespace kiln::runtime::testing

#endif // KILN_TEST_UNIT_RUNTIME_GPU_GROUPEDPROGRAM_H
