//===- kilnc.cpp - Command-line driver of the compiler ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OptionCategory.h"
#include "QuantizeFlags.h"
#include "RankFlags.h"

#include "kiln/Abi/SegmentOrder.h"
#include "kiln/Compiler/ByteSize.h"
#include "kiln/Compiler/Compile.h"
#include "kiln/Compiler/MeasureMachine.h"
#include "kiln/Compiler/Registration.h"
#include "kiln/Dialect/Kiln/Transforms/Optimizer.h"
#include "kiln/Import/HuggingFace.h"
#include "kiln/Support/Flags.h"
#include "kiln/Support/InputFile.h"
#include "kiln/Support/LoraConfig.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Process.h"
#include "kiln/Target/Interface/CodeGenerator.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>
#include <thread>

using namespace llvm;
using namespace kiln::support;
using namespace kiln;

cl::OptionCategory kiln::optionCategory("kilnc options");
static cl::OptionCategory &category = optionCategory;
static cl::opt<std::string>
    model(cl::Positional, cl::cat(category), cl::value_desc("MODEL"),
          cl::desc("Hugging Face directory, or .mlir or .mlirbc file"));
static cl::opt<std::string> output("o", cl::cat(category),
                                   cl::value_desc("FILE"),
                                   cl::desc("output file"));
/// Parser of named values. The error message lists all valid names.
template <typename T> struct NamedValues : cl::parser<T> {
  using cl::parser<T>::parser;
  bool parse(cl::Option &option, StringRef, StringRef text, T &value) {
    std::string names;
    for (const auto &known : this->Values) {
      names += (names.empty() ? "" : ", ") + known.Name.str();
      if (known.Name == text) {
        value = known.V.getValue();
        return false;
      }
    }
    errs() << "kilnc: --" << option.ArgStr << " is '" << text
           << "', expected one of " << names << "\n";
    return true;
  }
};

static cl::opt<EmitStage, false, NamedValues<EmitStage>> emitStage(
    "emit", cl::cat(category),
    cl::desc("stop after a compilation stage and write its result"),
    cl::init(EmitStage::Executable),
    cl::values(
        clEnumValN(EmitStage::Forward, "forward", "forward graph"),
        clEnumValN(EmitStage::Step, "step",
                   "training step and evaluation programs"),
        clEnumValN(EmitStage::Planned, "planned",
                   "training step with fixed numerics and expanded loss"),
        clEnumValN(EmitStage::Dispatch, "dispatch", "ops grouped into kernels"),
        clEnumValN(EmitStage::Schedule, "schedule",
                   "commands over slots of the arena"),
        clEnumValN(EmitStage::Plan, "plan", "the memory plan as JSON"),
        clEnumValN(EmitStage::Llvm, "llvm", "kernels in the LLVM dialect"),
        clEnumValN(EmitStage::Ptx, "ptx", "GPU kernels as PTX"),
        clEnumValN(EmitStage::Object, "obj", "object file of the kernels"),
        clEnumValN(EmitStage::Executable, "exe", "executable")));
static cl::opt<std::string>
    batch("batch", cl::cat(category), cl::value_desc("N"),
          cl::desc("sequences per step (default: one per micro-batch; a .mlir "
                   "file has a fixed number)"));
static cl::opt<std::string> sequence(
    "seq", cl::cat(category), cl::value_desc("N"),
    cl::desc(
        "tokens per sequence (default: as many as the model has positions)"));
static cl::opt<std::string>
    microbatches("microbatches", cl::cat(category), cl::init("1"),
                 cl::value_desc("N|auto"),
                 cl::desc("micro-batches per step, a divisor of --batch (auto: "
                          "the fastest number)"));
static cl::opt<std::string>
    order("order", cl::cat(category), cl::init("alternate"),
          cl::value_desc("NAME|FILE"),
          cl::desc("order of the forward (F) and backward (B) segments of "
                   "micro-batches: alternate (F0 B0 F1 B1 ...), "
                   "all-forward-first, one-forward-one-backward:K with K "
                   "micro-batches in flight, or a file with a list such as "
                   "F0 F1 B0 B1"));
