//===- SegmentReader.h - Reads the segments of a program --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program is a table of segments, which are lists of commands, and an order
// of their names. Each segment is read once; the program in memory is the list
// of commands along the order. The reader remembers where each of these
// commands is in the description, so that a check of the whole list can name
// the place of a problem.
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
  // Nodes point to each other.
  SegmentReader(const SegmentReader &) = delete;
  SegmentReader &operator=(const SegmentReader &) = delete;

  /// Reads the commands and segments of `program`.
  void read(const ProgramFile &file, int64_t kernelCount, Program &program);

  /// The place of command `index` along the order.
  support::Node command(std::size_t index) const;
  /// Reports a problem of command `index` along the order.
  void fail(std::size_t index, const std::string &problem) const;
  bool failed() const { return segments_.failed(); }

private:
  /// A run of a segment: its first command along the order.
  struct Run {
    std::size_t segment, begin;
  };

  std::vector<std::vector<Command>> readTable(const ProgramFile &file,
                                              int64_t kernelCount);
  std::size_t findSegment(const support::Node &entry) const;
  const Run &runOf(std::size_t command) const;

  support::Node segments_, order_;
  std::vector<support::Node> entries_;  ///< By segment; never reallocated.
  std::vector<support::Node> commands_; ///< By segment: its "commands".
  std::map<std::string, std::size_t> indexes_; ///< Segments by name.
  std::vector<Run> runs_;                      ///< Along the order.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_SEGMENTREADER_H
