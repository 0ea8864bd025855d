//===- ForwardGraph.h - Builder of transformer forward graphs ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Provides the layers and states that the importers share. A state is declared
// when a layer first uses it.
//
// Every layer has a name, such as "h.0.attn.c_attn", which is the name of its
// module in the source model without the prefix that all modules share. The
// name becomes the location of the layer's ops and the stem of its states'
// symbols. The name of a tensor in weight files is the prefix followed by the
// symbol.
// The ops that are created between enterLayer and leaveLayer also carry the
// attribute `kiln.layer`, except reads, because layers may share a state.
//
// Activations have rank 2: [batch * sequence, features].
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_IMPORT_FORWARDGRAPH_H
#define KILN_LIB_IMPORT_FORWARDGRAPH_H

#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Import/HuggingFace.h"

#include "llvm/ADT/StringMap.h"

namespace kiln {

enum class Activation { Gelu, GeluTanh, Relu, Silu };

/// Parses the name of an activation function in a configuration.
/// `supportedActivations` lists the names that are accepted.
std::optional<Activation> parseActivation(llvm::StringRef name);
extern const char *const supportedActivations;

/// Memory layout of a weight matrix.
enum class WeightLayout {
  InOut, ///< [inputs, outputs], as in GPT-2's Conv1D.
  OutIn, ///< [outputs, inputs], as in Linear.
};

struct AttentionShape {
  int64_t heads, keyHeads;
  double scale;
  double dropout;
};

class ForwardGraph {
public:
  /// `sourcePrefix` is the prefix of the symbols in weight files, such as
  /// "transformer.".
  ForwardGraph(mlir::MLIRContext &context, llvm::StringRef sourcePrefix,
               int64_t batch, int64_t sequenceLength, mlir::FloatType type);

  int64_t getBatch() const { return batch; }
  int64_t getSequenceLength() const { return length; }

  /// Assigns the ops that are created from now on to the layer `name`, such as
  /// "h.3".
  void enterLayer(llvm::StringRef name, int64_t number);
  /// Assigns the ops that are created from now on to no layer.
  void leaveLayer();

  /// Emits an embedding lookup. The row `paddingIndex` of the table is
  /// initialized to zeros and receives no gradient from the lookup.
  mlir::Value embedding(llvm::StringRef name, int64_t rows, int64_t width,
                        double stddev,
                        std::optional<int64_t> paddingIndex = std::nullopt);
  /// Emits a lookup of learned positions in a table with `rows` rows. Every
  /// sequence reads the first rows of the table, one row per token.
  mlir::Value positionEmbedding(llvm::StringRef name, int64_t rows,
                                int64_t width, double stddev);
  mlir::Value layerNorm(mlir::Value x, llvm::StringRef name, double eps);
  mlir::Value rmsNorm(mlir::Value x, llvm::StringRef name, double eps);
  mlir::Value linear(mlir::Value x, llvm::StringRef name, int64_t outputs,
                     WeightLayout layout, bool bias, double stddev);
  /// Emits dropout; returns `x` if p is 0.
  mlir::Value dropout(mlir::Value x, llvm::StringRef name, double p);
  /// Emits causal attention.
  mlir::Value attention(mlir::Value q, mlir::Value k, mlir::Value v,
                        llvm::StringRef name, const AttentionShape &shape);
  /// Rotates every head of `x`. The tables of sines and cosines are constant
  /// states that all layers share.
  mlir::Value rope(mlir::Value x, llvm::StringRef name, int64_t heads,
                   llvm::ArrayRef<double> inverseFrequencies);
  /// Returns the columns [first, first + count).
  mlir::Value columns(mlir::Value x, llvm::StringRef name, int64_t first,
                      int64_t count);
  mlir::Value activation(mlir::Value x, llvm::StringRef name, Activation kind);
  /// Returns activation(gate) * up.
  mlir::Value gatedActivation(mlir::Value gate, mlir::Value up,
                              llvm::StringRef name, Activation kind);
  mlir::Value add(mlir::Value a, mlir::Value b, llvm::StringRef name);

  /// Ends the program with the loss of a classifier whose weight matrix
  /// [vocabulary, width] is the state `weight`: either an existing state
  /// (tied), or a new one. The name of the new state in weight files has no
  /// prefix such as "transformer.".
  void finishWithLoss(mlir::Value hidden, llvm::StringRef name,
                      llvm::StringRef weight, int64_t vocabulary,
                      double stddev);

  /// Returns the finished module. Fails if its tensors have too many elements.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  takeModule(llvm::StringRef file);

private:
  mlir::Location locate(llvm::StringRef name);
  mlir::RankedTensorType tensor(llvm::ArrayRef<int64_t> shape);
  mlir::FloatAttr real(double value);
  mlir::IntegerAttr integer(int64_t value);
  mlir::Attribute normal(double stddev);
  mlir::Attribute splat(double value);

  mlir::Value parameter(llvm::StringRef symbol, llvm::ArrayRef<int64_t> shape,
                        mlir::Attribute init, bool prefixed = true);
  mlir::Value ropeTable(llvm::StringRef symbol, bool sine,
                        llvm::ArrayRef<double> inverseFrequencies);
  mlir::Value readState(llvm::StringRef symbol, mlir::RankedTensorType type);
  /// Adds the [features] tensor `shift` to every row of `x`.
  mlir::Value addToRows(mlir::Value x, mlir::Value shift, mlir::Location loc);

  std::string sourcePrefix;
  int64_t batch, length;
  mlir::FloatType type;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ProgramOp program;
  LayerListener layer;
  mlir::OpBuilder builder; ///< Notifies `layer` of each created op.
  mlir::Value tokens, targets, rng, lossScale;
  llvm::StringMap<mlir::Value> reads; ///< Reads of states, by symbol.
  int64_t nextKey = 0;                ///< Key of the next random op.
};

} // namespace kiln

#endif // KILN_LIB_IMPORT_FORWARDGRAPH_H
