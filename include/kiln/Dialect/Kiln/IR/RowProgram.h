//===- RowProgram.h - What one element of a row dispatch is -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row dispatch works on a space of `rows` x `cols` elements. Its ops describe
// one element of their results by nodes of a small expression graph; together
// they are the dispatch's row program. Example, layer_norm of x with gain g and
// shift b on a [rows, cols] space:
//
//   x    = load identity x          Full
//   s    = reduce sum x             Row     (available after sweep 0)
//   mean = s * (1/cols)             Row
//   d    = x - mean                 Full    (sweep 1)
//   q    = reduce sum d*d           Row     (available after sweep 1)
//   rstd = 1/sqrt(q*(1/cols)+eps)   Row
//   y    = (d*rstd)*g + b           Full    (sweep 2), stored
//
// Every node has a *space* that says what it varies with. Emitters turn the
// program into loops: one sweep over the row per level of reductions. The
// formula of a node never depends on what it is fused with; all rounding is
// explicit (Fma is one rounding, everything else rounds per node, to the node's
// element type). There is no arithmetic on bf16: its elements become f32 when
// they are loaded, and an op's result of that type is rounded by a node of its
// own, so that what is fused reads what memory would have held.
//
// Summation orders (fixed): a row reduction keeps 64 partial results, partial j
// takes elements j, j+64, ... in order, then halves: j with j+32, 16, 8, 4, 2,
// 1. A column partial adds the rows of one chunk in row order, started from
// zero.
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

/// The iteration space an op wants.
struct RowSpace {
  int64_t rows = 0, cols = 0;
  /// The op is elementwise without any structure: every factorization of
  /// rows * cols elements is as good.
  bool flexible = false;
  int64_t elements() const { return rows * cols; }
};

namespace row {

using NodeId = int32_t;

/// What a node's value varies with.
enum class Space : uint8_t { Scalar, Row, Column, Full };

/// How an operand is read.
enum class Access : uint8_t {
  Identity,    ///< element (r, c)                           Full
  PerRow,      ///< element r                                Row
  PerColumn,   ///< element c                               Column
  Modulo,      ///< element (r mod period, c)                Full
  Gathered,    ///< element (index(r), c); index is a Row    Full
  Scalar,      ///< element 0                                Scalar
  RowElement,  ///< element (r, index(r)); index is a Row  Row
  SumOfSlices, ///< sum over s < period, in order, of element s*rows*cols + (r,
               ///< c)  Full
};

/// An element type. A narrow float is a type of memory alone: a load widens it
/// to computeType(type), and a value is rounded before it is stored.
using Type = ElementType;

enum class Kind : uint8_t {
  Load,        // input, access, period; inputs: index for Gathered, RowElement
  Constant,    // value
  ColumnIndex, // I32, Column
  RowIndex,    // I32, Row
  Cast,        // to `type`
  Round,       // to a value of type `stored`, as `type`
  // unary, same type
  Neg,
  Exp,
  Log,
  Sqrt,
  Tanh,
  Sigmoid,
  Erf,
  Abs,
  // binary
  Add,
  Sub,
  Mul,
  Div,
  Max,
  Min,
  Fma, // inputs a, b, c: a*b + c with one rounding
  // comparisons give Bool
  Less,
  Equal,
  LessUnsigned, // of integers
  Select,       // inputs condition, a, b
  PowInt,       // inputs base (F64), exponent (I64), both Scalar
  ReduceSum,
  ReduceMax, // Full or Column to Row
  Random,    // U32 bits as I32, Full; see random()
};

struct Node {
  Kind kind;
  Space space;
  Type type;
  llvm::SmallVector<NodeId, 3> inputs;
  Access access = Access::Identity;
  int32_t operand = -1; ///< Load, Random: index of the dispatch operand
  int64_t period =
      0; ///< Modulo: rows; Random: rows per sequence; SumOfSlices: slices
  double value = 0; ///< Constant
  int32_t immediate =
      -1; ///< Random: index of the kernel immediate with the key
  /// Load: the type of the operand's elements. Round: what the value can be
  /// stored as without another rounding. Else `type`, whatever it says.
  Type stored = Type::F32;
};

enum class StoreKind : uint8_t {
  Full,          ///< element (r, c)
  Row,           ///< element r
  ColumnPartial, ///< result [ceil(rows/chunk), cols]: sums of `chunk` rows
};

struct Store {
  StoreKind kind;
  NodeId value;
  int32_t result; ///< index of the dispatch result
  int64_t chunk = 0;
  Type stored = Type::F32; ///< of the result's elements
};

/// The program of one dispatch.
struct RowProgram {
  int64_t rows = 0, cols = 0;
  /// Elementwise without rows: may be walked as one long vector.
  bool flat = false;
  /// Rows per work unit: 1, or the chunk of the column partials.
  int64_t rowsPerUnit = 1;
  llvm::SmallVector<Node, 32> nodes; ///< in topological order
  llvm::SmallVector<Store, 4> stores;
  /// Values of the immediates, taken from the ops' attributes (RNG keys): they
  /// are arguments of a launch, not part of the kernel.
  llvm::SmallVector<int64_t, 2> immediates;
};

/// What happens in which sweep over a row. Emitters and ties follow it.
///
/// A Full store is made in the sweep that first can compute its value. Later
/// sweeps that need the value read it back from the result. A value that no
/// later sweep needs is stored later, if a later sweep loads its operands
/// anyway: so the result may take an operand's slot.
struct SweepPlan {
  /// Loops over the columns of a row; 0 when the program has only Row values.
  int32_t sweeps = 0;
  /// Full and Column nodes: the first sweep that can compute the node. Row
  /// nodes: the number of sweeps that must be over.
  llvm::SmallVector<int32_t, 32> level;
  /// By store: the sweep that makes it; for Row stores the node's level.
  llvm::SmallVector<int32_t, 4> storeSweep;
  /// By node: the store whose result later sweeps read the node's value back
  /// from, or -1.
  llvm::SmallVector<int32_t, 32> savedBy;

