//===- Kiln.h - The kiln dialect --------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILN_H
#define KILN_DIALECT_KILN_IR_KILN_H

#include "kiln/Abi/GemmEpilogue.h"
#include "kiln/Abi/GemmKernel.h"
#include "kiln/Abi/SegmentOrder.h"
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
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kiln {
class MatmulOp;
class ReturnOp;
enum class Family : uint32_t;

inline mlir::RankedTensorType tensorTypeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// Result of PrecisionOpInterface::getPrecision. In mixed precision, an op runs
/// in low precision (Low), in f32 (Full), or in the widest type of its operands
/// except parameters and constants (Follow).
enum class Precision { Low, Full, Follow };

/// The values that a compiled op rounds (ReferenceOpInterface::getRounding).
/// Inside: the op rounds its results and also intermediate values.
enum class Rounding { Nothing, Results, Inside };
/// Returns a random number whose magnitude is below `bound`.
using NoiseSource = llvm::function_ref<double(double bound)>;

/// Result of GemmOpInterface::getEpilogueKind: the code that computes the
/// epilogue of a GEMM.
enum class EpilogueKind {
  None,
  /// A kernel computes the epilogue of each tile as soon as the tile is
  /// complete. The kernel reads the rounded result of the GEMM, and therefore
  /// computes the same bits as a kernel that runs after the whole GEMM.
  Tiles,
  /// The vendor library computes GEMM and epilogue in one call and rounds only
  /// the final result. Separate ops would also round the result of the GEMM.
  Vendor,
};

/// Result of UpdateOpInterface::describeUpdate: the optimizer as named by
/// `kilnc --optimizer`, its options without the weight decay, and the weight
/// decay.
struct UpdateDescription {
  llvm::StringRef optimizer;
  llvm::SmallVector<std::pair<llvm::StringRef, double>, 3> options;
  double weightDecay = 0;
};

/// Returns the family of a dispatch or kernel with this `kind`: Row for "row",
/// Gemm for "gemm", and Kernel for the name of a kernel family.
Family familyOfKind(llvm::StringRef kind);
/// Parse and print `kind` in the custom syntax: as a keyword if `kind` is a
/// valid keyword, and as a quoted string otherwise.
mlir::ParseResult parseKernelKind(mlir::OpAsmParser &parser,
                                  mlir::StringAttr &kind);
void printKernelKind(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                     mlir::StringAttr kind);
/// Parse and print the regions of `kiln.microbatches` in the custom syntax.
mlir::ParseResult
parseSegments(mlir::OpAsmParser &parser,
              llvm::SmallVectorImpl<std::unique_ptr<mlir::Region>> &segments);
void printSegments(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                   llvm::MutableArrayRef<mlir::Region> segments);
/// Reports an error if `op`, a kiln.microbatches, is divided into a forward and
/// a backward segment. Passes that must run before the division call this
/// function.
llvm::LogicalResult requireUndivided(mlir::Operation *op);
/// Returns the backward segment of the micro-batches that have `forward` as
/// their forward segment, or null if `forward` is not a forward segment.
mlir::Block *backwardSegmentOf(mlir::Block &forward);
/// If `value` is the argument of a backward segment for a residual, returns the
/// value that the forward segment yields for it. Otherwise returns `value`.
mlir::Value yieldedResidual(mlir::Value value);
/// If `use` is a use by the terminator of a forward segment, returns the
/// argument of the backward segment through which the used value is passed.
/// Otherwise returns null.
mlir::BlockArgument residualArgumentOf(mlir::OpOperand &use);
/// Visits the uses of a value. Instead of a use by the terminator of a forward
/// segment, visits the uses of the argument through which the value is passed
/// to the backward segment.
void forEachUse(mlir::Value value,
                llvm::function_ref<void(mlir::OpOperand &)> visit);
/// The default implementation of DispatchableOpInterface::getFamily.
Family defaultFamily(mlir::Operation *op);
/// Verifies that the operands and results of an update have the shapes, types
/// and order that UpdateOpInterface requires.
llvm::LogicalResult verifyUpdate(mlir::Operation *op);
/// Returns the row space of an update. It has as many elements as the
/// parameter, and any division of these elements into rows and columns is valid
/// (RowSpace::flexible).
RowSpace rowSpaceOfUpdate(mlir::Operation *op);
} // namespace kiln

