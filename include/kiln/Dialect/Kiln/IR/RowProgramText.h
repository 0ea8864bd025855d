//===- RowProgramText.h - Textual form of row programs ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Printer, parser and verifier of row programs. docs/reference/row-programs.md
// defines the textual form, which has one line per node and per store. Each
// line names the sweeps that compute the node or execute the store.
// parse(print(p)) == p holds for every valid program.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_ROWPROGRAMTEXT_H
#define KILN_DIALECT_KILN_IR_ROWPROGRAMTEXT_H

#include "kiln/Dialect/Kiln/IR/RowProgram.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace kiln::row {

/// Return true if all members are equal. Constants are compared by their bits.
inline bool operator==(const Node &a, const Node &b) {
  return a.kind == b.kind && a.space == b.space && a.type == b.type &&
         a.inputs == b.inputs && a.access == b.access &&
         a.operand == b.operand && a.period == b.period &&
         llvm::bit_cast<uint64_t>(a.value) ==
             llvm::bit_cast<uint64_t>(b.value) &&
         a.immediate == b.immediate && a.stored == b.stored;
}
inline bool operator==(const Store &a, const Store &b) {
  return a.kind == b.kind && a.value == b.value && a.result == b.result &&
         a.chunk == b.chunk && a.stored == b.stored;
}
inline bool operator==(const RowProgram &a, const RowProgram &b) {
  return a.rows == b.rows && a.cols == b.cols && a.flat == b.flat &&
         a.rowsPerUnit == b.rowsPerUnit && a.nodes == b.nodes &&
         a.stores == b.stores && a.immediates == b.immediates;
}

/// The first violation of an invariant in a program. `node` or `store` is set
/// if the violation concerns a single node or store.
struct Fault {
  std::optional<NodeId> node;
  std::optional<size_t> store;
  std::string message;
};

/// Verifies that the inputs of every node precede the node, that the kind,
/// type, space and access of every node agree, that every node is used by a
/// store, that the stores cover all results in order, and that `flat` and
/// `rowsPerUnit` are consistent with the nodes and stores. Returns std::nullopt
/// if the program is valid.
std::optional<Fault> findFault(const RowProgram &program);

/// Prints a valid program, followed by a newline.
void print(llvm::raw_ostream &os, const RowProgram &program);

/// Parses one program, which may be surrounded by comments, and verifies it
/// with findFault(). A line may omit its sweeps, the loops over the columns of
/// a row in which its node or store is evaluated. If present, they must be
/// equal to the sweeps that planSweeps() returns. An error is one line that
/// begins with "LINE:COLUMN: ".
llvm::Expected<RowProgram> parse(llvm::StringRef text);

} // namespace kiln::row

#endif // KILN_DIALECT_KILN_IR_ROWPROGRAMTEXT_H
