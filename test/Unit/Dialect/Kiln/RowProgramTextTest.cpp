//===- RowProgramTextTest.cpp - Textual form of row programs ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The programs below contain every kind of node, access and store. Each must
// print exactly as written. A damaged text must either give a single error with
// line and column, or be a valid program that is the same after it is printed
// and parsed.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/RowProgramText.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <regex>

using namespace kiln;
using row::RowProgram;

namespace {

const char *const kPrograms[] = {
    // A softmax whose exponentials are read back by later sweeps (passes over
    // the columns of a row), and column sums.
    R"(row_program space [128, 8] sweeps 4 {
  %0 = load %arg0[r, c] : bf16 -> full<f32>             in sweeps 0, 1
  %1 = reduce_max %0 : row<f32>                         in sweep 0
  %2 = sub %0, %1 : full<f32>                           in sweep 1
  %3 = exp %2 : full<f32>                               in sweep 1, from %res0 in sweeps 2, 3
  %4 = reduce_sum %3 : row<f32>                         in sweep 1
  %5 = load %arg1[r] : f32 -> row<f32>
  %6 = mul %4, %5 : row<f32>                            after sweep 1
  %7 = sub %3, %6 : full<f32>                           in sweeps 2, 3
  %8 = mul %7, %7 : full<f32>                           in sweep 2
  %9 = reduce_sum %8 : row<f32>                         in sweep 2
  %10 = fma %7, %9, %3 : full<f32>                      in sweep 3
  store %3, %res0[r, c] : f32                           in sweep 1
  store %4, %res1[r] : f32                              after sweep 1
  store %10, %res2[sum 64, c] : f32                     in sweep 3
  store %10, %res3[r, c] : f32                          in sweep 3
}
)",
    // Every kind of access, and random bits whose keys are immediates.
    R"(row_program space [6, 10] sweeps 1 immediates [3, -9223372036854775808] {
  %0 = load %arg0[r, c] : f64 -> full<f64>              in sweep 0
  %1 = load %arg1[r] : i32 -> row<i32>
  %2 = load %arg2[c] : f64 -> column<f64>               in sweep 0
  %3 = load %arg3[r mod 3, c] : f64 -> full<f64>        in sweep 0
  %4 = load %arg4[%1, c] : f64 -> full<f64>             in sweep 0
  %5 = load %arg5[] : f64 -> scalar<f64>
  %6 = load %arg6[r, %1] : f64 -> row<f64>
  %7 = load %arg7[sum 4, r, c] : bf16 -> full<f32>      in sweep 0
  %8 = cast %7 : full<f64>                              in sweep 0
  %9 = random %arg8 key %imm1 rows_per_sequence 2 : full<i32>  in sweep 0
  %10 = constant 4294967295 : scalar<i32>
  %11 = less_unsigned %9, %10 : full<i1>                in sweep 0
  %12 = add %0, %2 : full<f64>                          in sweep 0
  %13 = add %3, %4 : full<f64>                          in sweep 0
  %14 = select %11, %12, %13 : full<f64>                in sweep 0
  %15 = fma %14, %5, %6 : full<f64>                     in sweep 0
  %16 = add %15, %8 : full<f64>                         in sweep 0
  store %16, %res0[r, c] : f64                          in sweep 0
}
)",
    // Most elementwise ops, and constants that need all digits of their type.
    R"(row_program space [1, 4096] flat sweeps 1 {
  %0 = load %arg0[r, c] : f32 -> full<f32>              in sweep 0
  %1 = constant 0.1 : scalar<f32>
  %2 = constant -inf : scalar<f32>
  %3 = constant 0x7ff8000000000000 : scalar<f32>
  %4 = constant -0 : scalar<f32>
  %5 = neg %0 : full<f32>                               in sweep 0
  %6 = exp %5 : full<f32>                               in sweep 0
  %7 = log %6 : full<f32>                               in sweep 0
  %8 = sqrt %7 : full<f32>                              in sweep 0
  %9 = tanh %8 : full<f32>                              in sweep 0
  %10 = sigmoid %9 : full<f32>                          in sweep 0
  %11 = erf %10 : full<f32>                             in sweep 0
  %12 = abs %11 : full<f32>                             in sweep 0
  %13 = add %12, %1 : full<f32>                         in sweep 0
  %14 = sub %13, %2 : full<f32>                         in sweep 0
  %15 = mul %14, %3 : full<f32>                         in sweep 0
  %16 = div %15, %4 : full<f32>                         in sweep 0
  %17 = max %16, %0 : full<f32>                         in sweep 0
  %18 = min %17, %0 : full<f32>                         in sweep 0
  %19 = less %18, %0 : full<i1>                         in sweep 0
  %20 = equal %18, %0 : full<i1>                        in sweep 0
  %21 = select %19, %18, %0 : full<f32>                 in sweep 0
  %22 = select %20, %21, %0 : full<f32>                 in sweep 0
  %23 = round %22 to bf16 : full<f32>                   in sweep 0
  %24 = constant 0.1 : scalar<f64>
  %25 = constant 1e+300 : scalar<f64>
  %26 = load %arg1[] : i64 -> scalar<i64>
  %27 = pow_int %24, %26 : scalar<f64>
  %28 = sub %25, %27 : scalar<f64>
  %29 = cast %28 : scalar<f32>
  %30 = mul %23, %29 : full<f32>                        in sweep 0
  %31 = round %30 to bf16 : full<f32>                   in sweep 0
  store %31, %res0[r, c] : bf16                         in sweep 0
}
)",
    // A program without operands, which stores row and column indices. One
    // result has the row index in all columns of the row.
    R"(row_program space [4, 3] sweeps 1 {
  %0 = row_index : row<i32>
  %1 = column_index : column<i32>                       in sweep 0
  %2 = add %0, %1 : full<i32>                           in sweep 0
  store %2, %res0[r, c] : i32                           in sweep 0
  store %0, %res1[r, c] : i32                           in sweep 0
  store %0, %res2[r] : i32
}
)",
    // A program without sweeps.
    R"(row_program space [4, 3] sweeps 0 {
  %0 = load %arg0[r] : f32 -> row<f32>
  store %0, %res0[r] : f32
}
)",
    // A program without nodes and stores.
    R"(row_program space [4, 3] flat sweeps 0 {
}
)",
    // Random bits of rows, where %0 is the number of the first row.
    R"(row_program space [6, 10] sweeps 1 immediates [3] {
  %0 = load %arg0[] : i32 -> scalar<i32>
  %1 = random %arg1 key %imm0 rows_per_sequence 2 first_row %0 : full<i32>  in sweep 0
  store %1, %res0[r, c] : i32                           in sweep 0
}
)",
};

