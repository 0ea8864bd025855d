//===- Machine.h - What a machine can do, in figures ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A machine file says how fast a machine multiplies matrices, moves memory and
// talks over its link, so that plans can be made for it, whether it is at hand
// or not. It is measured (`kilnc --measure-machine`) or written down from data
// sheets (those that ship with kiln). Its figures steer choices that leave the
// bits alone; nothing is timed when a program runs.
//
// Every query returns seconds, and is monotone: more work never takes less
// time. Between the points of a table, the logarithm of time is linear in the
// logarithms of the sizes; a table is exact at its points. Beyond the last
// point the rate stays what it is there; a product narrower than the first
// point takes as long as the first point.
//
// Example: with m = {64, 256}, n = k = {256} and rates of 20 and 80 GFLOP/s, a
// product of 64 x 256 x 256 takes 2*64*256*256 / 20e9 = 419 us, one of 256 x
// 256 x 256 as long; so does any in between.
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

/// Where the figures come from.
struct MachineOrigin {
  bool measured = false;
  std::string source; ///< of written figures: data sheet, assumptions
  // Of measured figures.
  std::string date; ///< YYYY-MM-DD
  std::string cpu;  ///< as in ThisMachine
  std::string blas;
  int64_t threads = 0;
};

/// Rates of whole matrix products, launch included, over a grid of sizes.
struct GemmCurve {
  std::vector<int64_t> m, n, k; ///< rising; one or more points each
  std::vector<double> flops;    ///< FLOP/s, [m][n][k] in row-major order

  /// Of the fastest point.
  double peak() const;
};

/// Rate at which kernels read and write memory, over the bytes they touch.
/// Bytes count once if read and once if written.
struct BandwidthCurve {
  std::vector<int64_t> bytes; ///< rising
  std::vector<double> bytesPerSecond;
};

/// Attention kernels: their rate relative to the peak of the matrix products of
/// their type, over the length of the sequence. Masked pairs do not count.
struct AttentionCurve {
  std::vector<int64_t> sequence; ///< rising
  std::vector<double> forward, backward;
};

/// Between device memory and host memory. On a CPU, where both are the same
/// memory, a copy by one thread.
struct MachineLink {
  double toHost = 0, toDevice = 0; ///< bytes/s
  double latency = 0;              ///< seconds per copy
  bool duplex = false; ///< both directions at once, each at its full rate
};

/// What a measured file is compared with.
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
  double launchSeconds = 0; ///< of a kernel that does nothing
  /// Simple operations (additions, products, fused ones count two) of generated
  /// kernels on data in registers, per second, in fp32.
  double vectorFlops = 0;
  /// fp64 and fp32 are always there.
  std::map<ElementType, GemmCurve> gemm;
  BandwidthCurve bandwidth;
  AttentionCurve attention;
  MachineLink link;

  /// The curve of a type, or of fp32 where the type has none.
  const GemmCurve &gemmOf(ElementType type) const;

  /// `batch` products of [m, k] with [k, n], launch included. A CPU takes them
  /// one after the other; a GPU as one of batch * m rows.
  double gemmSeconds(ElementType type, int64_t batch, int64_t m, int64_t n,
                     int64_t k) const;
  /// Moves `bytes` through memory, by a kernel that touches `workingSet` bytes
  /// (0: just these).
  double memorySeconds(double bytes, double workingSet = 0) const;
  /// A generated kernel: its launch, and the longer of its traffic and its
  /// operations.
  double kernelSeconds(double bytes, double operations = 0) const;
  /// One attention over `heads` heads (batch * heads) of `width` elements.
  double attentionSeconds(ElementType type, int64_t heads, int64_t sequence,
                          int64_t width, bool causal, bool backward) const;
  /// One copy. Copies in the other direction share the rate unless the link is
  /// duplex.
  double linkSeconds(double bytes, LinkDirection direction) const;
  /// Replaces the link by one of `rate` bytes per second in both directions.
  void simulateLink(double rate) {
    link = {rate, rate, /*latency=*/0, /*duplex=*/true};
  }

  /// Why measured figures of a CPU do not hold on `here`, if so: a fragment
  /// such as "was measured on CPU 'A' and this is 'B'".
  std::optional<std::string> mismatch(const ThisMachine &here) const;

  /// 16 hexadecimal digits that change with any figure.
  std::string hash() const;
};

/// Reads a machine file: `name` is a path, or, without a slash and ".json", one
/// of the machines that ship with kiln. Failures are one line; the exit code is
/// Usage for an unknown name and BadInput for a bad file.
Result<Machine> loadMachine(const std::string &name);

/// Parses the text of a machine file; `source` names it in messages.
Result<Machine> parseMachine(const std::string &text,
                             const std::string &source);

/// The text of a machine file, line by line readable.
std::string printMachine(const Machine &machine);

/// Writes a machine file; it appears when it is complete.
Status writeMachine(const Machine &machine, const std::string &path);

/// The machines that ship with kiln, in order of name.
std::vector<std::string> shippedMachines();

/// The one that is used when none is named.
inline constexpr const char *defaultMachine = "default-cpu";

/// A rate such as "120MB/s" or "1.5GiB/s", in bytes per second. `flag` names
/// where it was given; a failure has exit code Usage.
Result<double> parseLinkSpeed(const std::string &text, const std::string &flag);

} // namespace kiln

#endif // KILN_PLANNER_MACHINE_H
