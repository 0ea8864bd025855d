// Values larger than any memory are reported in one line before allocation.

// RUN: split-file %s %t
// RUN: not kiln-run %t/argument.mlir 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not kiln-run %t/argument.mlir --data=%t/argument.mlir --steps=1 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not kiln-run %t/value.mlir 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not kiln-run %t/residuals.mlir 2>&1 | FileCheck %s --check-prefix=RESIDUALS
// RUN: not kiln-run %t/state.mlir 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: not kiln-run %t/arena.mlir 2>&1 | FileCheck %s --check-prefix=ARENA
// RUN: not kiln-run %t/kernel.mlir 2>&1 | FileCheck %s --check-prefix=KERNEL
// RUN: not kiln-run %t/extent.mlir 2>&1 | FileCheck %s --check-prefix=EXTENT
// RUN: kiln-run %t/small.mlir --entry=f | FileCheck %s --check-prefix=SMALL

// ARGUMENT: {{^}}error: the module needs {{[0-9]+}} bytes to be interpreted, but this machine has {{[0-9]+}}; interpret a smaller model, or compile the model{{$}}
// VALUE: {{^}}error: @train needs 70368744177{{[0-9]+}} bytes to be interpreted, but this machine has {{[0-9]+}}
// Four micro-batches are in flight, each with residuals of 2^43 bytes.
// RESIDUALS: {{^}}error: @train needs 35184372{{[0-9]+}} bytes to be interpreted
// STATE: {{^}}error: the module needs 140737488355{{[0-9]+}} bytes to be interpreted
// ARENA: {{^}}error: the module needs 1407374883553280 bytes to be interpreted
// KERNEL: {{^}}error: @k needs {{[0-9]+}} bytes to be interpreted
// EXTENT: argument 0 has type 'tensor<2147483647x2147483647xi64>', expected a device tensor with static positive extents, at most 2^48 elements
// SMALL: y [2] = 2, 2

//--- argument.mlir
module attributes {kiln.model = {vocab_size = 256 : i64}} {
  kiln.program @train(%rng: tensor<2147483647x3000xi64> {kiln.name = "rng"}) -> (tensor<f64> {kiln.name = "loss"})
      attributes {kind = #kiln.program_kind<train>} {
    %0 = kiln.constant dense<0.0> : tensor<f64> -> tensor<f64>
    kiln.return %0 : tensor<f64>
  }
}

//--- value.mlir
kiln.program @train() -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<train>} {
  %0 = kiln.constant dense<0.0> : tensor<4398046511104xf64> -> tensor<4398046511104xf64>
  %1 = kiln.neg %0 : tensor<4398046511104xf64>
  %2 = kiln.neg %1 : tensor<4398046511104xf64>
  %3 = kiln.reduce sum %2 dims [0] : tensor<4398046511104xf64> to tensor<f64>
  kiln.return %3 : tensor<f64>
}

//--- residuals.mlir
module attributes {kiln.model = {vocab_size = 256 : i64}} {
  kiln.program @train(%rng: tensor<4x3xi64> {kiln.name = "rng"}) -> (tensor<f64> {kiln.name = "loss"})
      attributes {kind = #kiln.program_kind<train>} {
    %s = kiln.microbatches sliced(%rng) count 4 order <"all-forward-first"> : (tensor<4x3xi64>) -> tensor<f64>
    forward {
    ^bb0(%r: tensor<1x3xi64>):
      %h = kiln.constant dense<0.0> : tensor<1099511627776xf64> -> tensor<1099511627776xf64>
      kiln.yield %h : tensor<1099511627776xf64>
    } backward {
    ^bb0(%r: tensor<1x3xi64>, %h: tensor<1099511627776xf64>, %sum: tensor<f64>):
      %p = kiln.reduce sum %h dims [0] : tensor<1099511627776xf64> to tensor<f64>
      %n = kiln.add %sum, %p : tensor<f64>
      kiln.yield %n : tensor<f64>
    }
    kiln.return %s : tensor<f64>
  }
}

//--- state.mlir
kiln.state @w : tensor<8796093022208xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train() -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<train>} {
  %0 = kiln.constant dense<0.0> : tensor<f64> -> tensor<f64>
  kiln.return %0 : tensor<f64>
}

//--- arena.mlir
kilnrt.arena states 0 height 281474976710656
kilnrt.program @train kind<train> {
}

//--- kernel.mlir
kilnrt.arena states 0 height 64
kilnrt.kernel @k family<row> row_strides [4398046511104, 4398046511104] {
^bb0(%x: tensor<4398046511104xf32>):
  %y = kiln.neg %x : tensor<4398046511104xf32>
  kiln.yield %y : tensor<4398046511104xf32>
}
kilnrt.program @train kind<train> {
}

//--- extent.mlir
kiln.program @train(%rng: tensor<2147483647x2147483647xi64> {kiln.name = "rng"}) attributes {kind = #kiln.program_kind<train>} {
  kiln.return
}

//--- small.mlir
kiln.program @f() -> (tensor<2xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %0 = kiln.constant dense<1.0> : tensor<2xf32> -> tensor<2xf32>
  %1 = kiln.add %0, %0 : tensor<2xf32>
  kiln.return %1 : tensor<2xf32>
}
