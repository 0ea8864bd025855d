//===- Engine.h - Interface of the engines that run programs ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface between the training driver and an engine: storage of states,
// inputs and outputs, and run(). The engines are those of compiled executables,
// for a CPU, a GPU and an emulated GPU, and the reference interpreter of
// kiln-run.
//
// Storage. The engine owns every tensor and returns pointers to contiguous
// row-major data. The pointers remain valid and unchanged from start() until
// the destruction of the engine. All programs share the states. The inputs of a
// program must be written before each of its runs: a run of any program may
// overwrite the inputs and outputs of all programs, because the inputs and
// outputs of all programs share memory.
//
// On a device with separate memory, run() copies inputs to the device and
// outputs to the host. States and gradients are too large to be copied in every
// run: accessState() and readGradient() copy a single state or gradient on
// request.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_ENGINE_H
#define KILN_RUNTIME_ENGINE_ENGINE_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

class World;

/// Planned and used memory, for the log and --check-memory.
struct MemoryFacts {
  int64_t arenaBytes = 0;        ///< Size of the device arena.
  int64_t hostArenaBytes = 0;    ///< Size of the host arena.
  int64_t touchedArenaBytes = 0; ///< Bytes of the arenas that are resident now.
  /// Resident bytes of the memory pools of libraries.
  int64_t libraryBytes = 0;
  /// Size of the buffers, outside of the arenas, in which sums over ranks
  /// receive messages.
  int64_t commScratchBytes = 0;
};

/// Statistics of the asynchronous copies of one run of a program.
struct CopyCounts {
  int64_t outBytes = 0;   ///< From the device to the host arena.
  int64_t inBytes = 0;    ///< From the host to the device arena.
  double waitSeconds = 0; ///< Time that the run waited for copies.
};

/// Statistics of the sums over ranks of one run of a program.
struct SumCounts {
  int64_t sentBytes = 0; ///< Bytes that this rank has sent.
  /// Time that the run waited for sums, if the engine measures it.
  std::optional<double> waitSeconds = std::nullopt;
  /// True if `sentBytes` was not counted, but computed as the bytes that a ring
  /// algorithm sends to compute these sums.
  bool isComputed = false;
};

/// Global memory traffic of the GPU kernels of one run of a program, in sectors
/// of 32 bytes.
struct SectorCounts {
  int64_t read = 0;
  int64_t written = 0;
};

/// Allocation counts of the process so far, without those of the MPI library.
struct AllocationCounts {
  /// Calls of malloc and related functions, excluding free.
  uint64_t calls = 0;
  uint64_t mapCalls = 0; ///< Calls of mmap and related functions.
  int64_t liveBytes = 0; ///< Usable size of all live blocks.
};

/// A "complete event" of a Chrome trace, that is, one with a duration.
struct TraceEvent {
  enum class Track { Commands, CopiesOut, CopiesIn, Sums };
  Track track = Track::Commands;
  std::string name;
  std::string category;
  double startUs = 0;
  double durationUs = 0;
  int64_t flops = 0;
  int64_t bytes = 0;
  /// Bytes of the device arena that are live during the event, for the memory
  /// counter track. Each pair has the name of a SlotClass, which is a kind of
  /// buffer, and the live bytes of these buffers.
  std::vector<std::pair<std::string, int64_t>> liveBytes;
};

/// The contents of a planned buffer right after a command that wrote to it.
struct OpResult {
  std::size_t command = 0;   ///< Index of the command in the program.
  const char *kind = "";     ///< "launch", "gemm", ...
  const std::string &name;   ///< Name of the command.
  int64_t microbatch = 0;    ///< 0 outside of micro-batches.
  const std::string &buffer; ///< Name of the buffer.
  const char *data = nullptr;
  int64_t bytes = 0;
  /// For a matrix with padded rows, the bytes of a row without its padding and
  /// with its padding, respectively; otherwise 0.
  int64_t rowBytes = 0, rowPitch = 0;
  /// True if every write to the buffer starts at the first byte of the buffer.
  /// Such a write fills the buffer, so all bytes have a value. If false, some
  /// bytes may still have values of an earlier buffer at the same address.
  bool whole = false;
  /// The element type of the buffer; see Slot::type.
  std::optional<ElementType> type = std::nullopt;

