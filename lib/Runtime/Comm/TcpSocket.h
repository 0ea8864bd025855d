//===- TcpSocket.h - TCP sockets --------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_TCPSOCKET_H
#define KILN_LIB_RUNTIME_COMM_TCPSOCKET_H

#include "kiln/Support/Status.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace kiln::runtime {

using TcpClock = std::chrono::steady_clock;

/// A numeric address, such as 10.0.0.1, and a port.
struct TcpAddress {
  std::string host;
  int port = 0;

  std::string text() const { return host + " port " + std::to_string(port); }
};

/// A nonblocking socket.
class TcpSocket {
public:
  TcpSocket() = default;
  explicit TcpSocket(int file) : file_(file) {}
  TcpSocket(TcpSocket &&other) noexcept
      : file_(std::exchange(other.file_, -1)) {}
  TcpSocket &operator=(TcpSocket &&other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~TcpSocket();

  /// Listens on a port of all addresses of this machine. If `port` is 0, the
  /// system chooses a free port. On a failure, sets errno and returns a socket
  /// without a file.
  static TcpSocket listen(int port);
  /// Connects to an address. Fails if the connection is not complete by
  /// `deadline`.
  static Result<TcpSocket> connect(const TcpAddress &address,
                                   TcpClock::time_point deadline);

  int file() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }
  int port() const; ///< The local port.

  /// Returns a connection that a listening socket has received, or a socket
  /// without a file if there is none.
  TcpSocket accept() const;
  /// Return the numeric addresses of both ends of a connection.
  std::string localHost() const;
  std::string peerHost() const;

  /// Send or receive as many bytes as possible without waiting, and return
  /// their number, which may be 0. An error names its cause. receive() returns
  /// an error if the peer has closed the connection.
  Result<std::size_t> send(const void *data, std::size_t bytes) const;
  Result<std::size_t> receive(void *data, std::size_t bytes) const;
  /// Send or receive exactly `bytes` bytes. Fail if not all bytes have been
  /// transferred by `deadline`.
  Status sendAll(const void *data, std::size_t bytes,
                 TcpClock::time_point deadline) const;
  Status receiveAll(void *data, std::size_t bytes,
                    TcpClock::time_point deadline) const;
  /// Waits until the socket can send (if `sends` is true) or receive, but not
  /// beyond `deadline`.
  void wait(bool sends, TcpClock::time_point deadline) const;

private:
  int file_ = -1;
};

/// Returns the numeric address of a host name. The message of an error comes
/// from the resolver.
Result<std::string> resolveHost(const std::string &host);

/// Returns true for an address such as 127.0.0.1, which is valid on one machine
/// only.
bool isLoopback(const std::string &host);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_TCPSOCKET_H
