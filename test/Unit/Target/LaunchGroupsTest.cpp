//===- LaunchGroupsTest.cpp - Groups of launches --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each test adds a dependence between launches of one kernel. Two launches must
// not be grouped if one writes bytes that the other reads or writes. All other
// launches must be grouped.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/LaunchGroups.h"
#include "kiln/Target/Common/Passes.h"
#include "kiln/Target/Gpu/Targets.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace mlir;

namespace {

/// Declares slots that are live in all commands. Each slot has 64 bytes, and
/// their offsets are consecutive.
std::string slots(const std::string &names, int64_t commands) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += std::string("%") + names[i] + " = kilnrt.slot \"" + names[i] +
            "\" class activation offset " + std::to_string(64 * i) +
            " bytes 64 lifetime [0, " + std::to_string(commands - 1) + "]\n";
  return text;
}

/// Returns a launch that reads slot `from` at `readAt` and writes slot `to` at
/// `writtenAt`. Each position is a byte offset plus an optional stride per
/// micro-batch, such as "16 + 4 * microbatch".
std::string launch(const std::string &kernel, const std::string &from,
                   const std::string &to, const std::string &readAt = "0",
                   const std::string &writtenAt = "0") {
  static int64_t count = 0;
  std::string read = "%v" + std::to_string(count++),
              written = "%v" + std::to_string(count++);
  std::string type = kernel.back() == '4' ? "memref<4xf32>" : "memref<16xf32>";
  return read + " = kilnrt.view %" + from + "[" + readAt + "] : " + type +
         "\n" + written + " = kilnrt.view %" + to + "[" + writtenAt +
         "] : " + type + "\nkilnrt.launch @" + kernel + " on @compute (ro " +
         read + ", wo " + written + ")\n";
}

/// A kernel with an immediate argument.
const char *const dropout = R"(
kilnrt.kernel @dropout family<row> space [1, 4] row_strides [4, 3, 4] {
^bb0(%x: tensor<1x4xf32>, %rng: tensor<1x3xi64>):
  %y = kiln.dropout %x, %rng {p = 5.0e-01, key = 0, sequences = 1} : (tensor<1x4xf32>, tensor<1x3xi64>) -> tensor<1x4xf32>
  kiln.yield %y : tensor<1x4xf32>
}
)";

class LaunchGroups : public testing::Test {
protected:
  LaunchGroups() {
    DialectRegistry registry;
    registerCudaTarget(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<KilnDialect, rt::KilnRTDialect>();
  }

  /// Returns the launches of a program after kiln-group-launches, in order,
  /// with groups in brackets. "neg ab" is a launch of the kernel neg that reads
  /// slot a and writes slot b.
  std::string grouped(const std::string &program) {
    std::string kernels;
    for (std::string op : {"neg", "exp"})
      for (std::string size : {"16", "4"})
        kernels += "kilnrt.kernel @" + op + (size == "4" ? "4" : "") +
                   " family<row> space [1, " + size + "] row_strides [" + size +
                   ", " + size + "] {\n^bb0(%x: tensor<" + size +
                   "xf32>):\n%y = kiln." + op + " %x : tensor<" + size +
                   "xf32>\nkiln.yield %y : tensor<" + size + "xf32>\n}\n";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
        "module attributes {kiln.target = \"cuda\"} {\n" + kernels + dropout +
            "kilnrt.queue @compute engine device\n"
            "kilnrt.program @train kind<train> {\n" +
            program + "}\n}\n",
        &context);
    PassManager passes(&context);
    passes.addPass(createGroupLaunches());
    if (!module || failed(passes.run(*module))) {
      ADD_FAILURE() << program;
      return "";
    }
    std::string text;
    int64_t left = 0;
    module->walk([&](rt::LaunchOp launch) {
      text += text.empty() ? "" : " ";
      if (int64_t size = kiln::getGroupSize(launch); size > 1) {
        EXPECT_EQ(left, 0);
        text += "[";
        left = size;
      }
      text += launch.getKernel().str() + " ";
      for (mlir::Value place : launch.getPlaces())
        text += rt::viewOf(place).getSlotOp().getName();
      if (left > 0 && --left == 0)
        text += "]";
    });
    EXPECT_EQ(left, 0);
    return text;
  }

  MLIRContext context;
};

TEST_F(LaunchGroups, IndependentLaunchesBecomeNeighbours) {
  EXPECT_EQ(grouped(slots("abcdef", 3) + launch("neg", "a", "b") +
                    launch("exp", "c", "d") + launch("neg", "e", "f")),
            "[neg ab neg ef] exp cd");
  // Two reads are not a dependence.
  EXPECT_EQ(grouped(slots("abc", 2) + launch("neg", "a", "b") +
                    launch("neg", "a", "c")),
            "[neg ab neg ac]");
  EXPECT_EQ(grouped(slots("abcd", 2) + launch("neg", "a", "b") +
                    launch("exp", "c", "d")),
            "neg ab exp cd");
}

