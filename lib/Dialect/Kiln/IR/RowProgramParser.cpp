//===- RowProgramParser.cpp - Parsing row programs ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parser reads line by line without recursion. The parser checks each line
// separately, and then calls the verifier to check the whole program. An error
// that the verifier finds is reported at the line of the node or store.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/RowProgramText.h"

#include "RowKinds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/ADT/bit.h"

#include <charconv>
#include <cmath>
#include <limits>

using namespace llvm;
using namespace kiln::support;

namespace kiln::row {

/// Maximum number of lines. The limit bounds the time to plan sweeps, the loops
/// over the columns of a row. This time grows faster than linearly with the
/// number of lines. The programs of real dispatches have far fewer lines.
static constexpr size_t kMostLines = 2048;

namespace {

/// Parser of a row program. A parse function returns true, or sets `error` and
/// returns false.
class Parser {
public:
  explicit Parser(StringRef text) : text(text) {}
  Expected<RowProgram> run();

private:
  /// The position of a node or store in the text, and the text and position of
  /// the list of sweeps on its line. These sweeps, which are loops over the
  /// columns of a row, evaluate the node or store.
  struct Line {
    size_t begin, sweepsAt;
    std::string sweeps;
  };

  bool parseProgram();
  bool parseHeader();
  bool parseImmediates();
  bool parseNode();
  bool parseRest(Node &node);
  bool parseLoad(Node &node);
  bool parseLoadIndex(Node &node);
  bool parseRandom(Node &node);
  bool parseConstant(Node &node);
  bool parseValue(Node &node, StringRef digits);
  bool parseInputs(Node &node);
  bool parseStore();
  bool parseStoreIndex(Store &store);
  bool parseType(Node &node);
  bool parseElement(Type &type);
  bool parseInput(NodeId &id);
  bool parseNumbered(StringRef prefix, int32_t &number);
  bool parseInteger(int64_t &value);
  bool parseEndOfLine(SmallVectorImpl<Line> &lines, size_t begin);
  bool check();
  bool checkSweeps(const Line &line, StringRef sweeps);

  bool expect(StringRef token);
  bool consume(StringRef token);
  bool isNext(StringRef token);
  bool isAtEndOfLine();
  void skipBlanks();
  void skipLines();
  bool fail(size_t where, const Twine &message);
  bool failAt(size_t where, const Twine &expected) {
    return fail(where, "expected " + expected + ", got " + tokenAt(where));
  }
  std::string tokenAt(size_t where) const;
  StringRef wordAt(size_t where) const {
    return text.substr(where).take_while(isWordCharacter);
  }
  static bool isWordCharacter(char c) { return isAlnum(c) || c == '_'; }

