//===- Ptx.cpp - Compiles GPU kernels to PTX ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels are lowered to LLVM IR once, with the passes of the CPU target; only
// the lowering of the few gpu operations differs. Each chip then has its own
// copy of the IR in its own LLVM context and thread. Calls that the NVPTX
// backend cannot lower without a device library are rejected before the backend
// runs, since such a call would make the backend end the process.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Gpu/Ptx.h"

#include "LowerKernels.h"
#include "PackedConversion.h"
#include "PerArchitecture.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <map>
#include <mutex>

using namespace mlir;

namespace kiln::gpu {

namespace {

/// The oldest architecture with bf16 arithmetic and asynchronous copies.
constexpr unsigned kOldestChip = 80;

const llvm::Triple &nvptxTriple() {
  static const llvm::Triple triple("nvptx64-nvidia-cuda");
  return triple;
}

/// Returns the NVPTX target, which is registered once per process.
llvm::Expected<const llvm::Target *> getTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string message;
  if (const llvm::Target *target =
          llvm::TargetRegistry::lookupTarget(nvptxTriple(), message))
    return target;
  return llvm::createStringError("no code generator for NVIDIA GPUs: " +
                                 message);
}

//===----------------------------------------------------------------------===//
// From gpu.func to LLVM IR
//===----------------------------------------------------------------------===//

/// Emits gpu operations as NVVM operations.
class NvvmDevice : public DeviceOps {
public:
  Value threadId(OpBuilder &b, Location loc) override {
    return NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
  }
  Value blockId(OpBuilder &b, Location loc) override {
    return NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  }
  Value memberId(OpBuilder &b, Location loc) override {
    return NVVM::BlockIdYOp::create(b, loc, b.getI32Type());
  }
  void barrier(OpBuilder &b, Location loc) override {
    NVVM::Barrier0Op::create(b, loc);
  }
  Value shuffle(OpBuilder &b, Location loc, mlir::gpu::ShuffleMode mode,
                Value bits, Value offset) override {
    auto constant = [&](int32_t value) -> Value {
      return LLVM::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
    };
    NVVM::ShflKind kind = mode == mlir::gpu::ShuffleMode::XOR
                              ? NVVM::ShflKind::bfly
                              : NVVM::ShflKind::idx;
    auto move = [&](Value word) -> Value {
      return NVVM::ShflOp::create(b, loc, b.getI32Type(), constant(-1), word,
                                  offset, constant(31), kind, UnitAttr());
    };
    if (bits.getType().isInteger(32))
      return move(bits);
    // A shuffle instruction moves 32 bits.
    Type words = VectorType::get({2}, b.getI32Type());
    Value in = LLVM::BitcastOp::create(b, loc, words, bits);
    Value out = LLVM::PoisonOp::create(b, loc, words);
    for (int32_t i : {0, 1}) {
      Value word = LLVM::ExtractElementOp::create(b, loc, in, constant(i));
      out = LLVM::InsertElementOp::create(b, loc, words, out, move(word),
                                          constant(i));
    }
    return LLVM::BitcastOp::create(b, loc, bits.getType(), out);
  }
};

llvm::Error addKernel(mlir::gpu::GPUFuncOp kernel, ModuleOp plain) {
  llvm::Expected<PointerParameters> pointers = checkSignature(kernel);
  if (!pointers)
    return pointers.takeError();
  OpBuilder b = OpBuilder::atBlockEnd(plain.getBody());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), kernel.getArgumentTypes());
  auto function =
      LLVM::LLVMFuncOp::create(b, kernel.getLoc(), kernel.getName(), type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    b.getUnitAttr());
  for (NamedAttribute attr : kernel->getDiscardableAttrs())
    if (isa_and_present<NVVM::NVVMDialect>(attr.getNameDialect()))
      function->setAttr(attr.getName(), attr.getValue());
  if (ArrayAttr attrs = kernel.getAllArgAttrs())
    function.setAllArgAttrs(attrs);
  // Without this attribute, every thread copies the table to local memory to
  // index it.
  if (pointers->isTable)
    function.setArgAttr(0, NVVM::NVVMDialect::getGridConstantAttrName(),
                        b.getUnitAttr());
  IRMapping mapping;
  kernel.getBody().cloneInto(&function.getBody(), mapping);
  NvvmDevice device;
  return replaceGpuOps(function, device);
}

