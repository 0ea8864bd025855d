// Diagnostics of the verifiers of ops that passes create.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kiln.program @f(%x: tensor<4x8xf32>, %c: tensor<8xf32>, %r: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'mean' is [8], expected [4]}}
  %0 = kiln.layer_norm_grad %x, %c, %c, %r, %x : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %c: tensor<8xf32>, %r: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'gamma' is [4], expected [8]}}
  %0 = kiln.rms_norm_grad %x, %r, %r, %x : (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' is [8, 4], expected [4, 8]}}
  %0 = kiln.softmax %x : (tensor<4x8xf32>) -> tensor<8x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'dx' has element type 'f64', expected 'f32'}}
  %0 = kiln.softmax_grad %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf64>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'dlogits' is [4], expected [4, 8]}}
  %0:2 = kiln.softmax_cross_entropy %x, %t, %s : (tensor<4x8xf32>, tensor<4xi32>, tensor<f64>) -> (tensor<4xf32>, tensor<4xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'row_loss' is [8], expected [4]}}
  %0 = kiln.softmax_cross_entropy %x, %t, %s : (tensor<4x8xf32>, tensor<4xi32>, tensor<f64>) -> tensor<8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'dlogits' is [4], expected [4, 8]}}
  %0:2 = kiln.cross_entropy_with_grad %x, %t, %s : (tensor<4x8xf32>, tensor<4xi32>, tensor<f64>) -> (tensor<f64>, tensor<4xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'dweight' is [3, 8], expected [4, 8]}}
  %0:3 = kiln.linear_cross_entropy_with_grad %x, %x, %t, %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xi32>, tensor<f64>) -> (tensor<f64>, tensor<4x8xf32>, tensor<3x8xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %s: tensor<f64>, %w: tensor<5x7xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'weight' is [5, 7], expected [5, 8]}}
  %0:3 = kiln.linear_cross_entropy_with_grad %x, %w, %t, %s : (tensor<4x8xf32>, tensor<5x7xf32>, tensor<4xi32>, tensor<f64>) -> (tensor<f64>, tensor<4x8xf32>, tensor<5x7xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<3xi32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'dy' is [4, 8], expected [3, 8]}}
  %0 = kiln.embedding_grad %t, %x : (tensor<3xi32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xbf16>, %t: tensor<4xi32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'dtable' has element type 'bf16', expected 'f32'}}
  %0 = kiln.embedding_grad %t, %x : (tensor<4xi32>, tensor<4x8xbf16>) -> tensor<16x8xbf16>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'accumulate' is [4, 8], expected [16, 8]}}
  %0 = kiln.embedding_grad %t, %x, %x : (tensor<4xi32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{padding_index is 16, expected a row index of the table, below 16}}
  %0 = kiln.embedding_grad %t, %x {padding_index = 16} : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' has 8 elements, expected one for each of the 4 rows}}
  %0 = kiln.sum_squares %x : (tensor<4x8xf32>) -> tensor<8xf64>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' has element type 'f32', expected 'f64'}}
  %0 = kiln.sum_squares %x : (tensor<4x8xf32>) -> tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'squares' has element type 'f32', expected 'f64'}}
  %0:2 = kiln.clip_factor %x, %s : (tensor<4xf32>, tensor<f64>) -> (tensor<f64>, tensor<f64>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %n: tensor<i64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' is [8], expected [1, 8]}}
  %0 = kiln.select_row %x, %n : (tensor<4x8xf32>, tensor<i64>) -> tensor<8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %l: tensor<4x2xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 8 columns, 3 heads and 1 kv_heads, expected kv_heads to divide heads and heads to divide the columns}}
  %0:3 = kiln.attention_grad %x, %x, %x, %x, %l, %x {sequences = 2, heads = 3, kv_heads = 1, scale = 1.0} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %l: tensor<4x2xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'k' is [4, 8], expected [4, 4]}}
  %0:3 = kiln.attention_grad %x, %x, %x, %x, %l, %x {sequences = 2, heads = 2, kv_heads = 1, scale = 1.0} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %l: tensor<4x2xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'dv' is [4, 4], expected [4, 8]}}
  %0:3 = kiln.attention_grad %x, %x, %x, %x, %l, %x {sequences = 2, heads = 2, kv_heads = 2, scale = 1.0} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %l: tensor<2x4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'lse' is [2, 4], expected [4, 2]}}
  %0:3 = kiln.attention_grad %x, %x, %x, %x, %l, %x {sequences = 2, heads = 2, kv_heads = 2, scale = 1.0} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<2x4xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %l: tensor<4x2xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has p = 5.000000e-01, but no operand 'rng', from which dropout computes random bits}}
  %0:3 = kiln.attention_grad %x, %x, %x, %x, %l, %x {sequences = 2, heads = 2, kv_heads = 2, scale = 1.0, p = 0.5} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' has 9 elements, expected as many as in each of the 4 slices x[i]; 'x' has shape [4, 8]}}
  %0 = kiln.reduce_combine %x : (tensor<4x8xf32>) -> tensor<9xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'x' has element type 'f32', expected 'f64'}}
  %0 = kiln.reduce_combine %x : (tensor<4x8xf32>) -> tensor<8xf64>
  kiln.return
}

