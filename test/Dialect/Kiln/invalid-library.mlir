// What a product with a bias may be, and what of it may be in a schedule.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kiln.program @f(%a: tensor<2x4x4xf32>, %b: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'a' has rank 3, expected 2}}
  %0 = kiln.linear %a, %a, %b : (tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x4xf64>, %b: tensor<4xf64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'a' has element type f64, expected bf16 or f32}}
  %0 = kiln.linear %a, %a, %b : (tensor<4x4xf64>, tensor<4x4xf64>, tensor<4xf64>) -> tensor<4x4xf64>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x4xf32>, %b: tensor<4x4xbf16>, %c: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'b' has element type 'bf16', expected 'f32'}}
  %0 = kiln.linear %a, %b, %c : (tensor<4x4xf32>, tensor<4x4xbf16>, tensor<4xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{inner extents differ: 'a' has 8, 'b' has 4}}
  %0 = kiln.linear %a, %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'y' is [4, 8], expected [4, 4]}}
  %0 = kiln.linear %a, %a, %b trans_b : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'bias' is [8], expected [4]}}
  %0 = kiln.linear %a, %a, %b trans_b : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xbf16>, %b: tensor<4xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'bias' has element type 'bf16', expected 'f32'}}
  %0 = kiln.linear %a, %a, %b trans_b : (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4xbf16>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{grid is [5, 1], expected tiles over 4 rows and 4 columns}}
  %0 = kiln.linear %a, %a, %b trans_b {grid = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

// expected-error @below {{has a 'kiln.library_epilogues' of true, expected a unit attribute on the module}}
module attributes {kiln.library_epilogues = true} {
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class "activation" offset 0 bytes 16 lifetime [0, 0]
  // expected-error @below {{has 4 slots, 3 offsets and 3 strides}}
  kilnrt.gemm(%a, %a, %a) bias(%a) offsets [0, 0, 0] strides [0, 0, 0] {m = 2, n = 2, k = 2, batch = 1, lead = array<i64: 2, 2, 2>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class "activation" offset 0 bytes 16 lifetime [0, 0]
  // expected-error @below {{has a bias, which needs batch 1, beta 0, no epilogue, and operands of bf16 or f32}}
  kilnrt.gemm(%a, %a, %a) bias(%a) offsets [0, 0, 0, 0] strides [0, 0, 0, 0] {m = 2, n = 2, k = 2, batch = 1, lead = array<i64: 2, 2, 2>, batch_strides = array<i64: 0, 0, 0>, beta = 1, grid = array<i64: 1, 1>, element = f32}
}
