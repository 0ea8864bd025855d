// Every diagnostic of the verifiers and parsers of ops, states and programs, once.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{value must be a splat}}
  %0 = kiln.constant dense<[1.0, 2.0]> : tensor<2xf32> -> tensor<2xf32>
  kiln.return
}

// -----

kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{value has type 'tensor<2xf32>', expected 'tensor<3xf32>'}}
  %0 = kiln.constant dense<1.0> : tensor<2xf32> -> tensor<3xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<2xf32>, %b: tensor<3xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "kiln.add"(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<2xi32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{must be tensor with static positive extents (at most 2^48 elements) and no encoding but #kiln.memory<host> of 16-bit float or bfloat16 type or 32-bit float or 64-bit float values}}
  %0 = kiln.neg %a : tensor<2xi32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x0xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{must be tensor with static positive extents (at most 2^48 elements) and no encoding but #kiln.memory<host> of 16-bit float or bfloat16 type or 32-bit float or 64-bit float values}}
  %0 = kiln.neg %a : tensor<4x0xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<?xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{must be tensor with static positive extents (at most 2^48 elements) and no encoding but #kiln.memory<host> of 16-bit float or bfloat16 type or 32-bit float or 64-bit float values}}
  %0 = kiln.neg %a : tensor<?xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{requires the same shape for all operands and results}}
  %0 = kiln.cast %x : tensor<4x8xf32> to tensor<8x4xf64>
  kiln.return
}

// -----

//===----------------------------------------------------------------------===//
// Norms, losses, lookups, randomness
//===----------------------------------------------------------------------===//

kiln.program @f(%x: tensor<4x8xf32>, %c: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'mean' is [8], expected [4]}}
  %0:3 = kiln.layer_norm %x, %c, %c {eps = 1.0e-05} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %c: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'gamma' is [4], expected [8]}}
  %0:3 = kiln.layer_norm %x, %c, %c {eps = 1.0e-05} : (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %c: tensor<8xf32>, %d: tensor<8xf64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'beta' has element type 'f64', expected 'f32'}}
  %0:3 = kiln.layer_norm %x, %c, %d {eps = 1.0e-05} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf64>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<f32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'x' has rank 0, expected at least 1}}
  %0:3 = kiln.layer_norm %x, %x, %x {eps = 1.0e-05} : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %c: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'rstd' is [4, 1], expected [4]}}
  %0:2 = kiln.rms_norm %x, %c {eps = 1.0e-06} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 0 statistics, expected two (mean and rstd) or one (rstd)}}
  %0 = kiln.normalize %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %c: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'statistics' is [8], expected [4]}}
  %0 = kiln.normalize %x, %c : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %c: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'beta' is [4, 8], expected [8]}}
  %0 = kiln.affine %x, %c, %x : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<3xi32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 3 targets for 4 rows, expected one target per row}}
  %0 = kiln.cross_entropy %x, %t, %s : (tensor<4x8xf32>, tensor<3xi32>, tensor<f64>) -> tensor<f64>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>, %t: tensor<4xi32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'rows of the loss' has rank 1, expected 2}}
  %0 = kiln.cross_entropy %x, %t, %s : (tensor<4xf32>, tensor<4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %s: tensor<f64>, %w: tensor<16x7xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'weight' has 7 columns, expected 8, the number of columns of 'hidden'}}
  %0 = kiln.linear_cross_entropy %x, %w, %t, %s : (tensor<4x8xf32>, tensor<16x7xf32>, tensor<4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %s: tensor<f64>, %w: tensor<16x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{rows is 0, expected a positive number}}
  %0 = kiln.linear_cross_entropy %x, %w, %t, %s {rows = 0} : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<2x3xi32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' is [2, 3, 8], expected [6, 8]}}
  %0 = kiln.embedding %t, %x : (tensor<2x3xi32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<2x3xi32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{padding_index is 4, expected a row index of the table, below 4}}
  %0 = kiln.embedding %t, %x {padding_index = 4} : (tensor<2x3xi32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<2x3xi32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{padding_index is -1, expected a row index of the table, below 4}}
  %0 = kiln.embedding %t, %x {padding_index = -1} : (tensor<2x3xi32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %r: tensor<1x3xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{p is 1.000000e+00, expected at least 0 and below 1}}
  %0 = kiln.dropout %x, %r {p = 1.0, key = 0, sequences = 2} : (tensor<4x8xf32>, tensor<1x3xi64>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %r: tensor<1x3xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 4 rows, which do not divide into 3 sequences}}
  %0 = kiln.dropout %x, %r {p = 0.5, key = 0, sequences = 3} : (tensor<4x8xf32>, tensor<1x3xi64>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %r: tensor<3xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'rng' has shape [3], expected [1, 3] for seed, step and first sequence}}
  %0 = kiln.dropout %x, %r {p = 0.5, key = 0, sequences = 2} : (tensor<4x8xf32>, tensor<3xi64>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4x2xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 8 columns, which do not divide into 3 heads of even width}}
  %0 = kiln.rope %x, %t, %t {heads = 3, sequences = 2} : (tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<4x2xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 8 columns, which do not divide into -9223372036854775808 heads of even width}}
  %0 = kiln.rope %x, %t, %t {heads = -9223372036854775808, sequences = 2} : (tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %t: tensor<1x2xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'cos' has shape [1, 2], expected at least 2 rows of length 2}}
  %0 = kiln.rope %x, %t, %t {heads = 2, sequences = 2} : (tensor<4x8xf32>, tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

//===----------------------------------------------------------------------===//
// Matrix products and attention
//===----------------------------------------------------------------------===//

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{inner extents differ: 'a' has 8, 'b' has 4}}
  %0 = kiln.matmul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' is [4, 8], expected [4, 4]}}
  %0 = kiln.matmul %x, %x trans_b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'accumulate' is [4, 8], expected [4, 4]}}
  %0 = kiln.matmul %x, %x accumulate %x trans_b : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<2x4x8xf32>, %b: tensor<3x8x4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{batch dimensions [2] of 'a' and [3] of 'b' differ}}
  %0 = kiln.matmul %a, %b : (tensor<2x4x8xf32>, tensor<3x8x4xf32>) -> tensor<2x4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<2x8x4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'b' has rank 3, expected 2}}
  %0 = kiln.matmul %a, %b : (tensor<4x8xf32>, tensor<2x8x4xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<8x4xf64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'b' has element type 'f64', expected 'f32'}}
  %0 = kiln.matmul %a, %b : (tensor<4x8xf32>, tensor<8x4xf64>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{grid is [1, 0], expected two tile counts: from 1 to 4 tiles that split the rows, and from 1 to 4 tiles that split the columns}}
  %0 = kiln.matmul %x, %x trans_b {grid = array<i64: 1, 0>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{grid is [8, 1], expected two tile counts: from 1 to 4 tiles that split the rows, and from 1 to 4 tiles that split the columns}}
  %0 = kiln.matmul %x, %x trans_b {grid = array<i64: 8, 1>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %k: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 3 heads and 2 kv_heads, expected kv_heads to divide heads}}
  %0:2 = kiln.attention %x, %k, %k {sequences = 2, heads = 3, kv_heads = 2, scale = 1.0} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x2xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %k: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'q' has 8 columns, which do not divide into 3 heads}}
  %0:2 = kiln.attention %x, %k, %k {sequences = 2, heads = 3, kv_heads = 3, scale = 1.0} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x2xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %k: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'k' is [4, 8], expected [4, 4]}}
  %0:2 = kiln.attention %x, %k, %k {sequences = 2, heads = 2, kv_heads = 1, scale = 1.0} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x2xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %k: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'lse' is [2, 4], expected [4, 2]}}
  %0:2 = kiln.attention %x, %k, %k {sequences = 2, heads = 2, kv_heads = 2, scale = 1.0} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<2x4xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %k: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has p = 1.000000e-01, but no operand 'rng', from which dropout computes random bits}}
  %0:2 = kiln.attention %x, %k, %k {sequences = 2, heads = 2, kv_heads = 2, scale = 1.0, p = 0.1} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x2xf32>)
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{kv_tile is 32, expected a positive multiple of 64}}
  %0:2 = kiln.attention %x, %x, %x {sequences = 2, heads = 2, kv_heads = 2, scale = 1.0, kv_tile = 32} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x2xf32>)
  kiln.return
}

