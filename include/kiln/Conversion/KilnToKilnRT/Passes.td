//===- Passes.td - The pass that schedules -----------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_CONVERSION_KILNTOKILNRT_PASSES_TD
#define KILN_CONVERSION_KILNTOKILNRT_PASSES_TD

include "mlir/Pass/PassBase.td"

def Schedule : Pass<"kiln-schedule", "::mlir::ModuleOp"> {
  let summary = "Give every value a slot and every program its commands";
  let description = [{
    From dispatched to scheduled: program order becomes the order of commands,
    updates of a state move behind its other readers, every value gets a slot
    with a lifetime, and the arena planner assigns offsets. States come first,
    at the same offsets in every program. Equal dispatches share a kernel.
    Every command is put on a queue: of the device, of the host, or of a link.
    A transfer begins after all commands before it, and commands after its wait
    begin when it is over; a command of the host that reads a scalar which the
    device computes waits for the device, and the reverse.
  }];
  let options = [
    Option<"maxThreads", "max-threads", "int64_t", "2", "threads that get scratch memory">,
  ];
  let dependentDialects = ["::kiln::rt::KilnRTDialect"];
}

def VerifySchedule : Pass<"kiln-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "Prove that no memory is reused too early";
  let description = [{
    For every scheduled program: slots that share bytes live one after the other,
    commands touch slots that live, and commands of different queues that touch
    the same bytes, one of which writes them, have a fixed order in every
    iteration of a loop. Every wait has a signal before it; something waits for
    every transfer, and its slots live until then. kiln-schedule ends with this
    check.
  }];
}

#endif // KILN_CONVERSION_KILNTOKILNRT_PASSES_TD
