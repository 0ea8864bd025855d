//===- Process.cpp - Stop signals and standard streams --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Process.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Process.h"
#include "kiln/Support/Messages.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

using namespace kiln::support;

static volatile std::sig_atomic_t stopped = 0;
static volatile std::sig_atomic_t interrupted = 0;

static void onSignal(int signal) {
  if (signal == SIGINT) {
    if (interrupted)
      _exit(128 + SIGINT);
    interrupted = 1;
  }
  stopped = 1;
}

void kiln::support::prepareProcess() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Open /dev/null for each standard stream that is closed, so that no other
  // file gets the descriptor of the stream: open() returns the lowest free
  // descriptor. The descriptor of standard input is opened for writing, and
  // that of an output stream for reading, so that using the stream still fails.
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void kiln::support::installStopSignals(bool restart) {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = restart ? SA_RESTART : 0;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGTERM, SIGHUP, SIGINT}) {
    struct sigaction old = {};
    if (signal != SIGTERM && sigaction(signal, nullptr, &old) == 0 &&
        old.sa_handler == SIG_IGN)
      continue;
    sigaction(signal, &action, nullptr);
  }
}

bool kiln::support::stopRequested() { return stopped != 0; }

Status kiln::support::checkStop() {
  if (!stopRequested())
    return Status();
  return Status(ExitCode::Stopped,
                "stopped by a signal; there was nothing to save");
}

bool kiln::support::waitForWriting(int fd) {
  struct pollfd entry = {fd, POLLOUT, 0};
  while (!stopRequested()) {
    int ready = ::poll(&entry, 1, 100);
    if (ready > 0 || (ready < 0 && errno != EINTR))
      return true;
  }
  // After a stop request, do not wait, but still write if the descriptor is
  // ready.
  return ::poll(&entry, 1, 0) != 0;
}

Status kiln::support::printResult(std::string_view text) {
  if (!waitForWriting(STDOUT_FILENO))
    return checkStop();
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
      std::fflush(stdout) == 0)
    return Status();
  return Status::error("cannot write to standard output: " + errnoText(errno));
}