std::string textOf(const RowProgram &program) {
  std::string text;
  llvm::raw_string_ostream os(text);
  row::print(os, program);
  return text;
}

/// Parses a valid text.
RowProgram parsed(llvm::StringRef text) {
  auto program = row::parse(text);
  if (program)
    return std::move(*program);
  ADD_FAILURE() << llvm::toString(program.takeError()) << " in\n" << text.str();
  return {};
}

std::string errorOf(llvm::StringRef text) {
  auto program = row::parse(text);
  return program ? "no error" : llvm::toString(program.takeError());
}

TEST(RowProgramText, PrintsWhatItParses) {
  for (const char *text : kPrograms)
    EXPECT_EQ(textOf(parsed(text)), text);
}

TEST(RowProgramText, NeedsNoSweepsNorBlanks) {
  for (llvm::StringRef text : kPrograms) {
    std::string bare = std::regex_replace(
        text.str(), std::regex(" +(in|after) sweep[^\n]*"), "");
    bare = std::regex_replace(bare, std::regex(" sweeps [0-9]+"), "");
    EXPECT_EQ(textOf(parsed(bare)), text);
    std::string spread =
        std::regex_replace(bare, std::regex("([][<>,:=])"), " $1\t");
    spread = std::regex_replace(spread, std::regex("\n"), " // why\r\n\n");
    EXPECT_EQ(textOf(parsed("// A comment\n" + spread)), text);
  }
}

TEST(RowProgramText, HoldsEveryBit) {
  RowProgram program = parsed(kPrograms[2]);
  EXPECT_TRUE(program == parsed(textOf(program)));
  EXPECT_EQ(program.nodes[1].value, double(0.1f));
  EXPECT_EQ(program.nodes[24].value, 0.1);
  EXPECT_TRUE(std::signbit(program.nodes[4].value));
  program.nodes[24].value = std::nextafter(0.1, 1);
  program.nodes[1].value = std::nextafter(0.1f, 1.f);
  EXPECT_TRUE(program == parsed(textOf(program)));
  program.nodes[3].value = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(program == parsed(textOf(program)));
}

