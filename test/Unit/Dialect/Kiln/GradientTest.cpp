//===- GradientTest.cpp - Derivatives against finite differences ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientCases.h"
#include "TestModule.h"
#include "kiln/Interpreter/GradientCheck.h"

#include "gtest/gtest.h"

#include <random>
#include <set>

using namespace kiln;
using namespace kiln::test;

static HostTensor makeInput(mlir::RankedTensorType type, const Values &values,
                            std::mt19937_64 &random) {
  HostTensor tensor(type);
  std::uniform_real_distribution<double> uniform(values.low, values.high);
  for (size_t i = 0; i < tensor.integers.size(); ++i)
    tensor.integers[i] = static_cast<int64_t>(values.given[i]);
  for (size_t i = 0; i < tensor.reals.size(); ++i) {
    double value = 0;
    if (!values.given.empty())
      value = values.given.at(i);
    else
      do
        value = uniform(random);
      while (std::abs(value) < values.gap);
    tensor.reals[i] = value;
  }
  return tensor;
}

/// Checks a case and updates `worst`, the largest error of all cases relative
/// to the tolerance.
static void checkCase(const GradientCase &one, double &worst) {
  std::string text =
      programOf(one.op, one.properties, one.operands, one.results);
  SCOPED_TRACE(text);
  TestModule module(text);
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  ProgramOp program = module.program("f");
  Interpreter types(module.get(), EvalType::F64);
  std::mt19937_64 random(1);
  std::vector<HostTensor> inputs;
  for (auto [i, type] : llvm::enumerate(program.getArgumentTypes())) {
    auto found = one.values.find(i);
    inputs.push_back(makeInput(
        types.evaluationType(type),
        found == one.values.end() ? Values() : found->second, random));
  }
  GradientCheckOptions options;
  if (one.by)
    options.arguments.emplace(one.by->begin(), one.by->end());
  auto result = checkGradients(program, inputs, options);
  ASSERT_TRUE(mlir::succeeded(result)) << module.diagnostics();
  EXPECT_TRUE(result->passed()) << result->where;
  worst = std::max(worst, result->worst);
}

namespace {

std::vector<std::string> checkedOps() {
  std::set<std::string> names;
  for (const GradientCase &one : gradientCases())
    names.insert(one.op);
  return {names.begin(), names.end()};
}

class GradientTest : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(GradientTest, AgreesWithDifferences) {
  double worst = 0;
  for (const GradientCase &one : gradientCases())
    if (one.op == GetParam())
      checkCase(one, worst);
  RecordProperty("worst_ratio", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientTest, testing::ValuesIn(checkedOps()),
                         [](const auto &info) {
                           return info.param.substr(info.param.find('.') + 1);
                         });

/// Fails if a differentiable op has no case. RankGradientTest.cpp checks the
/// ops that communicate between ranks.
TEST(GradientCoverage, EveryDifferentiableOpIsChecked) {
  mlir::MLIRContext context;
  context.loadDialect<KilnDialect>();
  std::vector<std::string> differentiable;
  for (mlir::RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("kiln"))
    if (name.hasInterface<DifferentiableOpInterface>())
      differentiable.push_back(name.getStringRef().str());
  llvm::sort(differentiable);
  std::vector<std::string> checked = checkedOps();
  checked.insert(checked.end(),
                 {"kiln.all_gather", "kiln.all_reduce", "kiln.reduce_scatter",
                  "kiln.share", "kiln.take_shard"});
  llvm::sort(checked);
  EXPECT_EQ(checked, differentiable);
}

/// Verifies that the checker detects a wrong derivative. At zero, the
/// derivative of relu differs from the finite difference, which is the mean of
/// the two one-sided derivatives.
TEST(GradientCheck, SeesWrongDerivatives) {
  TestModule module(programOf("kiln.relu", "", {"2xf32"}, {"2xf32"}));
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  ProgramOp program = module.program("f");
  Interpreter types(module.get(), EvalType::F64);
  HostTensor x(types.evaluationType(program.getArgumentTypes()[0]));
  x.reals = {0, 1};
  auto result = checkGradients(program, {x});
  ASSERT_TRUE(mlir::succeeded(result));
  EXPECT_FALSE(result->passed());
  EXPECT_NE(result->where.find("argument 0[0]"), std::string::npos)
      << result->where;
}

/// The gradient of a value with two uses is the sum of the cotangents of these
/// uses.
TEST(GradientCheck, AddsUpOverUses) {
  TestModule module(R"(
    kiln.program @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32>
        attributes {kind = #kiln.program_kind<forward>} {
      %s = kiln.softmax %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %t = kiln.tanh %x : tensor<2x3xf32>
      %p = kiln.mul %s, %t : tensor<2x3xf32>
      %y = kiln.mul %p, %s : tensor<2x3xf32>
      kiln.return %y : tensor<2x3xf32>
    })");
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  ProgramOp program = module.program("f");
  Interpreter types(module.get(), EvalType::F64);
  HostTensor x(types.evaluationType(program.getArgumentTypes()[0]));
  x.reals = {0.3, -1, 0.7, 2, -0.4, 0.1};
  auto result = checkGradients(program, {x});
  ASSERT_TRUE(mlir::succeeded(result)) << module.diagnostics();
  EXPECT_TRUE(result->passed()) << result->where;
}
