//===- FakeTargetTest.cpp - Adding a target -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds a target that aligns tensors to 256 bytes, states to 1024 bytes and
// matrix rows to 48 bytes, and that groups launches. Checks that the passes
// follow these rules.
//
//===----------------------------------------------------------------------===//

#include "kiln/Conversion/KilnToKilnRT/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Target/Common/Passes.h"
#include "kiln/Target/Cpu/CpuBackend.h"
#include "kiln/Target/Gpu/Targets.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace mlir;

namespace {

class WideBackend : public cpu::CpuBackend {
public:
  llvm::StringRef getName() const override { return "wide"; }
  FusionRules getFusionRules() const override { return {}; }
  int64_t getRowAlignment() const override { return 48; }
  int64_t getAlignment(rt::SlotClass slotClass) const override {
    return slotClass == rt::SlotClass::Parameter ? 1024 : 256;
  }
  LaunchRules getLaunchRules() const override {
    LaunchRules rules;
    rules.groups = true;
    return rules;
  }
};

/// A program with two states of 224 bytes, two equal kernels that read these
/// states, and a GEMM whose result can have padded rows.
constexpr char kProgram[] = R"(
kiln.state @v : tensor<7x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @w : tensor<7x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @evaluate(%x: tensor<6x8xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %u: tensor<7x7xf32> {kiln.name = "u", kiln.input = #kiln.input<data>}) -> (tensor<6x7xf32> {kiln.name = "z"}, tensor<7x8xf32> {kiln.name = "a"}, tensor<7x8xf32> {kiln.name = "b"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %v = kiln.read @v : tensor<7x8xf32>
  %w = kiln.read @w : tensor<7x8xf32>
  %y = kiln.matmul %x, %w trans_b {grid = array<i64: 1, 1>} : (tensor<6x8xf32>, tensor<7x8xf32>) -> tensor<6x7xf32>
  %h = kiln.exp %y : tensor<6x7xf32>
  %z = kiln.matmul %h, %u {grid = array<i64: 1, 1>} : (tensor<6x7xf32>, tensor<7x7xf32>) -> tensor<6x7xf32>
  %a = kiln.sqrt %v : tensor<7x8xf32>
  %b = kiln.sqrt %w : tensor<7x8xf32>
  kiln.return %z, %a, %b : tensor<6x7xf32>, tensor<7x8xf32>, tensor<7x8xf32>
}
)";

/// The properties of a scheduled program that depend on the target.
struct Schedule {
  std::vector<int64_t> stateOffsets;
  /// The largest power of two that divides all offsets other than those of
  /// states.
  int64_t alignment = 0;
  int64_t pitch = 0;     ///< Row stride of padded rows; 0 if none.
  int64_t epilogues = 0; ///< Number of GEMMs with a fused epilogue.
  int64_t largestGroup = 1;
};

class FakeTarget : public testing::Test {
protected:
  /// Creates a context with the target cpu and the fake target.
  FakeTarget() {
    DialectRegistry registry;
    registry.insert<KilnDialect, rt::KilnRTDialect>();
    registerCpuTarget(registry);
    registerTarget<WideBackend>(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<KilnDialect, rt::KilnRTDialect>();
  }

  Schedule schedule(llvm::StringRef target) {
    auto module =
        parseSourceString<ModuleOp>(("module attributes {kiln.target = \"" +
                                     target + "\"} {" + kProgram + "}")
                                        .str(),
                                    &context);
    PassManager passes(&context);
    passes.addPass(createFormDispatches());
    passes.addPass(createSchedule());
    passes.addPass(createGroupLaunches());
    Schedule facts;
    if (!module || failed(passes.run(*module))) {
      ADD_FAILURE() << "cannot schedule for " << target.str();
      return facts;
    }
    int64_t offsets = 0;
    module->walk([&](Operation *op) {
      if (auto slot = dyn_cast<rt::SlotOp>(op)) {
        if (slot.getState())
          facts.stateOffsets.push_back(slot.getOffset());
        else
          offsets |= slot.getOffset();
        if (auto rows = slot.getRows())
          facts.pitch = (*rows)[1];
      } else if (auto gemm = dyn_cast<rt::GemmOp>(op)) {
        facts.epilogues += gemm.getEpilogue().has_value();
      } else if (auto launch = dyn_cast<rt::LaunchOp>(op)) {
        facts.largestGroup = std::max(facts.largestGroup,
                                      int64_t(launch.getGroup().value_or(1)));
      }
    });
    facts.alignment = offsets & -offsets;
    return facts;
  }

  /// Returns the first error that `run` reports.
  std::string errorOf(llvm::function_ref<void()> run) {
    std::string text;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (text.empty())
        text = diagnostic.str();
      return success();
    });
    run();
    return text;
  }