// -----

//===----------------------------------------------------------------------===//
// Shapes and reductions
//===----------------------------------------------------------------------===//

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{dims has 2 entries, expected the rank of 'x', 1}}
  %0 = kiln.broadcast %x dims [0, 1] : tensor<4xf32> to tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{dims contains 2, expected dimensions of at least 0 and below 2}}
  %0 = kiln.broadcast %x dims [2] : tensor<4xf32> to tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{dims is [1, 0], expected increasing dimensions}}
  %0 = kiln.broadcast %x dims [1, 0] : tensor<4x8xf32> to tensor<8x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{dimension 0 of 'x' has size 4, which cannot be broadcast to dimension 1 of 'y', whose size is 8}}
  %0 = kiln.broadcast %x dims [1] : tensor<4xf32> to tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'x' and 'y' must have equal element types}}
  %0 = kiln.broadcast %x dims [0] : tensor<4xf32> to tensor<4x8xf64>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' is [4], expected [8]}}
  %0 = kiln.reduce sum %x dims [0] : tensor<4x8xf32> to tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{unknown reduction 'product', expected sum, mean or max}}
  %0 = kiln.reduce product %x dims [0] : tensor<4x8xf32> to tensor<8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{chunk is 0, expected a positive number}}
  %0 = kiln.reduce_partial %x chunk 0 : tensor<4x8xf32> to tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' is [2, 8], expected [1, 8]}}
  %0 = kiln.reduce_partial %x chunk 9223372036854775807 : tensor<4x8xf32> to tensor<2x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has an operand of 32 elements and a result of 31, expected equal numbers of elements}}
  %0 = kiln.reshape %x : tensor<4x8xf32> to tensor<31xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{permutation [0, 0] does not name every dimension of 'x' once; 'x' has rank 2}}
  %0 = kiln.transpose %x [0, 0] : tensor<4x8xf32> to tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{permutation [1] does not name every dimension of 'x' once; 'x' has rank 2}}
  %0 = kiln.transpose %x [1] : tensor<4x8xf32> to tensor<8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' is [4, 8], expected [8, 4]}}
  %0 = kiln.transpose %x [1, 0] : tensor<4x8xf32> to tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{the rank of 'x', the rank of 'y' and the number of offsets must be equal}}
  %0 = kiln.slice %x [0] : tensor<4x8xf32> to tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{reads [7, 9) of dimension 1, which has size 8}}
  %0 = kiln.slice %x [0, 7] : tensor<4x8xf32> to tensor<4x2xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{of dimension 0, which has size 4}}
  %0 = kiln.slice %x [9223372036854775807, 0] : tensor<4x8xf32> to tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has no operands, expected at least one}}
  %0 = "kiln.concat"() <{dim = 0 : i64}> : () -> tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{dim is 2, expected a dimension below 2}}
  %0 = kiln.concat %x dim 2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %y: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{operands have different ranks}}
  %0 = kiln.concat %x, %y dim 0 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<5x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %y: tensor<4x7xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{operand of shape [4, 7] cannot be concatenated with operand 0 of shape [4, 8] along dimension 0}}
  %0 = kiln.concat %x, %y dim 0 : (tensor<4x8xf32>, tensor<4x7xf32>) -> tensor<8x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{the rank of 'x', the rank of 'y' and the number of entries of 'low' must be equal}}
  %0 = kiln.pad %x low [0] : tensor<4x8xf32> to tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{writes [1, 5) of dimension 0, which has size 4}}
  %0 = kiln.pad %x low [1, 0] : tensor<4x8xf32> to tensor<4x8xf32>
  kiln.return
}

