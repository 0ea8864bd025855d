// Diagnostics of bucket codes and sketches.

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

// expected-error @+1 {{has 'kiln.encoded' = [{value = "x"}], but the value must be an array of #kiln.encoded, and only a module may have this attribute}}
module attributes {kiln.encoded = [{value = "x"}]} {
}
