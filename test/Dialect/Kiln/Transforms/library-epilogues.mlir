// Epilogues of the GPU's vendor library, in a module that enables them, for a target that
// supports them.

// RUN: kiln-opt %s --kiln-set-numerics | FileCheck %s
// RUN: sed 's/kiln.library_epilogues, //' %s | kiln-opt --kiln-set-numerics | FileCheck %s --check-prefix=OFF
// RUN: sed 's/, kiln.target = "cuda"//' %s | kiln-opt --kiln-set-numerics | FileCheck %s --check-prefix=OFF
// OFF-NOT: kiln.{{linear|matmul_gelu_grad|matmul_bias_grad}}

module attributes {kiln.library_epilogues, kiln.target = "cuda"} {

// The bias may be either operand of the add. Other uses keep the broadcast.
// CHECK-LABEL: kiln.program @biases
// CHECK: [[ROWS:%.+]] = kiln.broadcast
// CHECK: [[P:%.+]] = kiln.linear %arg0, %arg0, %arg1 {grid = array<i64: 1, 1>}
// CHECK: [[Q:%.+]] = kiln.linear %arg0, %arg0, %arg1 trans_b {grid = array<i64: 1, 1>}
// CHECK: kiln.return [[P]], [[Q]], [[ROWS]]
kiln.program @biases(%a: tensor<8x8xf32> {kiln.name = "a"}, %b: tensor<8xf32> {kiln.name = "b"}) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %rows = kiln.broadcast %b dims [1] : tensor<8xf32> to tensor<8x8xf32>
  %p = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %q = kiln.matmul %a, %a trans_b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = kiln.add %p, %rows : tensor<8x8xf32>
  %t = kiln.add %rows, %q : tensor<8x8xf32>
  kiln.return %s, %t, %rows : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// Not fused: a matmul with another use, with an accumulator, of f64 or of rank
// 3; a bias per row, and a bias of one element.
// CHECK-LABEL: kiln.program @others
// CHECK-NOT: kiln.linear
kiln.program @others(%a: tensor<8x8xf32> {kiln.name = "a"}, %b: tensor<8xf32> {kiln.name = "b"}, %c: tensor<1xf32> {kiln.name = "c"}, %d: tensor<8x8xf64> {kiln.name = "d"}, %e: tensor<8xf64> {kiln.name = "e"}, %f: tensor<2x8x8xf32> {kiln.name = "f"})
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf64>, tensor<2x8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %rows = kiln.broadcast %b dims [1] : tensor<8xf32> to tensor<8x8xf32>
  %read = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = kiln.add %read, %rows : tensor<8x8xf32>
  %adds = kiln.matmul %a, %a accumulate %a : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = kiln.add %adds, %rows : tensor<8x8xf32>
  %columns = kiln.broadcast %b dims [0] : tensor<8xf32> to tensor<8x8xf32>
  %p = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = kiln.add %p, %columns : tensor<8x8xf32>
  %one = kiln.broadcast %c dims [1] : tensor<1xf32> to tensor<8x8xf32>
  %q = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = kiln.add %q, %one : tensor<8x8xf32>
  %doubles = kiln.broadcast %e dims [1] : tensor<8xf64> to tensor<8x8xf64>
  %r = kiln.matmul %d, %d : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %4 = kiln.add %r, %doubles : tensor<8x8xf64>
  %batch = kiln.broadcast %b dims [2] : tensor<8xf32> to tensor<2x8x8xf32>
  %s = kiln.matmul %f, %f : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %5 = kiln.add %s, %batch : tensor<2x8x8xf32>
  kiln.return %read, %0, %1, %2, %3, %4, %5 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf64>, tensor<2x8x8xf32>
}


// Gelu of a linear layer, whose input is kept for the backward pass, and gelu's
// gradient of a matmul result.
// CHECK-LABEL: kiln.program @gelu
// CHECK: [[Y:%.+]], [[U:%.+]] = kiln.linear_gelu %arg0, %arg0, %arg1 {grid = array<i64: 1, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
// CHECK: [[R:%.+]] = kiln.recompute([[U]])
// CHECK: [[D:%.+]] = kiln.matmul_gelu_grad [[Y]], %arg0, [[U]] trans_b {grid
// CHECK: kiln.return [[D]], [[R]]
kiln.program @gelu(%a: tensor<8x8xf32> {kiln.name = "a"}, %b: tensor<8xf32> {kiln.name = "b"}) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %rows = kiln.broadcast %b dims [1] : tensor<8xf32> to tensor<8x8xf32>
  %p = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %u = kiln.add %p, %rows : tensor<8x8xf32>
  %y = kiln.gelu %u tanh : tensor<8x8xf32>
  %r = kiln.recompute(%u) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%x: tensor<8x8xf32>):
    %again = kiln.gelu %x tanh : tensor<8x8xf32>
    kiln.yield %again : tensor<8x8xf32>
  }
  %dy = kiln.matmul %y, %a trans_b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %du = kiln.gelu_grad %u, %dy tanh : tensor<8x8xf32>
  kiln.return %du, %r : tensor<8x8xf32>, tensor<8x8xf32>
}

