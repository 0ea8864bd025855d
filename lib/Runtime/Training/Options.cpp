//===- Options.cpp - Flags of a training executable -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Training/Options.h"

#include "FixedFlags.h"
#include "RateFlags.h"
#include "kiln/Support/Messages.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <sstream>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

/// Declares the flags, parses the command line, and checks that the flags are
/// compatible.
class FlagParser {
public:
  FlagParser();
  Result<ParsedOptions> parse(int argc, const char *const *argv,
                              const Description *description);

private:
  void addDataFlags();
  void addRateFlags();
  void addRecordFlags();
  Status check() const;
  Status readChanging();
  Status readLossScale();
  Status checkLockstep() const;
  bool given(const char *flag) const { return app_.count(flag) > 0; }
  /// Returns an error if `flag` is given and `present` is false. The message
  /// says that `flag` needs the flag `other`. The caller sets `present` to true
  /// if `other` is given.
  Status needs(const char *flag, const char *other, bool present) const;

  CLI::App app_;
  Options options_;
  std::string resumeChanging_;
  std::string lossScale_;
  uint64_t shuffleSeed_ = 0;
  uint64_t stressSeed_ = 0;
  uint64_t emuSeed_ = 0;
  std::string gpuAlgorithms_;
};

} // namespace

static Status usage(const std::string &message) {
  return Status(ExitCode::Usage, message + " (see --help)");
}

using Check = std::function<std::string(const std::string &)>;

/// Returns a CLI11 check for a decimal integer from `least` to `most`.
template <typename T> static Check wholeNumber(T least, T most) {
  return [=](const std::string &text) {
    T value = 0;
    const char *end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data(), end, value);
    bool isNumber = rest == end && !text.empty();
    if (isNumber && error == std::errc() && value >= least && value <= most)
      return std::string();
    if (isNumber && (error == std::errc() ? value > most : text[0] != '-'))
      return inQuotes(text) + " is too large, expected at most " +
             std::to_string(most);
    return inQuotes(text) + " is not a whole number of at least " +
           std::to_string(least);
  };
}

static Check atLeast(int64_t least,
                     int64_t most = std::numeric_limits<int64_t>::max()) {
  return wholeNumber<int64_t>(least, most);
}

static Check seed() {
  return wholeNumber<uint64_t>(0, std::numeric_limits<uint64_t>::max());
}

/// Returns a CLI11 check for a finite number x. If `isShare`, 0 < x <= 1 must
/// hold; otherwise x >= 0.
static Check number(bool isShare = false) {
  return [=](const std::string &text) {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) &&
        (isShare ? value > 0 && value <= 1 : value >= 0))
      return std::string();
    return inQuotes(text) + " is not a number " +
           (isShare ? "above 0 and at most 1" : "of at least 0");
  };
}

/// Returns a CLI11 check that a value is a key of `names`.
template <typename Map> static Check oneOf(const Map &names) {
  return [&names](const std::string &text) {
    if (names.count(text))
      return std::string();
    std::string list;
    for (auto &[name, value] : names)
      list += (list.empty() ? "" : ", ") + name;
    return inQuotes(text) + " is not one of " + list;
  };
}

FlagParser::FlagParser()
    : app_("Trains the model that this executable was compiled from") {
  app_.get_formatter()->column_width(38);
  addDataFlags();
  addRateFlags();
  addRecordFlags();
}

