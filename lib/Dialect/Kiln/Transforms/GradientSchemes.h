//===- GradientSchemes.h - How ranks sum compressed gradients ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kiln-compress-gradients compresses the gradients that collectives sum.
// The gradients of one collective form a bucket. A scheme builds the ops for a
// bucket in two parts: the first part replaces the collective, and the second
// part is before the readers of the results of the collective, so that
// transfers of the first part overlap with the ops between the two parts.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_GRADIENTSCHEMES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_GRADIENTSCHEMES_H

#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Support/GradientCompression.h"

#include <memory>

namespace kiln {

/// Builds ops that belong to a layer, at the insertion point of `builder`.
struct LayerOps {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  LayerAttr layer;

  LayerOps(mlir::OpBuilder &builder, mlir::Value like)
      : builder(builder), loc(like.getLoc()), layer(getDefiningLayer(like)) {}

  template <typename Op, typename... Args> Op create(Args &&...args) {
    auto op = Op::create(builder, loc, std::forward<Args>(args)...);
    setLayer(op, layer);
    return op;
  }
  mlir::Value cast(mlir::Value value, mlir::Type element) {
    mlir::RankedTensorType type = tensorTypeOf(value);
    return type.getElementType() == element
               ? value
               : create<CastOp>(type.clone(element), value).getResult();
  }
  mlir::Value scale(mlir::Value value, double factor) {
    return create<ScaleOp>(value, builder.getF64FloatAttr(factor));
  }
};

/// A gradient that ranks sum in compressed form.
struct CompressedGradient {
  mlir::Value part; ///< The gradient of this rank.
  StateOp parameter;
};

class GradientScheme {
public:
  GradientScheme(const support::GradientCompression &compression,
                 mlir::ModuleOp module, ProgramOp train)
      : size(compression.size), module(module), train(train), symbols(module),
        ranks(meshSizeOf(module, dataAxis())), builder(module.getContext()),
        compression(compression) {}
  virtual ~GradientScheme() = default;

  /// Returns the name of the scheme and its size, such as "powersgd:4".
  std::string name() const { return compression.text(); }
  /// Returns a description of the gradients that are compressed, for a message.
  virtual std::string needs() const = 0;
  /// Returns the number of bytes that are summed in place of a gradient of the
  /// type `gradient`, or std::nullopt if such gradients are not compressed.
  virtual std::optional<int64_t>
  bytesOf(mlir::RankedTensorType gradient) const = 0;
  /// Reports an error if the program cannot use the scheme. By default, rejects
  /// a scheme with states if steps may be skipped, because a skipped step must
  /// not change states.
  virtual llvm::LogicalResult check();
  /// Builds the first part of the ops for the gradients of a bucket, before
  /// `position`.
  virtual void begin(llvm::ArrayRef<CompressedGradient> gradients,
                     mlir::Operation *position) = 0;
  /// Builds the second part of the ops for the gradients that were passed to
  /// the last call of begin(), before `position`. Returns their sums over the
  /// ranks, in f32 or f64.
  virtual llvm::SmallVector<mlir::Value> finish(mlir::Operation *position) = 0;

protected:
  /// Sums values over the ranks with one collective.
  llvm::SmallVector<mlir::Value> sum(llvm::ArrayRef<mlir::Value> values);

  /// Adds a state for a gradient. All data-parallel ranks have the same state.
  /// If tensor parallelism divides the parameter, each rank of tensor
  /// parallelism has a state of its own.
  StateOp addState(StateOp parameter, llvm::StringRef slot,
                   mlir::RankedTensorType type, mlir::Attribute init);
  /// Adds a state for the error, which is different on each rank: the part of
  /// the rank's gradients that the rank has not sent yet. The error has the
  /// shape of `gradient`.
  StateOp addError(StateOp parameter, mlir::RankedTensorType gradient);
  /// Returns the value of a state at the beginning of the step.
  mlir::Value read(StateOp state);
  /// Writes the value that a state has at the end of the step.
  void write(StateOp state, mlir::Value value);

  int64_t size; ///< See support::GradientCompression.
  mlir::ModuleOp module;
  ProgramOp train;
  mlir::SymbolTable symbols;
  int64_t ranks; ///< The number of data-parallel ranks.
  mlir::OpBuilder builder;

private:
  StateOp addState(StateOp parameter, llvm::StringRef slot,
                   mlir::RankedTensorType type, ShardAttr shard,
                   mlir::Attribute init);
  /// If tensor parallelism divides the parameter, returns the #kiln.shard of a
  /// state of which each rank has a part of type `type`. Otherwise returns
  /// null, because all ranks of tensor parallelism have the same state.
  ShardAttr dividedOf(StateOp parameter, mlir::RankedTensorType type);

  support::GradientCompression compression;
};

using SchemeFactory = std::unique_ptr<GradientScheme>(
    const support::GradientCompression &compression, mlir::ModuleOp module,
    ProgramOp train);

/// Sums matrices as products of matrices of a low rank.
SchemeFactory createPowerSgd;
/// Like PowerSGD, but each step updates and sums only one of the two factors,
/// in turns.
SchemeFactory createGradZip;
/// Sums count sketches of matrices. A sketch has about 1 / size of the rows of
/// its matrix.
SchemeFactory createCountSketch;
/// Sums 8-bit codes, to which gradients are rounded stochastically.
SchemeFactory createInt8Sums;

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_GRADIENTSCHEMES_H
