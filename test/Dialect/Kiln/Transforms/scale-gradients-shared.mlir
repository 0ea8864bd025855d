// RUN: kiln-opt %s --kiln-autodiff=scale-gradients | FileCheck %s

// The cotangent of the loss reads a scalar that an op before the loss reads, too. The scalar stays
// where it is; only the op that multiplies it by the scale of the gradients moves before the loss.
// CHECK: kiln.program @train({{.*}}, [[S:%.+]]: tensor<f64> {kiln.name = "gradient_scale"})
// CHECK: [[TWO:%.+]] = kiln.constant dense<2.0{{.*}}> : tensor<f64> -> tensor<f64>
// CHECK-NEXT: [[DOUBLE:%.+]] = kiln.mul %{{.+}}, [[TWO]] : tensor<f64>
// CHECK: [[C:%.+]] = kiln.mul [[S]], [[TWO]] : tensor<f64>
// CHECK: kiln.linear_cross_entropy_with_grad %{{.+}}, %{{.+}}, %{{.+}}, [[DOUBLE]], [[C]] :
kiln.state @w : tensor<16x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %two = kiln.constant dense<2.0> : tensor<f64> -> tensor<f64>
  %double = kiln.mul %scale, %two : tensor<f64>
  %w = kiln.read @w : tensor<16x4xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %loss = kiln.linear_cross_entropy %h, %w, %targets, %double : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  %total = kiln.mul %loss, %two : tensor<f64>
  kiln.return %total : tensor<f64>
}