// Nothing else reads gelu's input: it is not written, and may have any width.
// CHECK-LABEL: kiln.program @forward
// CHECK: [[Y:%.+]] = kiln.linear_gelu %arg0, %arg1, %arg2 {grid = array<i64: 1, 1>} : (tensor<8x8xbf16>, tensor<8x6xbf16>, tensor<6xbf16>) -> tensor<8x6xbf16>
// CHECK-NEXT: kiln.return [[Y]]
kiln.program @forward(%a: tensor<8x8xbf16> {kiln.name = "a"}, %w: tensor<8x6xbf16> {kiln.name = "w"}, %b: tensor<6xbf16> {kiln.name = "b"}) -> tensor<8x6xbf16> attributes {kind = #kiln.program_kind<evaluate>} {
  %rows = kiln.broadcast %b dims [1] : tensor<6xbf16> to tensor<8x6xbf16>
  %p = kiln.matmul %a, %w : (tensor<8x8xbf16>, tensor<8x6xbf16>) -> tensor<8x6xbf16>
  %u = kiln.add %p, %rows : tensor<8x6xbf16>
  %y = kiln.gelu %u tanh : tensor<8x6xbf16>
  kiln.return %y : tensor<8x6xbf16>
}

// Not fused: the exact gelu; a gelu whose input has another reader; a gelu with
// rows of 6 elements and its gradient, which the vendor library does not support;
// a gelu of a matmul result that is wider than the operands.
// CHECK-LABEL: kiln.program @other_gelus
// CHECK-NOT: kiln.{{linear_gelu|matmul_gelu_grad}}
// CHECK: kiln.return
kiln.program @other_gelus(%a: tensor<8x8xf32> {kiln.name = "a"}, %b: tensor<8xf32> {kiln.name = "b"}, %w: tensor<8x6xf32> {kiln.name = "w"}, %c: tensor<6xf32> {kiln.name = "c"}, %l: tensor<8x8xbf16> {kiln.name = "l"})
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %rows = kiln.broadcast %b dims [1] : tensor<8xf32> to tensor<8x8xf32>
  %p = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %u = kiln.add %p, %rows : tensor<8x8xf32>
  %0 = kiln.gelu %u : tensor<8x8xf32>
  %q = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v = kiln.add %q, %rows : tensor<8x8xf32>
  %1 = kiln.gelu %v tanh : tensor<8x8xf32>
  %2 = kiln.relu %v : tensor<8x8xf32>
  %short = kiln.broadcast %c dims [1] : tensor<6xf32> to tensor<8x6xf32>
  %r = kiln.matmul %a, %w : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %x = kiln.add %r, %short : tensor<8x6xf32>
  %3 = kiln.gelu %x tanh : tensor<8x6xf32>
  %dy = kiln.matmul %a, %w : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %4 = kiln.gelu_grad %x, %dy tanh : tensor<8x6xf32>
  %s = kiln.matmul %l, %l : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xf32>
  %z = kiln.add %s, %rows : tensor<8x8xf32>
  %5 = kiln.gelu %z tanh : tensor<8x8xf32>
  kiln.return %0, %1, %2, %3, %4, %5 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x8xf32>
}

// A bias gradient is fused with a matmul that reads the same gradient as its
// left or right operand. Readers of the bias gradient move after that matmul.
// CHECK-LABEL: kiln.program @bias_gradients
// CHECK: [[DY:%.+]] = kiln.matmul
// CHECK-NEXT: [[DW:%.+]], [[DB:%.+]] = kiln.matmul_bias_grad %arg0, [[DY]] trans_a {grid
// CHECK-NEXT: [[S:%.+]] = kiln.scale [[DB]]
// CHECK: [[DV:%.+]] = kiln.matmul
// CHECK-NEXT: [[DX:%.+]], [[DC:%.+]] = kiln.matmul_bias_grad [[DV]], %arg0 trans_a of_a {grid
// CHECK-NEXT: kiln.return [[DW]], [[S]], [[DX]], [[DC]]
kiln.program @bias_gradients(%a: tensor<8x8xf32> {kiln.name = "a"}) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %dy = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %db = kiln.reduce sum %dy dims [0] : tensor<8x8xf32> to tensor<8xf32>
  %scaled = kiln.scale %db by 2.000000e+00 : tensor<8xf32>
  %dw = kiln.matmul %a, %dy trans_a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %dv = kiln.matmul %dw, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %dx = kiln.matmul %dv, %a trans_a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %dc = kiln.reduce sum %dv dims [0] : tensor<8x8xf32> to tensor<8xf32>
  kiln.return %dw, %scaled, %dx, %dc : tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>
}

// Not fused: a gradient from a row kernel, which also sums it; a matmul that
// contracts columns; one with an accumulator; one that needs the sum.
// CHECK-LABEL: kiln.program @other_sums
// CHECK-NOT: kiln.matmul_bias_grad
// CHECK: kiln.return
kiln.program @other_sums(%a: tensor<8x8xf32> {kiln.name = "a"}, %b: tensor<8x8xf32> {kiln.name = "b"}) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %row = kiln.relu %a : tensor<8x8xf32>
  %0 = kiln.matmul %a, %row trans_a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = kiln.reduce sum %row dims [0] : tensor<8x8xf32> to tensor<8xf32>
  %dy = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = kiln.matmul %a, %dy trans_b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = kiln.reduce sum %dy dims [0] : tensor<8x8xf32> to tensor<8xf32>
  %4 = kiln.matmul %a, %dy accumulate %b trans_a : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %dz = kiln.matmul %0, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = kiln.reduce sum %dz dims [0] : tensor<8x8xf32> to tensor<8xf32>
  %rows = kiln.broadcast %5 dims [1] : tensor<8xf32> to tensor<8x8xf32>
  %less = kiln.sub %a, %rows : tensor<8x8xf32>
  %6 = kiln.matmul %less, %dz trans_a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  kiln.return %0, %1, %2, %3, %4, %5, %6 : tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>
}

}
