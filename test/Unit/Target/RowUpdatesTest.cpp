//===- RowUpdatesTest.cpp - Optimizer updates of the row family -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowOps.h"

#include <cmath>
#include <limits>

using namespace kiln;
using namespace kiln::test;

namespace {

class RowUpdates : public RowOps {};

void fillOptimizer(HostTensor &tensor, bool isSecondMoment) {
  if (!tensor.isReal())
    tensor.integers[0] = 7;
  else if (tensor.shape().empty())
    tensor.reals[0] = 0.03;
  else if (isSecondMoment)
    makePositive(tensor);
}

TEST_F(RowUpdates, Adam) {
  for (const char *decay : {"weight_decay = 1.0e-01, decoupled",
                            "weight_decay = 1.0e-01", "weight_decay = 0.0"}) {
    RowCase rowCase = {
        "%p: tensor<$Rx$Cx$T>, %m: tensor<$Rx$Cx$T>, %v: tensor<$Rx$Cx$T>, "
        "%g: tensor<$Rx$Cx$T>, %f: tensor<f64>, %lr: tensor<f64>, "
        "%s: tensor<i64>",
        std::string("%p1, %m1, %v1 = kiln.adam %p, %m, %v, %g, %f, %lr, %s "
                    "{beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, ") +
            decay +
            "} : (tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>, "
            "tensor<$Rx$Cx$T>, tensor<f64>, tensor<f64>, tensor<i64>) -> "
            "(tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>)",
        "%p1 : tensor<$Rx$Cx$T>, %m1 : tensor<$Rx$Cx$T>, "
        "%v1 : tensor<$Rx$Cx$T>"};
    rowCase.hasNarrowFloats = false;
    rowCase.fill = [](unsigned argument, HostTensor &tensor) {
      fillOptimizer(tensor, argument == 2);
    };
    runner.add(rowCase, kFewSizes);
  }
}

/// Returns an update of $R x 256 elements whose optimizer states are stored as
/// 8-bit codes. `update` is the text of the op in the body, without its types.
/// `storage` has "signed" or "unsigned" for each state.
RowCase encodedUpdate(const std::string &update,
                      const std::vector<std::string> &storage, bool isSkipped) {
  const std::string full = "tensor<$Rx256xf32>", codes = "tensor<$Rx256xi8>",
                    scales = "tensor<$Rxf32>";
  bool isAdam = storage.size() == 2;
  std::string names = "%p", types = full, stores, inner = "%a0", arguments,
              innerTypes = full, bodyArguments = "%a0: " + full, results;
  RowCase rowCase;
  rowCase.results = "%u#0 : " + full;
  arguments = "%p: " + full;
  for (size_t i = 0; i < storage.size(); ++i) {
    std::string n = std::to_string(i), a = "%a" + std::to_string(i + 1);
    arguments += ", %c" + n + ": " + codes + ", %s" + n + ": " + scales;
    names += ", %c" + n + ", %s" + n;
    types += ", " + codes + ", " + scales;
    stores += (i ? ", " : "") + std::string("#kiln.moment_storage<") +
              storage[i] + ">";
    inner += ", " + a;
    innerTypes += ", " + full;
    bodyArguments += ", " + a + ": " + full;
    rowCase.results += ", %u#" + std::to_string(2 * i + 1) + " : " + codes +
                       ", %u#" + std::to_string(2 * i + 2) + " : " + scales;
  }
  std::string outputs = types, updated = innerTypes, rest;
  auto add = [&](const std::string &name, const std::string &type) {
    arguments += ", %" + name + ": " + type;
    names += ", %" + name;
    rest += ", " + type;
    inner += ", %b" + name;
    bodyArguments += ", %b" + name + ": " + type;
  };
  add("g", full);
  add("f", "tensor<f64>");
  add("r", "tensor<f64>");
  if (isAdam)
    add("n", "tensor<i64>");
  if (isSkipped)
    add("apply", "tensor<i64>");
  std::string last = std::to_string(storage.size());
  rowCase.arguments = arguments;
  rowCase.body = "%u:" + std::to_string(2 * storage.size() + 1) +
                 " = kiln.encoded_update(" + names + ") stores [" + stores +
                 "] : (" + types + rest + ") -> (" + outputs + ") {\n^bb0(" +
                 bodyArguments +
                 "):\n%q:" + std::to_string(storage.size() + 1) + " = kiln." +
                 update + " : (" + innerTypes + rest + ") -> (" + updated +
                 ")\nkiln.yield %q#0, %q#1" + (isAdam ? ", %q#2" : "") + " : " +
                 updated + "\n}";
  size_t at = rowCase.body.find("$I");
  rowCase.body.replace(at, 2, inner);
  rowCase.hasNarrowFloats = rowCase.hasDoubles = false;
  unsigned states = 2 * storage.size();
  rowCase.fill = [=](unsigned argument, HostTensor &tensor) {
    bool isState = argument >= 1 && argument <= states;
    if (!tensor.isReal() && tensor.shape().empty()) {
      tensor.integers[0] =
          isSkipped && argument == states + (isAdam ? 5 : 4) ? 0 : 7;
    } else if (!tensor.isReal()) { // Codes; the last row is zero.
      bool isSigned = storage[argument / 2] == "signed";
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.integers[i] =
            static_cast<int8_t>(i + 256 < tensor.size() ? 37 * i + 255
                                : isSigned              ? 127
                                                        : 0);
    } else if (tensor.shape().empty()) {
      tensor.reals[0] = 0.03;
    } else if (isState) {
      makePositive(tensor);
      tensor.reals.back() = 0;
    } else if (argument == states + 1) {
      // Gradients of many magnitudes, and one row of zeros.
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.reals[i] =
            i + 256 < tensor.size()
                ? std::ldexp(static_cast<float>(tensor.reals[i]), -int(i % 23))
                : 0;
    }
  };
  return rowCase;
}

TEST_F(RowUpdates, AStateThatIsNotFiniteHasAnInfiniteScale) {
  RowCase rowCase = encodedUpdate(
      "momentum $I {mu = 9.0e-01, weight_decay = 0.0}", {"signed"},
      /*isSkipped=*/false);
  rowCase.results = "%u#2 : tensor<$Rxf32>";
  auto fill = rowCase.fill;
  rowCase.fill = [=](unsigned argument, HostTensor &tensor) {
    fill(argument, tensor);
    if (argument != 3)
      return;
    tensor.reals[100] = std::nan("");
    tensor.reals[2 * 256 + 17] = -std::numeric_limits<float>::infinity();
  };
  runner.add(rowCase, {{5, 256}});
}

TEST_F(RowUpdates, EncodedUpdates) {
  const std::vector<std::pair<int64_t, int64_t>> sizes = {{1, 256}, {5, 256}};
  const std::string betas = "beta1 = 9.0e-01, beta2 = 9.99e-01, ";
  const std::string adam = betas + "eps = 1.0e-08, weight_decay = ";
  for (bool isSkipped : {false, true}) {
    auto add = [&](const std::string &update,
                   const std::vector<std::string> &storage) {
      runner.add(encodedUpdate(update, storage, isSkipped), sizes);
    };
    add("adam $I decoupled {" + adam + "1.0e-01}", {"signed", "unsigned"});
    add("adam $I {" + adam + "1.0e-01}", {"signed", "unsigned"});
    add("momentum $I nesterov {mu = 9.0e-01, weight_decay = 1.0e-01}",
        {"signed"});
    add("lion $I {" + betas + "weight_decay = 1.0e-01}", {"signed"});
  }
}

TEST_F(RowUpdates, GradientDescent) {
  auto fill = [](unsigned, HostTensor &tensor) {
    fillOptimizer(tensor, false);
  };
  for (const char *decay : {"0.0", "1.0e-01"}) {
    RowCase sgd = {
        "%p: tensor<$Rx$Cx$T>, %g: tensor<$Rx$Cx$T>, %f: tensor<f64>, "
        "%lr: tensor<f64>",
        std::string("%q = kiln.sgd %p, %g, %f, %lr {weight_decay = ") + decay +
            "} : (tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>, tensor<f64>, "
            "tensor<f64>) -> tensor<$Rx$Cx$T>",
        "%q : tensor<$Rx$Cx$T>"};
    sgd.hasNarrowFloats = false;
    sgd.fill = fill;
    runner.add(sgd, kFewSizes);
    for (const char *nesterov : {"", ", nesterov"}) {
      RowCase momentum = {
          "%p: tensor<$Rx$Cx$T>, %b: tensor<$Rx$Cx$T>, %g: tensor<$Rx$Cx$T>, "
          "%f: tensor<f64>, %lr: tensor<f64>",
          std::string("%q, %c = kiln.momentum %p, %b, %g, %f, %lr "
                      "{mu = 9.0e-01, weight_decay = ") +
              decay + nesterov +
              "} : (tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>, "
              "tensor<f64>, tensor<f64>) -> (tensor<$Rx$Cx$T>, "
              "tensor<$Rx$Cx$T>)",
          "%q : tensor<$Rx$Cx$T>, %c : tensor<$Rx$Cx$T>"};
      momentum.hasNarrowFloats = false;
      momentum.fill = fill;
      runner.add(momentum, kFewSizes);
    }
  }
}

TEST_F(RowUpdates, Lion) {
  for (const char *decay : {"0.0", "2.5e-01"}) {
    RowCase lion = {
        "%p: tensor<$Rx$Cx$T>, %m: tensor<$Rx$Cx$T>, %g: tensor<$Rx$Cx$T>, "
        "%f: tensor<f64>, %lr: tensor<f64>",
        std::string("%q, %n = kiln.lion %p, %m, %g, %f, %lr {beta1 = 9.0e-01, "
                    "beta2 = 9.9e-01, weight_decay = ") +
            decay +
            "} : (tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>, "
            "tensor<f64>, tensor<f64>) -> (tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>)",
        "%q : tensor<$Rx$Cx$T>, %n : tensor<$Rx$Cx$T>"};
    lion.hasNarrowFloats = false;
    lion.fill = [](unsigned, HostTensor &tensor) {
      fillOptimizer(tensor, /*isSecondMoment=*/false);
    };
    runner.add(lion, kFewSizes);
  }
}

// A skipped step does not change the parameter and the states.
TEST_F(RowUpdates, SkippedUpdates) {
  for (int64_t apply : {0, 1}) {
    RowCase update = {
        "%p: tensor<$Rx$Cx$T>, %b: tensor<$Rx$Cx$T>, %g: tensor<$Rx$Cx$T>, "
        "%f: tensor<f64>, %lr: tensor<f64>, %a: tensor<i64>",
        "%q, %c = kiln.momentum %p, %b, %g, %f, %lr, %a {mu = 9.0e-01, "
        "weight_decay = 2.5e-01} : (tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>, "
        "tensor<$Rx$Cx$T>, tensor<f64>, tensor<f64>, tensor<i64>) -> "
        "(tensor<$Rx$Cx$T>, tensor<$Rx$Cx$T>)",
        "%q : tensor<$Rx$Cx$T>, %c : tensor<$Rx$Cx$T>"};
    update.hasNarrowFloats = false;
    update.fill = [apply](unsigned argument, HostTensor &tensor) {
      if (argument == 5)
        tensor.integers[0] = apply;
      else
        fillOptimizer(tensor, /*isSecondMoment=*/false);
    };
    runner.add(update, kFewSizes);
  }
}

} // namespace