void FlagParser::addDataFlags() {
  app_.add_option(
      "--data", options_.data,
      "Training tokens: .bin of llm.c or nanoGPT, or .txt as bytes");
  app_.add_option("--val-data", options_.valData, "Validation tokens");
  app_.add_option(
      "--inputs", options_.inputs,
      "Tensors of the inputs that the model declares, .safetensors");
  app_.add_option("--val-inputs", options_.valInputs,
                  "Tensors of these inputs for the validation tokens");
  app_.add_option("--loss-mask", options_.lossMask,
                  "One byte per token of --data; the loss excludes targets "
                  "whose byte is 0");
  app_.add_option("--val-loss-mask", options_.valLossMask,
                  "The same for --val-data");
  app_.add_option("--val-every", options_.valEvery,
                  "Validate after every N steps (default: after the last)")
      ->check(atLeast(1));
  app_.add_option("--val-batches", options_.valBatches,
                  "Validate on N batches (default: the whole file)")
      ->check(atLeast(1));
  app_.add_option("--shuffle", shuffleSeed_,
                  "Shuffle the sequences of every epoch with this seed")
      ->check(seed());
  app_.add_option("--steps", options_.steps,
                  "Total number of updates; 0 only evaluates")
      ->check(atLeast(0));
  app_.add_option("--seed", options_.seed,
                  "Seed of initial values and dropout (default 0)")
      ->check(seed());
  app_.add_option("--threads", options_.threads, "Number of threads")
      ->check(atLeast(1, std::numeric_limits<int>::max()));
  app_.add_option("--peer-timeout", options_.peerTimeout,
                  "Several ranks: fail if another rank does not answer for N "
                  "seconds (default 600)")
      ->check(atLeast(1, 1'000'000));
  app_.add_option("--init", options_.init,
                  "Start from these weights: .safetensors or a directory");
  app_.add_option("--init-ignore", options_.initIgnore,
                  "Comma-separated names of tensors in --init that the model "
                  "may leave unused")
      ->delimiter(',')
      ->allow_extra_args(false);
  app_.add_flag(
      "--from-scratch", options_.fromScratch,
      "Start from random weights, even if the model has trained weights");
  app_.add_option("--adapter", options_.adapter,
                  "Start from the low-rank adapter in this directory (PEFT)");
  app_.add_option("--base", options_.base,
                  "Weights of the base model of --adapter or --resume "
                  "(default: the path that these name)");
  app_.add_option("--save-merged", options_.saveMerged,
                  "After the last step, write the model with its adapters "
                  "added to its weights to this new directory");
  app_.add_option("--save", options_.save,
                  "Save checkpoints in this directory");
  app_.add_option("--save-every", options_.saveEvery,
                  "Save after every N steps (default: after the last)")
      ->check(atLeast(1));
  app_.add_option("--keep", options_.keep,
                  "Keep only the newest N checkpoints (default: all)")
      ->check(atLeast(1));
  app_.add_option("--resume", options_.resume,
                  "Continue from a checkpoint, or the newest in a directory; "
                  "flags that are not given keep their values");
  app_.add_option("--resume-changing", resumeChanging_,
                  "Comma-separated facts that may differ from the resumed "
                  "run: optimizer, dropout, lossy, lora, batch, seq, clip, "
                  "frozen, data");
}

void FlagParser::addRateFlags() {
  ScheduleOptions &schedule = options_.schedule;
  app_.add_option("--lr", schedule.rate, "Peak learning rate (default 3e-4)")
      ->check(number());
  app_.add_option_function<std::string>(
          "--lr-schedule",
          [&schedule](const std::string &name) {
            schedule.kind = scheduleKinds().at(name);
          },
          "constant (default), linear, cosine, wsd or exponential")
      ->check(oneOf(scheduleKinds()));
  app_.add_option("--min-lr", schedule.minRate,
                  "Minimum rate of a decay (default 0)")
      ->check(number());
  app_.add_option("--cooldown-steps", schedule.cooldownSteps,
                  "wsd: decay linearly over the last N steps")
      ->check(atLeast(1));
  app_.add_option("--lr-gamma", schedule.gamma,
                  "exponential: multiply the rate by this factor per step")
      ->check(number(/*isShare=*/true));
  app_.add_option("--warmup-steps", schedule.warmupSteps,
                  "Number of steps before the schedule starts")
      ->check(atLeast(0));
  app_.add_option_function<std::string>(
          "--warmup",
          [&schedule](const std::string &name) {
            schedule.warmup = warmupKinds().at(name);
          },
          "gradual: ramp up to the peak (default); constant: the unscaled --lr")
      ->check(oneOf(warmupKinds()));
  app_.add_option_function<std::string>(
          "--lr-scaling",
          [&schedule](const std::string &name) {
            schedule.scaling = rateScalings().at(name);
          },
          "Scale --lr with batch / --base-batch: none (default), linear or "
          "sqrt")
      ->check(oneOf(rateScalings()));
  app_.add_option("--base-batch", schedule.baseBatch,
                  "Batch size for which --lr was chosen")
      ->check(atLeast(1));
  app_.add_option("--grad-clip", options_.gradClip,
                  "Maximum global gradient norm (default 1, 0: no clipping)")
      ->check(number());
  app_.add_option("--loss-scale", lossScale_,
                  "--precision=fp16: initial scale of the gradients, steps "
                  "until it is doubled, and consecutive skipped steps that end "
                  "the run (default 65536,window=2000,skips=20)");
}

