// RUN: kiln-opt %s --kiln-autodiff=scale-gradients | FileCheck %s
// RUN: kiln-opt %s --kiln-autodiff=scale-gradients --kiln-build-step | FileCheck %s --check-prefixes=STEP,ON
// RUN: kiln-opt %s --kiln-autodiff=scale-gradients --kiln-build-step=clip=false | FileCheck %s --check-prefixes=STEP,OFF
// RUN: kiln-opt %s --kiln-autodiff=scale-gradients --kiln-expand-loss | FileCheck %s --check-prefix=EXPANDED

// The loss op multiplies the gradient of the logits by the scale before it is rounded. The loss is
// not scaled.
// CHECK: kiln.program @train({{.*}}, [[S:%.+]]: tensor<f64> {kiln.name = "gradient_scale"})
// CHECK: %loss, %dhidden, %dweight = kiln.linear_cross_entropy_with_grad %{{.+}}, %{{.+}}, %{{.+}}, [[LS:%.+]], [[S]] :
// CHECK: kiln.return %loss, %{{.+}} : tensor<f64>, tensor<16x4xf32>
// EXPANDED: [[F:%.+]] = kiln.mul %{{.+}}, %{{.+}} : tensor<f64>
// EXPANDED: kiln.softmax_cross_entropy %{{.+}}, %{{.+}}, [[F]]
// EXPANDED: kiln.scaled_total %{{.+}}, %arg2

// The norm is computed with and without clipping, and the update is not applied if it is not finite.
// STEP: kiln.program @train({{.*}}, [[S:%.+]]: tensor<f64> {kiln.name = "gradient_scale"}
// OFF: [[CLIP:%.+]] = kiln.constant dense<0.0{{.*}}> : tensor<f64> -> tensor<f64>
// OFF-NEXT: kiln.clip_factor %{{.+}}, [[CLIP]], [[S]]
// ON: %factor, %norm, %is_finite = kiln.clip_factor %{{.+}}, %{{.+}}, [[S]] : ({{.*}}) -> (tensor<f64>, tensor<f64>, tensor<i64>)
// STEP: kiln.adam %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %factor, %{{.+}}, %{{.+}}, %is_finite decoupled
// STEP: kiln.return %loss, %norm
// RUN: sed 's/return .loss :/return \x25other :/' %s | kiln-opt --kiln-autodiff=scale-gradients | FileCheck %s --check-prefix=TWICE
// A loss that is scaled scales the cotangent before the loss op.
// TWICE: kiln.program @train({{.*}}, [[S:%.+]]: tensor<f64> {kiln.name = "gradient_scale"})
// TWICE: [[C:%.+]] = kiln.scale [[S]] by 2.0
// TWICE: kiln.linear_cross_entropy_with_grad %{{.+}}, [[C]] :
kiln.state @w : tensor<16x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x4xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %loss = kiln.linear_cross_entropy %h, %w, %targets, %scale : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  %other = kiln.scale %loss by 2.0 : tensor<f64>
  kiln.return %loss : tensor<f64>
}
