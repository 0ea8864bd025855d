//===- TrainingProcess.cpp - Lockstep client ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingProcess.h"

#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

using namespace kiln::support;

namespace kiln::runtime {

using Json = nlohmann::json;

std::string TrainingProcess::title() const {
  return command_.label + " (" + inQuotes(command_.path) + ")";
}

Status TrainingProcess::nonsense(const std::string &what) const {
  return Status::error(
      title() + " sent an invalid reply (" + what +
      "); is it an executable that this version of kilnc compiled?");
}

/// Executes the program in the forked child. Calls only functions that are safe
/// between fork and exec.
[[noreturn]] static void become(char *const *argv, int commands, int answers,
                                int errors) {
  int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null < 0 || ::dup2(commands, STDIN_FILENO) < 0 ||
      ::dup2(null, STDOUT_FILENO) < 0 || ::dup2(errors, STDERR_FILENO) < 0 ||
      ::fcntl(answers, F_SETFD, 0) < 0)
    ::_exit(126);
  ::execv(argv[0], argv);
  ::_exit(127);
}

/// Parses the first reply of a training process, which describes the model.
/// Throws a std::exception if the reply is invalid.
static TrainedModel readModel(const Json &json) {
  TrainedModel model;
  model.type = json.at("model").get<std::string>();
  model.vocabulary = json.at("vocab_size").get<int64_t>();
  model.batch = json.at("batch").get<int64_t>();
  model.length = json.at("sequence_length").get<int64_t>();
  model.build = json.at("build").get<std::map<std::string, std::string>>();
  model.library = json.at("library").get<std::string>();
  model.firstStep = json.at("first_step").get<int64_t>();
  model.lastStep = json.at("last_step").get<int64_t>();
  model.hashes = json.at("hashes").get<std::vector<std::string>>();
  for (const Json &entry : json.at("tensors")) {
    TrainedTensor tensor;
    tensor.name = entry.at("name").get<std::string>();
    tensor.role = entry.at("role").get<std::string>();
    tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
    std::optional<ElementType> type =
        elementTypeOfFile(entry.at("dtype").get<std::string>());
    if (!type)
      throw std::runtime_error("an unknown type");
    tensor.type = *type;
    model.tensors.push_back(std::move(tensor));
  }
  if (model.hashes.size() != model.tensors.size())
    throw std::runtime_error("tensors without hashes");
  return model;
}

