// RUN: kiln-opt %s --kiln-to-dispatched-pipeline --kiln-to-scheduled-pipeline | FileCheck %s

// Embedding gradients that differ only in the padding index have separate
// kernels; equal ones share one kernel.
// CHECK: kilnrt.kernel @[[FIRST:k[0-9]+_scatter]]
// CHECK: kiln.embedding_grad {{.*}} {padding_index = 1 : i64}
// CHECK: kilnrt.kernel @[[SECOND:k[0-9]+_scatter]]
// CHECK: kiln.embedding_grad {{.*}} {padding_index = 2 : i64}
// CHECK: kilnrt.kernel @[[NONE:k[0-9]+_scatter]]
// CHECK: kiln.embedding_grad %{{[^{]*}} :
// CHECK-NOT: _scatter
// CHECK: kilnrt.launch @[[FIRST]]
// CHECK: kilnrt.launch @[[SECOND]]
// CHECK: kilnrt.launch @[[NONE]]
// CHECK: kilnrt.launch @[[FIRST]]
kiln.program @train(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %a: tensor<8x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}, %b: tensor<8x4xf32> {kiln.name = "b", kiln.input = #kiln.input<data>})
    -> (tensor<5x4xf32> {kiln.name = "w"}, tensor<5x4xf32> {kiln.name = "x"}, tensor<5x4xf32> {kiln.name = "y"}, tensor<5x4xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<train>} {
  %0 = kiln.embedding_grad %tokens, %a {padding_index = 1} : (tensor<2x4xi32>, tensor<8x4xf32>) -> tensor<5x4xf32>
  %1 = kiln.embedding_grad %tokens, %a {padding_index = 2} : (tensor<2x4xi32>, tensor<8x4xf32>) -> tensor<5x4xf32>
  %2 = kiln.embedding_grad %tokens, %a : (tensor<2x4xi32>, tensor<8x4xf32>) -> tensor<5x4xf32>
  %3 = kiln.embedding_grad %tokens, %b {padding_index = 1} : (tensor<2x4xi32>, tensor<8x4xf32>) -> tensor<5x4xf32>
  kiln.return %0, %1, %2, %3 : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>
}
