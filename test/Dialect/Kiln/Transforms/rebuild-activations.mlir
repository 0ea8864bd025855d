// RUN: kiln-opt %s --kiln-autodiff --kiln-rebuild-activations -split-input-file | FileCheck %s

kiln.state @w1 : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<8x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// gelu's output is recomputed where gelu_grad reads its input anyway. The
// weight gradient that needs the output moves after the recomputation.
// CHECK-LABEL: kiln.program @train
// CHECK: [[H:%.+]] = kiln.matmul
// CHECK: kiln.gelu [[H]] tanh
// CHECK: kiln.phase backward
// CHECK: [[DA:%.+]] = kiln.matmul
// CHECK: [[A:%.+]] = kiln.recompute([[H]])
// CHECK: kiln.gelu
// CHECK: kiln.gelu_grad [[H]], [[DA]] tanh
// CHECK: kiln.matmul [[A]], {{%.+}} trans_a
kiln.program @forward(%x: tensor<5x4xf32> {kiln.name = "x"}, %targets: tensor<5xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w1 = kiln.read @w1 : tensor<4x8xf32>
  %w2 = kiln.read @w2 : tensor<8x3xf32>
  %h = kiln.matmul %x, %w1 : (tensor<5x4xf32>, tensor<4x8xf32>) -> tensor<5x8xf32>
  %a = kiln.gelu %h tanh : tensor<5x8xf32>
  %l = kiln.matmul %a, %w2 : (tensor<5x8xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<5x3xf32>, tensor<5xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

kiln.state @w : tensor<5x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// Nothing else reads exp's input in the backward pass, so its output is kept.
// CHECK-LABEL: kiln.program @train
// CHECK-NOT: kiln.recompute
kiln.program @forward() -> (tensor<f32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<5x8xf32>
  %e = kiln.exp %w : tensor<5x8xf32>
  %loss = kiln.reduce sum %e dims [0, 1] : tensor<5x8xf32> to tensor<f32>
  kiln.return %loss : tensor<f32>
}