TEST_F(LaunchGroups, DependentLaunchesStayApart) {
  // The second launch reads what the first writes.
  EXPECT_EQ(grouped(slots("abc", 2) + launch("neg", "a", "b") +
                    launch("neg", "b", "c")),
            "neg ab neg bc");
  // The second launch writes what the first reads.
  EXPECT_EQ(grouped(slots("abc", 2) + launch("neg", "a", "b") +
                    launch("neg", "c", "a")),
            "neg ab neg ca");
  // Both launches write the same slot.
  EXPECT_EQ(grouped(slots("abc", 2) + launch("neg", "a", "b") +
                    launch("neg", "c", "b")),
            "neg ab neg cb");
  // The dependence goes through a launch of another kernel.
  EXPECT_EQ(grouped(slots("abcd", 3) + launch("neg", "a", "b") +
                    launch("exp", "b", "c") + launch("neg", "c", "d")),
            "neg ab exp bc neg cd");
  EXPECT_EQ(grouped(slots("abcde", 3) + launch("neg", "a", "b") +
                    launch("exp", "c", "d") + launch("neg", "e", "c")),
            "neg ab exp cd neg ec");
}

TEST_F(LaunchGroups, PartsOfASlotCount) {
  auto parts = [&](const std::string &first, const std::string &second) {
    return grouped(slots("ab", 2) + launch("neg4", "a", "b", "0", first) +
                   launch("neg4", "a", "b", "0", second));
  };
  EXPECT_EQ(parts("0", "16"), "[neg4 ab neg4 ab]");
  EXPECT_EQ(parts("0", "12"), "neg4 ab neg4 ab");
  // Both launches use slot a. They are grouped unless one launch writes bytes
  // that the other launch reads.
  EXPECT_EQ(grouped(slots("a", 2) + launch("neg4", "a", "a", "0", "16") +
                    launch("neg4", "a", "a", "32", "48")),
            "[neg4 aa neg4 aa]");
  EXPECT_EQ(grouped(slots("a", 2) + launch("neg4", "a", "a", "0", "16") +
                    launch("neg4", "a", "a", "28", "48")),
            "neg4 aa neg4 aa");
}

TEST_F(LaunchGroups, SlotsThatTakeTurnsStayApart) {
  // Slots b and d share bytes. The launches of a group may run in any order, so
  // the first launch could overwrite d, the result of the second launch.
  EXPECT_EQ(grouped(R"(
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 0]
  %c = kilnrt.slot "c" class activation offset 128 bytes 64 lifetime [0, 1]
  %d = kilnrt.slot "d" class activation offset 64 bytes 64 lifetime [1, 1]
)" + launch("neg", "a", "b") +
                    launch("neg", "c", "d")),
            "neg ab neg cd");
}

TEST_F(LaunchGroups, MicrobatchesCount) {
  // If the first launch, for micro-batch i + 1, accesses bytes that the second
  // launch writes for micro-batch i, the launches must not be grouped.
  auto microbatches = [&](const std::string &offset) {
    return grouped(slots("ab", 2) +
                   "kilnrt.microbatches 2 forward {\n} backward {\n" +
                   launch("neg4", "a", "b", "0", "0 + 16 * microbatch") +
                   launch("neg4", "a", "b", "0", offset) + "}\n");
  };
  EXPECT_EQ(microbatches("16"), "neg4 ab neg4 ab");
  EXPECT_EQ(microbatches("32"), "[neg4 ab neg4 ab]");
}

TEST_F(LaunchGroups, OtherCommandsEndARun) {
  EXPECT_EQ(grouped(slots("abcde", 3) + launch("neg", "a", "b") +
                    "%e0 = kilnrt.view %e[0] : memref<16xf32>\n"
                    "kilnrt.fill on @compute (wo %e0)\n" +
                    launch("neg", "c", "d")),
            "neg ab neg cd");
}

TEST_F(LaunchGroups, OtherArgumentsAreOtherGroups) {
  auto keys = [&](const std::string &first, const std::string &second) {
    return grouped(slots("abcde", 2) + R"(
  %x = kilnrt.view %a[0] : memref<1x4xf32>
  %rng = kilnrt.view %b[0] : memref<1x3xi64>
  %y = kilnrt.view %c[0] : memref<1x4xf32>
  %z = kilnrt.view %d[0] : memref<1x4xf32>
  kilnrt.launch @dropout on @compute (ro %x, ro %rng, wo %y) args [)" +
                   first + R"(]
  kilnrt.launch @dropout on @compute (ro %x, ro %rng, wo %z) args [)" +
                   second + "]\n");
  };
  EXPECT_EQ(keys("1", "1"), "[dropout abc dropout abd]");
  EXPECT_EQ(keys("1", "2"), "dropout abc dropout abd");
}

} // namespace
