//===- RowKinds.h - Names and inputs of row program nodes -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tables and rules that the builder, verifier, printer and parser of row
// programs share.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_IR_ROWKINDS_H
#define KILN_LIB_DIALECT_KILN_IR_ROWKINDS_H

#include "kiln/Dialect/Kiln/IR/RowProgram.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace kiln::row {

struct KindInfo {
  Kind kind;
  llvm::StringLiteral name;
  /// The number of inputs of a node of this kind. It is 0 for loads and random
  /// nodes, whose number of inputs depends on the node.
  unsigned inputs;
};

const KindInfo &infoOf(Kind kind);
std::optional<Kind> kindNamed(llvm::StringRef name);

llvm::StringRef nameOf(Space space);
inline llvm::StringRef nameOf(Type type) { return support::infoOf(type).name; }
std::optional<Space> spaceNamed(llvm::StringRef name);

/// Returns the space of the value that a load with this access reads.
Space spaceOf(Access access);
/// Returns the space of a value computed from a value of space `a` and a value
/// of space `b`.
Space join(Space a, Space b);
/// Returns true if a load with this access has an index as an input.
inline bool hasIndex(Access access) {
  return access == Access::Gathered || access == Access::RowElement;
}

inline bool isReduction(const Node &node) {
  return node.kind == Kind::ReduceSum || node.kind == Kind::ReduceMax;
}
/// Returns true if the node is evaluated in a loop over columns.
inline bool isPerElement(const Node &node) {
  return node.space == Space::Full || node.space == Space::Column;
}

/// Returns true if the space has a valid number of elements: between 1 and
/// 2^48.
inline bool isSaneSpace(int64_t rows, int64_t cols) {
  return rows >= 1 && cols >= 1 && rows <= (int64_t(1) << 48) / cols;
}

/// Returns true if each element of a result depends only on scalars and on the
/// elements at the same position of the operands, or of slices of the operands.
bool isFlat(const RowProgram &program);

/// Texts that state when the nodes and stores of a program are evaluated, such
/// as "in sweeps 0, 1" or "after sweep 0". A sweep is a loop over the columns
/// of a row. The text of a node that is evaluated before the first sweep is
/// empty.
struct SweepTexts {
  explicit SweepTexts(const RowProgram &program);
  int32_t sweeps;
  llvm::SmallVector<std::string> nodes, stores;
};

} // namespace kiln::row

#endif // KILN_LIB_DIALECT_KILN_IR_ROWKINDS_H
