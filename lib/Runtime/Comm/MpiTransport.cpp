//===- MpiTransport.cpp - Messages by MPI ---------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiTransport.h"

#include "kiln/Support/Messages.h"

#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <type_traits>
#include <unistd.h>
#include <vector>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

constexpr int mpiSuccess = 0;
/// MPI_THREAD_FUNNELED: only the thread that initialized MPI calls its
/// functions. The value is the same in Open MPI and in MPICH.
constexpr int mpiThreadFunneled = 1;
/// MPI_MAX_LIBRARY_VERSION_STRING, the larger of its values in Open MPI and in
/// MPICH.
constexpr std::size_t maxVersionText = 8192;

/// Memory for an MPI_Status, which has 24 bytes in Open MPI and 20 in MPICH.
struct MpiStatus {
  alignas(16) char bytes[64];
};

/// How to find and recognize the library of an MPI implementation.
struct FamilyInfo {
  const char *name;
  std::vector<const char *> libraries; ///< In the order of preference.
  const char *package;                 ///< The Debian package.
  /// The text that MPI_Get_library_version() returns contains one of these.
  std::vector<const char *> versions;
};

const FamilyInfo &infoOf(MpiFamily family) {
  static const FamilyInfo openMpi = {
      "Open MPI", {"libmpi.so.40"}, "openmpi-bin", {"Open MPI"}};
  // Debian names MPICH's library libmpich.so.12. Other libraries with this ABI
  // are those of Intel, Cray and MVAPICH.
  static const FamilyInfo mpich = {"MPICH",
                                   {"libmpi.so.12", "libmpich.so.12"},
                                   "mpich",
                                   {"MPICH", "Intel(R) MPI", "MVAPICH"}};
  return family == MpiFamily::OpenMpi ? openMpi : mpich;
}

/// The values of MPI's constants in Open MPI, whose handles are pointers to
/// objects of the library.
struct OpenMpiAbi {
  using Handle = void *;
  static constexpr MpiFamily family = MpiFamily::OpenMpi;
  static Handle world(void *library) {
    return ::dlsym(library, "ompi_mpi_comm_world");
  }
  static Handle byte(void *library) {
    return ::dlsym(library, "ompi_mpi_byte");
  }
  static Handle errorsReturn(void *library) {
    return ::dlsym(library, "ompi_mpi_errors_return");
  }
};

/// The values of MPI's constants in MPICH, whose handles are integers.
struct MpichAbi {
  using Handle = int;
  static constexpr MpiFamily family = MpiFamily::Mpich;
  static Handle world(void *) { return 0x44000000; }
  static Handle byte(void *) { return 0x4c00010d; }
  static Handle errorsReturn(void *) { return 0x54000001; }
};

/// The functions of MPI that kiln calls.
template <typename Handle> struct Functions {
  int (*getLibraryVersion)(char *text, int *length);
  int (*initThread)(int *argc, char ***argv, int required, int *provided);
  int (*finalize)();
  int (*abort)(Handle comm, int code);
  int (*commDup)(Handle comm, Handle *copy);
  int (*commSetErrhandler)(Handle comm, Handle handler);
  int (*commRank)(Handle comm, int *rank);
  int (*commSize)(Handle comm, int *size);
  int (*isend)(const void *data, int count, Handle type, int peer, int tag,
               Handle comm, Handle *request);
  int (*irecv)(void *data, int count, Handle type, int peer, int tag,
               Handle comm, Handle *request);
  int (*test)(Handle *request, int *flag, void *status);
  int (*getCount)(const void *status, Handle type, int *count);
  int (*errorString)(int code, char *text, int *length);
};

/// Looks up a function. Returns false, and sets `missing` to its name, if the
/// library does not export it.
template <typename Function>
bool find(void *library, const char *name, Function &function,
          const char *&missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function)
    missing = name;
  return function != nullptr;
}

template <typename Abi> class MpiTransport final : public Transport {
public:
  using Handle = typename Abi::Handle;

  MpiTransport(void *library, const Functions<Handle> &functions)
      : functions_(functions), byte_(Abi::byte(library)) {}
  ~MpiTransport() override {
    if (isInitialized_)
      functions_.finalize();
  }

  Status initialize(void *library);

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Result<bool> test(MessageRequest &request) override {
    Handle handle;
    std::memcpy(&handle, &request.word, sizeof handle);
    int done = 0;
    MpiStatus received;
    Status status =
        check(functions_.test(&handle, &done, &received), "MPI_Test");
    if (!status.ok())
      return status;
    std::memcpy(&request.word, &handle, sizeof handle);
    if (done != 0 && request.received >= 0)
      status = checkSize(received, request.received);
    if (!status.ok())
      return status;
    return done != 0;
  }

  void abort(int exitCode) override {
    // MPI_Abort may block if the launcher does not answer. The default action
    // of SIGALRM then ends this process.
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(10);
    functions_.abort(comm_, exitCode);
  }

protected:
  Status beginSend(int peer, const void *data, int64_t bytes, int tag,
                   MessageRequest &request) override {
    Handle handle;
    Status status = check(
        functions_.isend(data, int(bytes), byte_, peer, tag, comm_, &handle),
        "MPI_Isend");
    std::memcpy(&request.word, &handle, sizeof handle);
    return status;
  }
  Status beginReceive(int peer, void *data, int64_t bytes, int tag,
                      MessageRequest &request) override {
    Handle handle;
    Status status = check(
        functions_.irecv(data, int(bytes), byte_, peer, tag, comm_, &handle),
        "MPI_Irecv");
    std::memcpy(&request.word, &handle, sizeof handle);
    return status;
  }

private:
  /// Fails if a received message does not have `expected` bytes. MPI itself
  /// rejects only longer messages.
  Status checkSize(const MpiStatus &received, int64_t expected) const {
    int count = 0;
    Status status =
        check(functions_.getCount(&received, byte_, &count), "MPI_Get_count");
    if (status.ok() && count != expected)
      return Status::error("a message has " + std::to_string(count) +
                           " bytes, expected " + std::to_string(expected) +
                           ": the ranks execute different operations");
    return status;
  }

  Status check(int code, const char *function) const {
    if (code == mpiSuccess)
      return Status();
    std::string text(maxVersionText, '\0');
    int length = 0;
    if (functions_.errorString(code, text.data(), &length) != mpiSuccess)
      length = 0;
    return Status::error(std::string(function) + " failed: " +
                         printable(text.substr(0, std::size_t(length)), 300));
  }

  Functions<Handle> functions_;
  Handle byte_, comm_ = Handle();
  bool isInitialized_ = false;
  int rank_ = 0, size_ = 1;
};

} // namespace

