// RUN: kiln-opt %s --kiln-expand-loss | FileCheck %s
// RUN: sed 's/{rows = 4} //; s/tensor<8x/tensor<256x/g; s/tensor<2x4x/tensor<64x4x/' %s | kiln-opt --kiln-expand-loss=logits=2048 | FileCheck %s --check-prefix=CHOSEN

// A limit of 2048 logits gives two chunks of 128 rows.
// CHOSEN-COUNT-2: kiln.softmax_cross_entropy {{.*}} : (tensor<128x16xf32>
// CHOSEN-NOT: kiln.softmax_cross_entropy

// Two chunks of rows: no value has as many elements as all logits, and the
// weight gradient of the second chunk accumulates onto that of the first.
// CHECK-LABEL: kiln.program @f
// CHECK-NOT: tensor<8x16xf32>
// CHECK: kiln.softmax_cross_entropy
// CHECK: kiln.matmul {{%.+}}, {{%.+}} : (tensor<4x16xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
// CHECK: [[DW:%.+]] = kiln.matmul {{%.+}}, {{%.+}} trans_a
// CHECK: kiln.softmax_cross_entropy
// CHECK: kiln.matmul {{%.+}}, {{%.+}} accumulate [[DW]] trans_a
// CHECK: kiln.concat {{%.+}}, {{%.+}} dim 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
// CHECK: kiln.scaled_total
// CHECK: kiln.concat {{%.+}}, {{%.+}} dim 0 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
// CHECK-NOT: linear_cross_entropy
kiln.program @f(%h: tensor<8x2xf32> {kiln.name = "h"}, %w: tensor<16x2xf32> {kiln.name = "w"}, %t: tensor<2x4xi32> {kiln.name = "targets"}, %s: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<8x2xf32> {kiln.name = "dh"}, tensor<16x2xf32> {kiln.name = "dw"}) attributes {kind = #kiln.program_kind<train>} {
  %loss, %dh, %dw = kiln.linear_cross_entropy_with_grad %h, %w, %t, %s {rows = 4} : (tensor<8x2xf32>, tensor<16x2xf32>, tensor<2x4xi32>, tensor<f64>) -> (tensor<f64>, tensor<8x2xf32>, tensor<16x2xf32>)
  kiln.return %loss, %dh, %dw : tensor<f64>, tensor<8x2xf32>, tensor<16x2xf32>
}
