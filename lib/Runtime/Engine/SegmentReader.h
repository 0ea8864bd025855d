//===- SegmentReader.h - Reads the segments of a program --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program description contains a table of segments and an order. A segment is
// a list of commands. The order is a list of segment names. Each segment is
// read once. The Program in memory is the list of all commands in execution
// order. The reader stores where each of these commands is in the description,
// so that later checks of the whole list can report the location of an error.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_SEGMENTREADER_H
#define KILN_LIB_RUNTIME_ENGINE_SEGMENTREADER_H

#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/JsonReader.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace kiln::runtime {

class SegmentReader {
public:
  /// `program` must outlive the reader.
  explicit SegmentReader(const support::Node &program)
      : segments_(program.at("segments")), order_(program.at("order")) {}
  // Not copyable, because nodes contain pointers to other nodes of this object.
  SegmentReader(const SegmentReader &) = delete;
  SegmentReader &operator=(const SegmentReader &) = delete;

  /// Reads the commands and segments of `program`.
  void read(const ProgramFile &file, int64_t kernelCount, Program &program);

  /// Returns the node of command `index` in execution order.
  support::Node command(std::size_t index) const;
  /// Reports an error of command `index` in execution order.
  void fail(std::size_t index, const std::string &problem) const;
  bool failed() const { return segments_.failed(); }

private:
  /// One run of a segment. `begin` is the index in execution order of the run's
  /// first command.
  struct Run {
    std::size_t segment, begin;
  };

  std::vector<std::vector<Command>> readTable(const ProgramFile &file,
                                              int64_t kernelCount);
  std::size_t findSegment(const support::Node &entry) const;
  const Run &runOf(std::size_t command) const;

  support::Node segments_, order_;
  /// Indexed by segment. entries_ and commands_ must not reallocate, because
  /// each node contains a pointer to its parent.
  std::vector<support::Node> entries_;
  /// For each segment, its member "commands".
  std::vector<support::Node> commands_;
  std::map<std::string, std::size_t> indexes_; ///< Segment indexes by name.
  std::vector<Run> runs_;                      ///< In execution order.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_SEGMENTREADER_H
