//===- Generator.h - State of the graph generator ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The generator extends a pool of values op by op: each step chooses an op and
// suitable operands. Values that remain unused are added to the loss, so every
// parameter has a gradient.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_DIFFERENTIAL_GENERATOR_H
#define KILN_TEST_DIFFERENTIAL_GENERATOR_H

#include "GraphGenerator.h"

#include "kiln/Dialect/Kiln/IR/SequenceAnalysis.h"

#include <optional>
#include <random>

namespace kiln {

/// A value with bounds on its elements.
struct Entry {
  mlir::Value value;
  double magnitude = 1; ///< Approximate maximum of |element|.
  double low = 0;       ///< Positive lower bound, or 0 if unknown.
  mlir::RankedTensorType type() const { return tensorTypeOf(value); }
};

class Generator {
public:
  Generator(mlir::MLIRContext &context, const GraphOptions &options)
      : builder(&context), random(options.seed * 2 + options.f64),
        element(options.f64 ? mlir::Type(builder.getF64Type())
                            : mlir::Type(builder.getF32Type())),
        ops(options.ops), splits(options.splits) {}
  mlir::OwningOpRef<mlir::ModuleOp> run();

private:
  using Made = std::optional<Entry>;

  // Random choices. Standard distributions are not used, since they differ
  // between C++ libraries.
  int64_t upTo(int64_t count) { return random() % count; }
  bool chance(int percent) { return upTo(100) < percent; }
  int64_t oneOf(llvm::ArrayRef<int64_t> list) {
    return list[upTo(list.size())];
  }

  // Functions that construct the module.
  void openProgram();
  mlir::RankedTensorType tensor(llvm::ArrayRef<int64_t> shape) {
    return mlir::RankedTensorType::get(shape, element);
  }
  Entry parameter(llvm::ArrayRef<int64_t> shape, double mean, double stddev);
  Entry constant(mlir::RankedTensorType type, double value);
  mlir::FloatAttr real(double value) { return builder.getF64FloatAttr(value); }
  mlir::IntegerAttr integer(int64_t value) {
    return builder.getI64IntegerAttr(value);
  }

  // Selection of operands.
  Entry any();
  std::optional<Entry> anyWhere(llvm::function_ref<bool(const Entry &)> suits);
  Entry sameShape(const Entry &other);
  Entry positive(mlir::RankedTensorType type);
  Entry rows(); ///< [batch * length, features]
  Entry columns(const Entry &x, int64_t first, int64_t count);

  // Each of these functions is one kind of step of the generator: it appends a
  // few ops to the program.
  Made unary();
  Made activation();
  Made binary();
  Made quotient();
  Made root();
  Made norm();
  Made softmax();
  Made linear();
  Made batchedMatmul();
  Made attention();
  Made rope();
  Made dropout();
  Made reduce();
  Made centre();
  Made broadcast();
  Made reshape();
  Made transpose();
  Made slice();
  Made concat();
  Made pad();
  Made precision();
  Made lookup();
  Made lookUp(mlir::Value ids);

  // Functions that append ops on integer tensors.
  void moveIds();
  mlir::Value shuffledTargets();

  Entry tame(Entry entry);
  void addStep();
  Entry project(const Entry &x, int64_t width);
  Entry turn(const Entry &x, int64_t heads);
  void writeStates();
  mlir::Value total(const Entry &x);
  mlir::Value loss();

  template <typename Op, typename... Args> mlir::Value make(Args &&...args) {
    auto op = Op::create(builder, loc(), std::forward<Args>(args)...);
    sequences->visit(*op.getOperation());
    return op->getResult(0);
  }
  bool isUsable(mlir::Value value) const;
  void eraseUnused();
  mlir::Location loc() { return builder.getUnknownLoc(); }

  mlir::OpBuilder builder;
  std::mt19937_64 random;
  mlir::Type element;
  int64_t ops;
  bool splits;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ProgramOp program;
  int64_t batch = 1, length = 1, vocabulary = 2;
  mlir::Value tokens, targets, rng, lossScale;
  std::optional<SequenceAnalysis> sequences;
  std::vector<Entry> pool;
  std::vector<mlir::Value> ids; ///< Lookup indices derived from tokens.
  int64_t states = 0, key = 0;
};

inline constexpr int64_t kMostElements = 2048;
inline constexpr double kMostMagnitude = 6;

} // namespace kiln

#endif // KILN_TEST_DIFFERENTIAL_GENERATOR_H
