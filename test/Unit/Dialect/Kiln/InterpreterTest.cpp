//===- InterpreterTest.cpp - Interpreter: states, regions, rounding -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestModule.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace kiln;
using namespace kiln::test;

using Doubles = std::vector<double>;

/// Runs `program` on one list of elements per argument.
static std::vector<Doubles> run(Interpreter &interpreter, ProgramOp program,
                                const std::vector<Doubles> &arguments) {
  llvm::SmallVector<TensorHandle> inputs;
  for (auto [type, values] :
       llvm::zip_equal(program.getArgumentTypes(), arguments)) {
    auto evaluated = interpreter.evaluationType(type);
    if (llvm::isa<mlir::FloatType>(evaluated.getElementType()))
      inputs.push_back(reals(evaluated, values));
    else
      inputs.push_back(integers(
          evaluated, std::vector<int64_t>(values.begin(), values.end())));
  }
  auto outputs = interpreter.run(program, inputs);
  std::vector<Doubles> results;
  if (mlir::succeeded(outputs))
    for (const TensorHandle &output : *outputs)
      results.push_back(output->reals);
  return results;
}

/// Runs program @f on one argument. Returns each evaluated op with the first
/// elements of its last operand and of its first result.
static std::string traceOf(TestModule &module, const Doubles &argument) {
  Interpreter interpreter(module.get(), EvalType::Own);
  std::string seen;
  interpreter.setObserver([&](mlir::Operation *op,
                              llvm::ArrayRef<const HostTensor *> operands,
                              llvm::ArrayRef<const HostTensor *> results) {
    seen += op->getName().stripDialect().str() + " " +
            std::to_string(static_cast<int>(operands.back()->reals[0])) + ">" +
            std::to_string(static_cast<int>(results[0]->reals[0])) + " ";
  });
  run(interpreter, module.program("f"), {argument});
  return seen;
}

TEST(Interpreter, ReadsSeeTheEntryValueAndWritesApplyAtTheExit) {
  TestModule module(R"(
    kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>,
                                   init = #kiln.splat<value = 0.0>}
    kiln.program @train(%x: tensor<2xf32>) -> tensor<2xf32>
        attributes {kind = #kiln.program_kind<train>} {
      %before = kiln.read @w : tensor<2xf32>
      %next = kiln.add %before, %x : tensor<2xf32>
      kiln.write @w, %next : tensor<2xf32>
      %after = kiln.read @w : tensor<2xf32>
      kiln.return %after : tensor<2xf32>
    })");
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  Interpreter interpreter(module.get(), EvalType::Own);
  ProgramOp train = module.program("train");
  HostTensor w(llvm::cast<mlir::RankedTensorType>(train.getArgumentTypes()[0]));
  w.reals = {1, 2};
  interpreter.setState("w", w);
  EXPECT_EQ(run(interpreter, train, {{10, 20}}),
            (std::vector<Doubles>{{1, 2}}));
  EXPECT_EQ(interpreter.getState("w")->reals, (Doubles{11, 22}));
  EXPECT_EQ(run(interpreter, train, {{1, 1}}),
            (std::vector<Doubles>{{11, 22}}));
}