/// Returns a separate module with the kernels, their globals and the functions
/// that they call.
llvm::Expected<OwningOpRef<ModuleOp>> extractKernels(ModuleOp module) {
  llvm::Expected<mlir::gpu::GPUModuleOp> kernels = findKernelModule(module);
  if (!kernels)
    return kernels.takeError();
  module.getContext()->loadDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
  OwningOpRef<ModuleOp> plain = ModuleOp::create(kernels->getLoc());
  for (Operation &op : kernels->getOps())
    if (isa<LLVM::GlobalOp, LLVM::LLVMFuncOp>(op))
      plain->push_back(op.clone());
  for (auto kernel : kernels->getOps<mlir::gpu::GPUFuncOp>())
    if (llvm::Error error = addKernel(kernel, *plain))
      return error;
  return plain;
}

LogicalResult lowerToLLVMDialect(ModuleOp module) {
  PassManager pm(module.getContext());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertNVVMToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

/// Returns the kernels as LLVM bitcode, which any context can read.
llvm::Expected<llvm::SmallVector<char, 0>> translate(ModuleOp module) {
  MLIRContext *mlirContext = module.getContext();
  DiagnosticLine diagnostics(mlirContext);
  llvm::Expected<OwningOpRef<ModuleOp>> plain = extractKernels(module);
  if (!plain)
    return plain.takeError();
  roundInPairs(**plain);
  if (failed(lowerToLLVMDialect(**plain)))
    return diagnostics.error("kernels do not lower to the llvm dialect");
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  mlirContext->appendDialectRegistry(registry);
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(**plain, context, "kernels");
  if (!llvmModule)
    return diagnostics.error("kernels do not translate to LLVM IR");
  llvm::SmallVector<char, 0> bitcode;
  llvm::raw_svector_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(*llvmModule, stream);
  return bitcode;
}

//===----------------------------------------------------------------------===//
// From LLVM IR to PTX
//===----------------------------------------------------------------------===//

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopInterleaving = false;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  // With library functions disabled, no loop becomes a call of memset.
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
}

/// Returns true if NVPTX lowers the intrinsic `id` to a library call or cannot
/// lower the intrinsic.
bool needsLibrary(llvm::Intrinsic::ID id) {
  switch (id) {
  case llvm::Intrinsic::acos:
  case llvm::Intrinsic::asin:
  case llvm::Intrinsic::atan:
  case llvm::Intrinsic::atan2:
  case llvm::Intrinsic::cos:
  case llvm::Intrinsic::cosh:
  case llvm::Intrinsic::exp:
  case llvm::Intrinsic::exp10:
  case llvm::Intrinsic::exp2:
  case llvm::Intrinsic::frexp:
  case llvm::Intrinsic::ldexp:
  case llvm::Intrinsic::log:
  case llvm::Intrinsic::log10:
  case llvm::Intrinsic::log2:
  case llvm::Intrinsic::modf:
  case llvm::Intrinsic::pow:
  case llvm::Intrinsic::powi:
  case llvm::Intrinsic::sin:
  case llvm::Intrinsic::sincos:
  case llvm::Intrinsic::sincospi:
  case llvm::Intrinsic::sinh:
  case llvm::Intrinsic::tan:
  case llvm::Intrinsic::tanh:
    return true;
  default:
    return false;
  }
}

/// Returns an error if a kernel calls a function that has no PTX instruction.
llvm::Error checkCallees(const llvm::Module &module) {
  for (const llvm::Function &callee : module) {
    if (!callee.isDeclaration() || callee.use_empty())
      continue;
    if (callee.isIntrinsic() && !needsLibrary(callee.getIntrinsicID()))
      continue;
    std::string kernel = "?";
    for (const llvm::User *user : callee.users())
      if (auto *call = llvm::dyn_cast<llvm::Instruction>(user))
        kernel = call->getFunction()->getName().str();
    return llvm::createStringError("kernel '" + kernel + "' calls '" +
                                   callee.getName() +
                                   "', which PTX has no instruction for");
  }
  return llvm::Error::success();
}

