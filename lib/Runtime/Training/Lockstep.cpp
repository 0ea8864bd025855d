//===- Lockstep.cpp - Server of the lockstep protocol ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lockstep.h"

#include "StepTensors.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Process.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

using namespace kiln::support;

namespace kiln::runtime {

using Json = nlohmann::json;

namespace {

/// Hashes the results of every command and records the order of tensor writes.
class OpRecorder {
public:
  explicit OpRecorder(const StepTensors &tensors)
      : tensors_(tensors), order_(tensors.list().size(), -1) {}
  void operator()(const OpResult &result);
  void describe(Json &reply) const;

private:
  struct Entry {
    const char *kind;
    std::string name;
    std::string buffer;
    int64_t bytes;
    int64_t executions = 0;
    StreamHash all;   ///< Hash of the values of all executions, in order.
    std::string last; ///< Hash of the value of the last execution.
  };

  const StepTensors &tensors_;
  std::vector<Entry> entries_; ///< In the order of their first write.
  /// Indexes in entries_. The key is a command and a pointer to the name of a
  /// buffer; the pointer identifies the buffer.
  std::map<std::pair<size_t, const std::string *>, size_t> index_;
  /// For each tensor, the sequence number of its last write, or -1 if no
  /// command has written it.
  std::vector<int64_t> order_;
  int64_t writes_ = 0;
};

class Server {
public:
  Server(Engine &engine, TrainingRun &run, const Options &options,
         std::FILE *out)
      : engine_(engine), run_(run), options_(options), out_(out),
        program_(*findProgram(engine.description(), "train")),
        tensors_(engine, program_) {}

  Status serve();

private:
  Status answer(const Json &command);
  Status step(const Json &command, Json &reply);
  Status perturb(const std::string &file, const std::vector<size_t> &indexes,
                 Json &reply);
  Status send(const Json &reply);
  Json model() const;
  /// Adds the hashes of all tensors to `reply`.
  Status addHashes(Json &reply) const;
  void addRecord(const StepRecord &record, Json &reply) const;

  Engine &engine_;
  TrainingRun &run_;
  const Options &options_;
  std::FILE *out_;
  size_t program_;
  StepTensors tensors_;
  Progress keptProgress_;
};

} // namespace

void OpRecorder::operator()(const OpResult &result) {
  if (size_t tensor = tensors_.at(result.data); tensor < order_.size())
    order_[tensor] = writes_++;
  if (!result.whole)
    return;
  auto [place, isNew] =
      index_.try_emplace({result.command, &result.buffer}, entries_.size());
  if (isNew)
    entries_.push_back({result.kind,
                        result.name,
                        result.buffer,
                        result.valueBytes(),
                        0,
                        {},
                        {}});
  Entry &entry = entries_[place->second];
  auto addTo = [&](StreamHash &hash) {
    result.forEachPart([&](const char *data, int64_t bytes) {
      hash.update(data, uint64_t(bytes));
    });
  };
  addTo(entry.all);
  if (entry.executions++ > 0) {
    StreamHash last;
    addTo(last);
    entry.last = last.hex();
  }
}

void OpRecorder::describe(Json &reply) const {
  Json ops = Json::array();
  for (const Entry &entry : entries_) {
    std::string all = entry.all.hex();
    ops.push_back({{"kind", entry.kind},
                   {"name", entry.name},
                   {"buffer", entry.buffer},
                   {"bytes", entry.bytes},
                   {"iterations", entry.executions},
                   {"all", all},
                   {"last", entry.executions > 1 ? entry.last : all}});
  }
  reply["ops"] = std::move(ops);
  reply["order"] = order_;
}

/// Returns the bits of a number in hexadecimal. A JSON number cannot represent
/// NaN, and decimal text may lose bits.
static std::string bitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", (unsigned long long)bits);
  return text;
}

Json Server::model() const {
  const Description &description = engine_.description();
  const ModelInfo &model = description.model;
  const BuildInfo &build = description.build;
  Json tensors = Json::array();
  for (const StepTensor &tensor : tensors_.list())
    tensors.push_back({{"name", tensor.name},
                       {"role", tensor.role},
                       {"dtype", infoOf(tensor.type).fileName},
                       {"shape", tensor.shape}});
  return {{"lockstep", 1},
          {"model", model.type},
          {"vocab_size", model.vocabSize},
          {"batch", model.batch},
          {"sequence_length", model.sequenceLength},
          {"build",
           {{"optimizer", build.optimizer},
            {"lossy", build.lossy.empty() ? "none" : build.lossy},
            {"precision", build.precision},
            {"microbatches", std::to_string(build.microbatches)},
            {"clip", build.clip ? "on" : "off"},
            {"dropout", std::to_string(build.dropout)},
            {"max-threads", std::to_string(build.maxThreads)},
            {"target", build.target},
            {"kiln", build.version}}},
          {"library", engine_.libraryName()},
          {"first_step", run_.progress().step + 1},
          {"last_step", options_.steps},
          {"tensors", std::move(tensors)}};
}

Status Server::addHashes(Json &reply) const {
  Result<std::vector<std::string>> hashes = tensors_.hashes();
  if (!hashes.ok())
    return hashes.status();
  reply["hashes"] = std::move(*hashes);
  return Status();
}

