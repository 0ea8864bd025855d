//===- Machine.h - Performance figures of a machine -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A machine file describes the speed of a machine's GEMMs, memory and
// host-device link, so that plans can be made for a machine that is not
// present. The figures in a file are either measured (`kilnc
// --measure-machine`) or taken from data sheets, as in the files that ship with
// kiln. The figures affect only choices that do not change results.
//
// Every query returns seconds and is monotone: more work never takes less time.
// A query at a point of a table returns the time at this point. Between points,
// the logarithm of the time is interpolated linearly in the logarithms of the
// sizes. Beyond the last point, the rate is constant. A GEMM that is smaller
// than the first point takes as long as the first point.
//
// Example: with m = {64, 256}, n = k = {256} and rates of 20 and 80 GFLOP/s,
// GEMMs of 64 x 256 x 256 and of 256 x 256 x 256 both take 2*64*256*256 / 20e9
// = 419 us, and so do all sizes between them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_PLANNER_MACHINE_H
#define KILN_PLANNER_MACHINE_H

#include "kiln/Support/Status.h"

#include "kiln/Support/ElementType.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

enum class MachineKind { Cpu, Gpu };
enum class LinkDirection { ToHost, ToDevice };

/// Source of the figures.
struct MachineOrigin {
  bool measured = false;
  /// Data sheet and assumptions; empty if the figures were measured.
  std::string source;
  // The following fields are set only if the figures were measured.
  std::string date; ///< YYYY-MM-DD.
  std::string cpu;  ///< Name of the CPU of the measured machine.
  std::string blas;
  int64_t threads = 0;
};

/// Rates of whole GEMMs, including their launch, over a grid of sizes.
struct GemmCurve {
  /// Sizes of the grid points in each dimension, ascending, at least one.
  std::vector<int64_t> m, n, k;
  std::vector<double> flops; ///< FLOP/s, [m][n][k] in row-major order.

  /// Returns the rate of the fastest point.
  double peak() const;
};

/// Rate at which kernels read and write memory, as a function of the bytes they
/// access. A byte that is read and written counts twice.
struct BandwidthCurve {
  std::vector<int64_t> bytes; ///< Sizes in ascending order.
  std::vector<double> bytesPerSecond;
};

/// Rate of attention kernels relative to the peak rate of GEMMs with the same
/// element type, as a function of the sequence length. Pairs of a query and a
/// key that are masked do not count as work.
struct AttentionCurve {
  std::vector<int64_t> sequence; ///< Lengths in ascending order.
  std::vector<double> forward, backward;
};

/// Link between device memory and host memory. On a CPU, device and host share
/// one memory, and the rates are those of a copy by one thread.
struct MachineLink {
  double toHost = 0, toDevice = 0; ///< bytes/s.
  double latency = 0;              ///< Fixed cost of a copy, in seconds.
  /// True if copies in both directions can overlap at full rate.
  bool duplex = false;
};

/// Network between the ranks of a job.
struct MachineNetwork {
  /// Rate at which a rank sends to another rank while it receives at the same
  /// rate.
  double bytesPerSecond = 0;
  double latency = 0; ///< Fixed cost of a message, in seconds.
};

/// The processor cores and the memory of the host, as far as one device may use
/// them. Kernels on the host are limited by one of the two rates.
struct MachineHost {
  double bytesPerSecond = 0; ///< Rate of reading and writing host memory.
  double vectorFlops = 0;    ///< As Machine::vectorFlops, for the host.
};

/// Properties of the machine on which the program runs. They are compared with
/// the properties in a measured machine file.
struct ThisMachine {
  std::string cpu;
  std::string blas;
  int64_t threads = 0;
};

struct Machine {
  std::string name;
  MachineKind kind = MachineKind::Cpu;
  MachineOrigin origin;
  int64_t deviceBytes = 0, hostBytes = 0;
  double launchSeconds = 0; ///< Launch time of an empty kernel.
  /// Simple fp32 operations per second of a generated kernel whose operands are
  /// in registers. A fused multiply-add counts as two.
  double vectorFlops = 0;
  /// Rates of GEMMs by element type. Curves for f64 and f32 always exist.
  std::map<ElementType, GemmCurve> gemm;
  BandwidthCurve bandwidth;
  AttentionCurve attention;
  MachineLink link;
  /// If not set, messages between ranks have the cost of copies over the link.
  std::optional<MachineNetwork> network;
  /// Set only if the device is a GPU. A device that is a CPU is its own host.
  std::optional<MachineHost> host;

