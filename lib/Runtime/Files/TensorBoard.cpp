//===- TensorBoard.cpp - Scalars for TensorBoard --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Encodes protocol buffers. A field begins with the varint (number << 3 | wire
// type). The value that follows is a varint (wire type 0), 8 bytes (1), a
// length and as many bytes (2), or 4 bytes (5).
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/TensorBoard.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputPath.h"
#include "kiln/Support/Posix.h"
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

void appendFixed(std::string &out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    out += char(value >> (8 * i));
}

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += char(value | 0x80);
  out += char(value);
}

void appendDouble(std::string &out, int field, double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  out += char(field << 3 | 1);
  appendFixed(out, bits, 8);
}

void appendFloat(std::string &out, int field, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  out += char(field << 3 | 5);
  appendFixed(out, bits, 4);
}

void appendBytes(std::string &out, int field, std::string_view bytes) {
  out += char(field << 3 | 2);
  appendVarint(out, bytes.size());
  out += bytes;
}

uint32_t maskedCrc(std::string_view bytes) {
  uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string frame(std::string_view event) {
  std::string record;
  appendFixed(record, event.size(), 8);
  appendFixed(record, maskedCrc(record), 4);
  record += event;
  appendFixed(record, maskedCrc(event), 4);
  return record;
}

constexpr std::array<uint32_t, 256> makeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = makeCrcTable();

double now() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

} // namespace

uint32_t kiln::runtime::crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes)
    crc = crc >> 8 ^ kCrcTable[(crc ^ byte) & 0xff];
  return ~crc;
}

std::string kiln::runtime::tensorBoardVersionRecord(double wallTime) {
  std::string event;
  appendDouble(event, 1, wallTime);
  appendBytes(event, 3, "brain.Event:2");
  return frame(event);
}

std::string kiln::runtime::tensorBoardScalarRecord(double wallTime,
                                                   int64_t step,
                                                   std::string_view tag,
                                                   float value) {
  std::string scalar, summary, event;
  appendBytes(scalar, 1, tag);
  appendFloat(scalar, 2, value);
  appendBytes(summary, 1, scalar);
  appendDouble(event, 1, wallTime);
  event += char(2 << 3);
  appendVarint(event, step);
  appendBytes(event, 5, summary);
  return frame(event);
}

Result<TensorBoardLog> TensorBoardLog::open(const std::string &directory,
                                            Warn warn) {
  Result<bool> created = makeDirectory(directory);
  if (!created.ok())
    return created.status();
  char host[256] = "localhost";
  if (::gethostname(host, sizeof host - 1) != 0)
    std::strcpy(host, "localhost");
  double time = now();
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%010lld", (long long)time);

  TensorBoardLog log;
  if (*created)
    log.directory_ = directory;
  log.warn_ = std::move(warn);
  std::string stem = directory + "/events.out.tfevents." + seconds + "." +
                     host + "." + std::to_string(::getpid()) + ".";
  for (int number = 0; log.fd_ < 0; ++number) {
    log.path_ = stem + std::to_string(number);
    log.fd_ = ::open(log.path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                     0666);
    if (log.fd_ < 0 && (errno != EEXIST || number == 1000))
      return Status::error("cannot create '" + log.path_ +
                           "': " + errnoText(errno));
  }
  std::string version = tensorBoardVersionRecord(time);
  if (int failure = writeAllAt(log.fd_, version.data(), version.size(), 0))
    return Status::error("cannot write '" + log.path_ +
                         "': " + errnoText(failure));
  log.end_ = version.size();
  return log;
}

TensorBoardLog::TensorBoardLog(TensorBoardLog &&other) noexcept {
  *this = std::move(other);
}

TensorBoardLog &TensorBoardLog::operator=(TensorBoardLog &&other) noexcept {
  std::swap(directory_, other.directory_);
  std::swap(path_, other.path_);
  std::swap(warn_, other.warn_);
  std::swap(fd_, other.fd_);
  std::swap(used_, other.used_);
  std::swap(end_, other.end_);
  std::swap(lost_, other.lost_);
  std::swap(firstError_, other.firstError_);
  return *this;
}

TensorBoardLog::~TensorBoardLog() {
  if (fd_ >= 0)
    ::close(fd_);
  if (used_)
    return;
  if (fd_ >= 0)
    ::unlink(path_.c_str());
  if (!directory_.empty())
    ::rmdir(directory_.c_str());
}

void TensorBoardLog::scalar(std::string_view tag, int64_t step, double value) {
  append(tensorBoardScalarRecord(now(), step, tag, float(value)));
}

void TensorBoardLog::append(const std::string &record) {
  used_ = true;
  int error = writeAllAt(fd_, record.data(), record.size(), end_);
  if (error == 0) {
    end_ += record.size();
    return;
  }
  // Remove the incomplete record. If truncation fails, the next record
  // overwrites it. Until then, readers stop before the incomplete record.
  (void)!::ftruncate(fd_, end_);
  if (lost_++ > 0)
    return;
  firstError_ = error;
  if (warn_)
    warn_("cannot write '" + path_ + "': " + errnoText(error) +
          "; training continues");
}

Status TensorBoardLog::outcome() const {
  if (lost_ == 0)
    return Status();
  return Status::error(std::to_string(lost_) +
                       (lost_ == 1 ? " value" : " values") + " of '" + path_ +
                       "' could not be written: " + errnoText(firstError_));
}
