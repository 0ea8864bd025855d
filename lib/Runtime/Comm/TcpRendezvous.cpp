//===- TcpRendezvous.cpp - Connects ranks by TCP --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpRendezvous.h"

#include "kiln/Support/Hash.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <list>
#include <optional>
#include <poll.h>
#include <thread>

using namespace kiln::support;

namespace kiln::runtime {

static constexpr uint64_t magic = 0x4b494c4e54435031; // "KILNTCP1"
// A TCP socket may connect to itself and then receives its own greeting. The
// answer therefore begins with a number other than `magic`.
static constexpr uint64_t answerMagic = 0x4b494c4e414e5331; // "KILNANS1"

/// The number of connections that may be open without a greeting, in addition
/// to one connection per rank. If there are more, the oldest is closed. A rank
/// whose connection is closed connects again.
static constexpr int maxSilentGuests = 64;

namespace {

/// The first message of a connection.
struct Greeting {
  uint64_t magic = runtime::magic;
  uint64_t token = 0;
  int32_t rank = 0, size = 0;
  int32_t port = 0; ///< The port on which the rank listens.
  int32_t reserved = 0;
};

enum class Verdict : int32_t { Welcome, WrongSize, RankTaken };

/// The answer to a greeting of this run.
struct Answer {
  uint64_t magic = answerMagic;
  Verdict verdict = Verdict::Welcome;
  int32_t size = 0; ///< The WORLD_SIZE of the rank that answers.
};

/// The address of a rank in the table of rank 0.
struct TableEntry {
  char host[64] = {};
  int32_t port = 0;
};

class Rendezvous {
public:
  explicit Rendezvous(const TcpOptions &options)
      : options_(options), deadline_(TcpClock::now() + options.connectTimeout),
        table_(std::size_t(options.size)) {
    sockets_.resize(std::size_t(options.size));
  }

  Status listen();
  Status connectTo(int rank, const TcpAddress &address);
  /// Accepts connections until all ranks with higher numbers have connected.
  Status acceptHigher();
  Status sendTable();
  Status receiveTable();
  TcpAddress addressOf(int rank) const;
  std::vector<TcpSocket> sockets() { return std::move(sockets_); }

private:
  /// A connection that has not sent its whole greeting.
  struct Guest {
    TcpSocket socket;
    Greeting greeting;
    std::size_t received = 0;
    TcpClock::time_point deadline;
  };

  void waitForGuests(const std::list<Guest> &guests) const;
  /// Receives bytes of the greeting of a guest, a connection that has not sent
  /// its whole greeting. Returns true if the caller must remove the guest from
  /// its list, because the guest has become the connection of a rank or must be
  /// closed.
  Result<bool> serve(Guest &guest);
  std::string missing() const;
  TcpSocket &socketOf(int rank) { return sockets_[std::size_t(rank)]; }