void FlagParser::addRecordFlags() {
  app_.add_option("--log", options_.log,
                  "Write a log to this file, one JSON object per event");
  app_.add_option("--tensorboard", options_.tensorboard,
                  "Write TensorBoard events to this directory");
  app_.add_option("--trace", options_.trace,
                  "Write a Perfetto trace of the last step to this file");
  app_.add_option("--dump-gradients", options_.dumpGradients,
                  "Write the gradients of the first step to this file "
                  "(.safetensors)");
  app_.add_flag("--describe", options_.describe,
                "Print the options of compilation and the plan, and exit");
  app_.add_flag("--check-memory", options_.checkMemory,
                "Check that memory is used as planned, and exit");
  app_.add_option("--check-ops", options_.checkOps,
                  "Run every program once, write the results of every op to "
                  "this file for --check-trace, and exit");
  app_.add_option("--check-trace", options_.checkTrace,
                  "Repeat every op in a file of --check-ops from another "
                  "executable of the same plan, compare, and exit");
  app_.add_option("--stress-copies", stressSeed_,
                  "Start copies to and from host memory at random points "
                  "drawn from this seed, to test that results are unchanged")
      ->check(seed());
  app_.add_option("--emu-seed", emuSeed_,
                  "On an emulated GPU: seed that shuffles everything the "
                  "program leaves unordered (default 0)")
      ->check(seed());
  app_.add_flag("--sync-ops", options_.syncOps,
                "On a GPU: wait for each command before starting the next; "
                "slow, but an error names the failed command");
  app_.add_option("--gpu-algorithms", gpuAlgorithms_,
                  "On a GPU: file of the fastest GEMM algorithms, which the "
                  "first start searches for (default: in the user's cache); "
                  "none: do not search");
  // Only kiln-diff passes this flag; see docs/reference/lockstep-protocol.md.
  app_.add_option("--lockstep", options_.lockstep)->group("");
  app_.add_option("--generate", options_.generate,
                  "Generate N tokens (after training, if any)")
      ->check(atLeast(1));
  app_.add_option("--prompt", options_.prompt, "Text to continue");
  app_.add_option("--temperature", options_.temperature,
                  "Sampling temperature (default 1); 0 selects the most likely "
                  "token")
      ->check(number());
  app_.add_option("--top-k", options_.topK,
                  "Sample from the K most likely tokens (default: all)")
      ->check(atLeast(1));
}

Status FlagParser::needs(const char *flag, const char *other,
                         bool present) const {
  if (!given(flag) || present)
    return Status();
  std::string_view name = std::string_view(other).substr(2);
  const Flag *known = findFlag(executableFlags(), name);
  return usage(std::string(flag) + " needs " +
               (known ? known->spelling() : other));
}

Status FlagParser::readLossScale() {
  if (!options_.isGiven("--loss-scale"))
    return Status();
  Result<LossScaleOptions> scale = LossScaleOptions::parse(lossScale_);
  if (!scale.ok())
    return Status(ExitCode::Usage, "--loss-scale " + scale.status().message());
  options_.lossScale = *scale;
  return Status();
}

/// Parses the value of --resume-changing, a list of names.
Status FlagParser::readChanging() {
  if (!given("--resume-changing"))
    return Status();
  if (!given("--resume"))
    return usage("--resume-changing needs --resume");
  const std::vector<std::string> &known = changeableFacts();
  std::stringstream list(resumeChanging_ + ",");
  for (std::string name; std::getline(list, name, ',');) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string names;
      for (const std::string &other : known)
        names += (names.empty() ? "" : ", ") + other;
      return usage("--resume-changing: " + inQuotes(name) +
                   " is unknown, expected one or more of " + names);
    }
    options_.resumeChanging.insert(name);
  }
  return Status();
}

/// Rejects flags that cannot be combined with --lockstep. With --lockstep,
/// kiln-diff requests each step.
Status FlagParser::checkLockstep() const {
  if (options_.lockstep < 0)
    return usage(
        "--lockstep is negative, expected the number of a file descriptor");
  if (options_.steps == 0 && !options_.continues())
    return usage("--lockstep needs --steps of at least 1");
  for (const char *flag :
       {"--save", "--save-merged", "--log", "--tensorboard", "--trace",
        "--dump-gradients", "--val-data", "--describe", "--check-memory",
        "--check-ops", "--check-trace", "--generate"})
    if (given(flag))
      return usage(std::string(flag) + " is not supported with --lockstep");
  return Status();
}