// -----

//===----------------------------------------------------------------------===//
// States and programs
//===----------------------------------------------------------------------===//

// expected-error @+1 {{init is 1.000000e+00 : f32, expected #kiln.normal, #kiln.uniform, #kiln.splat, #kiln.rope_table or #kiln.nf4_table}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = 1.0 : f32}

// -----

// expected-error @+1 {{has role optimizer without 'slot'; optimizer states must have a 'slot', and states of other roles must not}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>, of = @p}

// -----

// expected-error @+1 {{has role optimizer without 'of'; optimizer states and mirrors must name their parameter with 'of', and states of other roles must not have 'of'}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<optimizer>, init = #kiln.splat<value = 0.0>}

// -----

// expected-error @+1 {{has role buffer and 'of'; optimizer states and mirrors must name their parameter with 'of', and states of other roles must not have 'of'}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>, of = @p, slot = "m"}

// -----

kiln.program @f() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{names @w, which is not a kiln.state}}
  %0 = kiln.read @w : tensor<4xf32>
  kiln.return
}

// -----

// expected-note @+1 {{the state is declared here}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%x: tensor<5xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{has type 'tensor<5xf32>', expected 'tensor<4xf32>'}}
  kiln.write @w, %x : tensor<5xf32>
  kiln.return
}