  StringRef text;
  size_t at = 0;
  std::string error;
  RowProgram program;
  size_t header = 0, countAt = 0;
  std::optional<int64_t> count; ///< Number of sweeps in the header.
  SmallVector<Line, 0> nodeLines, storeLines;
};

} // namespace

//===----------------------------------------------------------------------===//
// Tokens.
//===----------------------------------------------------------------------===//

/// Returns `token` in quotes for a message. Shortens long tokens.
static std::string quote(StringRef token) {
  std::string quoted = "'";
  for (char c : token.take_front(48))
    quoted += isPrint(c) ? c : '?';
  return quoted + (token.size() > 48 ? "...'" : "'");
}

bool Parser::fail(size_t where, const Twine &message) {
  StringRef before = text.take_front(where);
  size_t line = before.count('\n') + 1;
  size_t column = where - (before.rfind('\n') + 1) + 1;
  error = (Twine(line) + ":" + Twine(column) + ": " + message).str();
  return false;
}

std::string Parser::tokenAt(size_t where) const {
  if (where >= text.size())
    return "the end of the text";
  if (text[where] == '\n')
    return "the end of the line";
  StringRef token = wordAt(where);
  if (token.empty())
    token = text.substr(where, text[where] == '%' ? 1 + wordAt(where + 1).size()
                                                  : size_t(1));
  return quote(token);
}

/// Skips blanks and a comment, up to the end of the line.
void Parser::skipBlanks() {
  while (at < text.size() &&
         (text[at] == ' ' || text[at] == '\t' || text[at] == '\r'))
    ++at;
  if (text.substr(at).starts_with("//"))
    at = std::min(text.find('\n', at), text.size());
}

void Parser::skipLines() {
  skipBlanks();
  while (at < text.size() && text[at] == '\n') {
    ++at;
    skipBlanks();
  }
}

bool Parser::isAtEndOfLine() {
  skipBlanks();
  return at == text.size() || text[at] == '\n';
}

/// Returns true if the text continues with `token`. A word must match as a
/// whole.
bool Parser::isNext(StringRef token) {
  skipBlanks();
  if (isWordCharacter(token.back()) && token.front() != '%')
    return wordAt(at) == token;
  return text.substr(at).starts_with(token);
}

bool Parser::consume(StringRef token) {
  if (!isNext(token))
    return false;
  at += token.size();
  return true;
}

bool Parser::expect(StringRef token) {
  return consume(token) || failAt(at, "'" + token + "'");
}

bool Parser::parseInteger(int64_t &value) {
  skipBlanks();
  bool isNegative = text.substr(at).starts_with("-");
  StringRef digits = wordAt(at + isNegative);
  if (digits.empty() || !all_of(digits, isDigit))
    return failAt(at, "an integer");
  if (text.substr(at, digits.size() + isNegative).getAsInteger(10, value))
    return fail(at, "the integer does not fit in 64 bits");
  at += digits.size() + isNegative;
  return true;
}

/// Parses a name that ends in a number, such as "%arg2" with the prefix "%arg".
bool Parser::parseNumbered(StringRef prefix, int32_t &number) {
  skipBlanks();
  size_t begin = at;
  StringRef digits = wordAt(at + prefix.size());
  if (!text.substr(at).starts_with(prefix) || digits.empty() ||
      !all_of(digits, isDigit))
    return failAt(at, "'" + prefix + "' and a number");
  at += prefix.size() + digits.size();
  return !digits.getAsInteger(10, number) ||
         fail(begin, "the number does not fit in 31 bits");
}

bool Parser::parseInput(NodeId &id) {
  skipBlanks();
  size_t begin = at;
  if (!parseNumbered("%", id))
    return false;
  return static_cast<size_t>(id) < program.nodes.size() ||
         fail(begin, "%" + Twine(id) + " is not defined above this line");
}

bool Parser::parseElement(Type &type) {
  skipBlanks();
  StringRef name = wordAt(at);
  std::optional<Type> found = elementTypeNamed(name);
  if (!found)
    return failAt(at, "an element type such as f32");
  type = *found;
  at += name.size();
  return true;
}

/// Parses a type, such as "full<f32>".
bool Parser::parseType(Node &node) {
  skipBlanks();
  StringRef name = wordAt(at);
  std::optional<Space> space = spaceNamed(name);
  if (!space)
    return failAt(at, "scalar, row, column or full");
  node.space = *space;
  at += name.size();
  return expect("<") && parseElement(node.type) && expect(">");
}

//===----------------------------------------------------------------------===//
// Nodes.
//===----------------------------------------------------------------------===//

/// Parses the index of a load, such as "[r, c]".
bool Parser::parseLoadIndex(Node &node) {
  if (!expect("["))
    return false;
  if (consume("]")) {
    node.access = Access::Scalar;
    return true;
  }
  if (consume("sum")) {
    node.access = Access::SumOfSlices;
    return parseInteger(node.period) && expect(",") && expect("r") &&
           expect(",") && expect("c") && expect("]");
  }
  if (consume("c")) {
    node.access = Access::PerColumn;
    return expect("]");
  }
  if (isNext("%")) {
    node.access = Access::Gathered;
    return parseInput(node.inputs.emplace_back()) && expect(",") &&
           expect("c") && expect("]");
  }
  if (!isNext("r"))
    return failAt(at, "r, c, sum, an index or ']'");
  consume("r");
  if (consume("]")) {
    node.access = Access::PerRow;
    return true;
  }
  if (consume("mod")) {
    node.access = Access::Modulo;
    return parseInteger(node.period) && expect(",") && expect("c") &&
           expect("]");
  }
  if (!expect(","))
    return false;
  if (isNext("%")) {
    node.access = Access::RowElement;
    return parseInput(node.inputs.emplace_back()) && expect("]");
  }
  node.access = Access::Identity;
  return expect("c") && expect("]");
}

/// Parses the rest of a load, such as "%arg0[r, c] : bf16 -> full<f32>".
bool Parser::parseLoad(Node &node) {
  return parseNumbered("%arg", node.operand) && parseLoadIndex(node) &&
         expect(":") && parseElement(node.stored) && expect("->") &&
         parseType(node);
}

/// Parses the rest of a random node, such as "%arg1 key %imm0 rows_per_sequence
/// 64 : full<i32>", or "%arg1 key %imm0 rows_per_sequence 64 first_row %2 :
/// full<i32>".
bool Parser::parseRandom(Node &node) {
  if (!parseNumbered("%arg", node.operand) || !expect("key") ||
      !parseNumbered("%imm", node.immediate) || !expect("rows_per_sequence") ||
      !parseInteger(node.period))
    return false;
  if (consume("first_row") && !parseInput(node.inputs.emplace_back()))
    return false;
  return expect(":") && parseType(node);
}

/// Parses `digits` as a constant of the type node.type. Unlike the other parse
/// functions, does not set `error`.
bool Parser::parseValue(Node &node, StringRef digits) {
  uint64_t bits;
  if (isFloat(node.type) && digits.starts_with("0x")) {
    if (digits.drop_front(2).getAsInteger(16, bits))
      return false;
    node.value = llvm::bit_cast<double>(bits);
    return true;
  }
  auto read = [&](auto &value) {
    auto [end, wrong] = std::from_chars(digits.begin(), digits.end(), value);
    return wrong == std::errc() && end == digits.end();
  };
  if (node.type == Type::F32) {
    float value = 0;
    bool isRead = read(value);
    node.value = value;
    return isRead && !std::isnan(value);
  }
  if (isFloat(node.type))
    return read(node.value) && !std::isnan(node.value);
  int64_t value = 0;
  bool isRead = read(value);
  node.value = static_cast<double>(value);
  // Nodes store integers as f64, so integers that f64 would round are invalid.
  return isRead && node.value < 0x1p63 &&
         static_cast<int64_t>(node.value) == value;
}

/// Parses the rest of a constant, such as "0.5 : scalar<f32>".
bool Parser::parseConstant(Node &node) {
  skipBlanks();
  size_t begin = at;
  StringRef digits = text.substr(at).take_while(
      [](char c) { return isAlnum(c) || StringRef("+-.").contains(c); });
  if (digits.empty())
    return failAt(at, "a number");
  at += digits.size();
  if (!expect(":") || !parseType(node))
    return false;
  return parseValue(node, digits) ||
         fail(begin, "expected a number of the type " + nameOf(node.type) +
                         ", got " + quote(digits));
}

/// Parses inputs and type, such as "%0, %1 : full<f32>", with "to bf16" if the
/// node rounds.
bool Parser::parseInputs(Node &node) {
  for (unsigned i = 0, e = infoOf(node.kind).inputs; i < e; ++i)
    if ((i > 0 && !expect(",")) || !parseInput(node.inputs.emplace_back()))
      return false;
  if (node.kind == Kind::Round && (!expect("to") || !parseElement(node.stored)))
    return false;
  return expect(":") && parseType(node);
}

bool Parser::parseRest(Node &node) {
  switch (node.kind) {
  case Kind::Load:
    return parseLoad(node);
  case Kind::Constant:
    return parseConstant(node);
  case Kind::Random:
    return parseRandom(node);
  default:
    return parseInputs(node);
  }
}

bool Parser::parseNode() {
  size_t begin = at;
  int32_t id = 0;
  if (!parseNumbered("%", id))
    return false;
  if (static_cast<size_t>(id) != program.nodes.size())
    return fail(begin, "expected %" + Twine(program.nodes.size()) +
                           ", the number of the next node, got %" + Twine(id));
  if (!program.stores.empty())
    return fail(begin,
                "expected a store or '}', because no node may follow a store");
  if (!expect("="))
    return false;
  skipBlanks();
  StringRef name = wordAt(at);
  std::optional<Kind> kind = kindNamed(name);
  if (!kind)
    return failAt(at, "a kind of node such as load or add");
  at += name.size();
  Node node;
  node.kind = *kind;
  if (!parseRest(node) || !parseEndOfLine(nodeLines, begin))
    return false;
  program.nodes.push_back(std::move(node));
  return true;
}

//===----------------------------------------------------------------------===//
// Stores.
//===----------------------------------------------------------------------===//

/// Parses the index of a store: "[r, c]", "[r]" or "[sum 64, c]".
bool Parser::parseStoreIndex(Store &store) {
  if (!expect("["))
    return false;
  if (consume("sum")) {
    store.kind = StoreKind::ColumnPartial;
    if (!parseInteger(store.chunk))
      return false;
    if (program.rowsPerUnit == 1)
      program.rowsPerUnit = store.chunk;
    return expect(",") && expect("c") && expect("]");
  }
  if (!isNext("r"))
    return failAt(at, "r or sum");
  consume("r");
  if (consume("]")) {
    store.kind = StoreKind::Row;
    return true;
  }
  store.kind = StoreKind::Full;
  return expect(",") && expect("c") && expect("]");
}

/// Parses a store, such as "store %4, %res0[r, c] : f32".
bool Parser::parseStore() {
  size_t begin = at;
  Store store;
  if (!expect("store") || !parseInput(store.value) || !expect(",") ||
      !parseNumbered("%res", store.result) || !parseStoreIndex(store) ||
      !expect(":") || !parseElement(store.stored) ||
      !parseEndOfLine(storeLines, begin))
    return false;
  program.stores.push_back(store);
  return true;
}

//===----------------------------------------------------------------------===//
// Programs.
//===----------------------------------------------------------------------===//

/// Parses the sweeps, which are the rest of the line of a node or store.
bool Parser::parseEndOfLine(SmallVectorImpl<Line> &lines, size_t begin) {
  skipBlanks();
  Line line{begin, at, {}};
  while (!isAtEndOfLine()) {
    size_t length = text.substr(at).find_first_of(" \t\r\n");
    StringRef token = text.substr(at, length);
    token = token.take_front(token.find("//"));
    line.sweeps += (line.sweeps.empty() ? "" : " ") + token.str();
    at += token.size();
  }
  lines.push_back(std::move(line));
  return true;
}

bool Parser::parseImmediates() {
  if (!expect("["))
    return false;
  do {
    if (!parseInteger(program.immediates.emplace_back()))
      return false;
  } while (consume(","));
  return expect("]");
}

/// Parses a header, such as "row_program space [8, 64] flat sweeps 1 immediates
/// [3] {".
bool Parser::parseHeader() {
  skipLines();
  header = at;
  if (!expect("row_program") || !expect("space") || !expect("[") ||
      !parseInteger(program.rows) || !expect(",") ||
      !parseInteger(program.cols) || !expect("]"))
    return false;
  program.flat = consume("flat");
  if (consume("sweeps")) {
    skipBlanks();
    countAt = at;
    if (!parseInteger(count.emplace()))
      return false;
  }
  if (consume("immediates") && !parseImmediates())
    return false;
  return expect("{") && (isAtEndOfLine() || failAt(at, "the end of the line"));
}

bool Parser::parseProgram() {
  if (!parseHeader())
    return false;
  while (true) {
    skipLines();
    if (consume("}"))
      break;
    if (program.nodes.size() + program.stores.size() == kMostLines)
      return fail(at, "expected at most " + Twine(kMostLines) +
                          " nodes and stores in total");
    bool isStore = isNext("store");
    if (!isStore && !isNext("%"))
      return failAt(at, "a node, a store or '}'");
    if (!(isStore ? parseStore() : parseNode()))
      return false;
  }
  skipLines();
  return at == text.size() || failAt(at, "the end of the text");
}

bool Parser::checkSweeps(const Line &line, StringRef sweeps) {
  if (line.sweeps.empty() || line.sweeps == sweeps)
    return true;
  std::string expected =
      sweeps.empty() ? "the end of the line" : "'" + sweeps.str() + "'";
  return fail(line.sweepsAt,
              "expected " + expected + ", got " + quote(line.sweeps));
}

bool Parser::check() {
  if (std::optional<Fault> fault = findFault(program)) {
    size_t where = fault->node    ? nodeLines[*fault->node].begin
                   : fault->store ? storeLines[*fault->store].begin
                                  : header;
    return fail(where, fault->message);
  }
  SweepTexts texts(program);
  if (count && *count != texts.sweeps)
    return fail(countAt, "expected " + Twine(texts.sweeps) + " sweeps, got " +
                             Twine(*count));
  for (auto [line, sweeps] : zip_equal(nodeLines, texts.nodes))
    if (!checkSweeps(line, sweeps))
      return false;
  for (auto [line, sweeps] : zip_equal(storeLines, texts.stores))
    if (!checkSweeps(line, sweeps))
      return false;
  return true;
}

Expected<RowProgram> Parser::run() {
  if (parseProgram() && check())
    return std::move(program);
  return make_error<StringError>(error, inconvertibleErrorCode());
}

Expected<RowProgram> parse(StringRef text) { return Parser(text).run(); }

} // namespace kiln::row
