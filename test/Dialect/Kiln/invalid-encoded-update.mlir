// Diagnostics of updates of 8-bit optimizer states.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kiln.program @f(%p: tensor<2x128xf32>, %c: tensor<2x128xi8>, %s: tensor<1xf32>, %g: tensor<2x128xf32>, %r: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{stores no state as codes, expected at least one entry 'signed' or 'unsigned' in 'storage'}}
  %u:2 = kiln.encoded_update(%p, %p, %g, %r, %r) stores [#kiln.moment_storage<plain>] : (tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xf32>) {
  ^bb0(%p0: tensor<2x128xf32>, %b0: tensor<2x128xf32>, %g0: tensor<2x128xf32>, %f0: tensor<f64>, %r0: tensor<f64>):
    %q:2 = kiln.momentum %p0, %b0, %g0, %f0, %r0 {mu = 9.0e-01, weight_decay = 0.0} : (tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xf32>)
    kiln.yield %q#0, %q#1 : tensor<2x128xf32>, tensor<2x128xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%p: tensor<2x128xf32>, %c: tensor<2x128xi8>, %s: tensor<1xf32>, %g: tensor<2x128xf32>, %r: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{has 2 operands, expected a parameter, 2 tensors of optimizer states, and a gradient}}
  %u:2 = kiln.encoded_update(%p, %c) stores [#kiln.moment_storage<signed>] : (tensor<2x128xf32>, tensor<2x128xi8>) -> (tensor<2x128xf32>, tensor<2x128xi8>) {
  ^bb0(%p0: tensor<2x128xf32>, %b0: tensor<2x128xf32>, %g0: tensor<2x128xf32>, %f0: tensor<f64>, %r0: tensor<f64>):
    %q:2 = kiln.momentum %p0, %b0, %g0, %f0, %r0 {mu = 9.0e-01, weight_decay = 0.0} : (tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xf32>)
    kiln.yield %q#0, %q#1 : tensor<2x128xf32>, tensor<2x128xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%p: tensor<2x128xf32>, %c: tensor<2x128xi8>, %s: tensor<1xf32>, %g: tensor<2x128xf32>, %r: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{has result types that differ from those of its first 3 operands, the parameter and the optimizer states}}
  %u:2 = kiln.encoded_update(%p, %c, %s, %g, %r, %r) stores [#kiln.moment_storage<signed>] : (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xi8>) {
  ^bb0(%p0: tensor<2x128xf32>, %b0: tensor<2x128xf32>, %g0: tensor<2x128xf32>, %f0: tensor<f64>, %r0: tensor<f64>):
    %q:2 = kiln.momentum %p0, %b0, %g0, %f0, %r0 {mu = 9.0e-01, weight_decay = 0.0} : (tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xf32>)
    kiln.yield %q#0, %q#1 : tensor<2x128xf32>, tensor<2x128xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%p: tensor<3x100xf32>, %c: tensor<3x100xi8>, %s: tensor<1xf32>, %r: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{updates a parameter of type 'tensor<3x100xf32>', expected a number of elements that is a multiple of 256, and an element type whose arithmetic is computed in f32}}
  %u:3 = kiln.encoded_update(%p, %c, %s, %p, %r, %r) stores [#kiln.moment_storage<signed>] : (tensor<3x100xf32>, tensor<3x100xi8>, tensor<1xf32>, tensor<3x100xf32>, tensor<f64>, tensor<f64>) -> (tensor<3x100xf32>, tensor<3x100xi8>, tensor<1xf32>) {
  ^bb0(%p0: tensor<3x100xf32>, %b0: tensor<3x100xf32>, %g0: tensor<3x100xf32>, %f0: tensor<f64>, %r0: tensor<f64>):
    %q:2 = kiln.momentum %p0, %b0, %g0, %f0, %r0 {mu = 9.0e-01, weight_decay = 0.0} : (tensor<3x100xf32>, tensor<3x100xf32>, tensor<3x100xf32>, tensor<f64>, tensor<f64>) -> (tensor<3x100xf32>, tensor<3x100xf32>)
    kiln.yield %q#0, %q#1 : tensor<3x100xf32>, tensor<3x100xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%p: tensor<2x128xf32>, %c: tensor<2x128xi8>, %s: tensor<2xf32>, %g: tensor<2x128xf32>, %r: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{has codes of type 'tensor<2x128xi8>' and scales of type 'tensor<2xf32>', expected i8 codes of shape [2, 128] and 1 f32 scales}}
  %u:3 = kiln.encoded_update(%p, %c, %s, %g, %r, %r) stores [#kiln.moment_storage<signed>] : (tensor<2x128xf32>, tensor<2x128xi8>, tensor<2xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xi8>, tensor<2xf32>) {
  ^bb0(%p0: tensor<2x128xf32>, %b0: tensor<2x128xf32>, %g0: tensor<2x128xf32>, %f0: tensor<f64>, %r0: tensor<f64>):
    %q:2 = kiln.momentum %p0, %b0, %g0, %f0, %r0 {mu = 9.0e-01, weight_decay = 0.0} : (tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xf32>)
    kiln.yield %q#0, %q#1 : tensor<2x128xf32>, tensor<2x128xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%p: tensor<2x128xf32>, %c: tensor<2x128xi8>, %s: tensor<1xf32>, %g: tensor<2x128xf32>, %r: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{must have a body of two ops: an update op that takes the arguments of the body, and a kiln.yield of its results}}
  %u:3 = kiln.encoded_update(%p, %c, %s, %g, %r, %r) stores [#kiln.moment_storage<signed>] : (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>) {
  ^bb0(%p0: tensor<2x128xf32>, %b0: tensor<2x128xf32>, %g0: tensor<2x128xf32>, %f0: tensor<f64>, %r0: tensor<f64>):
    kiln.yield %p0, %b0 : tensor<2x128xf32>, tensor<2x128xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%p: tensor<2x128xf32>, %c: tensor<2x128xi8>, %s: tensor<1xf32>, %g: tensor<2x128xf32>, %r: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{must have a body with these arguments: the parameter, one tensor for each entry of 'storage', the gradient and the scalars}}
  %u:3 = kiln.encoded_update(%p, %c, %s, %g, %r, %r) stores [#kiln.moment_storage<signed>] : (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>) {
  ^bb0(%p0: tensor<2x128xf32>, %b0: tensor<2x128xbf16>, %g0: tensor<2x128xf32>, %f0: tensor<f64>, %r0: tensor<f64>):
    %q:2 = kiln.momentum %p0, %b0, %g0, %f0, %r0 {mu = 9.0e-01, weight_decay = 0.0} : (tensor<2x128xf32>, tensor<2x128xbf16>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xbf16>)
    kiln.yield %q#0, %q#1 : tensor<2x128xf32>, tensor<2x128xbf16>
  }
  kiln.return
}
