//===- kiln-run.cpp - The reference interpreter ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs one program of a module once, or trains with the flags, the driver and
// the files of a compiled executable.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/SourceCheck.h"
#include "kiln/Interpreter/MemoryNeeded.h"
#include "kiln/Interpreter/RunOnce.h"
#include "kiln/Interpreter/ScheduledEngine.h"
#include "kiln/Interpreter/TraceCheck.h"
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

Evaluates kiln programs with naive loops, at every level down to scheduled; scheduled programs run over the bytes of
their arena, and wrong plans are errors. The first form runs one program once and prints its outputs; the second trains
with @train as an executable would. The third compares every op that an executable ran, in the trace that its flag
--check-ops=FILE wrote, with the interpreted op on the same inputs; the module is that of kilnc --emit=schedule.

  --entry=NAME            the program to run (train)
  --inputs=FILE           a tensor for every input, by name
  --init=FILE|DIR         values of the states; without, their initial values for --seed (0)
  --eval-type=f32|f64     as declared, every result rounded to its type (f32), or everything in f64
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
  /// Flags for the training driver.
  std::vector<std::string> rest;
};

} // namespace

static Status usage(const std::string &message) {
  return Status(ExitCode::Usage, message);
}

/// Checks the flags of both forms; returns the file.
static Result<std::string> checkNames(int argc, char **argv) {
  CommandLineRules rules;
  rules.own = executableFlags();
  rules.own.insert(
      rules.own.end(),
      {{"entry", "NAME"}, {"eval-type", "f32|f64"}, {"dump", "FILE"}});
  rules.other = compilerFlags();
  rules.explainOther = [](const Flag &flag) {
    return flag.dashed() +
           " is a flag of kilnc: the file that kilnc --emit wrote was made "
           "with it";
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
                 ": expected one module; values of flags follow '=' (see "
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

/// True when the flags ask for what only the training driver does.
static bool wantsDriver(const CommandLine &line) {
  for (StringRef flag : line.rest) {
    StringRef name = flag.split('=').first;
    if (name == "--data" || name == "--val-data" || name == "--describe" ||
        name == "--generate" || name == "--resume")
      return true;
  }
  return false;
}

/// Flags that both forms know.
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
                   " is a flag of training: give --data=FILE and --steps=N as "
                   "well, or leave it out to run one program once");
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
    return Status::badInput(
        message + "; expected a program in the kiln dialect, such as kilnc "
                  "--emit=step writes");
  if (auto reason = kiln::findUnparsable(file->getBuffer()))
    return Status::badInput(path + ": is not a valid module: " + *reason);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  // The first error is the one line that users see.
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

/// The engine for the level of a module.
static Result<std::unique_ptr<ReferenceEngine>>
createEngine(mlir::ModuleOp module, EvalType evalType) {
  using Made = Result<std::unique_ptr<ReferenceEngine>>;
  if (!ScheduledEngine::accepts(module))
    return Made(std::make_unique<InterpreterEngine>(module, evalType));
  if (evalType != EvalType::Own)
    return usage("--eval-type=f64 contradicts a scheduled module, which runs "
                 "in its own types");
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
  // A module means the same on every target, but must be for one that exists.
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
      return usage("training needs the number of tokens: give the module " +
                   std::string("the attribute kiln.model = {vocab_size = N}"));
    exitCode = train(engine, *line);
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

/// Ends the program when `new` finds no memory, which may be in use elsewhere.
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
  // An error that nobody has looked at would end the program in raw_ostream's
  // own words.
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
