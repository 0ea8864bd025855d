//===- RankGradientTest.cpp - Derivatives of collectives ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two ranks, which are threads, check the same program in lockstep. Both ranks
// change a shared input at the same time, so that the finite differences are
// those of the whole computation.
//
//===----------------------------------------------------------------------===//

#include "TestModule.h"
#include "kiln/Dialect/Kiln/IR/RankGroup.h"
#include "kiln/Interpreter/GradientCheck.h"

#include "gtest/gtest.h"

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {

/// Sums the tensors of two threads.
class Exchange {
public:
  void sum(int rank, llvm::MutableArrayRef<HostTensor> tensors) {
    std::unique_lock<std::mutex> lock(mutex);
    given[rank] = tensors;
    wait(lock);
    std::vector<std::vector<double>> sums;
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::vector<double> &sum = sums.emplace_back(given[0][i].reals);
      for (size_t j = 0; j < sum.size(); ++j)
        sum[j] += given[1][i].reals[j];
    }
    wait(lock);
    for (auto [tensor, sum] : llvm::zip_equal(tensors, sums))
      tensor.reals = std::move(sum);
  }

private:
  /// Waits until both threads have called this function.
  void wait(std::unique_lock<std::mutex> &lock) {
    uint64_t round = rounds;
    if (++arrived == 2) {
      arrived = 0;
      ++rounds;
      here.notify_all();
    }
    here.wait(lock, [&] { return rounds != round; });
  }

  std::mutex mutex;
  std::condition_variable here;
  int arrived = 0;
  uint64_t rounds = 0;
  std::array<llvm::MutableArrayRef<HostTensor>, 2> given;
};

class TwoRanks final : public RankGroup {
public:
  TwoRanks(Exchange &exchange, int self) : exchange(exchange), self(self) {}
  int64_t rank(llvm::StringRef) const override { return self; }
  bool sum(llvm::StringRef,
           llvm::MutableArrayRef<HostTensor> tensors) override {
    exchange.sum(self, tensors);
    return true;
  }

private:
  Exchange &exchange;
  int self;
};

/// Checks the derivative with respect to argument 0 of the program @f, which
/// two ranks of the axis tp execute.
void check(const std::string &text) {
  Exchange exchange;
  auto checkRank = [&](int rank) {
    TestModule module("module attributes {kiln.mesh = {tp = 2 : i64}} {" +
                      text + "}");
    ASSERT_TRUE(module.valid()) << module.diagnostics();
    TwoRanks ranks(exchange, rank);
    RankGroupScope scope(ranks);
    ProgramOp program = module.program("f");
    Interpreter types(module.get(), EvalType::F64);
    std::vector<HostTensor> inputs;
    for (mlir::Type type : program.getArgumentTypes()) {
      HostTensor &input = inputs.emplace_back(types.evaluationType(type));
      for (auto [i, x] : llvm::enumerate(input.reals))
        x = 0.25 + double(i * 7 % 5) / 4 - double(i % 3);
      for (auto [i, x] : llvm::enumerate(input.integers))
        x = input.size() == 1 ? rank : int64_t(i * 5 % 7);
    }
    GradientCheckOptions options;
    options.arguments = {0};
    auto result = checkGradients(program, inputs, options);
    ASSERT_TRUE(mlir::succeeded(result)) << module.diagnostics();
    EXPECT_TRUE(result->passed()) << result->where;
  };
  std::thread other(checkRank, 1);
  checkRank(0);
  other.join();
}

} // namespace

TEST(RankGradients, SharedValuesAndSums) {
  check(R"(
    kiln.program @f(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> tensor<2x2xf32>
        attributes {kind = #kiln.program_kind<forward>} {
      %s = kiln.share %x over "tp" : tensor<2x3xf32>
      %a = kiln.tanh %s : tensor<2x3xf32>
      %p = kiln.matmul %a, %w : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
      %y = kiln.all_reduce %p over "tp" : tensor<2x2xf32>
      kiln.return %y : tensor<2x2xf32>
    })");
}

TEST(RankGradients, DividedClasses) {
  check(R"(
    kiln.program @f(%x: tensor<6x3xf32>, %w: tensor<4x3xf32>, %t: tensor<6xi32>,
                    %k: tensor<f64>, %r: tensor<i32>) -> tensor<f64>
        attributes {kind = #kiln.program_kind<forward>} {
      %s = kiln.share %x over "tp" : tensor<6x3xf32>
      %l = kiln.linear_cross_entropy %s, %w, %t, %k rank %r {classes = 7} : (tensor<6x3xf32>, tensor<4x3xf32>, tensor<6xi32>, tensor<f64>, tensor<i32>) -> tensor<f64>
      kiln.return %l : tensor<f64>
    })");
}

// Three rows are divided into two shards of two rows each, so the second shard
// is padded.
TEST(RankGradients, DividedRows) {
  check(R"(
    kiln.program @f(%x: tensor<3x3xf32>, %w: tensor<3x2xf32>) -> tensor<3x2xf32>
        attributes {kind = #kiln.program_kind<forward>} {
      %s = kiln.share %x over "tp" : tensor<3x3xf32>
      %a = kiln.tanh %s : tensor<3x3xf32>
      %p = kiln.matmul %a, %w : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
      %d = kiln.reduce_scatter %p over "tp" : tensor<3x2xf32> -> tensor<2x2xf32>
      %n = kiln.silu %d : tensor<2x2xf32>
      %g = kiln.all_gather %n over "tp" : tensor<2x2xf32> -> tensor<3x2xf32>
      %h = kiln.share %g over "tp" : tensor<3x2xf32>
      %q = kiln.tanh %h : tensor<3x2xf32>
      %y = kiln.all_reduce %q over "tp" : tensor<3x2xf32>
      kiln.return %y : tensor<3x2xf32>
    })");
}

TEST(RankGradients, ShardsOfValuesThatAllRanksHave) {
  check(R"(
    kiln.program @f(%x: tensor<3x3xf32>) -> tensor<3x3xf32>
        attributes {kind = #kiln.program_kind<forward>} {
      %a = kiln.tanh %x : tensor<3x3xf32>
      %s = kiln.take_shard %a over "tp" : tensor<3x3xf32> -> tensor<2x3xf32>
      %n = kiln.silu %s : tensor<2x3xf32>
      %g = kiln.all_gather %n over "tp" : tensor<2x3xf32> -> tensor<3x3xf32>
      %y = kiln.tanh %g : tensor<3x3xf32>
      kiln.return %y : tensor<3x3xf32>
    })");
}
