//===- WeightsTest.cpp - Weights on disk against a graph ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestModel.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Runtime/Files/SafeTensors.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;

namespace {

/// Writes the parameters of `module` under the name that `rename` gives.
template <typename RenameFn>
void writeWeights(mlir::ModuleOp module, const ModelDirectory &directory,
                  RenameFn rename) {
  std::vector<TensorDeclaration> tensors;
  uint64_t bytes = 0;
  for (StateOp state : module.getOps<StateOp>()) {
    if (state.getRole() != Role::Parameter)
      continue;
    TensorDeclaration tensor;
    tensor.name = state.getSource()->str();
    tensor.shape = state.getTensorType().getShape().vec();
    if (!rename(tensor))
      continue;
    uint64_t elements = 1;
    for (int64_t extent : tensor.shape)
      elements *= extent;
    bytes += 4 * elements;
    tensors.push_back(tensor);
  }
  auto writer = SafeTensorsWriter::create(
      directory.path() + "/model.safetensors", tensors);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  std::vector<char> zeros(bytes);
  ASSERT_TRUE(writer->write(zeros.data(), bytes).ok());
  ASSERT_TRUE(writer->finish().ok());
}

struct Weights : testing::Test {
  template <typename RenameFn> std::string check(RenameFn rename) {
    Imported imported = importDirectory(directory.path());
    EXPECT_EQ(imported.error, "");
    writeWeights(*imported.module, directory, rename);
    return takeMessage(checkWeights(*imported.module, directory.path()));
  }
  ModelDirectory directory{gpt2Config()};
};

bool isNamed(const TensorDeclaration &tensor, const char *name) {
  return tensor.name == name;
}

TEST_F(Weights, NoneIsFine) {
  Imported imported = importDirectory(directory.path());
  EXPECT_EQ(takeMessage(checkWeights(*imported.module, directory.path())), "");
}

TEST_F(Weights, SourceNames) {
  EXPECT_EQ(check([](TensorDeclaration &) { return true; }), "");
}

TEST_F(Weights, NamesWithoutPrefix) {
  EXPECT_EQ(check([](TensorDeclaration &tensor) {
              tensor.name.erase(0, std::string("transformer.").size());
              return true;
            }),
            "");
}

TEST_F(Weights, MissingTensor) {
  std::string message = check([](TensorDeclaration &tensor) {
    return !isNamed(tensor, "transformer.h.1.ln_2.bias");
  });
  EXPECT_NE(message.find("transformer.h.1.ln_2.bias"), std::string::npos)
      << message;
}

TEST_F(Weights, WrongShape) {
  std::string message = check([](TensorDeclaration &tensor) {
    if (isNamed(tensor, "transformer.h.0.attn.c_attn.weight"))
      tensor.shape = {72, 24};
    return true;
  });
  EXPECT_NE(message.find("transformer.h.0.attn.c_attn.weight"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("24, 72"), std::string::npos) << message;
  EXPECT_NE(message.find("72, 24"), std::string::npos) << message;
}

TEST_F(Weights, DamagedFile) {
  Imported imported = importDirectory(directory.path());
  directory.write("model.safetensors", "not such a file");
  EXPECT_NE(takeMessage(checkWeights(*imported.module, directory.path()))
                .find("model.safetensors"),
            std::string::npos);
}

} // namespace