// -----

// expected-note @+1 {{the program has type '(tensor<4xf32>) -> ()'}}
kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{returns 1 values, but their number or types differ from those of the program's results}}
  kiln.return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 0 has an unknown attribute 'kiln.foo', expected 'kiln.name'}}
kiln.program @f(%x: tensor<4xf32> {kiln.foo = 1}) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

// expected-error @+1 {{argument 0 has 'kiln.name' = 1 : i64, expected a string}}
kiln.program @f(%x: tensor<4xf32> {kiln.name = 1}) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

// expected-error @+1 {{result 0 has attribute 'kiln.gradient' = "w", expected 'kiln.name' (a string), 'kiln.gradient' (a symbol) or 'kiln.partial' (the name of an axis)}}
kiln.program @f(%x: tensor<4xf32>) -> (tensor<4xf32> {kiln.gradient = "w"}) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{attribute 'kiln.model' is 1 : i64, expected a dictionary}}
module attributes {kiln.model = 1} {
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 'kiln.model', but only a module may have this attribute}}
  %0 = kiln.neg %x {kiln.model = {}} : tensor<4xf32>
  kiln.return
}

// -----

// expected-error @+1 {{has an unknown attribute 'kiln.foo'}}
module attributes {kiln.foo} {
}

// -----

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{cannot be executed: the order is for 0 micro-batches, expected a number of micro-batches from 1 to 1048576}}
  %0 = kiln.microbatches sliced(%x) count 0 : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{operand 0 of shape [4, 8] cannot be split along dimension 0 into 3 equal parts}}
  %0 = kiln.microbatches sliced(%x) count 3 : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{body has 1 arguments, expected 2: one per operand and per sum}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield %p : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{body argument 0 has type 'index', expected 'tensor<2x8xf32>'}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: index, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{body argument 1 has type 'tensor<8x2xf32>', expected 'tensor<2x8xf32>'}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<8x2xf32>):
    kiln.yield %p : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{body yields values whose number or types differ from those of the results}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{expects a non-empty block}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{body has arguments whose number or types differ from those of the operands}}
  %0 = kiln.recompute(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: tensor<8x4xf32>):
    %1 = kiln.transpose %p [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
    kiln.yield %1 : tensor<4x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{body yields values whose number or types differ from those of the results}}
  %0 = kiln.recompute(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    kiln.yield %p : tensor<4x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{of the family 'row' must have a 'space' of two positive extents, [rows, columns]}}
  %0 = kiln.dispatch row(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    kiln.yield %p : tensor<4x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{of the family 'permute' must have a body that contains one op of this family and yields exactly the results of that op}}
  %0 = kiln.dispatch permute(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    kiln.yield %p : tensor<4x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{of the family 'column' must have a body that contains one op of this family and yields exactly the results of that op}}
  %0 = kiln.dispatch column(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    kiln.yield %p : tensor<4x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xbf16>, %g: tensor<8xbf16>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'rstd' has element type 'bf16', expected 'f32'}}
  %y, %rstd = kiln.rms_norm %x, %g {eps = 1.0e-06} : (tensor<4x8xbf16>, tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<4xbf16>)
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' has element type 'f64', expected 'bf16'}}
  %y = kiln.matmul %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf64>
  kiln.return
}

// -----