  /// Returns the curve of a type, or the fp32 curve if the type has none.
  const GemmCurve &gemmOf(ElementType type) const;

  /// Returns the seconds of `batch` GEMMs, including launches. Each GEMM
  /// multiplies an [m, k] by a [k, n] matrix. A CPU runs the GEMMs one after
  /// another; a GPU runs one GEMM with batch * m rows.
  double gemmSeconds(ElementType type, int64_t batch, int64_t m, int64_t n,
                     int64_t k) const;
  /// Returns the seconds in which a kernel reads and writes `bytes` bytes of
  /// memory. The rate is that of `bandwidth` for a working set of `workingSet`
  /// bytes or, if `workingSet` is 0, of `bytes` bytes.
  double memorySeconds(double bytes, double workingSet = 0) const;
  /// Returns the seconds of a generated kernel: its launch plus the maximum of
  /// its memory time and its compute time.
  double kernelSeconds(double bytes, double operations = 0) const;
  /// Returns the seconds of a generated kernel that runs on the host.
  double hostKernelSeconds(double bytes, double operations = 0) const;
  /// Returns the seconds of one attention with heads of `width` elements each.
  /// `heads` is the number of heads of all sequences of the batch together.
  double attentionSeconds(ElementType type, int64_t heads, int64_t sequence,
                          int64_t width, bool causal, bool backward) const;
  /// Returns the seconds of one copy. The estimate assumes that no copy runs in
  /// the other direction at the same time, or that the link is duplex.
  double linkSeconds(double bytes, LinkDirection direction) const;
  /// Returns the seconds of a ring reduce-scatter or ring all-gather of `bytes`
  /// bytes over `ranks` ranks. Each rank sends ranks - 1 messages of bytes /
  /// ranks bytes. An all-reduce takes twice as long.
  double ringSeconds(double bytes, int64_t ranks) const;
  /// Returns the seconds per byte of large copies, whose latency is negligible.
  double linkSecondsPerByte(LinkDirection direction) const {
    return 1 /
           (direction == LinkDirection::ToHost ? link.toHost : link.toDevice);
  }
  /// Replaces the link with one of `rate` bytes per second in both directions.
  void simulateLink(double rate) {
    link = {rate, rate, /*latency=*/0, /*duplex=*/true};
  }
  /// Replaces the network with one of `rate` bytes per second.
  void simulateNetwork(double rate) { network = {rate, /*latency=*/0}; }

  /// Returns why the measured figures of a CPU do not apply to `here`, or
  /// std::nullopt if they apply. The text is a fragment such as "was measured
  /// on CPU 'A', here it is 'B'".
  std::optional<std::string> mismatch(const ThisMachine &here) const;

  /// Returns a hash of all figures, as 16 hexadecimal digits.
  std::string hash() const;
};

/// Loads a machine file. `name` is a path if it contains a slash or ends in
/// ".json"; otherwise it is the name of a machine that ships with kiln. Error
/// messages have one line. The exit code is Usage for an unknown name and
/// BadInput for an invalid file.
Result<Machine> loadMachine(const std::string &name);

/// Parses the text of a machine file. `source` names the text in messages.
Result<Machine> parseMachine(const std::string &text,
                             const std::string &source);

/// Returns the formatted text of a machine file.
std::string printMachine(const Machine &machine);

/// Writes a machine file atomically: the path never contains an incomplete
/// file.
Status writeMachine(const Machine &machine, const std::string &path);

/// Returns the names of the machines that ship with kiln, in alphabetical
/// order.
std::vector<std::string> shippedMachines();

/// Name of the machine that is used by default.
inline constexpr const char *defaultMachine = "default-cpu";

/// Parses a rate such as "120MB/s" or "1.5GiB/s" and returns bytes per second.
/// `flag` is the name of the flag in error messages. Errors have the exit code
/// Usage.
Result<double> parseLinkSpeed(const std::string &text, const std::string &flag);

} // namespace kiln

#endif // KILN_PLANNER_MACHINE_H