static cl::opt<std::string> recompute(
    "recompute", cl::cat(category),
    cl::desc("which forward results the backward pass recomputes, so that they "
             "are not stored: none; full (all but the inputs of stages, which "
             "are attention and feed-forward blocks in a transformer); blocks "
             "(all but the inputs of layers); sqrt (all but the inputs of "
             "about sqrt(N) segments of the N stages); poor (all but the "
             "program's input); or optimal (the planner's choice) (default: "
             "none, or optimal with --memory-budget)"));
static cl::opt<std::string>
    lora("lora", cl::cat(category), cl::value_desc("LIST"),
         cl::desc("freeze the model and train low-rank adapters of its linear "
                  "layers: default, or a list of options such as "
                  "r=8,alpha=16,targets=c_attn:c_proj,dropout=0.05; "
                  "targets=all-linear adapts all linear layers"));
static cl::opt<std::string>
    adapter("adapter", cl::cat(category), cl::value_desc("DIR"),
            cl::desc("take the options of --lora from an adapter that PEFT or "
                     "kiln saved"));
static cl::opt<std::string> lossy(
    "lossy", cl::cat(category), cl::value_desc("LIST"),
    cl::desc("techniques that save memory and change gradients: fewbit:B "
             "stores an activation's derivative with B bits per element; "
             "rmm:RHO stores RHO*T random sums of the T rows of a layer's "
             "input instead of the input, and estimates the weight gradient "
             "from them; q8 and q4 store all large residuals with 8 and 4 bits "
             "per element"));
static cl::opt<std::string> memoryBudget(
    "memory-budget", cl::cat(category), cl::value_desc("SIZE"),
    cl::desc(
        "maximum size of the executable's arena, such as 8GiB: the planner "
        "finds the fastest step that fits"));
static cl::opt<std::string> hostMemoryBudget(
    "host-memory-budget", cl::cat(category), cl::value_desc("SIZE"),
    cl::desc("maximum size of the host arena for offloaded tensors"));
static cl::opt<std::string> offload(
    "offload", cl::cat(category), cl::value_desc("LIST"),
    cl::desc(
        "tensors stored on the host while the device does not need them: none, "
        "auto (the planner chooses), or a comma-separated list of activations, "
        "optimizer, moments and parameters, the last three optionally with a "
        "share such as :0.3 (default: auto with --memory-budget if the device "
        "has its own memory, none otherwise)"));
static cl::opt<std::string> simulateLink(
    "simulate-link", cl::cat(category), cl::value_desc("RATE"),
    cl::desc("simulate a device link on a CPU: copy between device and host at "
             "this rate, such as 120MB/s"));
static cl::opt<std::string> simulateNetwork(
    "simulate-network", cl::cat(category), cl::value_desc("RATE"),
    cl::desc("simulate a network between the ranks of --mesh: limit the rate "
             "at which one rank sends to another, such as 120MB/s"));
static cl::opt<std::string> report(
    "report", cl::cat(category), cl::value_desc("FILE"),
    cl::desc("also write the memory plan: a page (.html), its data (.json), or "
             "a snapshot for pytorch.org/memory_viz (.snapshot.json)"));
static cl::opt<std::string>
    remarks("remarks", cl::cat(category), cl::value_desc("FILE"),
            cl::desc("also write remarks on the planner's decisions, in LLVM's "
                     "YAML format"));
static cl::opt<std::string> kernelCache(
    "kernel-cache", cl::cat(category), cl::value_desc("DIR"),
    cl::desc("take object code from DIR for kernels that were compiled before, "
             "and store new object code there; default: $KILN_KERNEL_CACHE"));
static const std::string optimizerHelp =
    kiln::optimizerNames() +
    ", options after a colon: "
    "adamw:beta1=0.9,beta2=0.999,eps=1e-8,weight_decay=0.1,decay=all";
static cl::opt<std::string> optimizer("optimizer", cl::cat(category),
                                      cl::init("adamw"),
                                      cl::desc(optimizerHelp));
