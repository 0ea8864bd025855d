//===- EventLog.cpp - JSON-lines log of a run -----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See EventLog.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/EventLog.h"
#include "LockedFile.h"
#include "kiln/Support/InputFile.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Process.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// Maximum length of a log line whose step is read. Longer lines count as lines
/// without a step.
constexpr std::size_t kMaxLineBytes = 1 << 20;

/// Returns the length to which the log is truncated before a run resumes at
/// `step`. The truncated log ends before the first complete line with a step
/// greater than `step`; if there is none, it ends after the last complete line.
Result<int64_t> keptBytes(const std::string &path, int64_t step) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status();
  std::vector<char> chunk(64 << 10);
  std::string line;
  int64_t lineStart = 0;
  for (uint64_t position = 0; position < file->size();) {
    uint64_t count = std::min<uint64_t>(chunk.size(), file->size() - position);
    if (Status status = file->read(position, chunk.data(), count); !status.ok())
      return status;
    for (uint64_t i = 0; i < count; ++i) {
      if (chunk[i] != '\n') {
        if (line.size() <= kMaxLineBytes)
          line += chunk[i];
        continue;
      }
      if (std::optional<int64_t> found = stepOfLine(line);
          found && *found > step)
        return lineStart;
      line.clear();
      lineStart = position + i + 1;
    }
    position += count;
  }
  return lineStart;
}

} // namespace

void LogLine::begin(std::string_view key) {
  body_ += body_.empty() ? "{" : ",";
  body_ += jsonQuoted(key);
  body_ += ':';
}

LogLine &LogLine::integer(std::string_view key, int64_t value) {
  begin(key);
  body_ += std::to_string(value);
  return *this;
}

LogLine &LogLine::real(std::string_view key, double value) {
  begin(key);
  if (!std::isfinite(value)) {
    body_ += "null";
    if (nonfinite_.empty())
      nonfinite_ = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    return *this;
  }
  char digits[40];
  auto [end, error] = std::to_chars(digits, digits + sizeof digits, value,
                                    std::chars_format::general, 17);
  body_.append(digits, end);
  return *this;
}

LogLine &LogLine::text(std::string_view key, std::string_view value) {
  begin(key);
  body_ += jsonQuoted(value);
  return *this;
}

LogLine &LogLine::boolean(std::string_view key, bool value) {
  begin(key);
  body_ += value ? "true" : "false";
  return *this;
}

LogLine &LogLine::json(std::string_view key, std::string_view json) {
  begin(key);
  body_ += json;
  return *this;
}

std::string LogLine::finish() const {
  std::string line = body_.empty() ? "{" : body_;
  if (!nonfinite_.empty())
    line += ",\"nonfinite\":\"" + nonfinite_ + "\"";
  return line + "}\n";
}

std::optional<int64_t> kiln::runtime::stepOfLine(std::string_view line) {
  JsonLimits limits;
  limits.maxBytes = kMaxLineBytes;
  Result<nlohmann::json> json = parseJson(line, "log line", limits);
  if (!json.ok() || !json->is_object())
    return std::nullopt;
  for (const char *key : {"step", "steps"}) {
    auto it = json->find(key);
    if (it != json->end() && it->is_number_integer() &&
        !(it->is_number_unsigned() && it->get<uint64_t>() > INT64_MAX))
      return it->get<int64_t>();
  }
  return std::nullopt;
}

EventLog::EventLog() : file_(std::make_unique<LockedFile>()) {}
EventLog::EventLog(EventLog &&other) noexcept { *this = std::move(other); }

EventLog &EventLog::operator=(EventLog &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(warn_, other.warn_);
  std::swap(file_, other.file_);
  std::swap(begun_, other.begun_);
  std::swap(end_, other.end_);
  std::swap(linesLost_, other.linesLost_);
  std::swap(firstError_, other.firstError_);
  return *this;
}

EventLog::~EventLog() {
  if (file_ && !begun_)
    file_->removeIfCreated();
}

Result<EventLog> EventLog::open(const std::string &path, Warn warn) {
  EventLog log;
  log.path_ = path;
  log.warn_ = std::move(warn);
  // With O_NONBLOCK, the run does not block on a FIFO, so it can still be
  // stopped. Opening a FIFO that has no reader then fails with ENXIO. Try again
  // until the FIFO has a reader. The flag has no effect on regular files.
  struct stat info;
  bool isFifo = ::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
  int error;
  while ((error = log.file_->open(path, O_WRONLY | O_NONBLOCK)) == ENXIO &&
         isFifo) {
    if (Status status = checkStop(); !status.ok())
      return status;
    (void)::poll(nullptr, 0, 50);
  }
  if (error != 0)
    return Status::error("cannot open the log '" + path +
                         "': " + writeFault(error));
  // EWOULDBLOCK means that another process holds the lock. All other lock
  // errors are ignored, because the file system may not support locks.
  if (log.file_->lockError() == EWOULDBLOCK)
    return Status::error("the log '" + path +
                         "' is in use by another run; choose another file, or "
                         "wait for that run to end");
  return log;
}

Status EventLog::begin(std::optional<int64_t> resumedStep) {
  begun_ = true;
  if (!file_->isRegular())
    return Status();
  if (resumedStep) {
    Result<int64_t> kept = keptBytes(path_, *resumedStep);
    if (!kept.ok())
      return kept.status();
    end_ = *kept;
  }
  if (::ftruncate(file_->get(), end_) != 0)
    return Status::error("cannot truncate the log '" + path_ +
                         "': " + errnoText(errno));
  return Status();
}

/// Writes `text` like writeAll(), but returns EAGAIN if a stop is requested
/// while the FIFO is full because its reader does not read.
static int writeWhileRead(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EAGAIN) {
      if (!waitForWriting(fd))
        return EAGAIN;
    } else if (written < 0 && errno != EINTR) {
      return errno;
    } else if (written > 0) {
      text.remove_prefix(std::size_t(written));
    }
  }
  return 0;
}

void EventLog::write(const LogLine &line) {
  std::string text = line.finish();
  int error = file_->isRegular()
                  ? writeAllAt(file_->get(), text.data(), text.size(), end_)
                  : writeWhileRead(file_->get(), text);
  if (error == 0) {
    end_ += text.size();
    return;
  }
  // Remove an incomplete line. If truncation fails, the next line overwrites
  // the incomplete one.
  if (file_->isRegular())
    (void)!::ftruncate(file_->get(), end_);
  if (linesLost_++ > 0)
    return;
  firstError_ = error;
  if (warn_)
    warn_("cannot write the log '" + path_ + "': " + errnoText(error) +
          "; training continues, lines are lost until it can be written");
}

Status EventLog::outcome() const {
  if (linesLost_ == 0)
    return Status();
  return Status::error(std::to_string(linesLost_) +
                       (linesLost_ == 1 ? " line" : " lines") +
                       " of the log '" + path_ +
                       "' could not be written: " + errnoText(firstError_));
}
