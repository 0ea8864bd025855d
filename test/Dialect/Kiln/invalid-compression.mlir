// Diagnostics of bucket codes, sketches and codes of blocks.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 2 borders, expected 1, 3, 7, ... or 255}}
  %0 = kiln.bucket_encode %x {borders = array<f64: 0.0, 1.0>} : (tensor<4x8xf32>) -> tensor<8xi8>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has the border 0.000000e+00 after 1.000000e+00, expected increasing borders}}
  %0 = kiln.bucket_encode %x {borders = array<f64: 1.0, 0.0, 2.0>} : (tensor<4x8xf32>) -> tensor<8xi8>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{expected a finite number with an exact representation in 'f32'}}
  %0 = kiln.bucket_encode %x {borders = array<f64: 0.1>} : (tensor<4x8xf32>) -> tensor<4xi8>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<3x3xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'codes' is [3], expected [2]}}
  %0 = kiln.bucket_encode %x {borders = array<f64: 0.0>} : (tensor<3x3xf32>) -> tensor<3xi8>
  kiln.return
}

// -----

kiln.program @f(%c: tensor<4xi8>, %dy: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 3 levels, expected 2, 4, 8, ... or 256}}
  %0 = kiln.bucket_decode %c, %dy {levels = array<f64: 0.0, 1.0, 2.0>} : (tensor<4xi8>, tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%c: tensor<4xi8>, %dy: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has the level INF, expected a finite number}}
  %0 = kiln.bucket_decode %c, %dy {levels = array<f64: 0.0, 0x7FF0000000000000>} : (tensor<4xi8>, tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%c: tensor<5xi8>, %dy: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'codes' is [5], expected [4]}}
  %0 = kiln.bucket_decode %c, %dy {levels = array<f64: 0.0, 1.0>} : (tensor<5xi8>, tensor<4x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<9x4xf32>, %rng: tensor<1x3xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{9}}
  %0 = kiln.sketch_rows %x, %rng {key = 0, sequences = 2} : (tensor<9x4xf32>, tensor<1x3xi64>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<8x4xf32>, %rng: tensor<1x3xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{5}}
  %0 = kiln.sketch_rows %x, %rng {key = 0, sequences = 2} : (tensor<8x4xf32>, tensor<1x3xi64>) -> tensor<5x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<8x4xf32>, %rng: tensor<1x3xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' has 10 rows, expected at most the number of rows of 'x', 8}}
  %0 = kiln.sketch_rows %x, %rng {key = 0, sequences = 2} : (tensor<8x4xf32>, tensor<1x3xi64>) -> tensor<10x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<8x4xf32>, %rng: tensor<1x3xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' is [4, 3], expected [4, 4]}}
  %0 = kiln.sketch_rows %x, %rng {key = 0, sequences = 2} : (tensor<8x4xf32>, tensor<1x3xi64>) -> tensor<4x3xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<8x4xf32>, %rng: tensor<1x2xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'rng'}}
  %0 = kiln.sketch_rows %x, %rng {key = 0, sequences = 2} : (tensor<8x4xf32>, tensor<1x2xi64>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has codes of 3 bits, expected 8 or 4}}
  %0 = kiln.block_scales %x {bits = 3} : (tensor<4x8xf32>) -> tensor<4xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has scales of type 'tensor<5xf32>', expected one dimension whose size divides 32, the number of elements}}
  %0 = kiln.block_scales %x {bits = 8} : (tensor<4x8xf32>) -> tensor<5xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'scales' has element type 'f64', expected 'f32'}}
  %0 = kiln.block_scales %x {bits = 8} : (tensor<4x8xf32>) -> tensor<4xf64>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %s: tensor<5xf32>, %rng: tensor<1x3xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has scales of type 'tensor<5xf32>', expected one dimension whose size divides 32, the number of elements}}
  %0 = kiln.dither %x, %s, %rng {key = 3} : (tensor<4x8xf32>, tensor<5xf32>, tensor<1x3xi64>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>, %rng: tensor<2x3xi64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'rng'}}
  %0 = kiln.dither %x, %s, %rng {key = 3} : (tensor<4x8xf32>, tensor<4xf32>, tensor<2x3xi64>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 3 operands, expected one or two tensors and their scales}}
  %0 = kiln.block_encode %x, %s, %s : (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<32xi8>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %z: tensor<8x4xf32>, %s: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{encodes two tensors that differ in type or in the type of their scales, expected equal types}}
  %0 = kiln.block_encode %x, %z, %s, %s : (tensor<4x8xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<32xi8>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 16 bytes of codes, expected 32, one for each element of the first operand}}
  %0 = kiln.block_encode %x, %s : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<16xi8>
  kiln.return
}

// -----

kiln.program @f(%c: tensor<8xi8>, %s: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{decodes 8 bytes to 32 elements, expected one or two elements per byte}}
  %0 = kiln.block_decode %c, %s : (tensor<8xi8>, tensor<4xf32>) -> tensor<32xf32>
  kiln.return
}

// -----

kiln.program @f(%c: tensor<45xi8>, %s: tensor<5xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has 5 scales for two tensors, expected an even number, half of them for each tensor}}
  %0 = kiln.block_decode %c, %s : (tensor<45xi8>, tensor<5xf32>) -> tensor<90xf32>
  kiln.return
}

// -----

// expected-error @+1 {{has 'kiln.encoded' = [{value = "x"}], but the value must be an array of #kiln.encoded, and only a module may have this attribute}}
module attributes {kiln.encoded = [{value = "x"}]} {
}
