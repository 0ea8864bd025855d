// Epilogues of a kind that the target does not support are rejected.

// RUN: kiln-opt %s --kiln-schedule -split-input-file -verify-diagnostics

module attributes {kiln.target = "cuda"} {
kiln.program @f(%x: tensor<8x2xf32> {kiln.name = "x"}, %y: tensor<2x4xf32> {kiln.name = "y"}) -> tensor<8x4xf32> attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{has an epilogue that runs on tiles, which the module's target, cuda, does not support}}
  %h = kiln.dispatch gemm(%x, %y) space [8, 4] : (tensor<8x2xf32>, tensor<2x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%a: tensor<8x2xf32>, %b: tensor<2x4xf32>):
    %p = kiln.matmul %a, %b {grid = array<i64: 1, 1>} : (tensor<8x2xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
    %r = kiln.relu %p : tensor<8x4xf32>
    kiln.yield %r : tensor<8x4xf32>
  }
  kiln.return %h : tensor<8x4xf32>
}
}

// -----

kiln.program @f(%x: tensor<8x2xf32> {kiln.name = "x"}, %y: tensor<2x4xf32> {kiln.name = "y"}, %b: tensor<4xf32> {kiln.name = "b"}) -> tensor<8x4xf32> attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{has an epilogue of the vendor library, which the module's target, cpu, does not support}}
  %h = kiln.linear %x, %y, %b {grid = array<i64: 1, 1>} : (tensor<8x2xf32>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  kiln.return %h : tensor<8x4xf32>
}
