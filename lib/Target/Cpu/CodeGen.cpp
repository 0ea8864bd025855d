//===- CodeGen.cpp - Compiles kernel modules to object code ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emitters determine the loops, vectors and rounding of kernels. LLVM only
// schedules instructions and allocates registers: its vectorizers and unroller,
// the recognition of library functions and the contraction of operations are
// disabled. compileLowered() has an LLVMContext of its own and only reads the
// MLIR context, so it can compile several modules of one MLIR context in
// parallel. lowerKernels() may load dialects into the context, and must not run
// in parallel.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Cpu/CodeGen.h"
#include "kiln/Target/Common/ByteFloats.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

#include <mutex>

using namespace mlir;

namespace kiln::cpu {

namespace {

/// Returns the native target, which is registered once per process.
llvm::Expected<const llvm::Target *> getTarget(const llvm::Triple &triple) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  std::string message;
  if (const llvm::Target *target =
          llvm::TargetRegistry::lookupTarget(triple, message))
    return target;
  return llvm::createStringError("no code generator for " + triple.str() +
                                 ": " + message);
}

llvm::Triple hostTriple() {
  return llvm::Triple(llvm::sys::getProcessTriple());
}

/// Expands conversions from and to bf16 to integer operations and replaces the
/// remaining bf16 types by integers. Without the expansion, LLVM would convert
/// bf16 values, and access bf16 vector elements, with an instruction that
/// flushes subnormals or, if the processor lacks that instruction, with a call
/// of a library function that is not linked.
void expandBFloat16(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  arith::populateExpandBFloat16Patterns(patterns);
  walkAndApplyPatterns(module, std::move(patterns));

  replaceFloatsByIntegers(module, [](FloatType type) { return type.isBF16(); });
}

LogicalResult lowerToLLVMDialect(ModuleOp module) {
  expandBFloat16(module);
  PassManager pm(module.getContext());
  pm.addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vectorOptions;
  vectorOptions.vectorTransposeLowering =
      vector::VectorTransposeLowering::Shuffle16x16;
  vectorOptions.vectorContractLowering =
      vector::VectorContractLowering::OuterProduct;
  pm.addPass(createConvertVectorToLLVMPass(vectorOptions));
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  // Disable library functions, so that no loop becomes a call of memset.
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  // Kernels call no function that LLVM could inline, so the passes over
  // functions suffice. After them, the passes over modules change hardly any
  // instruction, but take as long again.
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(
      builder.buildFunctionSimplificationPipeline(
          llvm::OptimizationLevel::O2, llvm::ThinOrFullLTOPhase::None)));
  passes.run(module, modules);
}

} // namespace

llvm::Expected<Processor> getProcessor(StringRef mcpu) {
  llvm::Triple triple = hostTriple();
  llvm::Expected<const llvm::Target *> target = getTarget(triple);
  if (!target)
    return target.takeError();

  // Use the feature names that the host reports, since the executable can check
  // only these at startup; the lists of LLVM also contain tuning hints.
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  Processor processor;
  SmallVector<std::pair<StringRef, bool>> known;
  if (mcpu.empty() || mcpu == "native") {
    processor.name = llvm::sys::getHostCPUName().str();
    for (auto &feature : host)
      known.push_back({feature.getKey(), feature.getValue()});
  } else {
    processor.name = mcpu.str();
    // Check the name first, because creating the MCSubtargetInfo of an unknown
    // processor prints to stderr.
    std::unique_ptr<llvm::MCSubtargetInfo> generic(
        (*target)->createMCSubtargetInfo(triple, "", ""));
    if (!generic->isCPUStringValid(mcpu))
      return llvm::createStringError("unknown processor '" + mcpu + "' for " +
                                     triple.str());
    std::unique_ptr<llvm::MCSubtargetInfo> info(
        (*target)->createMCSubtargetInfo(triple, mcpu, ""));
    for (const llvm::SubtargetFeatureKV &feature :
         info->getAllProcessorFeatures())
      if (host.contains(feature.Key))
        known.push_back(
            {feature.Key, info->getFeatureBits().test(feature.Value)});
  }
  llvm::sort(known);
  for (auto [name, present] : known) {
    if (present)
      processor.features.push_back(name.str());
    if (!processor.featureString.empty())
      processor.featureString += ',';
    processor.featureString += present ? '+' : '-';
    processor.featureString += name;
  }
  return processor;
}

llvm::Error lowerKernels(ModuleOp kernels) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  kernels.getContext()->appendDialectRegistry(registry);
  if (failed(lowerToLLVMDialect(kernels)))
    return llvm::createStringError("kernels do not lower to the llvm dialect");
  return llvm::Error::success();
}

llvm::Expected<SmallVector<char, 0>>
compileLowered(ModuleOp kernels, const Processor &processor) {
  llvm::Triple triple = hostTriple();
  llvm::Expected<const llvm::Target *> target = getTarget(triple);
  if (!target)
    return target.takeError();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernels, context);
  if (!module)
    return llvm::createStringError("kernels do not translate to LLVM IR");

  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine((*target)->createTargetMachine(
      triple, processor.name, processor.featureString, options,
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  optimize(*module, *machine);

  SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    return llvm::createStringError(
        "this build of LLVM cannot emit object files for " + triple.str());
  codegen.run(*module);
  return object;
}

llvm::Expected<SmallVector<char, 0>>
compileToObject(ModuleOp kernels, const Processor &processor) {
  if (llvm::Error error = lowerKernels(kernels))
    return std::move(error);
  return compileLowered(kernels, processor);
}

} // namespace kiln::cpu
