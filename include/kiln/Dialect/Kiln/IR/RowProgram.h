//===- RowProgram.h - Expression graph of a row dispatch --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row dispatch works on a space of `rows` x `cols` elements. Each op
// describes one element of each of its results by nodes of an expression graph.
// The nodes of all ops form the dispatch's row program. Example, layer_norm of
// x with gain g and shift b on a [rows, cols] space:
//
//   x    = load identity x          Full
//   s    = reduce sum x             Row     (available after sweep 0)
//   mean = s * (1/cols)             Row
//   d    = x - mean                 Full    (sweep 1)
//   q    = reduce sum d*d           Row     (available after sweep 1)
//   rstd = 1/sqrt(q*(1/cols)+eps)   Row
//   y    = (d*rstd)*g + b           Full    (sweep 2), stored
//
// The *space* of a node states whether its value depends on the row, the
// column, both or neither. Emitters turn the program into loops, with one sweep
// over the row per level of reductions. The formula of a node does not depend
// on the ops that it is fused with, and all rounding is explicit: Fma rounds
// once, and every other node rounds to its element type. There is no arithmetic
// on bf16. Elements of type bf16 are widened to f32 when they are loaded, and
// an op's result of type bf16 is rounded by a separate node, so that fused
// consumers read the same value as consumers that load it from memory.
//
// Summation orders are fixed. A row reduction has 64 partial results: partial j
// sums elements j, j+64, ... in order; then partial j + 32 is added to partial
// j for all j < 32, partial j + 16 to partial j for all j < 16, and so on with
// 8, 4, 2 and 1. A column partial sums the rows of one chunk in row order,
// starting from zero.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_ROWPROGRAM_H
#define KILN_DIALECT_KILN_IR_ROWPROGRAM_H

#include "kiln/Support/ElementType.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/LogicalResult.h"

#include <cstdint>

namespace kiln {

/// The iteration space of an op.
struct RowSpace {
  int64_t rows = 0, cols = 0;
  /// True if the op is purely elementwise, so that any factorization of its
  /// number of elements into rows and columns is valid.
  bool flexible = false;
  int64_t elements() const { return rows * cols; }
};

namespace row {

using NodeId = int32_t;

/// The indices that the value of a node depends on.
enum class Space : uint8_t { Scalar, Row, Column, Full };

/// The element of an operand that a load reads for element (r, c) of the row
/// program. Each comment gives this element, and the Space of the loaded value
/// (how the value varies over rows and columns).
enum class Access : uint8_t {
  Identity,   ///< Element (r, c). Space: Full.
  PerRow,     ///< Element r. Space: Row.
  PerColumn,  ///< Element c. Space: Column.
  Modulo,     ///< Element (r mod period, c). Space: Full.
  Gathered,   ///< Element (index, c); a Row node is the index. Space: Full.
  Scalar,     ///< Element 0. Space: Scalar.
  RowElement, ///< Element (r, index); a Row node is the index. Space: Row.
  /// The sum over s < period, in order, of elements (s, r, c). Space: Full.
  SumOfSlices,
};

/// An element type. Narrow floats exist only in memory: a load widens them to
/// computeType(type), and a value is rounded before it is stored.
using Type = ElementType;

/// The operation of a node. Unless stated otherwise, its inputs and its result
/// have one type.
enum class Kind : uint8_t {
  /// Loads from `operand` with `access` and `period`. For the accesses Gathered
  /// and RowElement, the input is the index.
  Load,
  Constant,    ///< The number `value`.
  ColumnIndex, ///< The column index as an I32 in space Column.
  RowIndex,    ///< The row index as an I32 in space Row.
  Cast,        ///< Converts the input to `type`.
  /// Rounds the input to the precision of `stored`; the result has type `type`.
  Round,

