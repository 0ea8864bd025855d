// RUN: kiln-opt %s --kiln-autodiff -split-input-file -verify-diagnostics

// expected-error @below {{'kiln.state' op is trainable, but has no gradient}}
kiln.state @unused : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<f32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward() -> (tensor<f32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} { // expected-note {{the loss of this program does not depend on the state; use the state, or declare it frozen}}
  %w = kiln.read @w : tensor<f32>
  kiln.return %w : tensor<f32>
}

// -----

kiln.state @w : tensor<8x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%p: tensor<i64> {kiln.name = "position"}) -> (tensor<f32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<8x4xf32>
  // expected-error @below {{does not implement DifferentiableOpInterface, so it has no derivative}}
  %r = kiln.select_row %w, %p : (tensor<8x4xf32>, tensor<i64>) -> tensor<1x4xf32>
  %loss = kiln.reduce sum %r dims [0, 1] : tensor<1x4xf32> to tensor<f32>
  kiln.return %loss : tensor<f32>
}

// -----

// expected-error @below {{the module has no kiln.program of kind forward}}
module {
}

// -----

kiln.state @w : tensor<f64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}
// expected-error @below {{cannot be differentiated, because the module has no trainable state}}
kiln.program @forward() -> tensor<f64> attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<f64>
  kiln.return %w : tensor<f64>
}