  /// The reductions that sweep `s` computes.
  llvm::SmallVector<NodeId> reductionsOf(const RowProgram &program,
                                         int32_t s) const;
  /// Whether sweep `s` takes `node` from memory written by an earlier sweep.
  bool isReadBack(NodeId node, int32_t s) const {
    return savedBy[node] >= 0 && storeSweep[savedBy[node]] < s;
  }
  /// The nodes evaluated per element in sweep `s`, in topological order.
  llvm::SmallVector<NodeId> nodesOf(const RowProgram &program, int32_t s) const;
};
SweepPlan planSweeps(const RowProgram &program);

/// Whether the program may run on one tile of rows and columns at a time, each
/// as soon as operand `product` is complete there: every element of the results
/// depends on elements in its own place, row or column alone, and on the
/// product's in its own place. Unless the product is kept, a result must be
/// able to take its slot.
bool isEpilogue(const RowProgram &program, int32_t matmul, bool keepsMatmul);

/// Whether result `result` may be written over operand `operand`: every element
/// of the operand is read before the element in its place is written, under any
/// split of the work units.
bool mayShareSlot(const RowProgram &program, int32_t operand, int32_t result);

} // namespace row

/// Collects the row program of a sequence of ops. Ops call it from
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

  // Operands. A value computed by an earlier op of the same program is found
  // under its node, anything else becomes a load of a dispatch operand. Each
  // returns -1 when the value cannot be accessed so.

  /// Element (r, c) of a value with rows * cols elements.
  NodeId full(mlir::Value value);
  /// Element r of a value with `rows` elements.
  NodeId perRow(mlir::Value value);
  /// Element c of a value with `cols` elements.
  NodeId perColumn(mlir::Value value);
  /// Element (r mod period, c) of a value with period * cols elements.
  NodeId modulo(mlir::Value value, int64_t period);
  /// The sum over s < slices, in order, of elements (s, r, c) of a value with
  /// slices * rows * cols elements.
  NodeId sumOfSlices(mlir::Value value, int64_t slices);
  /// Element (index, c) of a value with cols columns; index is a Row node.
  NodeId gathered(mlir::Value value, NodeId index);
  /// Element (r, index) of a value with rows * cols elements that is an operand
  /// of the dispatch or computed in it (then selected during a sweep).
  NodeId rowElement(mlir::Value value, NodeId index);
  /// A rank-0 value.
  NodeId scalar(mlir::Value value);

  // Nodes.
  NodeId constant(double value, row::Type type);
  NodeId constantLike(double value, NodeId like);
  NodeId columnIndex();
  NodeId unary(row::Kind kind, NodeId a);
  NodeId binary(row::Kind kind, NodeId a, NodeId b);
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
  /// 32 random bits for element (r, c): Philox4x32-10 with key
  /// splitmix64(seed + 0x9E3779B97F4A7C15 * (key + 1)) (low word, high word)
  /// and counter (c / 64 * 16 + c % 16, r % rowsPerSequence, first sequence + r
  /// / rowsPerSequence, step), output word c / 16 % 4. `rng` is an i64 tensor
  /// {seed, step, first sequence}.
  NodeId random(mlir::Value rng, int64_t key, int64_t rowsPerSequence);

  /// The node that computes `value`, a Full or Row value, for later ops and for
  /// storing. It is rounded if the elements of `value` are bf16.
  void set(mlir::Value value, NodeId node);
  /// `value` [ceil(rows/chunk), cols] collects column sums of `node`.
  void setColumnPartial(mlir::Value value, NodeId node, int64_t chunk);

  row::Type typeOf(NodeId node) const { return program.nodes[node].type; }
  row::Space spaceOf(NodeId node) const { return program.nodes[node].space; }

  /// Completes the program: stores of `results`, loads numbered by their place
  /// in `operands`. Fails when a result has no node.
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
  llvm::SmallVector<mlir::Value>
      loadedValues; ///< by Node::operand until finish
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_ROWPROGRAM_H