  // Unary operations.
  Neg,
  Exp,
  Log,
  Sqrt,
  Tanh,
  Sigmoid,
  Erf,
  Abs,
  /// The decode operations convert an I8 code to its F32 value, and the encode
  /// operations convert an F32 value to its I8 code. The codes are those of the
  /// signed or the unsigned map of Dynamic8.h.
  DecodeSigned,
  DecodeUnsigned,
  EncodeSigned,
  EncodeUnsigned,

  // Binary operations.
  Add,
  Sub,
  Mul,
  Div,
  Max,
  Min,
  Fma, ///< Inputs a, b and c: computes a*b + c with one rounding.

  // Comparisons, whose result is Bool, and operations on inputs of different
  // types.
  Less,
  Equal,
  LessUnsigned, ///< Compares integers as unsigned numbers.
  Select,       ///< Inputs: condition, a and b.
  PowInt,       ///< Inputs: base (float) and exponent (I64), both Scalar.

  // Reductions of Full or Column values to Row values.
  ReduceSum,
  ReduceMax,
  /// 32 random bits as I32 in space Full; see RowBuilder::random(). The only
  /// input, `firstRow`, is optional.
  Random,
};

struct Node {
  Kind kind;
  Space space;
  Type type;
  llvm::SmallVector<NodeId, 3> inputs;
  Access access = Access::Identity;
  int32_t operand = -1; ///< Load, Random: index of the dispatch operand.
  /// Modulo: number of rows of the operand. Random: rows per sequence.
  /// SumOfSlices: number of slices.
  int64_t period = 0;
  double value = 0; ///< Constant: the number.
  /// Random: index of the key in RowProgram::immediates.
  int32_t immediate = -1;
  /// Load: element type of the operand. Round: narrow type to which the input
  /// is rounded. All other nodes have the default.
  Type stored = Type::F32;
};

/// The elements of a result that a store writes.
enum class StoreKind : uint8_t {
  Full, ///< Element (r, c).
  Row,  ///< Element r.
  /// Element (i, c) of a [ceil(rows/chunk), cols] result: the sum of the stored
  /// node in column c over the rows of chunk i.
  ColumnPartial,
};

struct Store {
  StoreKind kind;
  NodeId value;
  int32_t result; ///< Index of the dispatch result.
  int64_t chunk = 0;
  Type stored = Type::F32; ///< Element type of the result.
};

/// The row program of one dispatch or kernel.
struct RowProgram {
  int64_t rows = 0, cols = 0;
  /// True if the computation of an element depends neither on other elements
  /// nor on the position of the element. All elements may then be processed as
  /// one vector.
  bool flat = false;
  /// Rows per work unit: 1, or Store::chunk if the program has stores of the
  /// kind ColumnPartial.
  int64_t rowsPerUnit = 1;
  llvm::SmallVector<Node, 32> nodes; ///< In topological order.
  llvm::SmallVector<Store, 4> stores;
  /// Values of the immediates, which are attributes of the ops (RNG keys).
  /// Launches pass them as arguments; they are not part of the kernel.
  llvm::SmallVector<int64_t, 2> immediates;
};

/// Assignment of nodes and stores to sweeps over a row. Emitters and
/// mayShareSlot() use the same assignment.
///
/// A store of kind Full is executed in the first sweep that can compute its
/// value, and later sweeps that need the value load it from the result. But if
/// no later sweep loads the result, and no reduction of the first sweep needs
/// the value, the store moves to the last sweep that does one of the following
/// regardless of the store:
/// - it evaluates the value,
/// - it evaluates all inputs of the value, and none of the inputs is a load, or
/// - it loads element (r, c) of an operand on which the value depends and which
///   has the element type of the result. The result may then share the slot of
///   this operand.
struct SweepPlan {
  /// Number of loops over the columns of a row; 0 if the program has only Row
  /// values.
  int32_t sweeps = 0;
  /// Full and Column nodes: the first sweep that can compute the node. Row
  /// nodes: the number of sweeps that must be complete before the node can be
  /// computed.
  llvm::SmallVector<int32_t, 32> level;
  /// Indexed by store: the sweep (a loop over the columns of a row) that
  /// executes the store. For the store of a Row node: the number of sweeps that
  /// must be complete before the store.
  llvm::SmallVector<int32_t, 4> storeSweep;
  /// Indexed by node: the store whose result later sweeps read to obtain the
  /// value of the node, or -1 if no such store exists.
  llvm::SmallVector<int32_t, 32> savedBy;

