//===- ExamplesTest.cpp - Tests of the models in examples/ ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestModel.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;
using namespace mlir;

namespace {

int64_t countParameters(ModuleOp module) {
  int64_t elements = 0;
  for (StateOp state : module.getOps<StateOp>())
    if (state.getRole() == Role::Parameter)
      elements += state.getTensorType().getNumElements();
  return elements;
}

/// Checks that `module` is a byte-level model small enough to train in two
/// minutes.
void expectExample(ModuleOp module) {
  EXPECT_TRUE(succeeded(verify(module)));
  auto model = module->getAttrOfType<DictionaryAttr>("kiln.model");
  ASSERT_TRUE(model);
  EXPECT_EQ(model.getAs<IntegerAttr>("vocab_size").getInt(), 256);
  EXPECT_LT(countParameters(module), 1'100'000);
}

TEST(Examples, TinyGpt2) {
  Imported imported = importDirectory(KILN_EXAMPLES "/tiny-gpt2");
  ASSERT_EQ(imported.error, "");
  expectExample(*imported.module);
}

TEST(Examples, TinyLlama) {
  Imported imported = importDirectory(KILN_EXAMPLES "/tiny-llama");
  ASSERT_EQ(imported.error, "");
  expectExample(*imported.module);
}

TEST(Examples, Mlp) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<KilnDialect>();
  auto module = parseSourceFile<ModuleOp>(KILN_EXAMPLES "/mlp.mlir", &context);
  ASSERT_TRUE(module);
  expectExample(*module);
}

/// The text of a printed module must parse, and the parsed module must print as
/// the same text.
TEST(Examples, RoundTrip) {
  for (const char *path :
       {KILN_EXAMPLES "/tiny-gpt2", KILN_EXAMPLES "/tiny-llama"}) {
    Imported imported = importDirectory(path);
    ASSERT_EQ(imported.error, "");
    std::string text = print(*imported.module, /*locations=*/true);
    auto again = parseSourceString<ModuleOp>(text, imported.context.get());
    ASSERT_TRUE(again);
    EXPECT_EQ(print(*again, /*locations=*/true), text);
    for (StateOp state : imported.module->getOps<StateOp>())
      EXPECT_EQ(again->lookupSymbol<StateOp>(state.getSymName()).getInit(),
                state.getInit());
  }
}

} // namespace
