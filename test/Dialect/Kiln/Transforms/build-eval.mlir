// RUN: kiln-opt %s --kiln-build-eval | FileCheck %s

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

kiln.state @last : tensor<8x8xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}

// Outside training, dropout is the identity, so
// nothing reads rng, and states are not written.
// CHECK-NOT: @forward
// CHECK-LABEL: kiln.program @evaluate
// CHECK-NOT: kiln.name = "rng"
// CHECK-NOT: kiln.dropout
// CHECK-NOT: kiln.write
// CHECK: kiln.linear_cross_entropy
// CHECK-LABEL: kiln.program @generate
// CHECK-SAME: {kiln.name = "position"}
// CHECK-SAME: tensor<16xf32> {kiln.name = "logits"}
// CHECK: [[ROW:%.+]] = kiln.select_row
// CHECK: kiln.matmul [[ROW]], {{%.+}} trans_b
// CHECK-NOT: cross_entropy
// CHECK-NOT: kiln.write
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %d = kiln.dropout %h, %rng {p = 1.0e-01, key = 0, sequences = 2} : (tensor<8x8xf32>, tensor<1x3xi64>) -> tensor<8x8xf32>
  kiln.write @last, %d : tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %d, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
