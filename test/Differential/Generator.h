//===- Generator.h - The state of a graph that grows ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pool of values grows op by op: each step draws a kind of op and operands
// that suit it. What nobody used in the end flows into the loss, so that every
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

/// A value with bounds of its elements.
struct Entry {
  mlir::Value value;
  double magnitude = 1; ///< |x| is about this at most.
  double low = 0;       ///< x is at least this, if positive.
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

  // Chance. No standard distribution: their values differ between libraries.
  int64_t upTo(int64_t count) { return random() % count; }
  bool chance(int percent) { return upTo(100) < percent; }
  int64_t oneOf(llvm::ArrayRef<int64_t> list) {
    return list[upTo(list.size())];
  }

  // Pieces of the module.
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

  // Operands.
  Entry any();
  std::optional<Entry> anyWhere(llvm::function_ref<bool(const Entry &)> suits);
  Entry sameShape(const Entry &other);
  Entry positive(mlir::RankedTensorType type);
  Entry rows(); ///< [batch * length, features]
  Entry columns(const Entry &x, int64_t first, int64_t count);

  // One step each.
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

  // Integers.
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
  std::vector<mlir::Value> ids; ///< what may be looked up: parts of tokens
  int64_t states = 0, key = 0;
};

inline constexpr int64_t kMostElements = 2048;
inline constexpr double kMostMagnitude = 6;

} // namespace kiln

#endif // KILN_TEST_DIFFERENTIAL_GENERATOR_H