TEST(RowProgramText, SaysWhereATextIsWrong) {
  auto line = [](const std::string &line) {
    return errorOf("row_program space [2, 4] {\n"
                   "  %0 = load %arg0[r, c] : f32 -> full<f32>\n  " +
                   line + "\n  store %0, %res0[r, c] : f32\n}\n");
  };
  EXPECT_EQ(errorOf(""),
            "1:1: expected 'row_program', got the end of the text");
  EXPECT_EQ(errorOf("module {}"), "1:1: expected 'row_program', got 'module'");
  EXPECT_EQ(errorOf("row_program space [2; 4]"), "1:21: expected ',', got ';'");
  EXPECT_EQ(errorOf("row_program space [2, 99999999999999999999] {"),
            "1:23: the integer does not fit in 64 bits");
  EXPECT_EQ(errorOf("row_program space [2, x] {"),
            "1:23: expected an integer, got 'x'");
  EXPECT_EQ(errorOf("row_program space [2, 4] sweeps 1 { }"),
            "1:37: expected the end of the line, got '}'");
  EXPECT_EQ(errorOf("row_program space [2, 4] {\n"),
            "2:1: expected a node, a store or '}', got the end of the text");
  EXPECT_EQ(errorOf("row_program space [2, 4] {\n}"),
            "1:1: the program is flat, but is not marked as flat");
  EXPECT_EQ(errorOf("row_program space [0, 4] {\n}"),
            "1:1: the program has the space [0, 4], expected at least one and "
            "at most 2^48 elements");
  EXPECT_EQ(errorOf(std::string(kPrograms[4]) + "more"),
            "5:1: expected the end of the text, got 'more'");
  EXPECT_EQ(line("%2 = neg %0 : full<f32>"),
            "3:3: expected %1, the number of the next node, got %2");
  EXPECT_EQ(line("%1 = negate %0 : full<f32>"),
            "3:8: expected a kind of node such as load or add, got 'negate'");
  EXPECT_EQ(line("%1 = neg %1 : full<f32>"),
            "3:12: %1 is not defined above this line");
  EXPECT_EQ(line("%1 = neg %99999999999 : full<f32>"),
            "3:12: the number does not fit in 31 bits");
  EXPECT_EQ(line("%1 = neg %0"), "3:14: expected ':', got the end of the line");
  EXPECT_EQ(line("%1 = neg %0 : whole<f32>"),
            "3:17: expected scalar, row, column or full, got 'whole'");
  EXPECT_EQ(line("%1 = neg %0 : full<f31>"),
            "3:22: expected an element type such as f32, got 'f31'");
  EXPECT_EQ(line("%1 = load %arg[c] : f32 -> column<f32>"),
            "3:13: expected '%arg' and a number, got '%arg'");
  EXPECT_EQ(line("%1 = load %arg1[x] : f32 -> column<f32>"),
            "3:19: expected r, c, sum, an index or ']', got 'x'");
  EXPECT_EQ(line("%1 = constant 1.5 : scalar<i32>"),
            "3:17: expected a number of the type i32, got '1.5'");
  EXPECT_EQ(line("%1 = constant nan : scalar<f32>"),
            "3:17: expected a number of the type f32, got 'nan'");
  EXPECT_EQ(line("store %0, %res0[c] : f32"),
            "3:19: expected r or sum, got 'c'");
  EXPECT_EQ(line("store %0, %res0[r, c] : f32\n%1 = neg %0 : full<f32>"),
            "4:1: expected a store or '}', because no node may follow a store");
  EXPECT_EQ(line("\x01\xff"), "3:3: expected a node, a store or '}', got '?'");
}

TEST(RowProgramText, SaysWhichSweepsAreWrong) {
  auto changed = [](llvm::StringRef from, const std::string &to) {
    std::string text = kPrograms[0];
    text.replace(llvm::StringRef(text).find(from), from.size(), to);
    return errorOf(text);
  };
  EXPECT_EQ(changed("sweeps 4", "sweeps 3"), "1:35: expected 4 sweeps, got 3");
  EXPECT_EQ(changed("in sweeps 0, 1", "in sweeps 0, 2"),
            "2:57: expected 'in sweeps 0, 1', got 'in sweeps 0, 2'");
  EXPECT_EQ(changed("from %res0", "from %res1"),
            "5:57: expected 'in sweep 1, from %res0 in sweeps 2, 3', got 'in "
            "sweep 1, from %res1 in sweeps 2, 3'");
  EXPECT_EQ(changed("-> row<f32>", "-> row<f32> in sweep 0"),
            "7:40: expected the end of the line, got 'in sweep 0'");
  EXPECT_EQ(changed("after sweep 1\n  store %10", "later\n  store %10"),
            "14:57: expected 'after sweep 1', got 'later'");
}