void Server::addRecord(const StepRecord &record, Json &reply) const {
  reply["step"] = record.step;
  reply["loss"] = bitsOf(record.loss);
  reply["lr"] = bitsOf(record.rate);
  if (record.gradNorm)
    reply["grad_norm"] = bitsOf(*record.gradNorm);
  // The last skipped step that the flag --loss-scale permits in a row ends a
  // training run as diverged.
  if (record.skipped &&
      run_.progress().lossScale->skippedInARow < options_.lossScale.skips)
    reply["skipped"] = true;
}

/// Returns the string member `key` of a command, or "" if it is missing or not
/// a string.
static std::string textOf(const Json &command, const char *key) {
  auto found = command.find(key);
  return found != command.end() && found->is_string()
             ? found->get<std::string>()
             : std::string();
}

static bool flagOf(const Json &command, const char *key) {
  auto found = command.find(key);
  return found != command.end() && found->is_boolean() && found->get<bool>();
}

/// Handles {"do":"step", "ops":bool, "keep":bool}.
Status Server::step(const Json &command, Json &reply) {
  if (run_.progress().step >= options_.steps)
    return Status(ExitCode::Usage, "--lockstep: no step is left");
  tensors_.forget();
  keptProgress_ = run_.progress();
  if (flagOf(command, "keep"))
    if (Status status = tensors_.keep(); !status.ok())
      return status;
  OpRecorder ops(tensors_);
  bool watched = flagOf(command, "ops");
  Result<StepRecord> record = run_.computeStep([&](size_t program) {
    return watched ? engine_.runObserved(program, std::ref(ops))
                   : engine_.run(program);
  });
  if (!record.ok())
    return record.status();
  addRecord(*record, reply);
  if (watched)
    ops.describe(reply);
  return addHashes(reply);
}

/// Repeats the last step from weights that are perturbed by their rounding
/// error, and saves the resulting tensors whose indexes are in `indexes` to
/// `file`. Then restores the original states and repeats the step, so that the
/// states are again those that the last step computed.
Status Server::perturb(const std::string &file,
                       const std::vector<size_t> &indexes, Json &reply) {
  if (!tensors_.kept())
    return Status(ExitCode::Usage,
                  "--lockstep: 'perturb' needs a step with 'keep' before it");
  auto again = [&]() {
    run_.moveTo(keptProgress_);
    return run_.computeStep(
        [&](size_t program) { return engine_.run(program); });
  };
  Status status = tensors_.restore();
  if (status.ok())
    status = tensors_.perturb();
  if (!status.ok())
    return status;
  Result<StepRecord> record = again();
  if (!record.ok())
    return record.status();
  addRecord(*record, reply);
  status = tensors_.save(file, indexes);
  if (status.ok())
    status = tensors_.restore();
  return status.ok() ? again().status() : status;
}

Status Server::answer(const Json &command) {
  std::string what = textOf(command, "do"), file = textOf(command, "file");
  std::vector<size_t> indexes;
  if (auto list = command.find("tensors"); list != command.end()) {
    for (const Json &index : *list) {
      if (!index.is_number_unsigned() ||
          index.get<size_t>() >= tensors_.list().size())
        return Status(ExitCode::Usage, "--lockstep: there is no tensor " +
                                           inQuotes(index.dump()));
      indexes.push_back(index.get<size_t>());
    }
  }
  Json reply = Json::object();
  Status status;
  if (what == "step")
    status = step(command, reply);
  else if (what == "save")
    status = tensors_.save(file, indexes);
  else if (what == "load")
    status = tensors_.load(file, indexes);
  else if (what == "perturb")
    status = perturb(file, indexes, reply);
  else
    status = Status(ExitCode::Usage,
                    "--lockstep: the command " + inQuotes(what) +
                        " is unknown, expected step, save, load or perturb");
  return status.ok() ? send(reply) : status;
}

Status Server::send(const Json &reply) {
  std::string line = reply.dump(-1, ' ', false, Json::error_handler_t::replace);
  line += '\n';
  if (std::fwrite(line.data(), 1, line.size(), out_) != line.size() ||
      std::fflush(out_) != 0)
    return Status::error("--lockstep: cannot write a reply: " +
                         errnoText(errno));
  return Status();
}

Status Server::serve() {
  Json greeting = model();
  Status status = addHashes(greeting);
  if (status.ok())
    status = send(greeting);
  char *line = nullptr;
  size_t capacity = 0;
  for (ssize_t length;
       status.ok() && (length = ::getline(&line, &capacity, stdin)) > 0;) {
    Result<Json> command =
        parseJson({line, size_t(length)}, "a --lockstep command");
    if (!command.ok())
      status = command.status();
    else if (!command->is_object())
      status =
          Status(ExitCode::Usage, "--lockstep: a command is not a JSON object");
    else
      status = answer(*command);
    if (stopRequested())
      status = checkStop();
  }
  std::free(line);
  return status;
}

Status serveLockstep(Engine &engine, TrainingRun &run, const Options &options) {
  std::FILE *out = ::fdopen(options.lockstep, "w");
  if (!out)
    return Status(ExitCode::Usage,
                  "--lockstep: cannot write to file descriptor " +
                      std::to_string(options.lockstep) + ": " +
                      errnoText(errno) + "; this flag is for kiln-diff");
  Status status = Server(engine, run, options, out).serve();
  std::fclose(out);
  return status;
}

} // namespace kiln::runtime