  const TcpOptions &options_;
  TcpClock::time_point deadline_;
  TcpSocket listener_;
  std::vector<TcpSocket> sockets_;
  std::vector<TableEntry> table_;
  int strangers_ = 0;
};

} // namespace

static Status wrongSize(int rank, int other, int size, int own) {
  return Status::error("rank " + std::to_string(rank) +
                       " was started as one of " + std::to_string(size) +
                       " ranks, but rank " + std::to_string(other) +
                       " as one of " + std::to_string(own) +
                       ": start all of them with the same WORLD_SIZE");
}

Status Rendezvous::listen() {
  int port = options_.rank == 0 ? options_.port : 0;
  listener_ = TcpSocket::listen(port);
  if (listener_)
    return Status();
  int number = errno;
  std::string problem = "cannot listen on port " + std::to_string(port) +
                        " for the other ranks: " + std::strerror(number);
  if (number == EADDRINUSE || number == EACCES)
    problem += "; set KILN_PORT to a free port, to the same one for all ranks";
  return Status::error(problem);
}

/// Returns the numbers of the ranks that have not connected.
std::string Rendezvous::missing() const {
  std::string text;
  int count = 0;
  for (int rank = options_.rank + 1; rank < options_.size; ++rank) {
    if (sockets_[std::size_t(rank)])
      continue;
    if (++count <= 8)
      text += (count > 1 ? ", " : "") + std::to_string(rank);
  }
  return text +
         (count > 8 ? " and " + std::to_string(count - 8) + " more" : "");
}

void Rendezvous::waitForGuests(const std::list<Guest> &guests) const {
  std::vector<pollfd> files = {{listener_.file(), POLLIN, 0}};
  for (const Guest &guest : guests)
    files.push_back({guest.socket.file(), POLLIN, 0});
  // If poll() fails, for example because of a signal, this function returns
  // early, which is harmless.
  (void)::poll(files.data(), files.size(), /*milliseconds=*/100);
}

Result<bool> Rendezvous::serve(Guest &guest) {
  auto isStranger = [&] {
    ++strangers_;
    return true;
  };
  Result<std::size_t> bytes = guest.socket.receive(
      reinterpret_cast<char *>(&guest.greeting) + guest.received,
      sizeof(Greeting) - guest.received);
  if (!bytes.ok())
    return isStranger();
  guest.received += *bytes;
  // If the first bytes are wrong, do not wait for the rest of the greeting.
  if (guest.received >= sizeof magic && guest.greeting.magic != magic)
    return isStranger();
  if (guest.received < sizeof(Greeting))
    return TcpClock::now() < guest.deadline ? false : isStranger();
  const Greeting &greeting = guest.greeting;
  if (greeting.token != options_.token)
    return isStranger();
  Answer answer;
  answer.size = options_.size;
  int rank = greeting.rank;
  if (greeting.size != options_.size)
    answer.verdict = Verdict::WrongSize;
  else if (rank <= options_.rank || rank >= options_.size || socketOf(rank))
    answer.verdict = Verdict::RankTaken;
  Status sent = guest.socket.sendAll(
      &answer, sizeof answer, TcpClock::now() + options_.greetingTimeout);
  if (answer.verdict == Verdict::WrongSize)
    return wrongSize(rank, options_.rank, greeting.size, options_.size);
  if (answer.verdict == Verdict::RankTaken)
    return Status::error("two processes were started as rank " +
                         std::to_string(rank) +
                         ": give each process its own RANK");
  // If the answer cannot be sent, the other rank has closed the connection. It
  // connects again.
  if (!sent.ok())
    return true;
  TableEntry &entry = table_[std::size_t(rank)];
  std::strncpy(entry.host, guest.socket.peerHost().c_str(),
               sizeof entry.host - 1);
  entry.port = greeting.port;
  socketOf(rank) = std::move(guest.socket);
  return true;
}

Status Rendezvous::acceptHigher() {
  std::list<Guest> guests;
  while (!missing().empty()) {
    if (TcpClock::now() >= deadline_) {
      auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
          options_.connectTimeout);
      return Status::error(
          "port " + std::to_string(listener_.port()) + " of rank " +
          std::to_string(options_.rank) + " was not reached within " +
          std::to_string(seconds.count()) + " s by these ranks: " + missing() +
          (strangers_ > 0 ? " (" + std::to_string(strangers_) +
                                " connections of other programs were closed)"
                          : "") +
          "; start all ranks, and allow connections to this port");
    }
    waitForGuests(guests);
    while (TcpSocket socket = listener_.accept()) {
      Guest &guest = guests.emplace_back();
      guest.socket = std::move(socket);
      guest.deadline = TcpClock::now() + options_.greetingTimeout;
    }
    for (auto guest = guests.begin(); guest != guests.end();) {
      Result<bool> ended = serve(*guest);
      if (!ended.ok())
        return ended.status();
      guest = *ended ? guests.erase(guest) : std::next(guest);
    }
    // Close the oldest connections, because a process can open only a limited
    // number of files.
    while (guests.size() > std::size_t(maxSilentGuests + options_.size)) {
      guests.pop_front();
      ++strangers_;
    }
  }
  return Status();
}

