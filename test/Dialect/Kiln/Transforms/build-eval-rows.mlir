// RUN: kiln-opt %s --kiln-build-eval -split-input-file | FileCheck %s

// The program that generates reads the logits of the last token of the prompt by the index of the
// token. It is not built if there is no row of logits for each token,
// CHECK-LABEL: kiln.program @evaluate
// CHECK-NOT: @generate
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %s = kiln.reshape %x : tensor<8x8xf32> to tensor<2x4x8xf32>
  %c = kiln.slice %s [0, 0, 0] : tensor<2x4x8xf32> to tensor<2x3x8xf32>
  %h = kiln.reshape %c : tensor<2x3x8xf32> to tensor<6x8xf32>
  %next = kiln.slice %targets [0, 1] : tensor<2x4xi32> to tensor<2x3xi32>
  %loss = kiln.linear_cross_entropy %h, %w, %next, %scale : (tensor<6x8xf32>, tensor<16x8xf32>, tensor<2x3xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// or if the rows have another order than the tokens.
// CHECK-LABEL: kiln.program @evaluate
// CHECK-NOT: @generate
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %turned = kiln.transpose %targets [1, 0] : tensor<2x4xi32> to tensor<4x2xi32>
  %loss = kiln.linear_cross_entropy %x, %w, %turned, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<4x2xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// It is built if the targets are only reshaped.
// CHECK-LABEL: kiln.program @evaluate
// CHECK: kiln.program @generate
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %flat = kiln.reshape %targets : tensor<2x4xi32> to tensor<8xi32>
  %loss = kiln.linear_cross_entropy %x, %w, %flat, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<8xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