static cl::opt<std::string> stateTypes(
    "states", cl::cat(category), cl::value_desc("LIST"),
    cl::desc("types of states (default: f32), such as "
             "parameters:bf16,gradients:bf16,moments:bf16/f32,master:f32, or a "
             "recipe: bf16-gradients, bf16-adam or fp16-adam; moments:dynamic8 "
             "stores 8-bit codes"));
static cl::opt<std::string> precision(
    "precision", cl::cat(category),
    cl::desc("fp32 (default), fp64, or bf16 or fp16 (16-bit tensors and fp32 "
             "states)"));
static cl::opt<std::string> target("target", cl::cat(category), cl::init("cpu"),
                                   cl::desc("cpu, cuda (an NVIDIA GPU), or "
                                            "cuda-emu, which runs and checks "
                                            "GPU kernels on the CPU"));
static cl::list<std::string> gpuArchitectures(
    "gpu-arch", cl::cat(category), cl::CommaSeparated, cl::value_desc("LIST"),
    cl::desc("GPU architectures, such as sm_100, for which --target=cuda "
             "generates machine code in addition to sm_80 and sm_90; on other "
             "GPUs, the executable compiles its PTX at start"));
static cl::opt<std::string> attention(
    "attention", cl::cat(category), cl::init("generated"),
    cl::desc(
        "implementation of bf16 attention with --target=cuda: generated "
        "(kernels of kiln), or cudnn (the cuDNN library, where it supports the "
        "attention and its results agree with those of kiln's kernels)"));
static cl::opt<std::string> mcpu(
    "mcpu", cl::cat(category),
    cl::desc(
        "processor to compile for (default: the processor of this machine)"));
static cl::opt<std::string> machineName(
    "machine", cl::cat(category), cl::value_desc("FILE"),
    cl::desc(
        "performance figures of the machine to plan for: a .json file, or the "
        "name of a "
        "machine file that ships with kiln (default for --target=cuda: h100)"));
static cl::opt<bool> measure(
    "measure-machine", cl::cat(category),
    cl::desc("measure this machine with --max-threads threads and write a "
             "machine file to the path of -o (takes half a minute)"));

enum class Switch { Off, On };
static auto switchValues() {
  return cl::values(clEnumValN(Switch::On, "on", ""),
                    clEnumValN(Switch::Off, "off", ""));
}
static cl::opt<Switch, false, NamedValues<Switch>>
    clip("clip", cl::cat(category), cl::init(Switch::On), switchValues(),
         cl::desc("compute the gradient norm and clip the gradients"));
static cl::opt<Switch, false, NamedValues<Switch>>
    evaluation("eval", cl::cat(category), cl::init(Switch::On), switchValues(),
               cl::desc("compile programs for evaluation and generation in "
                        "addition to training"));
static cl::opt<Switch, false, NamedValues<Switch>>
    fuse("fuse", cl::cat(category), cl::init(Switch::On), switchValues(),
         cl::desc("fuse ops into kernels (off: one op per kernel)"));
static cl::opt<Switch, false, NamedValues<Switch>> rebuild(
    "rebuild", cl::cat(category), cl::init(Switch::On), switchValues(),
    cl::desc("recompute cheap forward ops in the backward pass (off: store "
             "their results)"));
static cl::opt<Switch, false, NamedValues<Switch>> vendorEpilogues(
    "library-epilogues", cl::cat(category), cl::init(Switch::On),
    switchValues(),
    cl::desc(
        "let the GPU's vendor library fuse biases, gelu and bias gradients "
        "into GEMMs, which rounds fewer intermediate results (off: "
        "separate kernels, which round as on the cpu)"));
static cl::opt<std::string> quantizeWeights(
    "quantize-weights", cl::cat(category), cl::value_desc("ENCODING"),
    cl::desc("encoding of the frozen weights of linear layers: nf4 (4 bits per "
             "weight), or int8 (8 bits), which takes options, as in "
             "int8:outliers=16,scales=row; outliers=N stores the weights of N "
             "input features of each matrix in 16 bits (default: 0), and "
             "scales=row stores a scale per row instead of one per 64 weights; "
             "requires --lora or --adapter"));