  /// Calls visit(data, bytes) for each row, without its padding, in order. A
  /// buffer without padded rows counts as one row.
  template <typename Visitor> void forEachPart(Visitor &&visit) const {
    int64_t pitch = rowPitch > 0 ? rowPitch : bytes;
    for (int64_t at = 0; at < bytes; at += pitch)
      visit(data + at, rowPitch > 0 ? rowBytes : bytes);
  }
  /// Returns the number of bytes that have a value, without the padding of
  /// rows.
  int64_t valueBytes() const {
    return rowPitch > 0 ? ((bytes - rowBytes) / rowPitch + 1) * rowBytes
                        : bytes;
  }
};

/// One line of the tables of --check-memory and --check-trace.
struct MemoryCheckLine {
  /// The checked property, such as "train: allocator calls in a step".
  std::string check;
  std::string expected;
  std::string found;
  bool ok = true;
};

/// How the host accesses a state.
enum class HostAccess {
  Read,   ///< Reads the state.
  Write,  ///< Overwrites the whole state.
  Update, ///< Reads and writes the state.
};

class Engine {
public:
  virtual ~Engine() = default;

  virtual const Description &description() const = 0;

  /// Makes all later runs execute asynchronous copies at points that `seed`
  /// determines. Tests use this function to verify that results do not depend
  /// on the timing of copies. Must be called before start(). The default
  /// implementation is for engines without a compiled program and fails.
  virtual Status stressCopies(uint64_t seed);

  /// Makes `seed` determine the execution order of all later runs on an
  /// emulated device, wherever the program does not define this order. Must be
  /// called before start(). The default implementation is for engines without
  /// an emulated device and fails.
  virtual Status shuffle(uint64_t seed);

  /// Makes all later runs sum over the ranks of `world`, which must outlive the
  /// engine. All ranks must call this function, before start(), and then run
  /// the same programs in the same order. Without this call, or if `world` has
  /// one rank, sums have no effect. The default implementation is for engines
  /// without ranks, and fails if there is more than one rank.
  virtual Status join(World &world);

  /// Checks the machine, allocates memory and starts `threads` threads (0: the
  /// default number). Must be called once, before any access to storage and any
  /// run.
  virtual Status start(int threads) = 0;

  /// Returns the number of threads in use after start().
  virtual int threads() const = 0;

  /// Returns a message for the user after start() ("planned for BLAS ..."), if
  /// any.
  virtual std::optional<std::string> notice() const { return std::nullopt; }

  /// Returns a warning after start() if the ranks on this machine together have
  /// more threads than processors that they may use, or if they may use only a
  /// part of the processors of the machine.
  virtual std::optional<std::string> rankNotice() const { return std::nullopt; }

  /// Returns the name of the BLAS or vendor library, for the log and
  /// checkpoints. The exact bits of the results depend on this library.
  virtual std::string libraryName() const { return ""; }

  /// Makes all later runs synchronize with the GPU after every command, so that
  /// an error names the command that caused the error. Must be called before
  /// start(). The default implementation is for engines without a GPU and
  /// fails.
  virtual Status syncOps();

  /// Makes start() choose the GEMM algorithms of the vendor library by timing
  /// them, and cache the choice in the file `path`. If `path` is empty, the
  /// heuristic of the vendor library chooses. Must be called before start().
  /// The default implementation is for engines without a GPU and fails.
  virtual Status keepAlgorithms(const std::string &path);

  /// Returns the data of the state with this index in description().states, or
  /// null if the state is not in host memory. Code that must work with every
  /// engine calls accessState() instead.
  virtual char *stateData(size_t state) = 0;

  /// Calls body(data) once with the bytes of a state. `data` is valid until
  /// body returns. Calls for different states may be nested.
  virtual Status accessState(size_t state, HostAccess access,
                             const std::function<Status(char *data)> &body) {
    return body(stateData(state));
  }

