//===- SegmentReader.h - Reads the segments of a program --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program description contains a table of segments and an order. A segment is
// a list of commands. The order lists the segments by name. One of its entries
// may instead describe the micro-batches: a forward and a backward segment that
// are executed several times.
// Each segment is read once. The Program in memory has a list of the commands
// of all entries. The reader stores where each of these commands is in the
// description, so that later checks of the whole list can report the location
// of an error.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_SEGMENTREADER_H
#define KILN_LIB_RUNTIME_ENGINE_SEGMENTREADER_H

#include "CommandReader.h"
#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/JsonReader.h"

#include <cstddef>
#include <map>
#include <optional>
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

  /// Reads the commands, segments and runs of `program`.
  void read(const ProgramFile &file, int64_t kernelCount, Program &program);

  /// Returns the JSON node of the command with this index in Program::commands.
  support::Node command(std::size_t index) const;
  /// Reports an error of the command with this index in Program::commands.
  void fail(std::size_t index, const std::string &problem) const;
  bool failed() const { return segments_.failed(); }

private:
  /// A segment of the description.
  struct Entry {
    explicit Entry(const support::Node &segment)
        : node(segment), commands(node.at("commands")) {}

    support::Node node, commands;
    std::size_t uses = 0; ///< How often 'order' contains the segment.
    SegmentContext context;
    std::vector<Command> list;
  };
  /// One occurrence of a segment in Program::commands. `begin` is the index of
  /// its first command.
  struct Place {
    std::size_t entry, begin;
  };

  void readNames();
  void readOrder();
  void readMicrobatches(const support::Node &node);
  void addPlace(const support::Node &name, const SegmentContext &context);
  void readCommands(const ProgramFile &file, int64_t kernelCount);
  void checkSize(const ProgramFile &file) const;
  void layOut(Program &program);
  void addRuns(Program &program) const;

  support::Node segments_, order_;
  /// The vector must not reallocate, because each node contains a pointer to
  /// its parent.
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> indexes_; ///< Indexes in entries_ by name.
  /// The occurrences of segments in the program. Element i describes
  /// Program::segments[i].
  std::vector<Place> places_;
  /// The order of the micro-batches, if there are any.
  std::optional<abi::SegmentOrder> microbatchOrder_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_SEGMENTREADER_H
