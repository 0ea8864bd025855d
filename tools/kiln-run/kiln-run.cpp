//===- kiln-run.cpp - Reference interpreter -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Interprets a module. Runs one program once, trains like a compiled executable
// (with the same flags, training driver and output files), or checks a trace
// that an executable wrote.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/SourceCheck.h"
#include "kiln/Interpreter/MemoryNeeded.h"
#include "kiln/Interpreter/RunOnce.h"
#include "kiln/Interpreter/ScheduledEngine.h"
#include "kiln/Interpreter/TraceCheck.h"
#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Training/Driver.h"
#include "kiln/Support/Flags.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputPath.h"
#include "kiln/Support/Process.h"
#include "kiln/Target/AllTargets.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <new>
#include <unistd.h>

using namespace kiln::support;
using namespace kiln;
using kiln::runtime::runTraining;
using llvm::StringRef;

static const char *const kUsage =
    R"(usage: kiln-run FILE.mlir [--entry=NAME] [--inputs=FILE.safetensors] [--init=FILE|DIR] [--seed=N]
       kiln-run FILE.mlir --data=FILE --steps=N [the flags of a training executable]
       kiln-run SCHEDULED.mlir --check-trace=FILE

Evaluates kiln programs with naive loops, at every level down to scheduled. A scheduled program runs in the bytes of its
arena, and an invalid plan is an error. The first form runs one program once and prints its outputs. The second form
trains with @train like an executable. The third form repeats every op in a trace that an executable wrote with
--check-ops=FILE and compares the results; the module is the output of kilnc --emit=schedule. To train with a module that
was compiled with --mesh, start kiln-run as several ranks: mpirun -n N kiln-run ...

  --entry=NAME            the program to run (train)
  --inputs=FILE           a safetensors file with a tensor for every input
  --init=FILE|DIR         values of the states (default: their initial values for --seed, which is 0 by default)
  --eval-type=f32|f64     f32: round every result to its declared type; f64: compute everything in f64
  --dump=FILE             write outputs and states to a safetensors file
Flags are written --name=value.
)";

namespace {

struct CommandLine {
  std::string file, dump, checkTrace;
  EvalType evalType = EvalType::Own;
  RunOnceOptions once;
  bool help = false;
  bool hasEntry = false, hasSeed = false;
  /// All other flags, which the training driver or parseOnceFlags() reads.
  std::vector<std::string> rest;
};

} // namespace

static Status usage(const std::string &message) {
  return Status(ExitCode::Usage, message);
}

/// Checks that all flags are known, those for a single run as well as those for
/// training. Returns the name of the module file.
static Result<std::string> checkNames(int argc, char **argv) {
  CommandLineRules rules;
  rules.own = executableFlags();
  rules.own.insert(
      rules.own.end(),
      {{"entry", "NAME"}, {"eval-type", "f32|f64"}, {"dump", "FILE"}});
  rules.other = compilerFlags();
  rules.explainOther = [](const Flag &flag) {
    return flag.dashed() +
           " is a flag of kilnc: it is fixed in the module that kilnc "
           "--emit wrote";
  };
  rules.acceptsSeparateValues = false;
  Result<std::vector<std::string>> files = checkCommandLine(argc, argv, rules);
  if (!files.ok())
    return files.status();
  if (files->empty())
    return usage("FILE.mlir is missing: name the module to run (see --help)");
  if (files->size() > 1)
    return usage("two files are named, " + inQuotes((*files)[0]) + " and " +
                 inQuotes((*files)[1]) +
                 ": expected one module; write flags as --name=value (see "
                 "--help)");
  return files->front();
}

static Result<CommandLine> parseCommandLine(int argc, char **argv) {
  CommandLine line;
  for (StringRef argument : llvm::ArrayRef(argv + 1, argc - 1))
    if (argument == "--help" || argument == "-h") {
      line.help = true;
      return line;
    }
  Result<std::string> file = checkNames(argc, argv);
  if (!file.ok())
    return file.status();
  line.file = *file;
  for (int i = 1; i < argc; ++i) {
    StringRef argument = argv[i];
    auto [name, value] = argument.split('=');
    if (!argument.starts_with("-"))
      continue;
    if (name == "--entry") {
      line.once.entry = value;
      line.hasEntry = true;
    } else if (name == "--inputs") {
      line.once.inputs = value;
    } else if (name == "--check-trace") {
      line.checkTrace = value;
    } else if (name == "--dump") {
      line.dump = value;
    } else if (name == "--eval-type") {
      if (value != "f32" && value != "f64")
        return usage("--eval-type is '" + value.str() +
                     "', expected f32 or f64");
      line.evalType = value == "f64" ? EvalType::F64 : EvalType::Own;
    } else {
      line.rest.push_back(argument.str());
    }
  }
  return line;
}

/// Returns true if the flags require the training driver.
static bool wantsDriver(const CommandLine &line) {
  for (StringRef flag : line.rest) {
    StringRef name = flag.split('=').first;
    if (name == "--data" || name == "--val-data" || name == "--describe" ||
        name == "--generate" || name == "--resume")
      return true;
  }
  return false;
}

