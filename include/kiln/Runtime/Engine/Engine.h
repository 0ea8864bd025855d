//===- Engine.h - Something that runs the programs of a model ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the training driver needs from whatever computes: storage of states,
// inputs and outputs, and run(). Engines are the command-table walker inside of
// executables for a cpu, those of a GPU and of an emulated one, and the
// reference interpreter of kiln-run.
//
// Storage. The engine owns every tensor and hands out pointers to dense
// row-major data, valid and unmoved from start() until the engine dies. States
// are shared by all programs. The inputs of a program must be written before
// each run() of it: running any program may destroy the inputs and outputs of
// all programs, because they share the transient part of one arena.
//
// A device with memory of its own has copies of inputs and outputs on the host,
// which run() brings there and back. Its states and gradients would be too much
// for that: accessState() and readGradient() copy one at a time, when asked.
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

/// What an engine planned and used, for the log and --check-memory.
struct MemoryFacts {
  int64_t arenaBytes = 0;        ///< Height of the device arena.
  int64_t hostArenaBytes = 0;    ///< Height of the host arena.
  int64_t touchedArenaBytes = 0; ///< Resident part of the arenas now.
  int64_t libraryBytes = 0;      ///< Resident part of libraries' own pools now.
};

/// What the asynchronous copies of one run of a program did.
struct CopyCounts {
  int64_t outBytes = 0;   ///< From the device to the host arena.
  int64_t inBytes = 0;    ///< From the host to the device arena.
  double waitSeconds = 0; ///< For which the run stood still.
};

/// What the GPU kernels of one run of a program moved, in sectors of 32 bytes.
struct SectorCounts {
  int64_t read = 0;
  int64_t written = 0;
};

/// Allocator traffic of the whole process so far.
struct AllocationCounts {
  uint64_t calls = 0;    ///< malloc and relatives, free not included.
  uint64_t mapCalls = 0; ///< mmap and relatives.
  int64_t liveBytes = 0; ///< Usable size of all live blocks.
};

/// One bar of a trace.
struct TraceEvent {
  enum class Track { Commands, CopiesOut, CopiesIn };
  Track track = Track::Commands;
  std::string name;
  std::string category;
  double startUs = 0;
  double durationUs = 0;
  int64_t flops = 0;
  int64_t bytes = 0;
  /// Bytes live while it ran, by class, for the memory counter track.
  std::vector<std::pair<std::string, int64_t>> liveBytes;
};

/// A planned buffer right after a command that wrote into it.
struct OpResult {
  std::size_t command = 0;   ///< Index in the program.
  const char *kind = "";     ///< "launch", "gemm", ...
  const std::string &name;   ///< Of the command.
  int64_t iteration = 0;     ///< Of the enclosing loop, or 0.
  const std::string &buffer; ///< Name of the buffer.
  const char *data = nullptr;
  int64_t bytes = 0;
  /// As of a Slot.
  int64_t rowBytes = 0, rowPitch = 0;
  /// Every write into this buffer starts at its first byte, so that its bytes
  /// are a value; otherwise some may still be those of an earlier buffer.
  bool whole = false;

  /// Calls visit(data, bytes) for what is a value, in order.
  template <typename Visitor> void forEachPart(Visitor &&visit) const {
    int64_t pitch = rowPitch > 0 ? rowPitch : bytes;
    for (int64_t at = 0; at < bytes; at += pitch)
      visit(data + at, rowPitch > 0 ? rowBytes : bytes);
  }
  /// Without the gaps between rows.
  int64_t valueBytes() const {
    return rowPitch > 0 ? ((bytes - rowBytes) / rowPitch + 1) * rowBytes
                        : bytes;
  }
};

/// One line of the tables of --check-memory and --check-trace.
struct MemoryCheckLine {
  std::string check; ///< "train: highest byte written".
  std::string expected;
  std::string found;
  bool ok = true;
};

/// What the host does with a state.
enum class HostAccess {
  Read,   ///< Looks at it.
  Write,  ///< Writes all of it, whatever it was.
  Update, ///< Changes it.
};

class Engine {
public:
  virtual ~Engine() = default;

  virtual const Description &description() const = 0;

  /// From now on, carries out asynchronous copies at points that `seed`
  /// decides, to show that results do not depend on when they are done. Called
  /// before start(). The default says that there is nothing compiled.
  virtual Status stressCopies(uint64_t seed);

