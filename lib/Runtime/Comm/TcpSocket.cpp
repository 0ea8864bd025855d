//===- TcpSocket.cpp - TCP sockets ----------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpSocket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace kiln::runtime {

static Status errorOf(int number) {
  return Status::error(std::strerror(number));
}

TcpSocket::~TcpSocket() {
  if (file_ >= 0)
    ::close(file_);
}

static void setFlag(int file, int level, int option, int value) {
  // Ignore a failure, because connections usually work without these options.
  (void)::setsockopt(file, level, option, &value, sizeof value);
}

TcpSocket TcpSocket::listen(int port) {
  // Prefer an IPv6 socket, which also receives IPv4 connections. If the machine
  // lacks IPv6, use an IPv4 socket.
  for (int family : {AF_INET6, AF_INET}) {
    TcpSocket socket(::socket(
        family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!socket)
      continue;
    // Listening must succeed even if connections of a previous run to this port
    // are still closing.
    setFlag(socket.file_, SOL_SOCKET, SO_REUSEADDR, 1);
    sockaddr_in6 six = {};
    sockaddr_in four = {};
    const auto *address = reinterpret_cast<const sockaddr *>(&four);
    socklen_t bytes = sizeof four;
    if (family == AF_INET6) {
      setFlag(socket.file_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
      six.sin6_family = AF_INET6;
      six.sin6_addr = in6addr_any;
      six.sin6_port = htons(uint16_t(port));
      address = reinterpret_cast<const sockaddr *>(&six);
      bytes = sizeof six;
    } else {
      four.sin_family = AF_INET;
      four.sin_addr.s_addr = htonl(INADDR_ANY);
      four.sin_port = htons(uint16_t(port));
    }
    if (::bind(socket.file_, address, bytes) == 0 &&
        ::listen(socket.file_, SOMAXCONN) == 0)
      return socket;
    if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)
      break;
  }
  return TcpSocket();
}

int TcpSocket::port() const {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  if (::getsockname(file_, reinterpret_cast<sockaddr *>(&address), &bytes) != 0)
    return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6 &>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in &>(address).sin_port);
}