TEST(Interpreter, AFailedRunChangesNoState) {
  TestModule module(R"(
    kiln.state @w : tensor<2x3xf32> {role = #kiln.role<parameter>,
                                     init = #kiln.splat<value = 0.0>}
    kiln.program @train(%tokens: tensor<1xi32>) -> tensor<1x3xf32>
        attributes {kind = #kiln.program_kind<train>} {
      %w = kiln.read @w : tensor<2x3xf32>
      %v = kiln.neg %w : tensor<2x3xf32>
      kiln.write @w, %v : tensor<2x3xf32>
      %y = kiln.embedding %tokens, %w
          : (tensor<1xi32>, tensor<2x3xf32>) -> tensor<1x3xf32>
      kiln.return %y : tensor<1x3xf32>
    })");
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  Interpreter interpreter(module.get(), EvalType::Own);
  ProgramOp train = module.program("train");
  EXPECT_TRUE(run(interpreter, train, {{0}}).empty());
  EXPECT_NE(
      module.diagnostics().find("'kiln.read' op reads @w, which has no value"),
      std::string::npos)
      << module.diagnostics();

  auto state = llvm::cast<StateOp>(module.get().lookupSymbol("w"));
  HostTensor w(state.getTensorType());
  w.reals = {1, 2, 3, 4, 5, 6};
  interpreter.setState("w", w);
  EXPECT_TRUE(run(interpreter, train, {{2}}).empty());
  EXPECT_NE(
      module.diagnostics().find("'kiln.embedding' op token 0 is 2, "
                                "expected a row index of the table, below 2"),
      std::string::npos)
      << module.diagnostics();
  EXPECT_EQ(interpreter.getState("w")->reals, w.reals);
}

TEST(Interpreter, MicrobatchesAddOverParts) {
  TestModule module(R"(
    kiln.program @f(%x: tensor<4x2xf32>, %t: tensor<4xi32>, %table: tensor<3x2xf32>)
        -> (tensor<2x2xf32>, tensor<2x2xf32>)
        attributes {kind = #kiln.program_kind<forward>} {
      %s:2 = kiln.microbatches sliced(%x, %t) count 2
          : (tensor<4x2xf32>, tensor<4xi32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
      ^bb0(%part: tensor<2x2xf32>, %tokens: tensor<2xi32>,
           %a: tensor<2x2xf32>, %b: tensor<2x2xf32>):
        %rows = kiln.embedding %tokens, %table
            : (tensor<2xi32>, tensor<3x2xf32>) -> tensor<2x2xf32>
        %n = kiln.add %a, %part : tensor<2x2xf32>
        %m = kiln.add %b, %rows : tensor<2x2xf32>
        kiln.yield %n, %m : tensor<2x2xf32>, tensor<2x2xf32>
      }
      kiln.return %s#0, %s#1 : tensor<2x2xf32>, tensor<2x2xf32>
    })");
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  Interpreter interpreter(module.get(), EvalType::Own);
  EXPECT_EQ(
      run(interpreter, module.program("f"),
          {{1, 2, 3, 4, 10, 20, 30, 40}, {0, 1, 2, 2}, {1, 2, 3, 4, 5, 6}}),
      (std::vector<Doubles>{{11, 22, 33, 44}, {6, 8, 8, 10}}));
}

TEST(Interpreter, RegionsRunTheirBodies) {
  TestModule module(R"(
    kiln.program @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
        attributes {kind = #kiln.program_kind<forward>} {
      kiln.phase backward
      %a = kiln.recompute(%x) : (tensor<2xf32>) -> tensor<2xf32> {
      ^bb0(%y: tensor<2xf32>):
        %z = kiln.neg %y : tensor<2xf32>
        kiln.yield %z : tensor<2xf32>
      }
      %b = kiln.dispatch row(%a) space [1, 2] : (tensor<2xf32>) -> tensor<2xf32> {
      ^bb0(%y: tensor<2xf32>):
        %z = kiln.scale %y by 3.0 : tensor<2xf32>
        kiln.yield %z : tensor<2xf32>
      }
      kiln.return %a, %b : tensor<2xf32>, tensor<2xf32>
    })");
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  Interpreter interpreter(module.get(), EvalType::Own);
  EXPECT_EQ(run(interpreter, module.program("f"), {{1, -2}}),
            (std::vector<Doubles>{{-1, 2}, {-3, 6}}));
}

TEST(Interpreter, ResultsAreRoundedToTheTypeOfTheEvaluation) {
  const char *text = R"(
    kiln.program @f(%x: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf64>)
        attributes {kind = #kiln.program_kind<forward>} {
      %y = kiln.exp %x : tensor<1xf32>
      %z = kiln.cast %y : tensor<1xf32> to tensor<1xf64>
      %w = kiln.scale %z by 0.1 : tensor<1xf64>
      kiln.return %y, %w : tensor<1xf32>, tensor<1xf64>
    })";
  TestModule module(text);
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  Interpreter own(module.get(), EvalType::Own);
  double rounded = static_cast<float>(std::exp(1.0));
  EXPECT_EQ(run(own, module.program("f"), {{1}}),
            (std::vector<Doubles>{{rounded}, {0.1 * rounded}}));
  Interpreter wide(module.get(), EvalType::F64);
  EXPECT_EQ(run(wide, module.program("f"), {{1}}),
            (std::vector<Doubles>{{std::exp(1.0)}, {0.1 * std::exp(1.0)}}));
}

