// Copies that cannot be scheduled.

// RUN: kiln-opt %s --kiln-schedule -split-input-file -verify-diagnostics

// An operand of a concat is placed inside its result.
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = kiln.matmul %a, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-error @below {{copies a tensor with padded rows, expected contiguous rows}}
  %f = kiln.copy_out %a : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %f, %a : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %c = kiln.concat %a, %b dim 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  kiln.return %c : tensor<4x8xf32>
}

// -----

kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @evaluate(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{reads a state on the host, but the result of the read is on the device}}
  // expected-note @below {{'kiln-place-copies' should have run before}}
  %w = kiln.read @w : tensor<4x4xf32>
  %y = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}