Status Rendezvous::connectTo(int rank, const TcpAddress &address) {
  Greeting greeting;
  greeting.token = options_.token;
  greeting.rank = options_.rank;
  greeting.size = options_.size;
  greeting.port = listener_.port();
  std::string problem;
  // Try repeatedly, because the other rank may not listen yet.
  while (TcpClock::now() < deadline_) {
    Result<TcpSocket> socket = TcpSocket::connect(
        address,
        std::min(deadline_, TcpClock::now() + std::chrono::seconds(5)));
    Answer answer;
    Status status = socket.status();
    if (status.ok())
      status = socket->sendAll(&greeting, sizeof greeting, deadline_);
    if (status.ok())
      status = socket->receiveAll(&answer, sizeof answer, deadline_);
    if (status.ok() && answer.magic != answerMagic)
      status = Status::error("a program that is not a rank has answered");
    if (!status.ok()) {
      problem = status.message();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    if (answer.verdict == Verdict::WrongSize)
      return wrongSize(options_.rank, rank, options_.size, answer.size);
    if (answer.verdict == Verdict::RankTaken)
      return Status::error("another process was started as rank " +
                           std::to_string(options_.rank) +
                           ": give each process its own RANK");
    socketOf(rank) = std::move(*socket);
    return Status();
  }
  auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(options_.connectTimeout);
  return Status::error(
      "cannot connect to rank " + std::to_string(rank) + " at " +
      printable(address.text(), 300) + " within " +
      std::to_string(seconds.count()) + " s (" + problem +
      "); start all ranks, allow connections to this port, or set KILN_PORT on "
      "all ranks to the same free port of the machine of rank 0");
}

Status Rendezvous::sendTable() {
  for (int rank = 1; rank < options_.size; ++rank)
    if (Status status = socketOf(rank).sendAll(
            table_.data(), table_.size() * sizeof(TableEntry), deadline_);
        !status.ok())
      return Status::error("cannot send the addresses of the ranks to rank " +
                           std::to_string(rank) + ": " + status.message());
  return Status();
}

Status Rendezvous::receiveTable() {
  Status status = socketOf(0).receiveAll(
      table_.data(), table_.size() * sizeof(TableEntry), deadline_);
  if (!status.ok())
    return Status::error(
        "rank 0 has not sent the addresses of the ranks: " + status.message() +
        "; if rank 0 reports an error, fix that error, otherwise start all "
        "ranks");
  return Status();
}

TcpAddress Rendezvous::addressOf(int rank) const {
  const TableEntry &entry = table_[std::size_t(rank)];
  std::string host(entry.host, ::strnlen(entry.host, sizeof entry.host));
  // A rank on the machine of rank 0 may have connected to rank 0 through a
  // loopback address, which is not valid on other machines. Other machines
  // reach that rank at the address of rank 0.
  std::string first = sockets_[0].peerHost();
  if (isLoopback(host) && !isLoopback(first))
    host = first;
  return {host, entry.port};
}

Result<std::vector<TcpSocket>> connectRanks(const TcpOptions &options) {
  Rendezvous rendezvous(options);
  Status status = rendezvous.listen();
  if (!status.ok())
    return status;
  if (options.rank == 0) {
    status = rendezvous.acceptHigher();
    if (status.ok())
      status = rendezvous.sendTable();
    if (!status.ok())
      return status;
    return rendezvous.sockets();
  }
  Result<std::string> host = resolveHost(options.host);
  if (!host.ok())
    return Status::error(
        "MASTER_ADDR is " + inQuotes(options.host, 200) +
        ", which cannot be resolved (" + host.status().message() +
        "); set it to the name or the address of the machine of "
        "rank 0");
  status = rendezvous.connectTo(0, {*host, options.port});
  if (status.ok())
    status = rendezvous.receiveTable();
  for (int rank = 1; rank < options.rank && status.ok(); ++rank)
    status = rendezvous.connectTo(rank, rendezvous.addressOf(rank));
  if (status.ok())
    status = rendezvous.acceptHigher();
  if (!status.ok())
    return status;
  return rendezvous.sockets();
}

/// Reads an integer from [least, most] from an environment variable.
static Result<int> readVariable(const Environment &environment,
                                const char *name, int least, int most) {
  const char *text = environment(name);
  if (!text)
    return Status(ExitCode::Usage, std::string(name) +
                                       " is not set: start the ranks with "
                                       "torchrun, or set the variables that it "
                                       "sets");
  int value = 0;
  const char *end = text + std::strlen(text);
  auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value < least || value > most)
    return Status(ExitCode::Usage,
                  std::string(name) + " is " + inQuotes(text, 60) +
                      ", expected an integer from " + std::to_string(least) +
                      " to " + std::to_string(most));
  return value;
}

Result<TcpOptions> readTcpOptions(const Environment &environment) {
  constexpr int mostRanks = 65536, highestPort = 65535;
  TcpOptions options;
  Status status;
  auto read = [&](const char *name, int least, int most) {
    if (!status.ok())
      return 0;
    Result<int> value = readVariable(environment, name, least, most);
    status = value.status();
    return value.ok() ? *value : 0;
  };
  options.size = read("WORLD_SIZE", 1, mostRanks);
  options.rank = read("RANK", 0, std::max(options.size - 1, 0));
  // Only rank 0 prints usage errors, but the variables of rank 0 can be valid.
  // Therefore return an error that is not a usage error, so that this process
  // prints it.
  if (!status.ok())
    return Status::error(status.message());
  options.port = environment("KILN_PORT")
                     ? read("KILN_PORT", 1, highestPort)
                     : read("MASTER_PORT", 1, highestPort - 1) + 1;
  if (!status.ok())
    return status;
  const char *host = environment("MASTER_ADDR");
  if (!host || !*host)
    return Status(ExitCode::Usage,
                  "MASTER_ADDR is not set: set it to the name or the address "
                  "of the machine of rank 0, as torchrun does");
  options.host = host;
  std::string run = std::to_string(options.port);
  // torchrun restarts the ranks after a failure. Ranks of an earlier start must
  // not connect to them, so the token also depends on the number of restarts.
  for (const char *name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"})
    if (const char *text = environment(name))
      run += std::string("/") + text;
  options.token = keyedHash(run, magic);
  return options;
}

} // namespace kiln::runtime