  MLIRContext context;
};

TEST_F(FakeTarget, SchedulesFollowItsAnswers) {
  Schedule wide = schedule("wide");
  EXPECT_EQ(wide.stateOffsets, (std::vector<int64_t>{0, 1024}));
  EXPECT_EQ(wide.alignment % 256, 0);
  EXPECT_EQ(wide.pitch, 48);
  EXPECT_EQ(wide.epilogues, 0);
  EXPECT_EQ(wide.largestGroup, 2);
}

TEST_F(FakeTarget, OtherTargetsKeepTheirs) {
  Schedule cpu = schedule("cpu");
  EXPECT_EQ(cpu.stateOffsets, (std::vector<int64_t>{0, 256}));
  EXPECT_EQ(cpu.alignment, 64);
  EXPECT_EQ(cpu.pitch, 0);
  EXPECT_EQ(cpu.epilogues, 1);
  EXPECT_EQ(cpu.largestGroup, 1);
}

TEST_F(FakeTarget, UnknownNamesAreErrors) {
  std::string error = errorOf([&] {
    EXPECT_FALSE(parseSourceString<ModuleOp>(
        "module attributes {kiln.target = \"wade\"} {}", &context));
  });
  EXPECT_EQ(error, "'builtin.module' op has 'kiln.target' = \"wade\", "
                   "but the value must be \"cpu\" or \"wide\", and only a "
                   "module may have this attribute");
  // Do not verify this module, so that backendOf() reports the error.
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  (*module)->setAttr(kTargetAttr, StringAttr::get(&context, "wade"));
  error = errorOf([&] { EXPECT_EQ(backendOf(*module), nullptr); });
  EXPECT_EQ(error, "unknown target 'wade'; expected cpu or wide");
}

TEST_F(FakeTarget, ContextsWithoutTargetsReadAllModules) {
  MLIRContext bare;
  bare.loadDialect<KilnDialect>();
  auto module = parseSourceString<ModuleOp>(
      "module attributes {kiln.target = \"wide\"} {}", &bare);
  ASSERT_TRUE(module);
  std::string error;
  ScopedDiagnosticHandler handler(&bare, [&](Diagnostic &diagnostic) {
    error = diagnostic.str();
    return success();
  });
  EXPECT_EQ(backendOf(*module), nullptr);
  EXPECT_EQ(error, "unknown target 'wide'; this tool registers no target");
}

TEST_F(FakeTarget, RegistrationMayBeRepeated) {
  DialectRegistry registry;
  registerTarget<WideBackend>(registry);
  registerCudaTarget(registry);
  const TargetBackend *wide = TargetRegistry::lookup(context)->find("wide");
  context.appendDialectRegistry(registry);
  const TargetRegistry &targets = *TargetRegistry::lookup(context);
  EXPECT_EQ(targets.find("wide"), wide);
  EXPECT_EQ(targets.listNames([](const TargetBackend &target) { return true; }),
            "cpu, wide or cuda");
}

} // namespace