  /// From now on, `seed` shuffles whatever the programs of an emulated device
  /// leave unordered. Called before start(). The default says that there is no
  /// such device.
  virtual Status shuffle(uint64_t seed);

  /// Checks the machine, takes memory and starts `threads` threads (0: the
  /// default). Called once, before any storage or run.
  virtual Status start(int threads) = 0;

  /// Threads in use after start().
  virtual int threads() const = 0;

  /// A line to tell the user after start() ("BLAS differs from ..."), if any.
  virtual std::optional<std::string> notice() const { return std::nullopt; }

  /// The numeric library in use, for the log and checkpoints: bits depend on
  /// it.
  virtual std::string libraryName() const { return ""; }

  /// From now on, waits for every command of a GPU before the next, so that
  /// what fails is named. Called before start(). The default says that there is
  /// no GPU.
  virtual Status syncOps();

  /// From now on, the ways in which a GPU's library multiplies are chosen by
  /// trials at the first start, and kept in a file; without a path, the library
  /// chooses. Called before start(). The default says that there is no GPU.
  virtual Status keepAlgorithms(const std::string &path);

  /// Indexes are those of description().states. Null: the state is not in the
  /// host's memory. Whatever works on states of any engine uses accessState().
  virtual char *stateData(size_t state) = 0;

  /// Calls body(data) with a state's bytes, once; data is valid until it
  /// returns. Calls for different states may be nested.
  virtual Status accessState(size_t state, HostAccess access,
                             const std::function<Status(char *data)> &body) {
    return body(stateData(state));
  }

  /// Indexes are those of description().programs and its inputs and outputs.
  /// The output is null: a gradient that is not in the host's memory.
  virtual char *inputData(size_t program, size_t input) = 0;
  virtual char *outputData(size_t program, size_t output) = 0;

  /// Calls body(data) with the bytes of a gradient (isGradient) of the last
  /// run of a program.
  virtual Status
  readGradient(size_t program, size_t output,
               const std::function<Status(const char *data)> &body) {
    return body(outputData(program, output));
  }

  virtual Status run(size_t program) = 0;

  /// Runs and records what happened when. The default records one event.
  virtual Status runTraced(size_t program, std::vector<TraceEvent> &events);

  /// Runs and shows `observe` what every command wrote, in order. The default
  /// runs and shows nothing.
  virtual Status
  runObserved(size_t program,
              const std::function<void(const OpResult &)> &observe) {
    return run(program);
  }

  /// OpResult::data of a command that writes the state, or the gradient. Where
  /// they are not in the host's memory, a place that is kept for copies.
  virtual const char *observedState(size_t state) { return stateData(state); }
  virtual const char *observedOutput(size_t program, size_t output) {
    return outputData(program, output);
  }

  /// Calls body(begin, end) for parts of [0, count), perhaps at the same time.
  virtual void
  forEachPart(int64_t count,
              const std::function<void(int64_t begin, int64_t end)> &body) {
    body(0, count);
  }

  virtual MemoryFacts memory() const { return {}; }

  /// Of the last run of a program that has asynchronous copies.
  virtual std::optional<CopyCounts> copies(size_t program) const {
    return std::nullopt;
  }

  /// Of the last run of a program, where a device is emulated.
  virtual std::optional<SectorCounts> sectors(size_t program) const {
    return std::nullopt;
  }

  /// Process-wide allocator counts, when this engine's executable counts them.
  virtual std::optional<AllocationCounts> allocations() const {
    return std::nullopt;
  }

  /// Proves that the programs write what their plan says (DESIGN section 5, i
  /// and iii). `prepare(p)` restores every state and writes the inputs of
  /// program p, with the same bits every time. Appends one line per check.
  virtual Status checkPlan(const std::function<Status(size_t)> &prepare,
                           std::vector<MemoryCheckLine> &lines);

  /// Runs every program once and writes what each op computed to `path`, for
  /// kiln-run --check-trace. The default says that there is nothing compiled.
  virtual Status traceOps(const std::function<Status(size_t)> &prepare,
                          const std::string &path);

  /// Repeats every op of a file that traceOps() of another executable of the
  /// same plan wrote, and compares. Appends one line per kind of op and one per
  /// op that differs. The default says that ops are repeated elsewhere.
  virtual Status repeatOps(const std::string &path,
                           std::vector<MemoryCheckLine> &lines);
};

/// Gives every mirror the values of its parameter, rounded to its type. To be
/// called when parameters were written by anything but the engine's programs.
Status copyMirrors(Engine &engine);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_ENGINE_H