// -----

kiln.program @f(%p: tensor<4xf32>, %q: tensor<5xf32>, %s: tensor<f64>, %n: tensor<i64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{operand 2 has type 'tensor<5xf32>', but the parameter has type 'tensor<4xf32>': expected equal shapes}}
  %0:3 = kiln.adam %p, %p, %q, %p, %s, %s, %n {beta1 = 0.9, beta2 = 0.9, eps = 0.0, weight_decay = 0.0} : (tensor<4xf32>, tensor<4xf32>, tensor<5xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  kiln.return
}

// -----

kiln.program @f(%p: tensor<4xf32>, %q: tensor<5xf32>, %s: tensor<f64>, %n: tensor<i64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{operand 1 has type 'tensor<5xf32>', but the parameter has type 'tensor<4xf32>': expected equal shapes}}
  %0 = kiln.sgd %p, %q, %s, %s {weight_decay = 0.0} : (tensor<4xf32>, tensor<5xf32>, tensor<f64>, tensor<f64>) -> tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%p: tensor<4xf32>, %q: tensor<5xf32>, %s: tensor<f64>, %n: tensor<i64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{result 1 has type 'tensor<5xf32>', but the parameter has type 'tensor<4xf32>': expected equal shapes}}
  %0:2 = kiln.momentum %p, %p, %p, %s, %s {mu = 0.9, weight_decay = 0.0} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4xf32>, tensor<5xf32>)
  kiln.return
}

// -----

kiln.program @f(%s: tensor<4xf64>, %c: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{has the result 'is_finite' without the operand 'gradient_scale', expected both or neither}}
  %0, %1, %2 = kiln.clip_factor %s, %c : (tensor<4xf64>, tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<i64>)
  kiln.return
}

// -----

kiln.program @f(%p: tensor<4xf32>, %g: tensor<4xf32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{result 1 is 'tensor<4xf32>', expected elements that are narrower than those of the parameter, 'tensor<4xf32>'}}
  %0, %1 = kiln.sgd %p, %g, %s, %s {weight_decay = 0.0} : (tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4xf32>, tensor<4xf32>)
  kiln.return
}

// -----

kiln.program @f(%p: tensor<4xf32>, %g: tensor<4xf32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{result 1 has type 'tensor<3xbf16>', but the parameter has type 'tensor<4xf32>': expected equal shapes}}
  %0, %1 = kiln.sgd %p, %g, %s, %s {weight_decay = 0.0} : (tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4xf32>, tensor<3xbf16>)
  kiln.return
}