  /// Return the data of an input or output. The indexes are those of
  /// description().programs and of its inputs and outputs. The result is null
  /// for a gradient that is not in host memory.
  virtual char *inputData(size_t program, size_t input) = 0;
  virtual char *outputData(size_t program, size_t output) = 0;

  /// Calls body(data) with the bytes that a program's last run has written to
  /// one of its outputs. The output must be a gradient (see isGradient()).
  virtual Status
  readGradient(size_t program, size_t output,
               const std::function<Status(const char *data)> &body) {
    return body(outputData(program, output));
  }

  virtual Status run(size_t program) = 0;

  /// Runs the program and records the time of every command. The default
  /// implementation records one event.
  virtual Status runTraced(size_t program, std::vector<TraceEvent> &events);

  /// Runs the program and calls `observe` with the results of every command, in
  /// order. The default implementation does not call `observe`.
  virtual Status
  runObserved(size_t program,
              const std::function<void(const OpResult &)> &observe) {
    return run(program);
  }

  /// Return the address that OpResult::data has for commands that write the
  /// state or the output. If the state or output is not in host memory, this is
  /// the address of a host buffer that receives a copy.
  virtual const char *observedState(size_t state) { return stateData(state); }
  virtual const char *observedOutput(size_t program, size_t output) {
    return outputData(program, output);
  }

  /// Calls body(begin, end), possibly concurrently, for disjoint ranges that
  /// together cover [0, count).
  virtual void
  forEachPart(int64_t count,
              const std::function<void(int64_t begin, int64_t end)> &body) {
    body(0, count);
  }

  virtual MemoryFacts memory() const { return {}; }

  /// Returns the copy statistics of the last run of a program, if the program
  /// has asynchronous copies.
  virtual std::optional<CopyCounts> copies(size_t program) const {
    return std::nullopt;
  }

  /// Returns the statistics of the sums over ranks of the last run of a
  /// program, if the program has sums.
  virtual std::optional<SumCounts> sums(size_t program) const {
    return std::nullopt;
  }

  /// Returns the global memory traffic of the last run of a program, if the
  /// device is emulated.
  virtual std::optional<SectorCounts> sectors(size_t program) const {
    return std::nullopt;
  }

  /// Returns the allocation counts of the process if this executable counts
  /// allocations.
  virtual std::optional<AllocationCounts> allocations() const {
    return std::nullopt;
  }

  /// Checks that each program accesses memory only as its plan permits (see
  /// PlanCheck.h). `prepare(p)` restores every state and writes the inputs of
  /// program p, with identical values in each call. Appends one line per check
  /// to `lines`.
  virtual Status checkPlan(const std::function<Status(size_t)> &prepare,
                           std::vector<MemoryCheckLine> &lines);

  /// Runs every program once and writes the results of every op to `path`, for
  /// kiln-run --check-trace. Calls prepare(p) before program p; see
  /// checkPlan(). The default implementation is for engines without a compiled
  /// program and fails.
  virtual Status traceOps(const std::function<Status(size_t)> &prepare,
                          const std::string &path);

  /// Repeats every op in the file `path`, which traceOps() of another
  /// executable of the same plan wrote, and compares the results with the
  /// results in the file. Appends to `lines` one line per kind of op, and one
  /// line for each result that differs by more than rounding, up to a maximum
  /// number of lines. The default implementation fails.
  virtual Status repeatOps(const std::string &path,
                           std::vector<MemoryCheckLine> &lines);
};

/// Copies the values of each parameter to its mirror, a state that holds a copy
/// of the parameter in another type or in another arena. Rounds the values to
/// the type of the mirror. Must be called whenever parameters were written by
/// anything other than a program of the engine. If a parameter is sharded and
/// its mirror is whole, the ranks of `world` exchange their shards, so all
/// ranks must call this function. If `world` is null or has one rank, this rank
/// acts as rank 0, and the elements of other ranks become zero.
Status copyMirrors(Engine &engine, World *world = nullptr);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_ENGINE_H