  /// Returns the reductions that are computed in sweep `s`, a loop over the
  /// columns of a row.
  llvm::SmallVector<NodeId> reductionsOf(const RowProgram &program,
                                         int32_t s) const;
  /// Returns true if sweep `s` (a loop over the columns of a row) does not
  /// compute `node`, but loads the value that an earlier sweep has stored.
  bool isReadBack(NodeId node, int32_t s) const {
    return savedBy[node] >= 0 && storeSweep[savedBy[node]] < s;
  }
  /// Returns the nodes evaluated per element in sweep `s`, in topological
  /// order.
  llvm::SmallVector<NodeId> nodesOf(const RowProgram &program, int32_t s) const;
};
SweepPlan planSweeps(const RowProgram &program);

/// Returns true if the program may run on one tile of rows and columns at a
/// time, as soon as this tile of operand `matmul` is complete. Every result
/// must have rows * cols elements. Element (r, c) of a result must depend only
/// on element (r, c) of `matmul`, and on elements (r, c), (r mod period, c), r,
/// c or 0 of the other operands. Unless `keepsMatmul` is set, a result must be
/// able to share the slot of `matmul`.
bool isEpilogue(const RowProgram &program, int32_t matmul, bool keepsMatmul);

/// Returns true if result `result` may be stored in the slot (the memory) of
/// operand `operand`: however the work units (rows or elements) are distributed
/// over threads, every element of the operand is read before the element of the
/// result at the same position is written.
bool mayShareSlot(const RowProgram &program, int32_t operand, int32_t result);

} // namespace row

/// Builds the row program of a sequence of ops. Ops call the builder in
/// RowOpInterface::buildRows.
class RowBuilder {
public:
  using NodeId = row::NodeId;
  RowBuilder(int64_t rows, int64_t cols) {
    program.rows = rows;
    program.cols = cols;
  }

  int64_t getRows() const { return program.rows; }
  int64_t getCols() const { return program.cols; }

  // Operands. For a value computed by an earlier op of the same program, the
  // functions below return the node of the value. For any other value, they
  // append a load of a dispatch operand. They return -1 if the shape of the
  // value does not match, or if an earlier op of the program computes the value
  // and the program cannot select the requested element.

  /// Returns element (r, c) of a value with rows * cols elements.
  NodeId full(mlir::Value value);
  /// Returns element r of a value with `rows` elements.
  NodeId perRow(mlir::Value value);
  /// Returns element c of a value with `cols` elements.
  NodeId perColumn(mlir::Value value);
  /// Returns element (r mod period, c) of a value with period * cols elements.
  NodeId modulo(mlir::Value value, int64_t period);
  /// Returns the sum over s < slices, in order, of elements (s, r, c) of a
  /// value with slices * rows * cols elements.
  NodeId sumOfSlices(mlir::Value value, int64_t slices);
  /// Returns element (index, c) of a value with `cols` columns. `index` is a
  /// Row node.
  NodeId gathered(mlir::Value value, NodeId index);
  /// Returns element (r, index) of a value with rows * cols elements. If an
  /// earlier op of the program computes the value, a sweep over the row selects
  /// the element. Otherwise the element is loaded.
  NodeId rowElement(mlir::Value value, NodeId index);
  /// Returns the element of a rank-0 value.
  NodeId scalar(mlir::Value value);

