//===- MeasureMachine.cpp - Measurement of this machine ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler does not link the BLAS library, so a separate program,
// kiln-measure, measures everything except attention. Attention is generated
// code, so its rate is computed from traces of executables. The speed of the
// machine may have changed since kiln-measure ran. To compensate, the rate of
// attention is multiplied by t / p, where t is the measured and p the predicted
// time of the matmuls in the same trace.
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/MeasureMachine.h"

#include "MeasureAttention.h"

#include "kiln/Support/Json.h"
#include "kiln/Support/OutputFile.h"
#include "kiln/Support/Process.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <ctime>

using namespace llvm;
using namespace kiln::support;
using namespace kiln;
using nlohmann::json;

/// Runs kiln-measure and parses its output.
static Result<json> runProbe(const std::string &directory,
                             ArrayRef<std::string> arguments) {
  SmallString<128> program(directory);
  sys::path::append(program, "kiln-measure");
  if (!sys::fs::exists(program))
    return Status::error(
        "cannot find '" + program.str().str() +
        "', the measurement program; build all targets of kiln");
  SmallString<128> outputPath;
  if (std::error_code failure =
          sys::fs::createTemporaryFile("kiln-measure", "json", outputPath))
    return Status::error("cannot create a temporary file: " +
                         failure.message());
  FileRemover remover(outputPath);
  std::vector<StringRef> command = {program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(outputPath),
                                          std::nullopt};
  std::string error;
  int code = sys::ExecuteAndWait(program, command, std::nullopt, redirects, 0,
                                 0, &error);
  if (Status status = checkStop(); !status.ok())
    return status;
  if (code != 0)
    return Status::error("'" + program.str().str() +
                         "' failed with exit code " + std::to_string(code) +
                         (error.empty() ? "" : ": " + error));
  return readJsonFile(outputPath.str().str());
}

static std::string today() {
  std::time_t seconds = std::time(nullptr);
  std::tm date{};
  gmtime_r(&seconds, &date);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &date);
  return text;
}

Result<ThisMachine>
kiln::describeThisMachine(const std::string &programDirectory,
                          int64_t threads) {
  Result<json> found = runProbe(programDirectory, {"describe"});
  if (!found.ok())
    return found.status();
  ThisMachine here;
  here.cpu = found->value("cpu", "");
  here.blas = found->value("blas", "");
  here.threads = threads;
  return here;
}

Result<Machine> kiln::measureMachine(const MeasureOptions &options) {
  Result<json> found =
      runProbe(options.programDirectory, {std::to_string(options.threads),
                                          std::to_string(options.seconds)});
  if (!found.ok())
    return found.status();
  json &figures = *found;
  if (double disturbed = figures.value("disturbed", 0.0); disturbed > 0.1)
    errs() << "warning: other processes used the processors during "
           << static_cast<int>(100 * disturbed + 0.5)
           << " % of the measurements: the figures may be too low; measure "
              "again on an idle machine\n";

  // Build the contents of the file. The figures of attention are placeholders,
  // because measuring attention requires all other figures.
  json file = {{"format", "kiln-machine"},
               {"version", 1},
               {"name", figures.value("cpu", "").substr(0, 80) + ", " +
                            std::to_string(options.threads) + " threads"},
               {"kind", "cpu"},
               {"origin",
                {{"how", "measured"},
                 {"date", today()},
                 {"cpu", figures["cpu"]},
                 {"blas", figures["blas"]},
                 {"threads", options.threads}}},
               {"device_bytes", figures["memory_bytes"]},
               {"host_bytes", figures["memory_bytes"]},
               {"attention",
                {{"sequence", {1}}, {"forward", {1.0}}, {"backward", {1.0}}}}};
  for (const char *key :
       {"launch_s", "vector_flop_per_s", "gemm", "bandwidth", "link"})
    file[key] = figures[key];
  Result<Machine> machine = parseMachine(file.dump(), "measured");
  if (!machine.ok())
    return Status::error("the measured figures are invalid: " +
                         machine.status().message());
  errs() << "measuring attention\n";
  Result<AttentionCurve> attention = measureAttention(*machine, options);
  if (!attention.ok())
    return attention.status();
  machine->attention = *attention;
  return machine;
}

Status kiln::writeMeasuredMachine(const MeasureOptions &options,
                                  const std::string &path) {
  // On a signal, stop after the current program and remove the temporary files.
  installStopSignals();
  Result<OutputFile> file = OutputFile::create(path);
  if (!file.ok())
    return file.status();
  Result<Machine> machine = measureMachine(options);
  if (!machine.ok())
    return machine.status();
  std::string text = printMachine(*machine);
  if (Status status = file->write(text.data(), text.size()); !status.ok())
    return status;
  return file->commit();
}

Result<Machine> kiln::chooseMachine(const std::string &name,
                                    const std::string &programDirectory,
                                    int64_t threads) {
  Result<Machine> machine = loadMachine(name);
  if (!machine.ok() || !machine->origin.measured ||
      machine->kind != MachineKind::Cpu)
    return machine;
  Result<ThisMachine> here = describeThisMachine(programDirectory, threads);
  if (!here.ok())
    return here.status();
  if (auto difference = machine->mismatch(*here))
    errs() << "warning: machine '" << name << "' " << *difference
           << ": planned times are for that machine; measure this one with "
              "kilnc --measure-machine\n";
  return machine;
}
