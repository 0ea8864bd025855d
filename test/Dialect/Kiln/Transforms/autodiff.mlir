// RUN: kiln-opt %s --kiln-autodiff -split-input-file | FileCheck %s

kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @table : tensor<4x8xf32> {role = #kiln.role<constant>, init = #kiln.splat<value = 0.0>}

// The loss becomes its training form; the constant state gets no gradient.
// CHECK-LABEL: kiln.program @train
// CHECK-SAME: tensor<4x8xf32> {kiln.gradient = @w}
// CHECK: [[W:%.+]] = kiln.read @w
// CHECK: [[H:%.+]] = kiln.mul [[W]], [[T:%.+]] :
// CHECK: [[LOSS:%.+]], [[D:%.+]] = kiln.cross_entropy_with_grad [[H]]
// CHECK: kiln.phase backward
// CHECK: [[DW:%.+]] = kiln.mul [[D]], [[T]]
// CHECK-NOT: kiln.mul
// CHECK: kiln.return [[LOSS]], [[DW]]
kiln.program @forward(%targets: tensor<4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x8xf32>
  %t = kiln.read @table : tensor<4x8xf32>
  %h = kiln.mul %w, %t : tensor<4x8xf32>
  %loss = kiln.cross_entropy %h, %targets, %scale : (tensor<4x8xf32>, tensor<4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

kiln.state @w : tensor<4x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// Gradients of slices that tile a tensor are
// concatenated instead of padded and added.
// CHECK-LABEL: kiln.program @train
// CHECK: kiln.phase backward
// CHECK-NOT: kiln.pad
// CHECK: kiln.concat {{%.+}}, {{%.+}} dim 1 : (tensor<4x2xf32>, tensor<4x4xf32>) -> tensor<4x6xf32>
// CHECK-NOT: kiln.pad
kiln.program @forward() -> (tensor<f32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x6xf32>
  %a = kiln.slice %w [0, 0] : tensor<4x6xf32> to tensor<4x2xf32>
  %b = kiln.slice %w [0, 2] : tensor<4x6xf32> to tensor<4x4xf32>
  %c = kiln.tanh %a : tensor<4x2xf32>
  %d = kiln.exp %b : tensor<4x4xf32>
  %e = kiln.reduce sum %c dims [0, 1] : tensor<4x2xf32> to tensor<f32>
  %f = kiln.reduce sum %d dims [0, 1] : tensor<4x4xf32> to tensor<f32>
  %loss = kiln.add %e, %f : tensor<f32>
  kiln.return %loss : tensor<f32>
}

// -----

kiln.state @w : tensor<4x6xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0, zero_row = 1>}

// The row of the padding index gets no gradient from the lookup.
// CHECK: kiln.state @w {{.*}}init = #kiln.normal<mean = 0.000000e+00 : f64, stddev = 1.000000e+00 : f64, zero_row = 1>
// CHECK-LABEL: kiln.program @train
// CHECK: kiln.embedding_grad {{.*}} {padding_index = 1 : i64}
kiln.program @forward(%tokens: tensor<3xi32> {kiln.name = "tokens"}) -> (tensor<f32> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x6xf32>
  %x = kiln.embedding %tokens, %w {padding_index = 1} : (tensor<3xi32>, tensor<4x6xf32>) -> tensor<3x6xf32>
  %loss = kiln.reduce sum %x dims [0, 1] : tensor<3x6xf32> to tensor<f32>
  kiln.return %loss : tensor<f32>
}
