//===- kilnc.cpp - The compiler ---------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/Compile.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

#include <thread>

using namespace llvm;
using namespace kiln;

static cl::OptionCategory category("kilnc options");
static cl::opt<std::string>
    model(cl::Positional, cl::cat(category), cl::value_desc("MODEL"),
          cl::desc("Hugging Face directory, .mlir or .mlirbc"));
static cl::opt<std::string> output("o", cl::cat(category),
                                   cl::value_desc("FILE"),
                                   cl::desc("what to write"));
/// Values with names: a wrong one is answered with all of them.
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

static cl::opt<Stage, false, NamedValues<Stage>> emitStage(
    "emit", cl::cat(category), cl::desc("stop after a stage and write it"),
    cl::init(Stage::Executable),
    cl::values(
        clEnumValN(Stage::Forward, "forward", "forward graph"),
        clEnumValN(Stage::Step, "step", "training step, evaluation programs"),
        clEnumValN(Stage::Planned, "planned", "numerics fixed, head expanded"),
        clEnumValN(Stage::Dispatch, "dispatch", "ops grouped into kernels"),
        clEnumValN(Stage::Schedule, "schedule",
                   "commands over slots of the arena"),
        clEnumValN(Stage::Plan, "plan", "the memory plan, JSON"),
        clEnumValN(Stage::Llvm, "llvm",
                   "kernels, before they become machine code"),
        clEnumValN(Stage::Object, "obj", "object file of the kernels"),
        clEnumValN(Stage::Executable, "exe", "executable")));
static cl::opt<int64_t>
    batch("batch", cl::cat(category),
          cl::desc("sequences per step (default: one per micro-batch; a .mlir "
                   "file has its own)"));
static cl::opt<int64_t> sequence(
    "seq", cl::cat(category), cl::init(0),
    cl::desc(
        "tokens per sequence (default: as many as the model has positions)"));
static cl::opt<int64_t> microbatches("microbatches", cl::cat(category),
                                     cl::init(1),
                                     cl::desc("splits --batch; divides it"));
static cl::opt<std::string> recompute(
    "recompute", cl::cat(category), cl::init("none"),
    cl::desc("what the backward pass repeats instead of reading it from "
             "memory: none, full, blocks, sqrt or poor"));
static cl::opt<std::string> optimizer(
    "optimizer", cl::cat(category), cl::init("adamw"),
    cl::desc(
        "adamw, adam, sgd, momentum or nesterov, options after a colon: "
        "adamw:beta1=0.9,beta2=0.999,eps=1e-8,weight_decay=0.1,decay=all"));
static cl::opt<std::string>
    precision("precision", cl::cat(category),
              cl::desc("fp32 (default) or fp64; a .mlir file has its own"));
static cl::opt<std::string> target("target", cl::cat(category), cl::init("cpu"),
                                   cl::desc("cpu"));
static cl::opt<std::string>
    mcpu("mcpu", cl::cat(category),
         cl::desc("processor to compile for (default: this one)"));

enum class Switch { Off, On };
static auto switchValues() {
  return cl::values(clEnumValN(Switch::On, "on", ""),
                    clEnumValN(Switch::Off, "off", ""));
}
static cl::opt<Switch, false, NamedValues<Switch>>
    clip("clip", cl::cat(category), cl::init(Switch::On), switchValues(),
         cl::desc("compute and clip the gradient norm"));
static cl::opt<Switch, false, NamedValues<Switch>>
    evaluation("eval", cl::cat(category), cl::init(Switch::On), switchValues(),
               cl::desc("compile evaluation and generation too"));
static cl::opt<Switch, false, NamedValues<Switch>>
    fuse("fuse", cl::cat(category), cl::init(Switch::On), switchValues(),
         cl::desc("fuse ops into kernels (off: one op per kernel)"));
static cl::opt<int64_t> maxThreads(
    "max-threads", cl::cat(category), cl::init(0),
    cl::desc(
        "most threads the executable may use (default: this machine's cores)"));
static cl::opt<double> dropout("dropout", cl::cat(category),
                               cl::desc("overrides the model's dropout"));
static cl::opt<bool> emitGradients(
    "emit-gradients", cl::cat(category),
    cl::desc("keep gradients for --dump-gradients of the executable"));

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter(
      [](raw_ostream &os) { os << "kilnc " KILN_VERSION "\n"; });
  std::string complaints;
  raw_string_ostream complaintStream(complaints);
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "kilnc: compile a model into an executable that trains it\n",
          &complaintStream)) {
    // What is wrong with a value has been said already.
    if (StringRef text = StringRef(complaints).trim(); !text.empty())
      errs() << text.split('\n').first << "\n";
    return static_cast<int>(ExitCode::Usage);
  }
  if (model.empty()) {
    errs() << "kilnc: MODEL is missing: name a Hugging Face directory or a "
              ".mlir file\n";
    return static_cast<int>(ExitCode::Usage);
  }
  if (target != "cpu") {
    errs() << "kilnc: --target is '" << target << "', expected cpu\n";
    return static_cast<int>(ExitCode::Usage);
  }
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();

  CompileOptions options;
  options.model = model;
  options.stage = emitStage;
  options.output = output;
  if (options.output.empty()) {
    if (options.stage == Stage::Executable || options.stage == Stage::Object) {
      errs() << "kilnc: -o FILE is missing: where should the result go?\n";
      return static_cast<int>(ExitCode::Usage);
    }
    options.output = "-";
  }
  if (batch.getNumOccurrences())
    options.batch = batch;
  options.sequenceLength = sequence;
  options.microbatches = microbatches;
  options.recompute = recompute;
  options.optimizer = optimizer;
  if (precision.getNumOccurrences())
    options.precision = precision;
  options.clip = clip == Switch::On;
  options.evaluation = evaluation == Switch::On;
  options.fuse = fuse == Switch::On;
  options.emitGradients = emitGradients;
  options.maxThreads = maxThreads.getNumOccurrences()
                           ? maxThreads
                           : std::max(1u, std::thread::hardware_concurrency());
  if (dropout.getNumOccurrences())
    options.dropout = dropout;
  options.mcpu = mcpu;
  for (int i = 0; i < argc; ++i)
    options.commandLine +=
        (i ? " " : "") +
        std::string(i ? argv[i] : sys::path::filename(argv[0]).str());
  SmallString<128> library(sys::path::parent_path(sys::path::parent_path(
      sys::fs::getMainExecutable(argv[0], reinterpret_cast<void *>(&main)))));
  sys::path::append(library, "lib");
  options.libraryDirectory = library.str().str();
  return static_cast<int>(compile(options));
}