Status FlagParser::check() const {
  bool valData = given("--val-data"), save = given("--save");
  bool generate = given("--generate");
  for (Status status :
       {needs("--val-every", "--val-data", valData),
        needs("--val-batches", "--val-data", valData),
        needs("--val-inputs", "--val-data", valData),
        needs("--inputs", "--data or --generate", given("--data") || generate),
        needs("--loss-mask", "--data", given("--data")),
        needs("--val-loss-mask", "--val-data", valData),
        needs("--base", "--adapter or --resume",
              given("--adapter") || given("--resume")),
        needs("--init-ignore", "--init, --adapter or --resume",
              given("--init") || given("--adapter") || given("--resume")),
        needs("--save-every", "--save", save), needs("--keep", "--save", save),
        needs("--shuffle", "--data", given("--data")),
        needs("--prompt", "--generate", generate),
        needs("--temperature", "--generate", generate),
        needs("--top-k", "--generate", generate)})
    if (!status.ok())
      return status;
  if (given("--init") && options_.fromScratch)
    return usage("--init and --from-scratch contradict each other");
  if (given("--resume") &&
      (given("--init") || given("--adapter") || options_.fromScratch))
    return usage("--resume, which loads the weights of the checkpoint, "
                 "contradicts --init, --adapter and --from-scratch");
  if (given("--adapter") && given("--init"))
    return usage("--init contradicts --adapter: name the weights of the base "
                 "model of the adapter with --base");
  if (given("--base") && options_.fromScratch)
    return usage("--base, which names the weights of the base model, "
                 "contradicts --from-scratch");
  if (options_.steps > 0 && !given("--data"))
    return usage("--steps needs --data=FILE, the tokens to train on");
  for (const char *flag : {"--trace", "--dump-gradients"})
    if (given(flag) && options_.steps == 0 && !options_.continues())
      return usage(std::string(flag) + " needs --steps of at least 1");
  bool merges = given("--save-merged");
  if (given("--steps") && options_.steps == 0 && !valData && !save &&
      !generate && !merges)
    return usage("--steps=0 leaves nothing to do without --val-data, "
                 "--generate, --save or --save-merged");
  if (!given("--steps") && !options_.onlyChecks() && !generate && !merges &&
      !options_.continues())
    return usage(given("--data")
                     ? "--steps=N is missing: how many updates should training "
                       "make in total?"
                     : "nothing to do: give --data=FILE and --steps=N to "
                       "train, --val-data=FILE and --steps=0 to evaluate, or "
                       "--generate=N");
  if (given("--lockstep")) {
    Status status = checkLockstep();
    if (!status.ok())
      return status;
  }
  // If the run resumes, the checkpoint provides the options that are not given.
  // The rates are checked after the checkpoint has been read.
  if (options_.continues())
    return Status();
  return checkRates(options_.schedule, options_.gradClip, options_.steps,
                    options_.given);
}

/// Checks the names of all flags before CLI11 parses their values.
static Status checkNames(int argc, const char *const *argv,
                         const Description *description) {
  CommandLineRules rules;
  rules.own = executableFlags();
  rules.own.insert(rules.own.end(), {{"help", ""}, {"h", ""}});
  rules.other = compilerFlags();
  rules.explainOther = [=](const Flag &flag) {
    return explainFixedFlag(flag, description);
  };
  Result<std::vector<std::string>> rest = checkCommandLine(argc, argv, rules);
  if (!rest.ok() || rest->empty())
    return rest.status();
  return usage("unexpected argument " + inQuotes(rest->front()) +
               ": every argument is a flag with a value, such as --data=FILE");
}

Result<ParsedOptions> FlagParser::parse(int argc, const char *const *argv,
                                        const Description *description) {
  Status names = checkNames(argc, argv, description);
  if (!names.ok())
    return names;
  try {
    app_.parse(argc, const_cast<char **>(argv));
  } catch (const CLI::CallForHelp &) {
    return ParsedOptions{options_, app_.help()};
  } catch (const CLI::ParseError &error) {
    std::string message = error.what();
    std::replace(message.begin(), message.end(), '\n', ' ');
    return usage(message);
  }
  if (given("--shuffle"))
    options_.shuffle = shuffleSeed_;
  if (given("--stress-copies"))
    options_.stressCopies = stressSeed_;
  if (given("--emu-seed"))
    options_.emuSeed = emuSeed_;
  if (given("--gpu-algorithms"))
    options_.gpuAlgorithms = gpuAlgorithms_ == "none" ? "" : gpuAlgorithms_;
  options_.stepsGiven = given("--steps");
  options_.seedGiven = given("--seed");
  options_.gradClipGiven = given("--grad-clip");
  for (const CLI::Option *option : app_.get_options())
    if (option->count() > 0)
      options_.given.insert(option->get_name());
  options_.commandLine.assign(argv + 1, argv + argc);
  Status status = readChanging();
  if (status.ok())
    status = readLossScale();
  if (status.ok())
    status = check();
  if (!status.ok())
    return status;
  return ParsedOptions{options_, std::nullopt};
}

const std::vector<std::string> &changeableFacts() {
  static const std::vector<std::string> names = {
      "optimizer", "dropout", "lossy",  "lora", "batch",
      "seq",       "clip",    "frozen", "data"};
  return names;
}

Result<ParsedOptions> parseOptions(int argc, const char *const *argv,
                                   const Description *description) {
  return FlagParser().parse(argc, argv, description);
}

} // namespace kiln::runtime
