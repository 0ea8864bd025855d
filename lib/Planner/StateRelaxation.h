//===- StateRelaxation.h - Lower bound by Lagrangian relaxation -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes a lower bound on the duration of a program whose states may be on
// the host. The bound holds for all choices that StatePlanner.h describes.
//
// The program is divided into windows, which are ranges of commands. A window
// takes at least as long as each of its resources is busy: the device, the
// host, and each direction of the link. It therefore takes at least the
// weighted mean of these four times, for any weights whose sum is 1. The sum of
// the means of all windows is a constant, the time of the commands, plus a cost
// for each group of states (a parameter with its moments and its gradient),
// because every copy and every update adds to the time of one resource.
//
// A copy may run in an earlier or later window than the command that needs or
// computes its bytes. Its bytes are then on the device between the two windows,
// where all bytes together must not exceed the capacity. Lagrangian relaxation
// replaces this constraint by prices: a cost for every byte that is on the
// device at the end of a window, minus the cost of the whole capacity. For any
// weights and for any prices that are not negative, the result is a lower bound
// if each group makes its cheapest choice, which does not depend on the others.
//
// The weights and prices with the largest bound are approximated by the volume
// algorithm (Barahona and Anbil, "The volume algorithm: producing primal
// solutions with a subgradient method", 2000): resources that are busier than
// the others of their window gain weight, and the ends of windows at which too
// many bytes are on the device gain a higher price.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_STATERELAXATION_H
#define KILN_LIB_PLANNER_STATERELAXATION_H

#include "kiln/Planner/StatePlanner.h"

#include <array>
#include <initializer_list>

namespace kiln {

class StateRelaxation {
public:
  /// `problem` must outlive this object.
  explicit StateRelaxation(const StateProblem &problem);
  /// Returns a lower bound on the duration of the program in seconds.
  double bound();

private:
  enum Resource { Device, HostProcessor, Out, In };
  static constexpr size_t kResources = 4;
  using PerResource = std::array<double, kResources>;

  /// The multipliers of the relaxation, for each window.
  struct Multipliers {
    /// Weights of the resources, whose sum is 1.
    std::vector<PerResource> weights;
    /// Price of a byte at the end of the window, divided by the seconds to copy
    /// a byte to the device. The price at the end of the program is 0.
    std::vector<double> prices;
  };

  /// What the choices of all groups use, for each window.
  struct Use {
    std::vector<PerResource> busy; ///< Seconds for which resources are busy.
    std::vector<double> held; ///< Bytes on the device at the end of the window.
  };

  /// Groups of states with the same sizes and durations whose commands are in
  /// the same windows.
  struct Class {
    double count = 0; ///< Number of groups.
    double parameterBytes, momentBytes, gradientBytes;
    double renewedBytes; ///< Bytes that the device gets after a host update.
    double deviceSeconds, hostSeconds; ///< Duration of the update.
    /// The windows of the commands that complete the gradient and that update
    /// the parameter. `update` is -1 if the parameter is frozen.
    int gradient, update;
    int hostUpdate; ///< The first window in which the host can update.
    /// Bit w is set if window w reads the parameter. `readsWithUpdate` includes
    /// an update on the device.
    uint32_t reads = 0, readsWithUpdate = 0;
  };

  /// Copies of `bytes` bytes, and the windows at whose ends the bytes are on
  /// the device. Bit w of a mask stands for window w.
  struct Route {
    double bytes = 0, cost = 0;
    uint32_t in = 0, out = 0, held = 0;
    double latency = 0; ///< Seconds that each copy takes to start.
  };

  /// A choice for a group of states: its routes, and where and in which window
  /// the parameter is updated. The choice for a frozen parameter has no update.
  struct Choice {
    std::vector<Route> routes;
    Resource resource = Device;
    int window = 0;
    double seconds = 0; ///< Duration of the update.
  };

  void divideIntoWindows();
  void addClasses();
  int windowOf(int32_t command) const;
  /// Returns the resource of the copies in a direction, which is the same for
  /// both directions if the link copies in one of them at a time.
  Resource linkOf(Resource direction) const {
    return problem.duplex ? direction : In;
  }
  double heldCost(double bytes, int from, int to) const;
  double copyCost(double bytes, int window, Resource direction,
                  double latency) const;
  Route keep(double bytes) const;
  Route copyIn(double bytes, int earliest, int need) const;
  Route copyOut(double bytes, int made, int latest, double latency) const;
  Route copyForReaders(double bytes, uint32_t reads) const;
  void addCheaper(Choice &choice, std::initializer_list<Route> first,
                  std::initializer_list<Route> second) const;
  void addGradient(Choice &choice, const Class &group) const;
  Choice updateOnDevice(const Class &group) const;
  Choice updateOnHost(const Class &group) const;
  double costOf(const Choice &choice) const;
  void add(const Choice &choice, double count);
  double evaluate();
  Multipliers directionFrom(const Multipliers &from, const Use &mean) const;
  double slopeIn(const Multipliers &direction) const;
  double mostSeconds() const;
  double ascend();

  const StateProblem &problem;
  double capacity;           ///< Bytes on the device for the groups of states.
  std::vector<int32_t> ends; ///< The last command of each window.
  /// The seconds of the commands of each window, without updates.
  std::vector<double> seconds;
  std::vector<Class> classes;
  /// The multipliers, and the use of the choices that are cheapest for them.
  Multipliers multipliers;
  Use use;
};

} // namespace kiln

#endif // KILN_LIB_PLANNER_STATERELAXATION_H
