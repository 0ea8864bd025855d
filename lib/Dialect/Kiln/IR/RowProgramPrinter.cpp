//===- RowProgramPrinter.cpp - Printing row programs ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints one line per node and one line per store. The sweeps that evaluate the
// node or the store are at the end of its line. They begin at column
// kSweepColumn, or two blanks after the preceding text if this text extends
// beyond the column.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/RowProgramText.h"

#include "RowKinds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/raw_ostream.h"

#include <charconv>
#include <cmath>

using namespace llvm;

namespace kiln::row {

/// Position in a line of text at which its sweeps begin. They are the loops
/// over the elements of a row that evaluate the node or store of the line.
static constexpr size_t kSweepColumn = 56;

/// Returns the shortest text that parses to `value`. For a NaN, returns the
/// bits of the NaN in hexadecimal.
static std::string textOf(double value, Type type) {
  char text[64];
  char *end = std::end(text);
  if (std::isnan(value))
    return "0x" +
           utohexstr(llvm::bit_cast<uint64_t>(value), /*LowerCase=*/true);
  if (!isFloat(type))
    return std::to_string(static_cast<int64_t>(value));
  if (type == Type::F32)
    return {text, std::to_chars(text, end, static_cast<float>(value)).ptr};
  return {text, std::to_chars(text, end, value).ptr};
}

/// Returns the text of the index of a load, such as "[r, %3]".
static std::string indexOf(const Node &load) {
  auto input = [&] { return "%" + std::to_string(load.inputs[0]); };
  switch (load.access) {
  case Access::Identity:
    return "[r, c]";
  case Access::PerRow:
    return "[r]";
  case Access::PerColumn:
    return "[c]";
  case Access::Modulo:
    return "[r mod " + std::to_string(load.period) + ", c]";
  case Access::Gathered:
    return "[" + input() + ", c]";
  case Access::Scalar:
    return "[]";
  case Access::RowElement:
    return "[r, " + input() + "]";
  case Access::SumOfSlices:
    return "[sum " + std::to_string(load.period) + ", r, c]";
  }
  llvm_unreachable("not an access");
}

static std::string indexOf(const Store &store) {
  switch (store.kind) {
  case StoreKind::Full:
    return "[r, c]";
  case StoreKind::Row:
    return "[r]";
  case StoreKind::ColumnPartial:
    return "[sum " + std::to_string(store.chunk) + ", c]";
  }
  llvm_unreachable("not a kind of store");
}

static std::string textOf(const Node &node) {
  std::string text = infoOf(node.kind).name.str();
  switch (node.kind) {
  case Kind::Load:
    text += " %arg" + std::to_string(node.operand) + indexOf(node) + " : " +
            nameOf(node.stored).str() + " ->";
    break;
  case Kind::Constant:
    text += " " + textOf(node.value, node.type) + " :";
    break;
  case Kind::Random:
    text += " %arg" + std::to_string(node.operand) + " key %imm" +
            std::to_string(node.immediate) + " rows_per_sequence " +
            std::to_string(node.period);
    if (!node.inputs.empty())
      text += " first_row %" + std::to_string(node.inputs[0]);
    text += " :";
    break;
  default:
    for (auto [i, input] : enumerate(node.inputs))
      text += (i ? ", %" : " %") + std::to_string(input);
    if (node.kind == Kind::Round)
      text += " to " + nameOf(node.stored).str();
    text += " :";
  }
  return text + " " + nameOf(node.space).str() + "<" + nameOf(node.type).str() +
         ">";
}

static void printLine(raw_ostream &os, std::string line, StringRef sweeps) {
  if (!sweeps.empty()) {
    line.append(2, ' ');
    if (line.size() < kSweepColumn)
      line.resize(kSweepColumn, ' ');
  }
  os << line << sweeps << "\n";
}

void print(raw_ostream &os, const RowProgram &program) {
  SweepTexts sweeps(program);
  os << "row_program space [" << program.rows << ", " << program.cols << "]";
  if (program.flat)
    os << " flat";
  os << " sweeps " << sweeps.sweeps;
  if (!program.immediates.empty()) {
    os << " immediates [";
    interleaveComma(program.immediates, os);
    os << "]";
  }
  os << " {\n";
  for (auto [id, node] : enumerate(program.nodes))
    printLine(os, "  %" + std::to_string(id) + " = " + textOf(node),
              sweeps.nodes[id]);
  for (auto [i, store] : enumerate(program.stores))
    printLine(os,
              "  store %" + std::to_string(store.value) + ", %res" +
                  std::to_string(store.result) + indexOf(store) + " : " +
                  nameOf(store.stored).str(),
              sweeps.stores[i]);
  os << "}\n";
}

} // namespace kiln::row