static cl::opt<std::string> gemm(
    "gemm", cl::cat(category), cl::init("auto"),
    cl::desc(
        "kernels of matrix multiplications on a CPU: auto uses kiln's kernels "
        "if the processor has AVX-512 (for bf16: AMX-BF16 or AVX512-BF16) and "
        "the BLAS library otherwise; avx512 does the same without AMX; blas "
        "always uses the library"));
static cl::opt<std::string>
    maxThreads("max-threads", cl::cat(category), cl::value_desc("N"),
               cl::desc("maximum number of threads of the executable (default: "
                        "this machine's cores)"));
static cl::opt<std::string> dropout("dropout", cl::cat(category),
                                    cl::value_desc("X"),
                                    cl::desc("override the model's dropout"));
static cl::list<std::string> ignoredConfigKeys(
    "ignore-config-keys", cl::cat(category), cl::CommaSeparated,
    cl::value_desc("NAME,..."),
    cl::desc("unsupported keys of config.json to ignore, "
             "because they do not change what the model computes"));
static cl::opt<bool> listKeys(
    "list-config-keys", cl::cat(category),
    cl::desc("print what kiln does with each key of a config.json, as JSON"));
static cl::opt<bool> printPipeline(
    "print-pipeline", cl::cat(category),
    cl::desc(
        "print the passes that lower the forward graph to the schedule, as the "
        "value of --pass-pipeline of kiln-opt, and write no output file"));
static cl::opt<bool>
    emitGradients("emit-gradients", cl::cat(category),
                  cl::desc("keep gradients, so that the executable can write "
                           "them with --dump-gradients"));

/// Removes the options that LLVM's libraries register before main, except for
/// --help, its variants and --version.
static void removeLibraryOptions() {
  SmallVector<cl::Option *> removed;
  for (auto &option : cl::getRegisteredOptions())
    if (!is_contained(option.second->Categories, &category) &&
        !option.first.starts_with("help") && option.first != "h" &&
        option.first != "version")
      removed.push_back(option.second);
  for (cl::Option *option : removed)
    option->removeArgument();
}

static ExitCode fail(const Status &status) {
  errs() << "kilnc: " << status.message() << "\n";
  return status.code();
}

/// Reads a number of at least `least` into `value` if `flag` is given.
/// `expected` describes valid values.
template <typename T>
static Status readNumber(const cl::opt<std::string> &flag, T &value,
                         const char *expected,
                         T least = std::numeric_limits<T>::lowest()) {
  bool isNumber;
  if constexpr (std::is_integral_v<T>)
    isNumber = to_integer(flag.getValue(), value, 10);
  else
    isNumber = !flag.getValue().empty() && to_float(flag.getValue(), value);
  if (!flag.getNumOccurrences() || (isNumber && value >= least))
    return Status();
  return Status(ExitCode::Usage, "--" + flag.ArgStr.str() + " is " +
                                     inQuotes(flag) + ", expected " + expected);
}

/// Checks the names of all flags before LLVM's parser runs, because LLVM's
/// parser does not suggest the flag with the nearest name and does not
/// recognize the flags of compiled executables.
static Status checkWords(int argc, char **argv) {
  CommandLineRules rules;
  rules.own = compilerFlags();
  for (const char *name :
       {"h", "help", "help-hidden", "help-list", "help-list-hidden", "version"})
    rules.own.push_back({name, ""});
  rules.other = executableFlags();
  rules.explainOther = [](const Flag &flag) {
    return flag.dashed() +
           " is a flag of the executable that kilnc writes: "
           "compile without it, then run EXECUTABLE " +
           flag.spelling();
  };
  rules.acceptsSingleDash = true;
  Result<std::vector<std::string>> models = checkCommandLine(argc, argv, rules);
  if (models.ok() && models->size() > 1)
    return Status(ExitCode::Usage,
                  "two models are named, " + inQuotes((*models)[0]) + " and " +
                      inQuotes((*models)[1]) +
                      ": expected one, and -o FILE for the output (see "
                      "--help)");
  return models.status();
}

