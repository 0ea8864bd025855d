//===- FaultInjection.cpp - Fault injection for system calls --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See FaultInjection.h.
//
//===----------------------------------------------------------------------===//

#include "FaultInjection.h"
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

struct {
  bool armed = false;
  int countdown = 0;
  int error = 0;
  bool kill = false;
  bool fired = false;
} state;

bool renameFlagsFail = false;

struct {
  std::string suffix;
  std::function<void()> action;
  bool fired = false;
} onOpen;

/// Runs the pending OnOpen action if `path` matches its suffix.
void notifyOpen(const std::string &path) {
  if (!onOpen.action || path.size() < onOpen.suffix.size() ||
      path.substr(path.size() - onOpen.suffix.size()) != onOpen.suffix)
    return;
  // Clear onOpen before the call, because the action itself opens files.
  std::function<void()> action = std::move(onOpen.action);
  onOpen.action = nullptr;
  onOpen.fired = true;
  action();
}

/// Counts one call. Returns true, with errno set, if this call must fail.
bool failsNow() {
  if (!state.armed || --state.countdown != 0)
    return false;
  state.fired = true;
  if (state.kill)
    ::_exit(99);
  errno = state.error;
  return true;
}

/// Counts one write. Returns true, with errno set, if this write must fail. If
/// it must fail or end the process, first stores half of its bytes.
template <typename Store> bool writeFailsNow(Store storeHalf) {
  if (state.armed && state.countdown == 1)
    storeHalf();
  return failsNow();
}

} // namespace

kiln::Fault::Fault(int call, int error, bool kill) {
  state = {true, call, error, kill, false};
}
kiln::Fault::~Fault() { state.armed = false; }
bool kiln::Fault::fired() const { return state.fired; }

kiln::NoRenameFlags::NoRenameFlags() { renameFlagsFail = true; }
kiln::NoRenameFlags::~NoRenameFlags() { renameFlagsFail = false; }

kiln::OnOpen::OnOpen(std::string suffix, std::function<void()> action) {
  onOpen = {std::move(suffix), std::move(action), false};
}
kiln::OnOpen::~OnOpen() { onOpen.action = nullptr; }
bool kiln::OnOpen::fired() const { return onOpen.fired; }

extern "C" {
int __real_open(const char *, int, ...);
ssize_t __real_write(int, const void *, size_t);
ssize_t __real_pwrite(int, const void *, size_t, off_t);
int __real_fsync(int);
int __real_close(int);
int __real_ftruncate(int, off_t);
int __real_fallocate(int, int, off_t, off_t);
int __real_rename(const char *, const char *);
int __real_renameat2(int, const char *, int, const char *, unsigned);
int __real_mkdir(const char *, mode_t);

int __wrap_open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  notifyOpen(path);
  return failsNow() ? -1 : __real_open(path, flags, mode);
}
ssize_t __wrap_write(int fd, const void *data, size_t size) {
  bool fails = writeFailsNow([&] { (void)!__real_write(fd, data, size / 2); });
  return fails ? -1 : __real_write(fd, data, size);
}
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t at) {
  bool fails =
      writeFailsNow([&] { (void)!__real_pwrite(fd, data, size / 2, at); });
  return fails ? -1 : __real_pwrite(fd, data, size, at);
}
int __wrap_fsync(int fd) { return failsNow() ? -1 : __real_fsync(fd); }
int __wrap_close(int fd) {
  // Closing a file that was opened for reading is not counted, because its
  // result is ignored. A failing close still closes the descriptor.
  bool fails = (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY && failsNow();
  int saved = errno;
  int result = __real_close(fd);
  if (!fails)
    return result;
  errno = saved;
  return -1;
}
int __wrap_ftruncate(int fd, off_t size) {
  return failsNow() ? -1 : __real_ftruncate(fd, size);
}
int __wrap_fallocate(int fd, int mode, off_t offset, off_t size) {
  return failsNow() ? -1 : __real_fallocate(fd, mode, offset, size);
}
int __wrap_rename(const char *from, const char *to) {
  return failsNow() ? -1 : __real_rename(from, to);
}
int __wrap_renameat2(int fromDir, const char *from, int toDir, const char *to,
                     unsigned flags) {
  if (failsNow())
    return -1;
  if (renameFlagsFail && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return __real_renameat2(fromDir, from, toDir, to, flags);
}
int __wrap_mkdir(const char *path, mode_t mode) {
  return failsNow() ? -1 : __real_mkdir(path, mode);
}
}