/// Removes, repeats or replaces a substring of a text, or joins substrings of
/// two texts.
std::string damage(std::string text, std::mt19937 &random) {
  auto below = [&](size_t bound) {
    return random() % std::max<size_t>(bound, 1);
  };
  static const char *const kPieces[] = {"%",
                                        "0",
                                        "%arg0",
                                        "[",
                                        "]",
                                        ",",
                                        "r",
                                        "c",
                                        "sum",
                                        "mod",
                                        ":",
                                        "->",
                                        "full",
                                        "row",
                                        "<",
                                        ">",
                                        "f32",
                                        "f64",
                                        "bf16",
                                        "i32",
                                        "i64",
                                        "i1",
                                        "store",
                                        "\n",
                                        "}",
                                        "{",
                                        "-",
                                        "1e999",
                                        "0x",
                                        "-1",
                                        "99999999999999999999",
                                        "//",
                                        "\t",
                                        "\xff",
                                        "flat",
                                        "%res0",
                                        "%imm7",
                                        "load",
                                        "cast",
                                        "round",
                                        "to",
                                        "select",
                                        "reduce_sum"};
  for (size_t i = 0, n = 1 + below(3); i < n && !text.empty(); ++i) {
    size_t at = below(text.size()), length = below(12);
    const char *piece = kPieces[below(std::size(kPieces))];
    switch (below(4)) {
    case 0:
      text.erase(at, length);
      break;
    case 1:
      text.insert(at, piece);
      break;
    case 2:
      text.replace(at, length, piece);
      break;
    default:
      text.insert(below(text.size()), text.substr(at, 8 * length));
      break;
    }
  }
  return text;
}

TEST(RowProgramText, RefusesDamagedTextsWithOneLine) {
  std::mt19937 random(1);
  const std::regex form("([0-9]+):([0-9]+): [^\n]+");
  size_t refused = 0, valid = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text =
        damage(kPrograms[random() % std::size(kPrograms)], random);
    auto program = row::parse(text);
    if (program) {
      ++valid;
      ASSERT_TRUE(*program == parsed(textOf(*program))) << text;
      continue;
    }
    ++refused;
    std::string error = llvm::toString(program.takeError());
    std::smatch match;
    ASSERT_TRUE(std::regex_match(error, match, form)) << error << "\n" << text;
    size_t lines = llvm::StringRef(text).count('\n') + 1;
    ASSERT_LE(std::stoul(match[1]), lines) << error << "\n" << text;
    ASSERT_GE(std::stoul(match[1]), 1u);
    ASSERT_GE(std::stoul(match[2]), 1u);
  }
  // Some damaged texts are valid programs, for example if only a comment or
  // blanks have changed.
  EXPECT_GT(refused, 10000u);
  EXPECT_GT(valid, 100u);
}

TEST(RowProgramText, BoundsTheLines) {
  std::string text = "row_program space [2, 4] {\n"
                     "  %0 = load %arg0[r, c] : f32 -> full<f32>\n";
  for (int i = 1; i < 5000; ++i)
    text += "  %" + std::to_string(i) + " = neg %" + std::to_string(i - 1) +
            " : full<f32>\n";
  EXPECT_EQ(errorOf(text),
            "2050:3: expected at most 2048 nodes and stores in total");
}

//===----------------------------------------------------------------------===//
// Invariants.
//===----------------------------------------------------------------------===//

/// Parses `text`, applies `change` to the program, and returns the message of
/// the first violated invariant, or "no fault".
std::string faultAfter(const char *text,
                       llvm::function_ref<void(RowProgram &)> change) {
  RowProgram program = parsed(text);
  change(program);
  std::optional<row::Fault> fault = row::findFault(program);
  return fault ? fault->message : "no fault";
}

TEST(RowProgramInvariants, OperandsPrecedeUses) {
  EXPECT_EQ(
      faultAfter(kPrograms[0], [](RowProgram &p) { p.nodes[2].inputs[1] = 2; }),
      "%2 reads %2, which does not precede it");
  EXPECT_EQ(faultAfter(kPrograms[0],
                       [](RowProgram &p) { p.nodes[2].inputs[1] = -1; }),
            "%2 reads %-1, which does not precede it");
  EXPECT_EQ(faultAfter(kPrograms[0],
                       [](RowProgram &p) { p.nodes[2].inputs.pop_back(); }),
            "%2 has 1 inputs, expected 2");
}

