//===- Driver.cpp - Entry point of training executables ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Training/Driver.h"

#include "Describe.h"
#include "Generate.h"
#include "Lockstep.h"
#include "ProcessMemory.h"
#include "States.h"
#include "TrainingDriver.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Process.h"

#include <algorithm>
#include <cstdio>

using namespace kiln::support;

namespace kiln::runtime {

Status Driver::startEngine() {
  Status status;
  if (ranks_.world())
    status = engine_.join(*ranks_.world());
  if (!status.ok())
    return status;
  if (options_.stressCopies)
    status = engine_.stressCopies(*options_.stressCopies);
  if (status.ok() && options_.emuSeed)
    status = engine_.shuffle(*options_.emuSeed);
  if (status.ok() && options_.syncOps)
    status = engine_.syncOps();
  if (status.ok() && options_.gpuAlgorithms)
    status = engine_.keepAlgorithms(*options_.gpuAlgorithms);
  if (status.ok())
    status = engine_.start(options_.threads);
  if (!status.ok())
    return status;
  if (std::optional<std::string> notice = engine_.notice())
    warn(*notice);
  if (std::optional<std::string> notice = engine_.rankNotice())
    warn(*notice);
  return Status();
}

Status Driver::loadAdapters() {
  Status status = adapters_->load(engine_, ranks_.rank(), notes_);
  files_.base = adapters_->base();
  return status;
}

/// Returns true if ranks read only parts of weight files.
static bool shardsWeights(const Description &description) {
  return std::any_of(description.states.begin(), description.states.end(),
                     [](const StateInfo &state) {
                       return isWeight(state) && state.isSharded();
                     });
}

Status Driver::initialiseWeights() {
  int rank = ranks_.rank();
  std::string hash;
  Status status = initialiseStates(engine_, rank, progress_.seed);
  if (status.ok() && description_.lora)
    status = loadAdapters();
  else if (status.ok() && resumed_)
    status = loadCheckpoint(*resumed_, engine_, rank, notes_);
  else if (status.ok() && !options_.init.empty())
    status = loadWeights(engine_, rank, options_.init, options_.initIgnore,
                         notes_, shardsWeights(description_) ? &hash : nullptr);
  // Check that no rank has failed, because all ranks must take part when
  // copyMirrors() exchanges shards.
  status = ranks_.vote("the start", status, {}, Patience::Unlimited).status();
  // The ranks have different shards of the weights, which cannot be compared.
  // Compare the hashes of the files that the ranks have read instead.
  if (status.ok() && shardsWeights(description_))
    status = ranks_.compare(
        {{"weight files",
          keyedHash(adapters_ ? files_.base.hash : hash, progress_.seed)}});
  if (status.ok())
    status = copyMirrors(engine_, ranks_.world());
  for (const std::string &note : notes_)
    warn(note);
  notes_.clear();
  return status;
}

Status Driver::logStart() {
  LogLine line;
  line.text("event", "start");
  addDescription(line, description_);
  // A seed may be too large for integer(), which takes signed numbers.
  line.json("seed", std::to_string(progress_.seed))
      .integer("total_steps", options_.steps)
      .integer("first_step", progress_.step + 1)
      .integer("threads", engine_.threads())
      .text("library", engine_.libraryName());
  if (ranks_.size() > 1)
    records_->say(
        std::to_string(ranks_.size()) + " ranks" + meshText(description_) +
        " with " + std::to_string(engine_.threads()) +
        (engine_.threads() == 1 ? " thread" : " threads") + " each, " +
        std::to_string(description_.globalBatch()) + " sequences per step");
  return records_->start(line, options_.steps,
                         resumed_ ? std::optional(progress_.step)
                                  : std::nullopt);
}

void Driver::logEnd(const Status &status, int64_t steps) {
  MemoryFacts memory = engine_.memory();
  CopyCounts copies;
  std::optional<SectorCounts> sectors;
  std::optional<SumCounts> sums;
  if (std::optional<size_t> train = findProgram(description_, "train")) {
    copies = engine_.copies(*train).value_or(copies);
    sectors = engine_.sectors(*train);
    sums = engine_.sums(*train);
  }
  const char *reason = status.ok()                           ? "done"
                       : status.code() == ExitCode::Stopped  ? "stopped"
                       : status.code() == ExitCode::Diverged ? "diverged"
                                                             : "failed";
  LogLine line;
  line.text("event", "end")
      .integer("steps", steps)
      .integer("arena_bytes", memory.arenaBytes)
      .integer("host_arena_bytes", memory.hostArenaBytes)
      .integer("copied_out_bytes_per_step", copies.outBytes)
      .integer("copied_in_bytes_per_step", copies.inBytes);
  if (sums)
    line.integer("sent_bytes_per_step", sums->sentBytes)
        .integer("sum_scratch_bytes", memory.commScratchBytes);
  if (sums && sums->isComputed)
    line.text("sent_bytes_are", "computed");
  if (std::optional<size_t> sync = findProgram(description_, "sync"))
    if (std::optional<SumCounts> averages = engine_.sums(*sync))
      line.integer("sent_bytes_per_sync", averages->sentBytes);
  if (sectors)
    line.integer("emu_read_sectors_per_step", sectors->read)
        .integer("emu_write_sectors_per_step", sectors->written);
  line.integer("peak_rss_bytes", readProcessMemory().peakResident)
      .text("reason", reason);
  records_->end(line);
}

/// Generates text on the first rank or, if the program communicates, on all
/// ranks. Only the first rank prints.
Status Driver::generate() {
  size_t program = *findProgram(description_, "generate");
  bool isCommon =
      ranks_.size() > 1 && description_.programs[program].communicates;
  if (!isCommon && !ranks_.isFirst())
    return Status();
  Result<ProgramInputs> inputs =
      ProgramInputs::bind(engine_, program, ranks_.rank());
  if (!inputs.ok())
    return inputs.status();
  auto stops = [&]() -> Result<bool> {
    if (!isCommon)
      return stopRequested();
    Result<Ballot> all = ranks_.vote("--generate", Status(), {stopRequested()},
                                     Patience::Unlimited);
    if (!all.ok())
      return all.status();
    return all->stop;
  };
  auto print = [&](const std::string &text) {
    return ranks_.isFirst() ? printResult(text) : Status();
  };
  auto run = [&]() -> Status {
    Status outcome = engine_.run(program);
    return outcome.ok() || !isCommon ? outcome : ranks_.abort(outcome);
  };
  Status status =
      generateText(run, *inputs, options_, progress_.seed,
                   files_.inputs ? &*files_.inputs : nullptr, stops, print);
  Status ended = print("\n");
  return status.ok() ? ended : status;
}

Status Driver::trainAndGenerate() {
  TrainingRun run(engine_, options_, files_, *records_, record_, progress_,
                  ranks_);
  Status status = run.bind();
  if (status.ok())
    status = initialiseWeights();
  status = ranks_.vote("the start", status, {}, Patience::Unlimited).status();
  if (status.ok())
    status = run.compareStates();
  if (!status.ok())
    return status;
  // Close the files of the checkpoint, because this run may remove the
  // checkpoint during training.
  if (resumed_)
    resumed_->found.files.clear();
  if (options_.lockstep >= 0)
    return serveLockstep(engine_, run, options_);
  status = logStart();
  if (!status.ok())
    return status;
  status = run.run();
  progress_ = run.progress();
  if (status.ok() && options_.generate > 0)
    status = generate();
  if (status.ok() && !options_.saveMerged.empty()) {
    WholeStates states(engine_, ranks_, "the merged model");
    status = ranks_.isFirst() ? saveMerged(states, options_.saveMerged)
                              : sendMerged(states);
    status = states.finish(status);
    if (status.ok())
      records_->say("saved " + options_.saveMerged);
  }
  if (status.ok())
    status = run.diagnostics();
  logEnd(status, progress_.step);
  return status.ok() ? records_->outcome() : status;
}

Status Driver::drive() {
  for (Status (Driver::*phase)() :
       {&Driver::checkOptions, &Driver::openOutputs, &Driver::openInputs,
        &Driver::compareRanks, &Driver::startEngine}) {
    Status status = (this->*phase)();
    // If a stop was requested, return the error for the stop instead of
    // `status`, because the stop may have caused the failure.
    if (stopRequested())
      status = checkStop();
    // Wait without a limit, because a rank may still be reading large files.
    status = ranks_.vote("the start", status, {}, Patience::Unlimited).status();
    if (!status.ok())
      return status;
  }
  if (!options_.onlyChecks())
    warnOfUnusualRuns();
  if (!options_.checkOps.empty())
    return traceOps();
  if (!options_.checkTrace.empty())
    return repeatOps();
  return options_.checkMemory ? checkMemoryUse() : trainAndGenerate();
}

/// Parses the flags. Then prints the help text or the description if a flag
/// requests it, and otherwise trains or checks.
static Status runWith(Engine &engine, Ranks &ranks, int argc, char **argv) {
  const Description &description = engine.description();
  Result<ParsedOptions> parsed = parseOptions(argc, argv, &description);
  if (!parsed.ok())
    return parsed.status();
  const Options &options = parsed->options;
  if (parsed->help || options.describe) {
    if (!ranks.isFirst())
      return Status();
    return printResult(parsed->help ? *parsed->help
                                    : describeText(description));
  }
  // Without a launcher, checks run on one rank, even if the program needs
  // several. Sums over ranks then have no effect.
  if (ranks.size() > 1 || !options.onlyChecks())
    if (Status status = ranks.checkSize(description, argv[0]); !status.ok())
      return status;
  if (World *world = ranks.world())
    world->setPeerTimeout(options.peerTimeout);
  return Driver(engine, options, ranks).drive();
}

int runTraining(Engine &engine, int argc, char **argv) {
  prepareProcess();
  installStopSignals();
  Result<Ranks> ranks =
      Ranks::connect(engine.description().target.kind == TargetKind::Cuda);
  Status status = ranks.status();
  // If the launcher cannot be used, all ranks fail with a usage error, and only
  // the first rank prints it.
  bool prints = status.code() != ExitCode::Usage || World::launchedRank() == 0;
  if (ranks.ok()) {
    prints = ranks->isFirst();
    if (!prints)
      silenceMessages();
    status = ranks->finish(runWith(engine, *ranks, argc, argv));
  }
  std::fflush(stdout);
  if (!status.ok() && prints)
    std::fprintf(stderr, "%s: %s\n",
                 status.code() == ExitCode::Stopped ? "note" : "error",
                 status.message().c_str());
  return int(status.code());
}

} // namespace kiln::runtime