TEST(Interpreter, TheObserverSeesEveryOpOnce) {
  TestModule module(R"(
    kiln.program @f(%x: tensor<2xf32>) -> tensor<1xf32>
        attributes {kind = #kiln.program_kind<forward>} {
      %s = kiln.microbatches sliced(%x) count 2 : (tensor<2xf32>) -> tensor<1xf32> {
      ^bb0(%part: tensor<1xf32>, %sum: tensor<1xf32>):
        %p = kiln.neg %part : tensor<1xf32>
        %n = kiln.add %sum, %p : tensor<1xf32>
        kiln.yield %n : tensor<1xf32>
      }
      kiln.return %s : tensor<1xf32>
    })");
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  EXPECT_EQ(traceOf(module, {3, 4}), "neg 3>-3 add -3>-3 neg 4>-4 add -4>-7 ");
}

TEST(Interpreter, SegmentsRunInTheirOrderWithTheirResiduals) {
  TestModule module(R"(
    kiln.program @f(%x: tensor<3xf32>) -> tensor<1xf32>
        attributes {kind = #kiln.program_kind<forward>} {
      %s = kiln.microbatches sliced(%x) count 3
          order <"F1 F0 B1 F2 B2 B0"> : (tensor<3xf32>) -> tensor<1xf32>
      forward {
      ^bb0(%part: tensor<1xf32>):
        %h = kiln.neg %part : tensor<1xf32>
        kiln.yield %h : tensor<1xf32>
      } backward {
      ^bb0(%part: tensor<1xf32>, %h: tensor<1xf32>, %sum: tensor<1xf32>):
        %p = kiln.mul %h, %part : tensor<1xf32>
        %n = kiln.add %sum, %p : tensor<1xf32>
        kiln.yield %n : tensor<1xf32>
      }
      kiln.return %s : tensor<1xf32>
    })");
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  EXPECT_EQ(traceOf(module, {3, 4, 5}),
            "neg 4>-4 neg 3>-3 mul 4>-16 add -16>-16 neg 5>-5 mul 5>-25 "
            "add -25>-41 mul 3>-9 add -9>-50 ");
}

TEST(Interpreter, UndividedMicrobatchesRunInTheOrderOfBackwardSegments) {
  TestModule module(R"(
    kiln.program @f(%x: tensor<2xf32>) -> tensor<1xf32>
        attributes {kind = #kiln.program_kind<forward>} {
      %s = kiln.microbatches sliced(%x) count 2 order <"F0 F1 B1 B0">
          : (tensor<2xf32>) -> tensor<1xf32> {
      ^bb0(%part: tensor<1xf32>, %sum: tensor<1xf32>):
        %p = kiln.neg %part : tensor<1xf32>
        %n = kiln.add %sum, %p : tensor<1xf32>
        kiln.yield %n : tensor<1xf32>
      }
      kiln.return %s : tensor<1xf32>
    })");
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  EXPECT_EQ(traceOf(module, {3, 4}), "neg 4>-4 add -4>-4 neg 3>-3 add -3>-7 ");
}

TEST(Interpreter, RefusesInputsOfAnotherType) {
  TestModule module(programOf("kiln.neg", "", {"2xf32"}, {"2xf32"}));
  ASSERT_TRUE(module.valid()) << module.diagnostics();
  Interpreter interpreter(module.get(), EvalType::F64);
  ProgramOp program = module.program("f");
  auto narrow =
      llvm::cast<mlir::RankedTensorType>(program.getArgumentTypes()[0]);
  EXPECT_TRUE(mlir::failed(interpreter.run(program, {})));
  EXPECT_TRUE(mlir::failed(interpreter.run(program, {reals(narrow, {1, 2})})));
  EXPECT_NE(module.diagnostics().find(
                "input 0 is 'tensor<2xf32>', expected 'tensor<2xf64>'"),
            std::string::npos)
      << module.diagnostics();
}
