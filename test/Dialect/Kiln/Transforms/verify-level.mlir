// RUN: kiln-opt %s --kiln-verify-level=level=forward -split-input-file -verify-diagnostics

kiln.program @forward(%x: tensor<4x4xf32> {kiln.name = "x"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}) -> (tensor<f32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %a = kiln.dropout %x, %rng {p = 1.0e-01, key = 3, sequences = 2} : (tensor<4x4xf32>, tensor<1x3xi64>) -> tensor<4x4xf32> // expected-note {{the other op is here; keys must differ}}
  // expected-error @below {{has the random key 3 of another op}}
  %b = kiln.dropout %a, %rng {p = 1.0e-01, key = 3, sequences = 2} : (tensor<4x4xf32>, tensor<1x3xi64>) -> tensor<4x4xf32>
  %l = kiln.reduce sum %b dims [0, 1] : tensor<4x4xf32> to tensor<f32>
  kiln.return %l : tensor<f32>
}

// -----

// expected-error @below {{must return one rank-0 loss}}
kiln.program @forward(%x: tensor<4x4xf32> {kiln.name = "x"}) -> (tensor<4x4xf32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return %x : tensor<4x4xf32>
}