// expected-error @+1 {{type attribute of tensor with static positive extents (at most 2^48 elements) and no encoding but #kiln.memory<host> of floating point type that can be stored or 8-bit signless integer or 32-bit signless integer or 64-bit signless integer values}}
kiln.state @w : tensor<4xi16> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// -----

// expected-error @+1 {{is trainable and has element type 'i8', expected a floating-point type; change the type, or declare the state frozen}}
kiln.state @w : tensor<4xi8> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// -----

// expected-error @+1 {{has element type 'i8' and the initial value #kiln.splat<value = 1.280000e+02 : f64>, expected a #kiln.splat of an integer that the type can represent}}
kiln.state @w : tensor<4xi8> {role = #kiln.role<buffer>, init = #kiln.splat<value = 128.0>}

// -----

// expected-error @+1 {{argument 0 has 'kiln.input' = #kiln.input<tokens>, expected #kiln.input<data> or #kiln.input<data, batch_dim = 0>}}
kiln.program @f(%a: tensor<4xf32> {kiln.input = #kiln.input<tokens>}) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

// expected-error @+1 {{argument 0 has 'kiln.input' = #kiln.input<data, batch_dim = 1>, expected}}
kiln.program @f(%a: tensor<4xf32> {kiln.input = #kiln.input<data, batch_dim = 1>}) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

// expected-error @+1 {{argument 0 is declared with batch_dim = 0, but is a scalar; declare it with #kiln.input<data>}}
kiln.program @f(%a: tensor<f32> {kiln.input = #kiln.input<data, batch_dim = 0>}) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has 'kiln.layer' = "h.1", but the value must be a layer such as #kiln.layer<"h.3", 3>, and only an op in a program may have this attribute}}
  %y = kiln.relu %x {kiln.layer = "h.1"} : tensor<4xf32>
  kiln.return
}

// -----

// expected-error @below {{has 'kiln.layer' = #kiln.layer<"h.1", 1>, but the value must be a layer such as #kiln.layer<"h.3", 3>, and only an op in a program may have this attribute}}
kiln.program @f() attributes {kind = #kiln.program_kind<forward>, kiln.layer = #kiln.layer<"h.1", 1>} {
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{layer has an empty name}}
  %y = kiln.relu %x {kiln.layer = #kiln.layer<"", 1>} : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{layer 'h.1' has number -1, expected a number of at least 0}}
  %y = kiln.relu %x {kiln.layer = #kiln.layer<"h.1", -1>} : tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<2x4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'x' has rank 3, expected 2}}
  %y = kiln.cumsum %x : tensor<2x4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf8E5M2>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{operand #0 must be tensor with static positive extents (at most 2^48 elements) and no encoding but #kiln.memory<host> of 16-bit float or bfloat16 type or 32-bit float or 64-bit float values, but got 'tensor<4x8xf8E5M2>'}}
  %y = kiln.cumsum %x : tensor<4x8xf8E5M2>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{of the family 'permute' must have a body that contains one op of this family and yields exactly the results of that op}}
  %0 = kiln.dispatch permute(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %y = kiln.cumsum %p : tensor<4x8xf32>
    kiln.yield %y : tensor<4x8xf32>
  }
  kiln.return
}

// -----

//===----------------------------------------------------------------------===//
// Orders of segments
//===----------------------------------------------------------------------===//

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{cannot be executed: the order executes B1 before F1; the backward segment of a micro-batch needs the residuals of its forward segment}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F0 B1 F1 B0"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{cannot be executed: the order executes F1 twice}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F0 F1 B0 F1 B1"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{cannot be executed: the order executes B0 twice}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F0 F1 B0 B0 B1"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{cannot be executed: the order lacks F1; every micro-batch needs an F and a B entry, and the step has 2 micro-batches}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F0 B0"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{cannot be executed: the order lacks B0; every micro-batch needs an F and a B entry, and the step has 2 micro-batches}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F0 F1 B1"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{cannot be executed: the order executes F2, but the step has 2 micro-batches, numbered from 0}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F0 F1 F2 B0 B1 B2"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{cannot be executed: the order 'one-forward-one-backward:3' has 3 micro-batches in flight, but the step has only 2 micro-batches}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"one-forward-one-backward:3"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{the order 'one-forward-one-backward:0' has '0' micro-batches in flight, expected a positive number}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"one-forward-one-backward:0"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{the order 'one-forward-one-backward:' has '' micro-batches in flight, expected a positive number}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"one-forward-one-backward:"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{the order has the entry 'G1', expected only entries such as F0 and B0, or the name of an order: alternate, all-forward-first or one-forward-one-backward:K}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F0 G1"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{the order has the entry 'B', expected only entries such as F0 and B0}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F0 B"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{the order has the entry 'F-1', expected only entries such as F0 and B0}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F-1"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{the order has the entry 'F99999999999999999999', expected only entries such as F0 and B0}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"F99999999999999999999"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{the order has the entry 'alternate', expected only entries such as F0 and B0}}
  %0 = kiln.microbatches sliced(%x) count 2 order <"alternate F0"> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{the order is empty, expected a list such as F0 B0, or one of alternate, all-forward-first and one-forward-one-backward:K}}
  %0 = kiln.microbatches sliced(%x) count 2 order <" "> : (tensor<4x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

//===----------------------------------------------------------------------===//
// Segments of micro-batches
//===----------------------------------------------------------------------===//

// Sums are computed in backward segments.
kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{forward segment has 2 arguments, expected 1: one per operand}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield
  } backward {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{forward segment argument 0 has type 'index', expected 'tensor<2x8xf32>'}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  ^bb0(%p: index):
    kiln.yield
  } backward {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

// The residual has no argument.
kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{backward segment has 2 arguments, expected 3: one per operand, per residual and per sum}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  ^bb0(%p: tensor<2x8xf32>):
    %t = kiln.transpose %p [1, 0] : tensor<2x8xf32> to tensor<8x2xf32>
    kiln.yield %t : tensor<8x2xf32>
  } backward {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

// No residual has the second argument.
kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{backward segment has 3 arguments, expected 2: one per operand, per residual and per sum}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  } backward {
  ^bb0(%p: tensor<2x8xf32>, %r: tensor<8x2xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{backward segment argument 1 has type 'tensor<4x4xf32>', expected 'tensor<8x2xf32>'}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  ^bb0(%p: tensor<2x8xf32>):
    %t = kiln.transpose %p [1, 0] : tensor<2x8xf32> to tensor<8x2xf32>
    kiln.yield %t : tensor<8x2xf32>
  } backward {
  ^bb0(%p: tensor<2x8xf32>, %r: tensor<4x4xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{backward segment argument 1 has type 'tensor<8x2xf32>', expected 'tensor<2x8xf32>'}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  } backward {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<8x2xf32>):
    kiln.yield %p : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{backward segment yields values whose number or types differ from those of the results}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  } backward {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{backward segment yields values whose number or types differ from those of the results}}
  %0 = kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  } backward {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    %t = kiln.transpose %p [1, 0] : tensor<2x8xf32> to tensor<8x2xf32>
    kiln.yield %t : tensor<8x2xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{operand 0 of shape [4, 8] cannot be split along dimension 0 into 3 equal parts}}
  %0 = kiln.microbatches sliced(%x) count 3 : (tensor<4x8xf32>) -> tensor<2x8xf32> forward {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  } backward {
  ^bb0(%p: tensor<2x8xf32>, %s: tensor<2x8xf32>):
    kiln.yield %s : tensor<2x8xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{has 3 regions, expected one or two}}
  "kiln.microbatches"(%x) <{count = 2 : i64}> ({
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  }, {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  }, {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  }) : (tensor<4x8xf32>) -> ()
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{contains 'builtin.unrealized_conversion_cast', expected only ops of the kiln dialect}}
  kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> () forward {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  } backward {
  ^bb0(%p: tensor<2x8xf32>):
    // expected-note @+1 {{the op is here}}
    %i = builtin.unrealized_conversion_cast %p : tensor<2x8xf32> to index
    kiln.yield
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  kiln.microbatches sliced(%x) count 2 : (tensor<4x8xf32>) -> () forward {
  ^bb0(%p: tensor<2x8xf32>):
    kiln.yield
  }
  // expected-error @+1 {{expected 'backward'}}
  kiln.return
}
