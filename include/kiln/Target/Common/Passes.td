//===- Passes.td - Passes on schedules for a target --------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_PASSES_TD
#define KILN_TARGET_COMMON_PASSES_TD

include "mlir/Pass/PassBase.td"

def GroupLaunches : Pass<"kiln-group-launches", "::mlir::ModuleOp"> {
  let summary = "Group independent launches of one GPU kernel";
  let description = [{
    A step ends with an update of every parameter, and many of the parameters are
    small. A GPU starts a launch in some microseconds, in which it could have
    updated a hundred small tensors. The pass makes independent launches of the
    same kernel neighbours and sets `group` of the first of them to their
    number; the runtime starts a group as one launch. Each launch stays a command
    of its own.

    The pass runs after kiln-schedule. No buffer moves; the lifetimes of slots
    follow the new order, which the pass verifies as kiln-verify-schedule does. A
    module for a CPU stays as it is.
  }];
}

def PrintRowPrograms : Pass<"kiln-print-row-programs", "::mlir::ModuleOp"> {
  let summary = "Print the row programs of dispatches and kernels";
  let description = [{
    Prints the row program of every row kernel to the standard output, and leaves
    the module as it is: at the dispatched level those of dispatches of family
    `row` and of the epilogues of dispatches of family `gemm`, at the scheduled
    level those of the kernels. docs/reference/row-programs.md defines the text.
    A comment before each program names the dispatch or kernel. A dispatch or
    kernel without a row program is an error.

    ```
    kiln-opt --kiln-form-dispatches --kiln-print-row-programs -o /dev/null model.mlir
    ```
  }];
  let options = [
    Option<"checkText", "check-text", "bool", "false", "also parse each text, and fail if the program differs">,
  ];
}

#endif // KILN_TARGET_COMMON_PASSES_TD
