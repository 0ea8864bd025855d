// What cannot be copied, or is read on the wrong side.

// RUN: kiln-opt %s --kiln-schedule -split-input-file -verify-diagnostics

kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
kiln.program @evaluate(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  %w = kiln.read @w : tensor<4x4xf32>
  // expected-error @below {{runs on the device and reads a tensor on the host}}
  %y = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
kiln.program @train(%g: tensor<4x4xf32> {kiln.name = "g", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  // expected-error @below {{runs on the host and reads a tensor on the device}}
  %p = kiln.dispatch row(%w, %g, %one, %lr) space [4, 4] {host} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %c: tensor<f64>, %d: tensor<f64>):
    %e = kiln.sgd %a, %b, %c, %d {weight_decay = 0.0, host} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
    kiln.yield %e : tensor<4x4xf32>
  }
  kiln.write @w, %p : tensor<4x4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{needs a copy: value and state lie on two sides}}
  kiln.write @w, %x : tensor<4x4xf32>
  kiln.return
}

// -----

kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
kiln.program @evaluate() attributes {kind = #kiln.program_kind<evaluate>} {
  %w = kiln.read @w : tensor<4x4xf32>
  // expected-error @below {{copies from the side that it copies to}}
  %f = kiln.copy_out %w : tensor<4x4xf32>
  %h = kiln.copy_wait %f, %w : tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{copies from the side that it copies to}}
  %f = kiln.copy_in %x : tensor<4x4xf32>
  %h = kiln.copy_wait %f, %x : tensor<4x4xf32>
  kiln.return
}

// -----

// An operand of a concatenation lies inside of its result.
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = kiln.matmul %a, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-error @below {{copies rows with gaps between them}}
  %f = kiln.copy_out %a : tensor<4x4xf32>
  %h = kiln.copy_wait %f, %a : tensor<4x4xf32>
  %c = kiln.concat %a, %b dim 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  kiln.return %c : tensor<4x8xf32>
}
