//===- WeightsTest.cpp - Tests of the validation of weights ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestModel.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Support/SafeTensors.h"

#include <gtest/gtest.h>

using namespace kiln::support;
using namespace kiln::test;
using namespace kiln;

namespace {

/// Writes the tensors in `more` and the parameters of `module` for which
/// `rename` returns true. `rename` may change the names of parameters.
template <typename RenameFn>
void writeWeights(mlir::ModuleOp module, const ModelDirectory &directory,
                  RenameFn rename, const std::vector<TensorDeclaration> &more) {
  std::vector<TensorDeclaration> tensors = more;
  uint64_t bytes = 0;
  for (const TensorDeclaration &tensor : more) {
    uint64_t elements = 1;
    for (int64_t extent : tensor.shape)
      elements *= extent;
    bytes += 4 * elements;
  }
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
  std::string check(mlir::ModuleOp module) {
    warnings.clear();
    return takeMessage(checkWeights(module, directory.path(), warnings));
  }
  template <typename RenameFn>
  std::string check(RenameFn rename,
                    const std::vector<TensorDeclaration> &more = {}) {
    Imported imported = importDirectory(directory.path());
    EXPECT_EQ(imported.error, "");
    writeWeights(*imported.module, directory, rename, more);
    return check(*imported.module);
  }
  std::vector<std::string> warnings;
  ModelDirectory directory{gpt2Config()};
};

bool isNamed(const TensorDeclaration &tensor, const char *name) {
  return tensor.name == name;
}

TEST_F(Weights, NoneIsFine) {
  Imported imported = importDirectory(directory.path());
  EXPECT_EQ(check(*imported.module), "");
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

/// Tests additional tensors that are accepted and additional tensors that cause
/// a warning.
TEST_F(Weights, FurtherTensors) {
  auto all = [](TensorDeclaration &) { return true; };
  auto f32 = [](const char *name, std::vector<int64_t> shape) {
    return TensorDeclaration{name, ElementType::F32, std::move(shape)};
  };
  std::vector<TensorDeclaration> known = {
      f32("transformer.h.0.attn.bias", {1, 1, 16, 16}),
      f32("h.1.attn.masked_bias", {}), f32("lm_head.weight", {50, 24})};
  EXPECT_EQ(check(all, known), "");
  EXPECT_TRUE(warnings.empty()) << warnings.front();

  EXPECT_EQ(check(all, {f32("transformer.h.2.ln_1.bias", {24})}), "");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "'" + directory.path() +
                             "' holds tensor 'transformer.h.2.ln_1.bias', "
                             "which the model does not use: --init of the "
                             "executable refuses them unless --init-ignore "
                             "names them");
  EXPECT_EQ(check(all, {f32("transformer.h.a.attn.bias", {1}),
                        f32("lm_head.weight", {51, 24})}),
            "");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("'transformer.h.a.attn.bias' and 1 others"),
            std::string::npos)
      << warnings[0];
}

/// A file may contain the classifier without the embedding that is tied to it.
TEST_F(Weights, TiedClassifierAlone) {
  EXPECT_EQ(check([](TensorDeclaration &tensor) {
              if (isNamed(tensor, "transformer.wte.weight"))
                tensor.name = "lm_head.weight";
              return true;
            }),
            "");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(Weights, DamagedFile) {
  Imported imported = importDirectory(directory.path());
  directory.write("model.safetensors", "not such a file");
  EXPECT_NE(check(*imported.module).find("model.safetensors"),
            std::string::npos);
}

} // namespace
