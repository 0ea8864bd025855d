//===- Passes.td - Scheduling passes -----------------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_CONVERSION_KILNTOKILNRT_PASSES_TD
#define KILN_CONVERSION_KILNTOKILNRT_PASSES_TD

include "mlir/Pass/PassBase.td"

def Schedule : Pass<"kiln-schedule", "::mlir::ModuleOp"> {
  let summary = "Assign values to slots and convert programs to commands";
  let description = [{
    Converts the dispatched level to the scheduled level. Commands are in program
    order, except that the update of a state moves after all other readers of the
    state. Each value gets a slot with a lifetime, and the arena planner assigns the
    offsets. The states are at the start of the arena, at the same offsets in every
    program. Equal dispatches share a kernel.

    Each command is put on a queue of the device, the host or a link. A transfer
    starts when all earlier commands are complete, and commands after its wait start
    when the transfer is complete. A command on the host that reads a scalar which
    the device computes waits for the device, and a command on the device that
    overwrites such a scalar waits for the host.

    All-gathers of states start earlier than in the program where this does not make
    the arena higher, or than the attribute `kiln.gather_height` of the program permits.

    The search for offsets minimizes the height of the arena. With the attribute
    `kiln.arena_search` of a program, [capacity, effort], the search on the device ends
    once the arena has at most `capacity` bytes, and each search, on the device and on
    the host, has at most `effort` steps, of about a nanosecond each.
  }];
  let options = [
    Option<"maxThreads", "max-threads", "int64_t", "2", "number of threads that scratch memory is allocated for">,
  ];
  let dependentDialects = ["::kiln::rt::KilnRTDialect"];
}

def VerifySchedule : Pass<"kiln-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "Verify that commands access only live slots and do not race";
  let description = [{
    Verifies the following properties of every program at the scheduled level.
    Slots that share bytes have disjoint lifetimes, and commands access only live
    slots. If commands of different queues access the same bytes and one of them
    writes, their order is fixed in every execution of a segment. Every wait follows
    the signal of its token. Every transfer has a wait, and its slots are live until
    then. `kiln-schedule` runs this check on its result.
  }];
}

#endif // KILN_CONVERSION_KILNTOKILNRT_PASSES_TD