/// Parses `line.rest` for a run of one program. Fails for flags that only
/// training accepts.
static Status parseOnceFlags(CommandLine &line) {
  for (StringRef flag : line.rest) {
    auto [name, value] = flag.split('=');
    if (name == "--init")
      line.once.init = value;
    else if (name == "--seed") {
      if (value.getAsInteger(10, line.once.seed))
        return usage("--seed is '" + value.str() + "', expected a number");
    } else {
      return usage(name.str() +
                   " is a flag of training: to train, add --data=FILE and "
                   "--steps=N; to run one program once, omit this flag");
    }
  }
  if (!line.hasEntry)
    line.once.entry = "train";
  return {};
}

static int train(ReferenceEngine &engine, const CommandLine &line) {
  std::string program = "kiln-run";
  std::vector<std::string> flags = line.rest;
  if (!line.once.inputs.empty())
    flags.push_back("--inputs=" + line.once.inputs);
  std::vector<char *> arguments = {program.data()};
  for (std::string &flag : flags)
    arguments.push_back(flag.data());
  return runTraining(engine, static_cast<int>(arguments.size()),
                     arguments.data());
}

static Result<mlir::OwningOpRef<mlir::ModuleOp>>
loadModule(mlir::MLIRContext &context, const std::string &path) {
  std::string message;
  auto file = mlir::openInputFile(path, &message);
  if (!file)
    return Status::badInput(message +
                            "; expected a program in the kiln dialect, such as "
                            "the output of kilnc --emit=step");
  if (auto reason = kiln::findUnparsable(file->getBuffer()))
    return Status::badInput(path + ": is not a valid module: " + *reason);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  // Keep only the first error.
  std::string first;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error ||
            !first.empty())
          return;
        llvm::raw_string_ostream stream(first);
        if (auto place = diagnostic.getLocation()
                             ->findInstanceOf<mlir::FileLineColLoc>())
          stream << "line " << place.getLine() << ": ";
        stream << diagnostic;
        first = kiln::firstLineOf(first);
      });
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(
      sources, mlir::ParserConfig(&context));
  if (!module)
    return Status::badInput(path + ": is not a valid module: " + first);
  return module;
}

/// Creates a ScheduledEngine for a scheduled module and an InterpreterEngine
/// for a module of any other level.
static Result<std::unique_ptr<ReferenceEngine>>
createEngine(mlir::ModuleOp module, EvalType evalType) {
  using Made = Result<std::unique_ptr<ReferenceEngine>>;
  if (!ScheduledEngine::accepts(module))
    return Made(std::make_unique<InterpreterEngine>(module, evalType));
  if (evalType != EvalType::Own)
    return usage("--eval-type=f64 contradicts a scheduled module, which is "
                 "always evaluated in its declared types");
  auto scheduled = ScheduledEngine::create(module);
  if (!scheduled.ok())
    return scheduled.status();
  return Made(std::move(*scheduled));
}

static Status run(int argc, char **argv, int &exitCode) {
  auto line = parseCommandLine(argc, argv);
  if (!line.ok())
    return line.status();
  if (line->help) {
    llvm::outs() << kUsage;
    return {};
  }
  if (!line->dump.empty())
    if (Status status = tryOutputFile(line->dump); !status.ok())
      return status;
  // Register all targets, so that a module for any target can be loaded. The
  // target does not change the semantics of a module.
  mlir::DialectRegistry registry;
  registerAllTargets(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<KilnDialect, rt::KilnRTDialect>();
  auto module = loadModule(context, line->file);
  if (!module.ok())
    return module.status();
  if (Status status = checkMemoryNeeded(**module); !status.ok())
    return status;
  if (!line->checkTrace.empty())
    return checkTrace(**module, line->checkTrace, llvm::outs());
  auto made = createEngine(**module, line->evalType);
  if (!made.ok())
    return made.status();
  ReferenceEngine &engine = **made;

  if (wantsDriver(*line)) {
    if (line->hasEntry && line->once.entry != "train")
      return usage("--entry=" + line->once.entry +
                   " contradicts training, which runs @train");
    if (engine.description().model.vocabSize < 1)
      return usage("training needs the vocabulary size: give the module " +
                   std::string("the attribute kiln.model = {vocab_size = N}"));
    exitCode = train(engine, *line);
    // All ranks have the same states, so only the first rank writes them.
    if (kiln::runtime::World::launchedRank() != 0)
      return {};
  } else {
    if (Status status = parseOnceFlags(*line); !status.ok())
      return status;
    if (Status status = runOnce(engine, line->once, llvm::outs()); !status.ok())
      return status;
  }
  if (exitCode != 0 || line->dump.empty())
    return {};
  return dumpTensors(engine, line->hasEntry ? line->once.entry : "train",
                     line->dump);
}

/// Ends the process when `new` fails. Although the memory need is checked in
/// advance, `new` can fail if other processes use the memory.
static void reportNoMemory() {
  constexpr char message[] = "error: this machine is out of memory\n";
  (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
  _exit(static_cast<int>(ExitCode::Error));
}

int main(int argc, char **argv) {
  prepareProcess();
  std::set_new_handler(reportNoMemory);
  int exitCode = 0;
  Status status = run(argc, argv, exitCode);
  // An unchecked error would make raw_ostream abort with its own message.
  llvm::outs().flush();
  if (std::error_code failure = llvm::outs().error()) {
    llvm::outs().clear_error();
    if (status.ok())
      status = Status::error("cannot write to standard output: " +
                             failure.message());
  }
  if (status.ok())
    return exitCode;
  llvm::errs() << "error: " << status.message() << "\n";
  return static_cast<int>(status.code());
}