TEST(RowProgramInvariants, TypesAgree) {
  auto change = [](size_t program, auto change) {
    return faultAfter(kPrograms[program], change);
  };
  EXPECT_EQ(change(0, [](RowProgram &p) { p.nodes[2].type = row::Type::F64; }),
            "%2 has the type full<f64>, expected full<f32>");
  EXPECT_EQ(
      change(0, [](RowProgram &p) { p.nodes[1].space = row::Space::Full; }),
      "%1 has the type full<f32>, expected row<f32>");
  EXPECT_EQ(
      change(0, [](RowProgram &p) { p.nodes[0].type = row::Type::BF16; }),
      "%0 has the element type bf16, which is not a type of computed values");
  EXPECT_EQ(change(1, [](RowProgram &p) { p.nodes[12].inputs[1] = 7; }),
            "%12 has inputs of the types f64 and f32, expected one type");
  EXPECT_EQ(change(1, [](RowProgram &p) { p.nodes[4].inputs[0] = 0; }),
            "%4 has the index %0 of the type full<f64>, expected an integer "
            "per row or a scalar");
  EXPECT_EQ(change(1, [](RowProgram &p) { p.nodes[14].inputs[0] = 12; }),
            "%14 has a condition of the type f64, expected i1");
  EXPECT_EQ(change(1, [](RowProgram &p) { p.nodes[9].immediate = 2; }),
            "%9 has the key %imm2, but there are 2 immediates");
  EXPECT_EQ(change(1, [](RowProgram &p) { p.nodes[9].inputs = {1}; }),
            "%9 has the first row %1 of the type row<i32>, expected "
            "scalar<i32>");
  EXPECT_EQ(change(1, [](RowProgram &p) { p.nodes[3].period = 0; }),
            "%3 has the period 0, expected at least 1");
  EXPECT_EQ(change(1, [](RowProgram &p) { p.nodes[10].value = 0x1p32; }),
            "%10 is not a value of type i32");
  EXPECT_EQ(change(2, [](RowProgram &p) { p.nodes[1].value = 0.1; }),
            "%1 is not a value of type f32");
  EXPECT_EQ(
      change(2, [](RowProgram &p) { p.nodes[23].stored = row::Type::F32; }),
      "%23 rounds to f32, expected a float that is widened when it is "
      "loaded");
  EXPECT_EQ(change(2, [](RowProgram &p) { p.nodes[27].inputs[1] = 24; }),
            "%27 needs a scalar float and a scalar i64");
}

TEST(RowProgramInvariants, StoresHaveTargets) {
  auto change = [](auto change) { return faultAfter(kPrograms[0], change); };
  EXPECT_EQ(change([](RowProgram &p) { p.stores[1].result = 0; }),
            "the store writes %res0, expected %res1: results are stored once "
            "and in order");
  EXPECT_EQ(change([](RowProgram &p) { p.stores[1].value = 11; }),
            "the store reads %11, which does not exist");
  EXPECT_EQ(
      change([](RowProgram &p) { p.stores[1].value = 3; }),
      "the store writes one value per row, but %3 has the type full<f32>");
  EXPECT_EQ(change([](RowProgram &p) { p.stores[0].stored = row::Type::F64; }),
            "the store writes f32 to elements of the type f64");
  EXPECT_EQ(change([](RowProgram &p) { p.stores[2].chunk = 32; }),
            "the store sums 32 rows, expected 64");
  EXPECT_EQ(
      change([](RowProgram &p) { p.stores.pop_back(), p.stores.pop_back(); }),
      "%5 is needed by no store");
  EXPECT_EQ(change([](RowProgram &p) { p.stores.erase(p.stores.begin() + 2); }),
            "the store writes %res3, expected %res2: results are stored once "
            "and in order");
}

TEST(RowProgramInvariants, FactsFollowFromTheRest) {
  EXPECT_EQ(faultAfter(kPrograms[0], [](RowProgram &p) { p.flat = true; }),
            "the program is not flat: its elements depend on their position or "
            "on their row");
  EXPECT_EQ(faultAfter(kPrograms[2], [](RowProgram &p) { p.flat = false; }),
            "the program is flat, but is not marked as flat");
  EXPECT_EQ(faultAfter(kPrograms[2], [](RowProgram &p) { p.rowsPerUnit = 2; }),
            "the program has work units of 2 rows, expected 1 without sums of "
            "columns");
}

} // namespace