#include "kiln/Dialect/Kiln/IR/KilnDialect.h.inc"
#include "kiln/Dialect/Kiln/IR/KilnEnums.h.inc"

// The headers below use the enums of KilnEnums.h.inc.
#include "kiln/Dialect/Kiln/IR/KilnEncodings.h.inc"
#include "kiln/Dialect/Kiln/IR/Memory.h"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnAttrs.h.inc"

#include "kiln/Dialect/Kiln/IR/KilnInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnOps.h.inc"

namespace kiln {

/// Target value of positions that are excluded from the loss.
constexpr int64_t kIgnoreIndex = -100;

/// Row index that stands for a row in the shard of another rank.
constexpr int64_t kNoRow = -1;

/// Attribute of an op whose results are offloaded to the host while no op reads
/// them. For each such result, the attribute has three numbers: the index of
/// the result; the number of commands (dispatches and matmuls) that may run
/// before the copy to the host must be complete (lag); and the number of
/// commands by which the copy back precedes the next reader (lead).
inline constexpr llvm::StringLiteral kOffloadAttr = "kiln.offload";
/// Attribute of the read of a state in host memory. For each group of readers
/// (see readerGroups()), the attribute has the number of commands by which the
/// copy to the device precedes the group. If the attribute has fewer numbers
/// than the state has groups, the last number applies to all remaining groups.
inline constexpr llvm::StringLiteral kPrefetchAttr = "kiln.prefetch";
/// Unit attribute of the read of a state in host memory that yields a tensor on
/// the device: the state is copied to the device once per execution of the
/// program, and all readers share the copy.
inline constexpr llvm::StringLiteral kKeepAttr = "kiln.keep";
/// Attribute of a program: kiln-schedule may start all-gathers of states early
/// as long as the arena has at most this number of bytes. Without the
/// attribute, all-gathers do not start so early that the arena grows.
inline constexpr llvm::StringLiteral kGatherHeightAttr = "kiln.gather_height";
/// Attribute [capacity, effort] of a program: the search of kiln-schedule for
/// the offsets of buffers on the device ends once the arena has at most
/// `capacity` bytes, and each of its searches, on the device and on the host,
/// has at most `effort` steps (see ArenaOptions). Without the attribute,
/// kiln-schedule minimizes the height of the arena. kiln-plan-memory sets the
/// attribute if its plan was measured with these limits.
inline constexpr llvm::StringLiteral kArenaSearchAttr = "kiln.arena_search";

/// Attribute of a state (#kiln.residency): where the state is stored and
/// updated. kiln-offload-states moves the state accordingly and removes the
/// attribute.
inline constexpr llvm::StringLiteral kResidencyAttr = "kiln.residency";

/// Attribute of a train program between kiln-autodiff and kiln-build-step: the
/// number of micro-batches, larger than 1, whose losses add up to the loss of
/// the batch.
inline constexpr llvm::StringLiteral kMicrobatchesAttr = "kiln.microbatches";
/// Attribute of a program result that is the contribution of one rank to a
/// gradient: the name of the axis over whose ranks the result must be summed.
inline constexpr llvm::StringLiteral kPartialAttr = "kiln.partial";

/// Attribute of a program that was renamed because of a symbol conflict: the
/// name that the runtime uses. Arguments and results of programs also have this
/// attribute, with their names.
inline constexpr llvm::StringLiteral kNameAttr = "kiln.name";

/// Module attribute with the prediction and choices of the planner (PlanAttr).
inline constexpr llvm::StringLiteral kPlanAttr = "kiln.plan";

/// Module attribute with the residuals that are stored encoded (EncodedAttr).
inline constexpr llvm::StringLiteral kEncodedAttr = "kiln.encoded";

/// Module attribute with properties of the source model (DictionaryAttr).
inline constexpr llvm::StringLiteral kModelAttr = "kiln.model";

/// Module attribute of a model with low-rank adapters: their options, as
/// support::loraOptions() writes them (StringAttr).
inline constexpr llvm::StringLiteral kLoraAttr = "kiln.lora";

/// Module attribute of a program for several ranks: the number of ranks of each
/// axis of the mesh, by name (DictionaryAttr of i64).
inline constexpr llvm::StringLiteral kMeshAttr = "kiln.mesh";

/// Module attribute: the program of kind Sync, which averages the states of the
/// ranks, runs once in this number of steps (i64, above 1).
inline constexpr llvm::StringLiteral kSyncEveryAttr = "kiln.sync_every";

/// Returns the number of ranks of an axis of the mesh of a module, or 0 if the
/// module has no such axis.
int64_t meshSizeOf(mlir::ModuleOp module, llvm::StringRef axis);

/// Succeeds if `shard` can be the type of the shards of a tensor of type
/// `whole` over `ranks` ranks: `shard` has the same element type and at most as
/// many elements as `whole`, and the shards of all ranks together have at least
/// as many elements as `whole`. `whole` consists of `blocks` blocks of equal
/// size, and a shard has an equally large part of each block.
llvm::LogicalResult checkShard(mlir::RankedTensorType whole,
                               mlir::RankedTensorType shard, int64_t ranks,
                               int64_t blocks = 1);

/// Attribute of a program argument: the role of the argument (InputAttr).
inline constexpr llvm::StringLiteral kInputAttr = "kiln.input";

/// Returns the role and batch dimension of an input whose name determines them,
/// such as "tokens", or null for other names.
InputAttr inputFactOfName(llvm::StringRef name, mlir::MLIRContext *context);

/// Returns the name that the runtime uses for a kiln.program or kilnrt.program.
llvm::StringRef getProgramName(mlir::Operation *program);

/// Returns true if all extents are static and positive, and there are at most
/// 2^48 elements.
bool hasSaneExtents(mlir::RankedTensorType type);
/// Returns true if `type` is a tensor type that ops of the dialect accept.
bool isKilnTensor(mlir::Type type);

/// Returns the product of all dimensions but the last (1 for ranks 0 and 1).
int64_t getRowCount(mlir::RankedTensorType type);
/// Returns the last dimension (1 for rank 0).
int64_t getColumnCount(mlir::RankedTensorType type);

/// Returns `type` with full-precision elements: f32 if the element type is a
/// narrower float, and the element type itself otherwise.
mlir::RankedTensorType fullPrecision(mlir::RankedTensorType type);

/// Returns the bytes of a tensor of this type.
int64_t bytesOf(mlir::Type type);

/// Returns the family (kind of kernel) of a dispatch or of an op outside a
/// dispatch, and Structure for ops of other dialects.
Family familyOf(mlir::Operation *op);

/// For a dispatch of Family::Kernel, returns the op in its body. For any other
/// op of Family::Kernel, returns `op` itself. For ops of all other families,
/// returns null.
KernelOpInterface kernelOpOf(mlir::Operation *op);

/// Returns the value at the root of a chain of views, or `value` itself if it
/// is not the result of a view.
mlir::Value viewedValue(mlir::Value value);

/// Returns the name that importers attach to a location ("h.0.ln_1"), or an
/// empty string. The name of a fused location is the name of the last of its
/// locations that has a name.
llvm::StringRef getLocationName(mlir::Location loc);

/// Returns the operand whose buffer `result` must reuse, because a dispatch or
/// matmul updates the operand in place. Returns null if `result` has no such
/// operand.
mlir::Value getTiedOperand(mlir::OpResult result);

/// Creates the block of an op whose only region is isolated. The block has one
/// argument per operand of the op. Sets the insertion point of `builder` to the
/// block. Returns the mapping from `values`, one per operand, to the arguments
/// of the block.
mlir::IRMapping openIsolatedBody(mlir::OpBuilder &builder, mlir::Operation *op,
                                 mlir::ValueRange values);

/// Returns the row program of a dispatch of the family 'row', or of the
/// epilogue of a dispatch of the family 'gemm'. Operand 0 of an epilogue is the
/// result of the matmul. All other operands of the epilogue are operands of the
/// dispatch, starting with the third: the first two are the operands of the
/// matmul.
llvm::FailureOr<row::RowProgram> buildRowProgram(DispatchOp dispatch);
/// Returns the row program of a kernel body. The block arguments are the
/// operands, and the operands of the terminator are the results.
llvm::FailureOr<row::RowProgram> buildRowProgram(mlir::Block &body,
                                                 int64_t rows, int64_t cols);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_KILN_H
