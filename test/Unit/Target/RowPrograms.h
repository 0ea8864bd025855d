//===- RowPrograms.h - Fixtures of tests of row programs --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_ROWPROGRAMS_H
#define KILN_TEST_UNIT_TARGET_ROWPROGRAMS_H

#include "RowRunner.h"

#include "kiln/Support/ElementConversion.h"

#include <gtest/gtest.h>

#include <random>

namespace kiln::test {

/// Builds a row program node by node.
struct ProgramText {
  row::RowProgram program;

  ProgramText(int64_t rows, int64_t cols) {
    program.rows = rows;
    program.cols = cols;
  }
  row::NodeId node(row::Kind kind, row::Space space, row::Type type,
                   std::initializer_list<row::NodeId> inputs = {},
                   double value = 0) {
    row::Node node;
    node.kind = kind;
    node.space = space;
    node.type = type;
    node.inputs = inputs;
    node.value = value;
    program.nodes.push_back(node);
    return static_cast<row::NodeId>(program.nodes.size()) - 1;
  }
  row::NodeId load(int32_t operand, row::Access access, row::Space space,
                   row::Type type) {
    row::NodeId id = node(row::Kind::Load, space, type);
    program.nodes[id].operand = operand;
    program.nodes[id].access = access;
    program.nodes[id].stored = type;
    return id;
  }
  void store(row::StoreKind kind, row::NodeId value, int64_t chunk = 0) {
    row::Store store;
    store.kind = kind;
    store.value = value;
    store.result = static_cast<int32_t>(program.stores.size());
    store.chunk = chunk;
    store.stored = program.nodes[value].type;
    program.stores.push_back(store);
    if (chunk != 0)
      program.rowsPerUnit = chunk;
  }
};

template <typename T> constexpr row::Type typeOf() {
  return sizeof(T) == 8 ? row::Type::F64 : row::Type::F32;
}

class RowKernel : public testing::Test {
protected:
  RowKernel() : context(mlir::MLIRContext::Threading::DISABLED) {
    module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  }

  cpu::KernelLaunch emit(const std::string &name,
                         const row::RowProgram &program, size_t numArgs) {
    llvm::SmallVector<Layout> layouts(numArgs, Layout{program.cols});
    return cpu::emitRowKernel(*module, name, RowShape{program, layouts});
  }

  template <typename T> std::vector<T> normals(size_t count) {
    std::normal_distribution<T> normal;
    std::vector<T> x(count);
    for (T &value : x)
      value = normal(random);
    return x;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::mt19937_64 random{7};
};

inline std::vector<uint16_t> asBfloats(const std::vector<float> &x) {
  return std::vector<uint16_t>(
      llvm::map_iterator(x.begin(), support::doubleToBfloat),
      llvm::map_iterator(x.end(), support::doubleToBfloat));
}

template <typename... Buffers>
void call(Kernel kernel, int64_t begin, int64_t end, Buffers &...buffers) {
  char *args[] = {reinterpret_cast<char *>(buffers.data())...};
  kernel(args, nullptr, begin, end, nullptr);
}

/// Like RowKernel, but can also build a row program from the text of ops.
class RowFusion : public RowKernel {
protected:
  row::RowProgram build(const std::string &arguments, const std::string &body,
                        const std::string &results, const char *type = "f32") {
    RowCase rowCase;
    rowCase.arguments = arguments;
    rowCase.body = body;
    rowCase.results = results;
    auto instance = runner.build(rowCase, 6, 200, type);
    return instance ? instance->rows : row::RowProgram();
  }
  RowRunner runner;
};

inline constexpr const char *layerNormText =
    "%y, %mean, %rstd = kiln.layer_norm %x, %g, %b {eps = 1.0e-05} : "
    "(tensor<$Rx$Cx$T>, tensor<$Cx$F>, tensor<$Cx$F>) -> "
    "(tensor<$Rx$Cx$T>, tensor<$Rx$F>, tensor<$Rx$F>)\n";

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_ROWPROGRAMS_H