TcpSocket TcpSocket::accept() const {
  TcpSocket socket(
      ::accept4(file_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) {
    setFlag(socket.file_, IPPROTO_TCP, TCP_NODELAY, 1);
    setFlag(socket.file_, SOL_SOCKET, SO_KEEPALIVE, 1);
  }
  return socket;
}

/// Returns the numeric form of an address. An IPv4 address that is mapped to
/// IPv6 is returned in its IPv4 form.
static std::string hostOf(const sockaddr_storage &address, socklen_t bytes) {
  char host[NI_MAXHOST] = "";
  if (::getnameinfo(reinterpret_cast<const sockaddr *>(&address), bytes, host,
                    sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  constexpr const char *mapped = "::ffff:";
  std::string text = host;
  return text.rfind(mapped, 0) == 0 && text.find('.') != std::string::npos
             ? text.substr(std::strlen(mapped))
             : text;
}

std::string TcpSocket::localHost() const {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  if (::getsockname(file_, reinterpret_cast<sockaddr *>(&address), &bytes) != 0)
    return "";
  return hostOf(address, bytes);
}

std::string TcpSocket::peerHost() const {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  if (::getpeername(file_, reinterpret_cast<sockaddr *>(&address), &bytes) != 0)
    return "";
  return hostOf(address, bytes);
}

/// Calls getaddrinfo(). The caller frees the list.
static Result<addrinfo *> resolve(const std::string &host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo *list = nullptr;
  int code =
      ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0)
    return Status::error(::gai_strerror(code));
  return list;
}

Result<std::string> resolveHost(const std::string &host) {
  Result<addrinfo *> list = resolve(host, 0);
  if (!list.ok())
    return list.status();
  sockaddr_storage address = {};
  std::memcpy(&address, (*list)->ai_addr, (*list)->ai_addrlen);
  std::string numeric = hostOf(address, (*list)->ai_addrlen);
  ::freeaddrinfo(*list);
  return numeric;
}

bool isLoopback(const std::string &host) {
  return host.rfind("127.", 0) == 0 || host == "::1";
}

Result<TcpSocket> TcpSocket::connect(const TcpAddress &address,
                                     TcpClock::time_point deadline) {
  Result<addrinfo *> list = resolve(address.host, address.port);
  if (!list.ok())
    return list.status();
  TcpSocket socket(::socket((*list)->ai_family,
                            SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                            IPPROTO_TCP));
  int number = 0;
  if (!socket ||
      (::connect(socket.file_, (*list)->ai_addr, (*list)->ai_addrlen) != 0 &&
       errno != EINPROGRESS && errno != EINTR))
    number = errno;
  ::freeaddrinfo(*list);
  if (number != 0)
    return errorOf(number);
  socket.wait(/*sends=*/true, deadline);
  socklen_t bytes = sizeof number;
  if (::getsockopt(socket.file_, SOL_SOCKET, SO_ERROR, &number, &bytes) != 0)
    number = errno;
  if (number != 0)
    return errorOf(number);
  // SO_ERROR is also 0 while the connection is not complete.
  if (socket.peerHost().empty())
    return errorOf(ETIMEDOUT);
  setFlag(socket.file_, IPPROTO_TCP, TCP_NODELAY, 1);
  setFlag(socket.file_, SOL_SOCKET, SO_KEEPALIVE, 1);
  return socket;
}

void TcpSocket::wait(bool sends, TcpClock::time_point deadline) const {
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - TcpClock::now());
    pollfd entry = {file_, short(sends ? POLLOUT : POLLIN), 0};
    int code =
        ::poll(&entry, 1, int(std::clamp<int64_t>(left.count(), 0, 1'000'000)));
    if (code >= 0 || errno != EINTR)
      return;
  }
}

static bool isTransient(int number) {
  return number == EAGAIN || number == EWOULDBLOCK || number == EINTR;
}

Result<std::size_t> TcpSocket::send(const void *data, std::size_t bytes) const {
  ssize_t sent = ::send(file_, data, bytes, MSG_NOSIGNAL);
  if (sent < 0)
    return isTransient(errno) ? Result<std::size_t>(std::size_t(0))
                              : Result<std::size_t>(errorOf(errno));
  return std::size_t(sent);
}

Result<std::size_t> TcpSocket::receive(void *data, std::size_t bytes) const {
  ssize_t received = ::recv(file_, data, bytes, 0);
  if (received < 0)
    return isTransient(errno) ? Result<std::size_t>(std::size_t(0))
                              : Result<std::size_t>(errorOf(errno));
  if (received == 0 && bytes > 0)
    return Status::error("the other side has closed the connection");
  return std::size_t(received);
}

Status TcpSocket::sendAll(const void *data, std::size_t bytes,
                          TcpClock::time_point deadline) const {
  const auto *next = static_cast<const char *>(data);
  for (std::size_t left = bytes; left > 0;) {
    Result<std::size_t> sent = send(next, left);
    if (!sent.ok())
      return sent.status();
    next += *sent;
    left -= *sent;
    if (*sent > 0)
      continue;
    if (TcpClock::now() >= deadline)
      return errorOf(ETIMEDOUT);
    wait(/*sends=*/true, deadline);
  }
  return Status();
}

Status TcpSocket::receiveAll(void *data, std::size_t bytes,
                             TcpClock::time_point deadline) const {
  auto *next = static_cast<char *>(data);
  for (std::size_t left = bytes; left > 0;) {
    Result<std::size_t> received = receive(next, left);
    if (!received.ok())
      return received.status();
    next += *received;
    left -= *received;
    if (*received > 0)
      continue;
    if (TcpClock::now() >= deadline)
      return errorOf(ETIMEDOUT);
    wait(/*sends=*/false, deadline);
  }
  return Status();
}

} // namespace kiln::runtime
