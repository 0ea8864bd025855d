//===- Kiln.h - The kiln dialect --------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILN_H
#define KILN_DIALECT_KILN_IR_KILN_H

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/IR/HostTensor.h"
#include "kiln/Dialect/Kiln/IR/RowProgram.h"
#include "kiln/Dialect/Kiln/IR/Sequences.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kiln {
class MatmulOp;
class ReturnOp;
enum class Family : uint32_t;

/// What PrecisionOpInterface answers.
enum class Precision { Low, Full, Follow };

/// What ReferenceOpInterface answers: what a compiled op rounds.
enum class Rounding { Nothing, Results, Inside };
/// Random numbers that are below the argument in magnitude.
using NoiseSource = llvm::function_ref<double(double bound)>;

/// What UpdateOpInterface answers: the optimizer as `kilnc --optimizer` names
/// it, its options but for the weight decay, and the weight decay.
struct UpdateDescription {
  llvm::StringRef optimizer;
  llvm::SmallVector<std::pair<llvm::StringRef, double>, 3> options;
  double weightDecay = 0;
};

/// The family of an op that does not name one.
Family defaultFamily(mlir::Operation *op);
/// Verifies the shapes, types and order of operands and results that
/// UpdateOpInterface requires.
llvm::LogicalResult verifyUpdate(mlir::Operation *op);
/// The row space of an update: any factorization of the parameter's elements.
RowSpace rowSpaceOfUpdate(mlir::Operation *op);
} // namespace kiln

#include "kiln/Dialect/Kiln/IR/KilnDialect.h.inc"
#include "kiln/Dialect/Kiln/IR/KilnEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnAttrs.h.inc"

#include "kiln/Dialect/Kiln/IR/KilnInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnOps.h.inc"

namespace kiln {

/// The value marking a target position that does not count.
constexpr int64_t kIgnoreIndex = -100;

/// On an op whose results leave the device while nobody reads them: for each
/// such result three numbers, its index; how many commands (dispatches and
/// products) may run before the copy to the host has to be complete (lag); and
/// how many before the next reader the copy back begins (lead).
inline constexpr llvm::StringLiteral kOffloadAttr = "kiln.offload";
/// On the read of a state in host memory: the lead of the copy to the device in
/// front of each group of readers; the last one is for all further groups.
inline constexpr llvm::StringLiteral kPrefetchAttr = "kiln.prefetch";

/// On a train program between kiln-autodiff and kiln-build-step: the number of
/// micro-batches, larger than 1, whose losses add up to that of the batch.
inline constexpr llvm::StringLiteral kMicrobatchesAttr = "kiln.microbatches";

/// On a program whose symbol had to give way to another one: the name by which
/// the runtime knows it. Arguments and results of programs have it too.
inline constexpr llvm::StringLiteral kNameAttr = "kiln.name";

/// On a module: the planner's prediction and choices (PlanAttr).
inline constexpr llvm::StringLiteral kPlanAttr = "kiln.plan";

/// On a module: the residuals that are stored as encodings (EncodedAttr).
inline constexpr llvm::StringLiteral kEncodedAttr = "kiln.encoded";

/// On an argument of a program: what it is for (InputAttr).
inline constexpr llvm::StringLiteral kInputAttr = "kiln.input";

/// Returns the role and batch dimension of an input whose name fixes them, such
/// as "tokens", or null for other names.
InputAttr inputFactOfName(llvm::StringRef name, mlir::MLIRContext *context);

/// The name by which the runtime knows a kiln.program or kilnrt.program.
llvm::StringRef getProgramName(mlir::Operation *program);

/// Extents are static and positive, and there are at most 2^48 elements.
bool hasSaneExtents(mlir::RankedTensorType type);
/// A tensor that ops of the dialect may compute with.
bool isKilnTensor(mlir::Type type);

/// Product of all dimensions but the last (1 for rank 0 and 1).
int64_t getRowCount(mlir::RankedTensorType type);
/// The last dimension (1 for rank 0).
int64_t getColumnCount(mlir::RankedTensorType type);

/// A tensor type with its elements in full precision.
mlir::RankedTensorType fullPrecision(mlir::RankedTensorType type);

/// Bytes of a tensor.
int64_t bytesOf(mlir::Type type);

/// The dispatch family of a dispatch or of an op outside of one; Structure for
/// ops of other dialects.
Family familyOf(mlir::Operation *op);

/// What a view of a view ... of a value looks at; a value that is no view's
/// result looks at itself.
mlir::Value viewedValue(mlir::Value value);

/// Whether a value lies in host memory: it was copied there, a state there was
/// read, or an op that runs there made it.
bool isOnHost(mlir::Value value);

/// The name that importers give a location ("h.0.ln_1"), of a fused one the
/// last part's; empty if it has none.
llvm::StringRef getLocationName(mlir::Location loc);

/// The operand of a dispatch or product whose buffer `result` must take,
/// because its op updates it in place; null if there is none.
mlir::Value getTiedOperand(mlir::OpResult result);

/// Makes the one block of an op whose region is isolated, with an argument per
/// operand, and sets `builder` into it. Returns the map from `values`, what the
/// body's ops know the operands as, to the arguments.
mlir::IRMapping openIsolatedBody(mlir::OpBuilder &builder, mlir::Operation *op,
                                 mlir::ValueRange values);

/// The row program of a dispatch of the row family, or of the epilogue of one
/// of family gemm: the product is its operand 0, the dispatch's operands from
/// the third on are the others.
llvm::FailureOr<row::RowProgram> buildRowProgram(DispatchOp dispatch);
/// The same for the body of a kernel: the ops of a block, its arguments being
/// the operands and what its terminator yields the results.
llvm::FailureOr<row::RowProgram> buildRowProgram(mlir::Block &body,
                                                 int64_t rows, int64_t cols);

inline mlir::RankedTensorType tensorTypeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_KILN_H