static double numberOf(const Json &bits) {
  uint64_t value = std::strtoull(bits.get<std::string>().c_str(), nullptr, 16);
  double number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

/// Parses the reply to a step. Throws a std::exception if the reply is invalid.
static TrainedStep readStep(const Json &json) {
  TrainedStep step;
  step.step = json.at("step").get<int64_t>();
  step.loss = numberOf(json.at("loss"));
  step.rate = numberOf(json.at("lr"));
  if (json.contains("grad_norm"))
    step.gradNorm = numberOf(json.at("grad_norm"));
  step.skipped = json.value("skipped", false);
  if (json.contains("hashes"))
    step.hashes = json.at("hashes").get<std::vector<std::string>>();
  if (!json.contains("ops"))
    return step;
  step.order = json.at("order").get<std::vector<int64_t>>();
  for (const Json &op : json.at("ops"))
    step.ops.push_back(
        {op.at("kind").get<std::string>(), op.at("name").get<std::string>(),
         op.at("buffer").get<std::string>(), op.at("bytes").get<int64_t>(),
         op.at("iterations").get<int64_t>(), op.at("all").get<std::string>(),
         op.at("last").get<std::string>()});
  return step;
}

Status TrainingProcess::start() {
  stop();
  struct stat info;
  int fault = ::access(command_.path.c_str(), X_OK) != 0 ? errno : 0;
  if (!fault && ::stat(command_.path.c_str(), &info) == 0 &&
      S_ISDIR(info.st_mode))
    fault = EISDIR;
  if (fault)
    return Status::badInput("cannot run " + title() + ": " + errnoText(fault) +
                            "; name an executable that kilnc compiled");
  int commands[2], answers[2];
  errors_ = std::tmpfile();
  if (!errors_ || ::pipe2(commands, O_CLOEXEC) != 0)
    return Status::error("cannot start " + title() + ": " + errnoText(errno));
  if (::pipe2(answers, O_CLOEXEC) != 0) {
    int error = errno;
    ::close(commands[0]);
    ::close(commands[1]);
    return Status::error("cannot start " + title() + ": " + errnoText(error));
  }
  std::vector<std::string> words = {command_.path};
  words.insert(words.end(), command_.flags.begin(), command_.flags.end());
  words.push_back("--lockstep=" + std::to_string(answers[1]));
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  child_ = ::fork();
  if (child_ == 0)
    become(argv.data(), commands[0], answers[1], ::fileno(errors_));
  int error = errno;
  ::close(commands[0]);
  ::close(answers[1]);
  commands_ = ::fdopen(commands[1], "w");
  answers_ = ::fdopen(answers[0], "r");
  if (child_ < 0)
    return Status::error("cannot start " + title() + ": " + errnoText(error));
  Result<Json> first = readAnswer();
  if (!first.ok())
    return first.status();
  try {
    model_ = readModel(*first);
  } catch (const std::exception &error) {
    return nonsense(error.what());
  }
  return Status();
}

void TrainingProcess::stop() {
  for (std::FILE **file : {&commands_, &answers_, &errors_}) {
    if (*file)
      std::fclose(*file);
    *file = nullptr;
  }
  if (child_ > 0) {
    // Kill the child, which has nothing to save and may need a long time to
    // complete its step.
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  child_ = -1;
}

std::string TrainingProcess::errorText() const {
  std::string text;
  char buffer[4096];
  off_t offset = 0;
  constexpr off_t most = 1 << 20;
  while (errors_ && offset < most) {
    ssize_t size = ::pread(::fileno(errors_), buffer, sizeof(buffer), offset);
    if (size <= 0)
      break;
    text.append(buffer, size_t(size));
    offset += size;
  }
  return text;
}

/// Returns the lines of `text` that start with `start`, without that prefix.
static std::vector<std::string> linesWith(const std::string &text,
                                          const std::string &start) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    if (text.compare(begin, start.size(), start) == 0)
      lines.push_back(
          text.substr(begin + start.size(), end - begin - start.size()));
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> TrainingProcess::warnings() const {
  return linesWith(errorText(), "warning: ");
}

/// Waits for the child, which has closed its pipe, and returns an error that
/// describes how the child ended.
Status TrainingProcess::died() {
  int status = 0;
  ::waitpid(std::exchange(child_, -1), &status, 0);
  if (WIFSIGNALED(status))
    return Status::error(title() + " was killed by signal " +
                         std::to_string(WTERMSIG(status)) + " (" +
                         ::strsignal(WTERMSIG(status)) + ")");
  int code = WEXITSTATUS(status);
  if (code == int(ExitCode::Stopped))
    return Status(ExitCode::Stopped, title() + " was stopped by a signal");
  std::vector<std::string> lines = linesWith(errorText(), "error: ");
  if (lines.empty())
    return Status::error(title() + " ended with exit code " +
                         std::to_string(code) +
                         " without a reply; is it an executable that kilnc "
                         "compiled?");
  ExitCode ours = code == 2   ? ExitCode::Usage
                  : code == 3 ? ExitCode::BadInput
                  : code == 5 ? ExitCode::Diverged
                              : ExitCode::Error;
  return Status(ours, title() + ": " + printable(lines.front(), 1000));
}

Result<Json> TrainingProcess::readAnswer() {
  // If a stop signal arrives after this check and before the read, it is
  // handled after the next reply.
  if (Status status = checkStop(); !status.ok())
    return status;
  char *line = nullptr;
  size_t capacity = 0;
  errno = 0;
  ssize_t length = ::getline(&line, &capacity, answers_);
  std::string text(line && length > 0 ? line : "",
                   length > 0 ? size_t(length) : 0);
  std::free(line);
  if (stopRequested())
    return checkStop();
  if (length <= 0)
    return died();
  JsonLimits limits;
  limits.maxBytes = size_t(1) << 30;
  Result<Json> answer = parseJson(text, "the answer of " + title(), limits);
  if (!answer.ok())
    return nonsense(answer.status().message());
  return answer;
}

Result<Json> TrainingProcess::ask(const Json &command) {
  std::string line = command.dump() + "\n";
  // If the child has exited, the write has no effect, and reading the reply
  // returns the error.
  std::fwrite(line.data(), 1, line.size(), commands_);
  std::fflush(commands_);
  return readAnswer();
}

Result<TrainedStep> TrainingProcess::step(bool ops, bool keep) {
  Result<Json> answer = ask({{"do", "step"}, {"ops", ops}, {"keep", keep}});
  if (!answer.ok())
    return answer.status();
  try {
    TrainedStep step = readStep(*answer);
    if (step.hashes.size() != model_.tensors.size() ||
        (ops && step.order.size() != model_.tensors.size()))
      return nonsense("the number of tensors has changed");
    return step;
  } catch (const std::exception &error) {
    return nonsense(error.what());
  }
}

Status TrainingProcess::save(const std::string &file,
                             const std::vector<size_t> &tensors) {
  return ask({{"do", "save"}, {"file", file}, {"tensors", tensors}}).status();
}

Status TrainingProcess::load(const std::string &file,
                             const std::vector<size_t> &tensors) {
  return ask({{"do", "load"}, {"file", file}, {"tensors", tensors}}).status();
}

Result<TrainedStep>
TrainingProcess::perturb(const std::string &file,
                         const std::vector<size_t> &tensors) {
  Result<Json> answer =
      ask({{"do", "perturb"}, {"file", file}, {"tensors", tensors}});
  if (!answer.ok())
    return answer.status();
  try {
    return readStep(*answer);
  } catch (const std::exception &error) {
    return nonsense(error.what());
  }
}

} // namespace kiln::runtime