template <typename Abi> Status MpiTransport<Abi>::initialize(void *library) {
  Handle world = Abi::world(library), errorsReturn = Abi::errorsReturn(library);
  if constexpr (std::is_pointer_v<Handle>)
    if (!world || !byte_ || !errorsReturn)
      return Status::error("it does not export all of MPI_COMM_WORLD, MPI_BYTE "
                           "and MPI_ERRORS_RETURN");
  int provided = 0;
  // The arguments of main() are optional in MPI. With a level of thread support
  // below MPI_THREAD_FUNNELED, MPI would require a process with one thread.
  Status status = check(
      functions_.initThread(nullptr, nullptr, mpiThreadFunneled, &provided),
      "MPI_Init_thread");
  if (!status.ok())
    return status;
  isInitialized_ = true;
  if (provided < mpiThreadFunneled)
    return Status::error("it does not support MPI_THREAD_FUNNELED, which a "
                         "process with several threads needs");
  // Make MPI return errors. By default, it would end the process without a
  // message that names the operation.
  status = check(functions_.commDup(world, &comm_), "MPI_Comm_dup");
  if (status.ok())
    status = check(functions_.commSetErrhandler(comm_, errorsReturn),
                   "MPI_Comm_set_errhandler");
  if (status.ok())
    status = check(functions_.commRank(comm_, &rank_), "MPI_Comm_rank");
  if (status.ok())
    status = check(functions_.commSize(comm_, &size_), "MPI_Comm_size");
  return status;
}

template <typename Abi>
static Result<std::unique_ptr<Transport>> open(void *library) {
  Functions<typename Abi::Handle> f;
  const char *missing = nullptr;
  bool isComplete =
      find(library, "MPI_Get_library_version", f.getLibraryVersion, missing) &&
      find(library, "MPI_Init_thread", f.initThread, missing) &&
      find(library, "MPI_Finalize", f.finalize, missing) &&
      find(library, "MPI_Abort", f.abort, missing) &&
      find(library, "MPI_Comm_dup", f.commDup, missing) &&
      find(library, "MPI_Comm_set_errhandler", f.commSetErrhandler, missing) &&
      find(library, "MPI_Comm_rank", f.commRank, missing) &&
      find(library, "MPI_Comm_size", f.commSize, missing) &&
      find(library, "MPI_Isend", f.isend, missing) &&
      find(library, "MPI_Irecv", f.irecv, missing) &&
      find(library, "MPI_Test", f.test, missing) &&
      find(library, "MPI_Get_count", f.getCount, missing) &&
      find(library, "MPI_Error_string", f.errorString, missing);
  if (!isComplete)
    return Status::error(std::string("it does not export ") + missing);
  const FamilyInfo &info = infoOf(Abi::family);
  std::string version(maxVersionText, '\0');
  int length = 0;
  // MPI permits a call of MPI_Get_library_version before MPI is initialized.
  f.getLibraryVersion(version.data(), &length);
  version.resize(std::strlen(version.c_str()));
  bool isExpected = false;
  for (const char *text : info.versions)
    isExpected = isExpected || version.find(text) != std::string::npos;
  if (!isExpected)
    return Status::error("its version is " + inQuotes(version, 60) +
                         ", expected a version of " + info.name);
  auto transport = std::make_unique<MpiTransport<Abi>>(library, f);
  if (Status status = transport->initialize(library); !status.ok())
    return status;
  return Result<std::unique_ptr<Transport>>(std::move(transport));
}

Result<std::unique_ptr<Transport>> openMpi(const Launch &launch) {
  const FamilyInfo &info = infoOf(launch.family);
  std::string reason;
  void *library = nullptr;
  std::string name = info.libraries.front();
  for (const char *candidate : info.libraries) {
    // Use RTLD_GLOBAL, because the plugins that the MPI library loads use its
    // symbols without being linked to it.
    library = ::dlopen(candidate, RTLD_NOW | RTLD_GLOBAL);
    if (library) {
      name = candidate;
      break;
    }
    if (const char *text = ::dlerror(); text && reason.empty())
      reason = text;
  }
  auto refuse = [&](const std::string &problem) {
    return Status::error(std::string("this process was started by ") +
                         info.name + ", but its library " + name + " " +
                         problem);
  };
  if (!library)
    return refuse("cannot be loaded (" + printable(reason, 200) +
                  "); install it (the package " + info.package +
                  " of Debian), or add its directory to LD_LIBRARY_PATH");
  // The library is never unloaded, because its threads may outlive the
  // transport.
  Result<std::unique_ptr<Transport>> transport =
      launch.family == MpiFamily::OpenMpi ? open<OpenMpiAbi>(library)
                                          : open<MpichAbi>(library);
  if (!transport.ok())
    return refuse("cannot be used: " + transport.status().message());
  return transport;
}

} // namespace kiln::runtime
