// RUN: kiln-opt %s --kiln-print-row-programs -split-input-file -verify-diagnostics -o /dev/null | count 0

kiln.program @f(%x: tensor<8x4xf32> {kiln.name = "x"}) -> tensor<8xf32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.dispatch' op cannot be expressed as a row program}}
  %0 = kiln.dispatch row(%x) space [4, 8] : (tensor<8x4xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8x4xf32>):
    %s = kiln.reduce sum %a dims [1] : tensor<8x4xf32> to tensor<8xf32>
    kiln.yield %s : tensor<8xf32>
  }
  kiln.return %0 : tensor<8xf32>
}

// -----

// expected-error @below {{'kilnrt.kernel' op must have a 'space' with two dimensions, rows and columns}}
kilnrt.kernel @k0 family<row> row_strides [4, 4] {
^bb0(%a: tensor<8x4xf32>):
  %s = kiln.relu %a : tensor<8x4xf32>
  kiln.yield %s : tensor<8x4xf32>
}

// -----

// 2^64 + 4 elements, which overflow to 4 in 64 bits.
kiln.program @g(%x: tensor<4xf32> {kiln.name = "x"}) -> tensor<4xf32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.dispatch' op cannot be expressed as a row program}}
  %0 = kiln.dispatch row(%x) space [4611686018427387905, 4] : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %y = kiln.relu %a : tensor<4xf32>
    kiln.yield %y : tensor<4xf32>
  }
  kiln.return %0 : tensor<4xf32>
}