/// Joins the command line into a string that a shell splits into the same
/// words.
static std::string joinWords(int argc, char **argv) {
  // Characters that a shell does not interpret.
  constexpr StringLiteral plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
      "_@%+=:,./-";
  std::string line = sys::path::filename(argv[0]).str();
  for (StringRef word : ArrayRef(argv + 1, argc - 1)) {
    line += ' ';
    if (!word.empty() && word.find_first_not_of(plain) == StringRef::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (char c : word)
      line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

/// Implements --measure-machine, which uses no model.
static Status runMeasurement(const MeasureOptions &options) {
  if (!model.empty())
    return Status(ExitCode::Usage,
                  "--measure-machine uses no model: leave '" + model + "' out");
  if (output.empty() || output == "-")
    return Status(ExitCode::Usage,
                  "-o FILE.json is missing: name the machine file to write");
  if (options.threads < 1 || options.threads > 1024)
    return Status(ExitCode::Usage, "--max-threads is " +
                                       std::to_string(options.threads) +
                                       ", expected 1 to 1024");
  return writeMeasuredMachine(options, output);
}

/// Reads the flags whose values depend on the target.
static Status readTargetFlags(mlir::MLIRContext &context,
                              const TargetBackend &backend,
                              CompileOptions &options) {
  auto usage = [](std::string message) {
    return Status(ExitCode::Usage, std::move(message));
  };
  auto needsTarget = [&](StringRef flag,
                         function_ref<bool(const TargetBackend &)> has) {
    return usage((flag + " needs --target=" +
                  TargetRegistry::lookup(context)->listNames(has))
                     .str());
  };
  options.target = backend.getName().str();
  if (attention != "generated" && attention != "cudnn")
    return usage("--attention is '" + attention +
                 "', expected generated or cudnn");
  options.libraryAttention = attention == "cudnn";
  auto hasAttention = [](const TargetBackend &target) {
    return target.getFusionRules().libraryAttention;
  };
  if (options.libraryAttention && !hasAttention(backend))
    return needsTarget("--attention=cudnn", hasAttention);
  auto hasImages = [](const TargetBackend &target) {
    return target.getCodeGenerator().getTraits().images;
  };
  // --gpu-arch is valid for targets with GPU images, and with --emit=ptx. With
  // --emit=ptx it may name only one architecture.
  bool isPtx = emitStage == EmitStage::Ptx;
  if (!gpuArchitectures.empty() && !hasImages(backend) && !isPtx)
    return needsTarget("--gpu-arch", hasImages);
  if (isPtx && gpuArchitectures.size() > 1)
    return usage("--emit=ptx generates code for one architecture: name only "
                 "one in --gpu-arch");
  const CodeGenerator &generator = backend.getCodeGenerator();
  if (!isPtx || gpuArchitectures.empty())
    for (StringRef chip : generator.getDefaultChips())
      options.gpuArchitectures.push_back(chip.str());
  for (const std::string &chip : gpuArchitectures) {
    if (llvm::Error error = generator.checkChip(chip))
      return usage("--gpu-arch: " + llvm::toString(std::move(error)));
    if (!llvm::is_contained(options.gpuArchitectures, chip))
      options.gpuArchitectures.push_back(chip);
  }
  return Status();
}

/// Sets `text` to the order that --order names or, if the value of --order is
/// not the name of an order, to the order in the file with this name.
static Status readOrder(std::string &text) {
  // The two entries of a micro-batch, such as F1048575 and B1048575, have at
  // most 20 bytes with separators.
  constexpr uint64_t maxOrderBytes = 20 * abi::maxMicrobatches;
  text = order;
  auto named = abi::SegmentOrder::parse(text);
  if (named.ok() && named->kind() != abi::SegmentOrder::Kind::Listed)
    return Status();
  if (!llvm::sys::fs::exists(text)) {
    if (text.rfind("one-forward-one-backward:", 0) == 0)
      return Status(ExitCode::Usage, "--order: " + named.status().message());
    return Status(ExitCode::Usage,
                  "--order is " + inQuotes(text) +
                      ", expected alternate, all-forward-first, "
                      "one-forward-one-backward:K or an existing file");
  }
  auto contents = readSmallFile(text, maxOrderBytes);
  if (!contents.ok())
    return contents.status();
  auto listed = abi::SegmentOrder::parse(*contents);
  if (!listed.ok())
    return Status(listed.status().code(),
                  "'" + text + "': " + listed.status().message());
  text = listed->text();
  return Status();
}

/// Sets `text` to the options of --lora, or to those of the adapter that
/// --adapter names.
static Status readLora(std::string &text) {
  text = lora == "none" ? "" : lora.getValue();
  if (lora.getNumOccurrences() && adapter.getNumOccurrences())
    return Status(ExitCode::Usage,
                  "--lora and --adapter both give the options of adapters: "
                  "leave one of them out");
  if (lora.getNumOccurrences() && lora != "none")
    if (auto options = parseLoraOptions(lora); !options.ok())
      return Status(options.status().code(),
                    "--lora: " + options.status().message());
  if (!adapter.getNumOccurrences())
    return Status();
  std::string path = adapter + "/" + adapterConfigFile;
  auto contents = readSmallFile(path, maxAdapterConfigBytes);
  if (!contents.ok())
    return Status::badInput(
        "--adapter=" + adapter +
        " is not the directory of an adapter: " + contents.status().message());
  auto options = parseAdapterConfig(*contents, inQuotes(path));
  if (options.ok())
    text = loraOptions(options->lora);
  return options.status();
}

/// Executes the command line and returns the exit code.
static int runCommand(int argc, char **argv) {
  removeLibraryOptions();
  cl::SetVersionPrinter(
      [](raw_ostream &os) { os << "kilnc " KILN_VERSION "\n"; });
  if (Status status = checkWords(argc, argv); !status.ok())
    return static_cast<int>(fail(status));
  std::string complaints;
  raw_string_ostream complaintStream(complaints);
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "kilnc: compile a model into an executable that trains it\n",
          &complaintStream)) {
    // `complaints` is empty if a parser of named values has already reported
    // the error.
    if (StringRef text = StringRef(complaints).trim(); !text.empty())
      errs() << text.split('\n').first << "\n";
    return static_cast<int>(ExitCode::Usage);
  }
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  if (Status status = readNumber(maxThreads, threads, "1 to 1024");
      !status.ok())
    return static_cast<int>(fail(status));
  SmallString<128> programs(sys::path::parent_path(sys::fs::getMainExecutable(
      argv[0], reinterpret_cast<void *>(&runCommand))));
  SmallString<128> library(sys::path::parent_path(programs));
  sys::path::append(library, "lib");
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  if (measure) {
    Status status =
        runMeasurement({programs.str().str(), library.str().str(), threads});
    return static_cast<int>(status.ok() ? ExitCode::Done : fail(status));
  }
  if (listKeys) {
    outs() << listConfigKeys();
    return static_cast<int>(ExitCode::Done);
  }
  if (model.empty()) {
    errs() << "kilnc: MODEL is missing: name a Hugging Face directory or a "
              ".mlir file\n";
    return static_cast<int>(ExitCode::Usage);
  }
  if (Status status = checkQuantizeFlags(); !status.ok())
    return static_cast<int>(fail(status));
  CompileOptions options;
  options.model = model;
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto backend = findTarget(context, target);
  if (!backend.ok())
    return static_cast<int>(fail(backend.status()));
  if (Status status = readTargetFlags(context, **backend, options);
      !status.ok())
    return static_cast<int>(fail(status));
  options.stage = emitStage;
  options.output = output;
  if (options.output.empty()) {
    if (!printPipeline && (options.stage == EmitStage::Executable ||
                           options.stage == EmitStage::Object)) {
      errs() << "kilnc: -o FILE is missing: name the output file\n";
      return static_cast<int>(ExitCode::Usage);
    }
    options.output = "-";
  }
  int64_t sequences = 0;
  if (Status status = readNumber(batch, sequences, "a positive number");
      !status.ok())
    return static_cast<int>(fail(status));
  if (batch.getNumOccurrences())
    options.batch = sequences;
  if (Status status =
          readNumber(sequence, options.sequenceLength, "a positive number",
                     /*least=*/int64_t(1));
      !status.ok())
    return static_cast<int>(fail(status));
  options.autoMicrobatches = microbatches == "auto";
  if (!options.autoMicrobatches &&
      StringRef(microbatches).getAsInteger(10, options.microbatches))
    return static_cast<int>(
        fail(Status(ExitCode::Usage, "--microbatches is '" + microbatches +
                                         "', expected a number or auto")));
  if (Status status = readOrder(options.order); !status.ok())
    return static_cast<int>(fail(status));
  options.recompute = recompute;
  auto readSize = [](const cl::opt<std::string> &flag, int64_t &size) {
    if (flag.getNumOccurrences() == 0)
      return Status();
    auto bytes = parseByteSize(flag, "--" + flag.ArgStr.str());
    if (bytes.ok())
      size = *bytes;
    return bytes.status();
  };
  if (Status status = readSize(memoryBudget, options.memoryBudget);
      !status.ok())
    return static_cast<int>(fail(status));
  if (Status status = readSize(hostMemoryBudget, options.hostBudget);
      !status.ok())
    return static_cast<int>(fail(status));
  options.offload = offload;
  for (auto [flag, rate] :
       {std::pair(&simulateLink, &options.simulatedLink),
        std::pair(&simulateNetwork, &options.simulatedNetwork)}) {
    if (!flag->getNumOccurrences())
      continue;
    auto parsed = parseLinkSpeed(*flag, "--" + flag->ArgStr.str());
    if (!parsed.ok())
      return static_cast<int>(fail(parsed.status()));
    *rate = *parsed;
  }
  if (Status status = readLora(options.lora); !status.ok())
    return static_cast<int>(fail(status));
  options.lossy = lossy;
  options.report = report;
  options.remarks = remarks;
  options.kernelCache = kernelCache;
  if (kernelCache.getNumOccurrences() == 0)
    options.kernelCache =
        llvm::sys::Process::GetEnv("KILN_KERNEL_CACHE").value_or("");
  options.optimizer = optimizer;
  options.states = stateTypes;
  if (precision.getNumOccurrences())
    options.precision = precision;
  options.ignoredConfigKeys = ignoredConfigKeys;
  options.clip = clip == Switch::On;
  options.evaluation = evaluation == Switch::On;
  options.fuse = fuse == Switch::On;
  options.rebuild = rebuild == Switch::On;
  options.vendorEpilogues = vendorEpilogues == Switch::On;
  options.emitGradients = emitGradients;
  options.printsPipeline = printPipeline;
  options.maxThreads = threads;
  double probability = 0;
  if (Status status =
          readNumber(dropout, probability, "at least 0 and below 1");
      !status.ok())
    return static_cast<int>(fail(status));
  if (dropout.getNumOccurrences())
    options.dropout = probability;
  options.mcpu = mcpu;
  options.gemm = gemm;
  if (Status status = readRankFlags(options); !status.ok())
    return static_cast<int>(fail(status));
  options.quantizeWeights = quantizeWeights;
  options.commandLine = joinWords(argc, argv);
  if (!machineName.getNumOccurrences())
    machineName = (*backend)->getDefaultMachine().str();
  if (!machineName.empty()) {
    Result<Machine> machine =
        chooseMachine(machineName, programs.str().str(), threads);
    if (!machine.ok())
      return static_cast<int>(fail(machine.status()));
    options.machine = *machine;
    options.machineName = machineName;
  }
  options.libraryDirectory = library.str().str();
  if (isQuantizing()) {
    Status status = runQuantization(options);
    return static_cast<int>(status.ok() ? ExitCode::Done : fail(status));
  }
  return static_cast<int>(compile(options));
}

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  // Make a full disk, a closed pipe and a file size limit cause write errors
  // that can be reported.
  prepareProcess();
  int exitCode = runCommand(argc, argv);
  // An unchecked error would make raw_ostream abort with its own message.
  outs().flush();
  if (std::error_code failure = outs().error()) {
    outs().clear_error();
    if (exitCode == static_cast<int>(ExitCode::Done))
      exitCode = static_cast<int>(fail(
          Status::error("cannot write standard output: " + failure.message())));
  }
  return exitCode;
}