/// Collects the errors of the backend instead of printing them and exiting.
class CollectDiagnostics : public llvm::DiagnosticHandler {
public:
  explicit CollectDiagnostics(std::string &errors) : errors(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    if (info.getSeverity() != llvm::DS_Error)
      return true;
    llvm::raw_string_ostream stream(errors);
    if (!errors.empty())
      stream << "; ";
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    return true;
  }

private:
  std::string &errors;
};

llvm::Expected<std::string> compileBitcode(StringRef bitcode, StringRef chip) {
  llvm::Expected<const llvm::Target *> target = getTarget();
  if (!target)
    return target.takeError();
  std::string errors;
  llvm::LLVMContext context;
  context.setDiagnosticHandler(std::make_unique<CollectDiagnostics>(errors));
  llvm::Expected<std::unique_ptr<llvm::Module>> module = llvm::parseBitcodeFile(
      llvm::MemoryBufferRef(bitcode, "kernels"), context);
  if (!module)
    return module.takeError();

  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine((*target)->createTargetMachine(
      nvptxTriple(), chip, /*Features=*/"", options, std::nullopt, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
  (*module)->setTargetTriple(nvptxTriple());
  (*module)->setDataLayout(machine->createDataLayout());
  optimize(**module, *machine);
  if (llvm::Error error = checkCallees(**module))
    return error;

  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream stream(ptx);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("this build of LLVM cannot emit PTX");
  codegen.run(**module);
  if (!errors.empty())
    return llvm::createStringError("kernels do not compile for " + chip + ": " +
                                   errors);
  return ptx.str().str();
}

} // namespace

llvm::Error checkChip(StringRef chip) {
  llvm::Expected<const llvm::Target *> target = getTarget();
  if (!target)
    return target.takeError();
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      (*target)->createMCSubtargetInfo(nvptxTriple(), "", ""));
  // Sort the chips by architecture number. LLVM lists them in another order.
  std::map<std::pair<unsigned, StringRef>, StringRef> known;
  unsigned number = 0;
  for (const llvm::SubtargetSubTypeKV &entry :
       info->getAllProcessorDescriptions()) {
    StringRef name = entry.Key, rest = name;
    if (!rest.consume_front("sm_") || rest.consumeInteger(10, number) ||
        number < kOldestChip)
      continue;
    if (name == chip)
      return llvm::Error::success();
    known[{number, rest}] = name;
  }
  StringRef rest = chip;
  if (rest.consume_front("sm_") && !rest.getAsInteger(10, number) &&
      number < kOldestChip)
    return llvm::createStringError("GPU architecture '" + chip +
                                   "' is too old, expected sm_" +
                                   llvm::Twine(kOldestChip) + " or newer");
  return llvm::createStringError(
      "unknown GPU architecture '" + chip + "', expected one of " +
      llvm::join(llvm::make_second_range(known), ", "));
}

llvm::Expected<std::vector<std::string>>
compileToPtx(ModuleOp module, ArrayRef<std::string> chips) {
  for (const std::string &chip : chips)
    if (llvm::Error error = checkChip(chip))
      return error;
  llvm::Expected<llvm::SmallVector<char, 0>> bitcode = translate(module);
  if (!bitcode)
    return bitcode.takeError();

  StringRef bytes(bitcode->data(), bitcode->size());
  return inParallel<std::string>(
      chips.size(), [&](size_t i) { return compileBitcode(bytes, chips[i]); });
}

llvm::Expected<std::string> compileToPtx(ModuleOp module, StringRef chip) {
  llvm::Expected<std::vector<std::string>> ptx =
      compileToPtx(module, ArrayRef<std::string>{chip.str()});
  if (!ptx)
    return ptx.takeError();
  return std::move(ptx->front());
}

} // namespace kiln::gpu
