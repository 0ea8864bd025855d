//===- UnusedTensorsTest.cpp - Tests of unused tensors --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/UnusedTensors.h"
#include "TestFiles.h"
#include "kiln/Support/ElementConversion.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace kiln::support;
using namespace kiln;

namespace {

struct Tensor {
  std::string name;
  std::vector<float> values;
  ElementType type = ElementType::F32;
};

class UnusedTensors : public testing::Test {
protected:
  void write(const std::string &file, const std::vector<Tensor> &tensors) {
    std::vector<TensorDeclaration> declared;
    for (const Tensor &tensor : tensors)
      declared.push_back(
          {tensor.name, tensor.type, {int64_t(tensor.values.size())}});
    Result<SafeTensorsWriter> writer =
        SafeTensorsWriter::create(directory / file, declared);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (const Tensor &tensor : tensors) {
      std::vector<char> bytes(tensor.values.size() * bitsOf(tensor.type) / 8);
      convertElements(ElementType::F32, tensor.values.data(), tensor.type,
                      bytes.data(), tensor.values.size());
      expectOk(writer->write(bytes.data(), bytes.size()));
    }
    expectOk(writer->finish());
  }

  /// Checks a model with the tensors 'wte', which is tied to 'head', and 'b'.
  Status check(const std::vector<std::string> &ignored = {},
               const char *file = "model.safetensors") {
    Result<ModelWeights> weights = ModelWeights::open(directory / file);
    if (!weights.ok())
      return weights.status();
    std::vector<ExpectedTensor> expected = {{"wte", {}, {3}, {"head"}},
                                            {"b", {}, {1}}};
    auto found = weights->match(expected);
    if (!found.ok())
      return found.status();
    return checkUnusedTensors(*weights, expected, *found,
                              {{"h.*.mask"}, ignored});
  }

  TestDirectory directory;
  const Tensor wte{"wte", {1, 2, -0.5}}, b{"b", {4}};
};

TEST_F(UnusedTensors, Patterns) {
  EXPECT_TRUE(matchesPattern("h.0.mask", "h.*.mask"));
  EXPECT_TRUE(matchesPattern("h.12.mask", "h.*.mask"));
  EXPECT_TRUE(matchesPattern("a.1", "a.*"));
  EXPECT_FALSE(matchesPattern("h..mask", "h.*.mask"));
  EXPECT_FALSE(matchesPattern("h.x.mask", "h.*.mask"));
  EXPECT_FALSE(matchesPattern("h.1.mask.1", "h.*.mask"));
  EXPECT_FALSE(matchesPattern("x.h.1.mask", "h.*.mask"));
  EXPECT_FALSE(matchesPattern("h.1.mas", "h.*.mask"));
  EXPECT_FALSE(matchesPattern("a.", "a.*"));
}

TEST_F(UnusedTensors, EqualCopiesAndKnownTensorsPass) {
  write("model.safetensors",
        {wte, b, {"head", {1, 2, -0.5}}, {"h.7.mask", {0, 0}}});
  expectOk(check());
  // Equal values of another type are accepted. Two NaNs count as equal.
  write("model.safetensors",
        {wte, b, {"head", {1, 2, -0.5}, ElementType::BF16}});
  expectOk(check());
  write("model.safetensors",
        {{"wte", {NAN, 0, 1}}, b, {"head", {NAN, -0.0f, 1}}});
  expectOk(check());
  // The file contains 'head', but not 'wte'.
  write("model.safetensors", {{"head", {1, 2, 3}}, b});
  expectOk(check());
}

TEST_F(UnusedTensors, CopiesThatDiffer) {
  write("model.safetensors", {wte, b, {"head", {1, 2, -0.25}}});
  std::string path = "'" + (directory / "model.safetensors") + "'";
  expectBadInput(
      check(),
      path + ": the model has one tensor for 'wte' and 'head', which are tied, "
             "but the two tensors of the file differ: first in element 2; set "
             "tie_word_embeddings to false and compile again to train both, or "
             "pass --init-ignore=head to initialize both from 'wte'");
  expectOk(check({"head"}));
  write("model.safetensors", {wte, b, {"head", {1, 2}}});
  expectBadInput(check(),
                 "the two tensors of the file differ: shapes [3] and [2];");
  expectOk(check({"head"}));
  // The values differ in f32, although they are equal when rounded to bf16.
  write("model.safetensors", {{"wte", {1.0001f, 2, 3}},
                              b,
                              {"head", {1.0001f, 2, 3}, ElementType::BF16}});
  expectBadInput(check(), "first in element 0");
}

TEST_F(UnusedTensors, CopiesInShards) {
  write("one.safetensors", {wte});
  write("two.safetensors", {b, {"head", {1, 2, 0}}});
  directory.put("model.safetensors.index.json",
                R"({"weight_map":{"wte":"one.safetensors",
                    "b":"two.safetensors","head":"two.safetensors"}})");
  expectBadInput(check({}, "."), "first in element 2");
  write("two.safetensors", {b, {"head", wte.values}});
  expectOk(check({}, "."));
}

TEST_F(UnusedTensors, Others) {
  write("model.safetensors", {wte, b, {"x", {1}}, {"h.mask", {1}}});
  expectBadInput(check(), "holds tensor 'h.mask' and 1 others, which the model "
                          "does not use: check that the file belongs to this "
                          "model; if it does, pass --init-ignore=h.mask,x");
  expectBadInput(check({"x"}), "holds tensor 'h.mask', which the model does");
  expectOk(check({"x", "h.mask"}));
  std::vector<Tensor> many = {wte, b};
  for (int i = 0; i < 20; ++i)
    many.push_back({"y" + std::to_string(i), {1}});
  write("model.safetensors", many);
  expectBadInput(check(), "and 19 others, which");
  expectBadInput(check(), ",y17,y18,y19,y2,y3,y4,y5,y6,y7,y8,y9");
}

TEST_F(UnusedTensors, IgnoredNames) {
  write("model.safetensors", {wte, b});
  Status status = check({"none"});
  EXPECT_EQ(status.code(), ExitCode::Usage);
  EXPECT_EQ(status.message(), "--init-ignore names 'none', but '" +
                                  (directory / "model.safetensors") +
                                  "' has no such tensor");
  status = check({"b"});
  EXPECT_EQ(status.code(), ExitCode::Usage);
  EXPECT_EQ(status.message(), "--init-ignore names 'b', which the model needs");
}

} // namespace
