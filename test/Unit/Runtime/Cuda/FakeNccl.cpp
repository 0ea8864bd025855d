//===- FakeNccl.cpp - Fake NCCL between processes -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeNccl.h"

#include "FakeState.h"

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace kiln::runtime::fakecuda;

// ncclResult_t.
static constexpr int cudaError = 1, internalError = 3, invalidArgument = 4,
                     invalidUsage = 5;

namespace {

struct NcclUniqueId {
  char bytes[128];
};

/// The object to which a handle of a communicator points.
struct NcclHandle {
  std::shared_ptr<NcclComm> comm;
};

/// A call in a group, with the ranges that it accesses.
struct GroupedCall {
  NcclWork work;
  StreamObject *stream = nullptr;
  uint64_t read = 0, write = 0; ///< Device addresses; 0: none.
  int64_t readBytes = 0, writeBytes = 0;
};

} // namespace

/// The calls since the outermost ncclGroupStart(), until its ncclGroupEnd().
static std::vector<GroupedCall> &groupedCalls() {
  static std::vector<GroupedCall> calls;
  return calls;
}

static int refuse(const std::string &text) {
  violate(text);
  return invalidUsage;
}

#define BEGIN_NCCL(...)                                                        \
  Call ncclCall(__func__, ##__VA_ARGS__);                                      \
  if (ncclCall.code() != 0)                                                    \
  return state().sticky != 0 ? cudaError : internalError

static bool overlap(uint64_t a, int64_t aBytes, uint64_t b, int64_t bBytes) {
  return a && b && a < b + uint64_t(bBytes) && b < a + uint64_t(aBytes);
}

/// Queues the calls of a group. NCCL can execute them at the same time, so a
/// call must not write memory that another call accesses.
static int queueGroup() {
  std::vector<GroupedCall> calls = std::move(groupedCalls());
  groupedCalls().clear();
  if (calls.size() > 2048)
    return refuse("a group has more than 2048 calls");
  for (std::size_t i = 0; i < calls.size(); ++i)
    for (std::size_t j = 0; j < calls.size(); ++j) {
      const GroupedCall &a = calls[i], &b = calls[j];
      if (i != j && (overlap(a.write, a.writeBytes, b.read, b.readBytes) ||
                     overlap(a.write, a.writeBytes, b.write, b.writeBytes)))
        return refuse("a call of a group writes what another one accesses");
    }
  for (const GroupedCall &call : calls) {
    auto work = std::make_shared<NcclWork>(call.work);
    std::shared_ptr<int> graph;
    if (call.stream->capture)
      graph = work->comm->graphs;
    if (int code =
            enqueue(call.stream, [work, graph] { return work->advance(); }))
      return code;
  }
  return 0;
}

/// Checks a call, and queues it or adds it to the group. Counts are numbers of
/// elements. The buffers may overlap only if the receive buffer begins at the
/// address `inPlace`.
static int addCall(const NcclCall &call, uint64_t send, uint64_t sendCount,
                   uint64_t receive, uint64_t receiveCount, uint64_t inPlace,
                   void *comm, void *stream) {
  if (!exists("NCCL communicator", comm) || !exists("stream", stream))
    return invalidArgument;
  auto &handle = *static_cast<NcclHandle *>(comm);
  int64_t bytes = ncclTypeBytes(call.type);
  if (bytes == 0)
    return refuse("unknown data type");
  if (call.root < 0 || call.root >= handle.comm->ranks)
    return refuse("no such root");
  if (call.count == 0)
    return 0;
  GroupedCall added;
  added.stream = static_cast<StreamObject *>(stream);
  added.work.comm = handle.comm;
  added.work.call = call;
  added.read = send;
  added.readBytes = int64_t(sendCount) * bytes;
  added.write = receive;
  added.writeBytes = int64_t(receiveCount) * bytes;
  if (sendCount > 0 && !(added.work.send = resolve(send, added.readBytes)))
    return invalidArgument;
  if (receiveCount > 0 &&
      !(added.work.receive = resolve(receive, added.writeBytes)))
    return invalidArgument;
  if (receive != inPlace &&
      overlap(send, added.readBytes, receive, added.writeBytes))
    return refuse("the buffers of a call overlap, but it is not in place");
  groupedCalls().push_back(std::move(added));
  return state().ncclGroups > 0 ? 0 : queueGroup();
}

static int destroyComm(void *comm) {
  if (!exists("NCCL communicator", comm))
    return invalidArgument;
  auto *handle = static_cast<NcclHandle *>(comm);
  if (handle->comm->isBusy)
    violate("a communicator is destroyed during a collective");
  // On a GPU, ncclCommDestroy() would wait forever for a graph that contains
  // collectives of the communicator.
  if (handle->comm->graphs.use_count() > 1)
    violate("a communicator is destroyed before a graph with its collectives");
  destroy("NCCL communicator", handle);
  return 0;
}

extern "C" {

int ncclGetVersion(int *version) {
  BEGIN_NCCL();
  *version = state().settings.ncclVersion;
  return 0;
}

const char *ncclGetErrorString(int code) {
  switch (code) {
  case 0:
    return "no error";
  case cudaError:
    return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case internalError:
    return "internal error";
  case invalidArgument:
    return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case invalidUsage:
    return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case 6:
    return "remote process exited or there was a network error";
  }
  return "unknown result code";
}

const char *ncclGetLastError(void *) { return ""; }

int ncclGetUniqueId(NcclUniqueId *id) {
  BEGIN_NCCL();
  const char *folder = std::getenv("TMPDIR");
  std::string path = (folder ? std::string(folder) : std::string("/tmp")) +
                     "/kiln-nccl-XXXXXX";
  int file = path.size() < sizeof id->bytes ? ::mkstemp(path.data()) : -1;
  if (file < 0 || ::ftruncate(file, sizeof(NcclShared)) != 0)
    return internalError;
  ::close(file);
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->bytes, path.data(), path.size());
  return 0;
}

int ncclCommInitRank(void **comm, int ranks, NcclUniqueId id, int rank) {
  BEGIN_NCCL(/*inCapture=*/false);
  if (!state().isCurrent)
    return refuse("no context is current");
  if (ranks < 1 || ranks > mostNcclRanks || rank < 0 || rank >= ranks)
    return refuse("invalid number of ranks");
  while (state().settings.ncclHangs)
    ::usleep(1000);
  int file = ::open(id.bytes, O_RDWR | O_CLOEXEC);
  if (file < 0)
    return refuse("no such id");
  void *memory = ::mmap(nullptr, sizeof(NcclShared), PROT_READ | PROT_WRITE,
                        MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED)
    return internalError;
  auto handle = std::make_unique<NcclHandle>();
  handle->comm = std::make_shared<NcclComm>();
  NcclComm &created = *handle->comm;
  created.shared = static_cast<NcclShared *>(memory);
  created.ranks = ranks;
  created.rank = rank;
  int32_t known = 0;
  if (!created.shared->ranks.compare_exchange_strong(known, ranks) &&
      known != ranks)
    return refuse("the ranks have different numbers of ranks");
  int32_t nobody = 0;
  if (!created.slot(rank).process.compare_exchange_strong(nobody, ::getpid()))
    return refuse("two processes have the same rank");
  // Wait until all ranks have joined.
  for (int i = 0; i < ranks; ++i)
    while (created.slot(i).process == 0)
      ::usleep(50);
  if (rank == 0)
    ::unlink(id.bytes);
  *comm = create("NCCL communicator", handle.release());
  return 0;
}

int ncclCommDestroy(void *comm) {
  Call call(__func__);
  int code = destroyComm(comm);
  return call.code() != 0 ? internalError : code;
}

int ncclCommGetAsyncError(void *comm, int *error) {
  BEGIN_NCCL();
  if (!exists("NCCL communicator", comm))
    return invalidArgument;
  *error = static_cast<NcclHandle *>(comm)->comm->asynchronousError;
  return 0;
}

int ncclGroupStart() {
  BEGIN_NCCL();
  ++state().ncclGroups;
  return 0;
}

int ncclGroupEnd() {
  Call call(__func__);
  if (state().ncclGroups == 0)
    return refuse("a group is ended that was not started");
  --state().ncclGroups;
  if (call.code() != 0) {
    groupedCalls().clear();
    return internalError;
  }
  return state().ncclGroups > 0 ? 0 : queueGroup();
}

int ncclAllReduce(uint64_t send, uint64_t receive, std::size_t count, int type,
                  int op, void *comm, void *stream) {
  BEGIN_NCCL();
  if (op != 0)
    return refuse("the operation is not a sum");
  return addCall({NcclKind::AllReduce, type, 0, 0, count}, send, count, receive,
                 count, send, comm, stream);
}

int ncclReduceScatter(uint64_t send, uint64_t receive, std::size_t count,
                      int type, int op, void *comm, void *stream) {
  BEGIN_NCCL();
  if (op != 0)
    return refuse("the operation is not a sum");
  if (!exists("NCCL communicator", comm))
    return invalidArgument;
  const NcclComm &group = *static_cast<NcclHandle *>(comm)->comm;
  uint64_t own =
      send + uint64_t(group.rank) * count * uint64_t(ncclTypeBytes(type));
  return addCall({NcclKind::ReduceScatter, type, 0, 0, count}, send,
                 count * uint64_t(group.ranks), receive, count, own, comm,
                 stream);
}

int ncclAllGather(uint64_t send, uint64_t receive, std::size_t count, int type,
                  void *comm, void *stream) {
  BEGIN_NCCL();
  if (!exists("NCCL communicator", comm))
    return invalidArgument;
  const NcclComm &group = *static_cast<NcclHandle *>(comm)->comm;
  uint64_t begin =
      send - uint64_t(group.rank) * count * uint64_t(ncclTypeBytes(type));
  return addCall({NcclKind::AllGather, type, 0, 0, count}, send, count, receive,
                 count * uint64_t(group.ranks), begin, comm, stream);
}

int ncclReduce(uint64_t send, uint64_t receive, std::size_t count, int type,
               int op, int root, void *comm, void *stream) {
  BEGIN_NCCL();
  if (op != 0)
    return refuse("the operation is not a sum");
  if (!exists("NCCL communicator", comm))
    return invalidArgument;
  bool receives = static_cast<NcclHandle *>(comm)->comm->rank == root;
  return addCall({NcclKind::Reduce, type, root, 0, count}, send, count,
                 receives ? receive : 0, receives ? count : 0, send, comm,
                 stream);
}

int ncclBroadcast(uint64_t send, uint64_t receive, std::size_t count, int type,
                  int root, void *comm, void *stream) {
  BEGIN_NCCL();
  if (!exists("NCCL communicator", comm))
    return invalidArgument;
  bool sends = static_cast<NcclHandle *>(comm)->comm->rank == root;
  return addCall({NcclKind::Broadcast, type, root, 0, count}, sends ? send : 0,
                 sends ? count : 0, receive, count, send, comm, stream);
}

} // extern "C"