  // Nodes.
  NodeId constant(double value, row::Type type);
  NodeId constantLike(double value, NodeId like);
  NodeId columnIndex();
  NodeId rowIndex();
  NodeId unary(row::Kind kind, NodeId a);
  NodeId binary(row::Kind kind, NodeId a, NodeId b);
  /// Appends a node of kind DecodeSigned or DecodeUnsigned.
  NodeId decode(row::Kind kind, NodeId code);
  /// Appends a node of kind EncodeSigned or EncodeUnsigned.
  NodeId encode(row::Kind kind, NodeId a);
  NodeId neg(NodeId a) { return unary(row::Kind::Neg, a); }
  NodeId add(NodeId a, NodeId b) { return binary(row::Kind::Add, a, b); }
  NodeId sub(NodeId a, NodeId b) { return binary(row::Kind::Sub, a, b); }
  NodeId mul(NodeId a, NodeId b) { return binary(row::Kind::Mul, a, b); }
  NodeId div(NodeId a, NodeId b) { return binary(row::Kind::Div, a, b); }
  NodeId fma(NodeId a, NodeId b, NodeId c);
  NodeId less(NodeId a, NodeId b) { return binary(row::Kind::Less, a, b); }
  NodeId lessUnsigned(NodeId a, NodeId b) {
    return binary(row::Kind::LessUnsigned, a, b);
  }
  NodeId equal(NodeId a, NodeId b) { return binary(row::Kind::Equal, a, b); }
  NodeId select(NodeId condition, NodeId a, NodeId b);
  NodeId cast(NodeId a, row::Type type);
  NodeId powInt(NodeId base, NodeId exponent);
  NodeId reduceSum(NodeId a) { return reduce(row::Kind::ReduceSum, a); }
  NodeId reduceMax(NodeId a) { return reduce(row::Kind::ReduceMax, a); }
  /// Returns 32 random bits for element (r, c): output word c / 16 % 4 of
  /// Philox4x32-10, where
  /// - the key has the low and the high word of
  ///   splitmix64(seed + 0x9E3779B97F4A7C15 * (key + 1))
  /// - the counter has the words c / 64 * 16 + c % 16, r % rowsPerSequence,
  ///   first sequence + r / rowsPerSequence, and step
  ///
  /// `rng` is an i64 tensor {seed, step, first sequence}. If `firstRow`, a
  /// Scalar node of type I32, is given, its value is added to r.
  NodeId random(mlir::Value rng, int64_t key, int64_t rowsPerSequence,
                NodeId firstRow = -1);

  /// Sets the node of `value`, a Full or Row value, for later ops and for
  /// stores. The node is rounded if `value` has a narrow element type.
  void set(mlir::Value value, NodeId node);
  /// Defines `value`, which has the shape [ceil(rows/chunk), cols], as the
  /// column sums of `node` over each chunk of rows.
  void setColumnPartial(mlir::Value value, NodeId node, int64_t chunk);

  row::Type typeOf(NodeId node) const { return program.nodes[node].type; }
  row::Space spaceOf(NodeId node) const { return program.nodes[node].space; }

  /// Completes the program: adds the stores of `results`, and sets
  /// Node::operand of each load to the position of the loaded value in
  /// `operands`. Fails if no node was set for one of the results.
  llvm::FailureOr<row::RowProgram> finish(llvm::ArrayRef<mlir::Value> operands,
                                          llvm::ArrayRef<mlir::Value> results);

private:
  NodeId round(NodeId a, row::Type stored);
  NodeId load(mlir::Value value, row::Access access, row::Space space,
              int64_t period, llvm::ArrayRef<NodeId> inputs);
  NodeId reduce(row::Kind kind, NodeId a);
  NodeId append(row::Node node);

  row::RowProgram program;
  llvm::DenseMap<mlir::Value, NodeId> computed;
  struct Partial {
    NodeId node;
    int64_t chunk;
  };
  llvm::DenseMap<mlir::Value, Partial> partials;
  /// Loaded values. Until finish(), Node::operand is an index into this vector.
  llvm::SmallVector<mlir::Value> loadedValues;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_ROWPROGRAM_H
