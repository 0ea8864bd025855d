// RUN: kiln-opt %s --kiln-autodiff | FileCheck %s

// The gradient decodes a quantized weight again, so that nothing decoded is kept.
// CHECK-LABEL: kiln.program @train
// CHECK: [[C:%.+]] = kiln.read @w : tensor<44xi8>
// CHECK: [[W:%.+]] = kiln.dequantize [[C]]
// CHECK: kiln.matmul %{{.+}}, [[W]] :
// CHECK: kiln.phase
// CHECK: [[AGAIN:%.+]] = kiln.dequantize [[C]]
// CHECK: kiln.matmul %{{.+}}, [[AGAIN]] trans_b
// CHECK-NOT: [[W]]
kiln.state @table : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<44xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<nf4, tensor<8x8xf32>>}
kiln.state @values : tensor<272xf32> {role = #kiln.role<constant>, init = #kiln.nf4_table}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = kiln.read @w : tensor<44xi8>
  %t = kiln.read @values : tensor<272xf32>
  %w = kiln.dequantize %c, %t {encoding = #kiln.quantized<nf4, tensor<8x8xf32>>} : (tensor<44xi8>, tensor<272xf32>) -> tensor<8x8xf32>
  %y = kiln.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %y, %table, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
