// RUN: kiln-opt %s --kiln-set-precision=precision=bf16 --kiln-autodiff --kiln-widen-gradients -split-input-file | FileCheck %s

kiln.state @w : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @p : tensor<2x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// The weight gradients of the matmul, the bias and the slice are computed in
// f32, and the gradients of a weight with two uses are added in f32. Gradients
// of activations stay in bf16.
// CHECK-LABEL: kiln.program @train
// CHECK: kiln.phase backward
// CHECK-NOT: kiln.cast {{.*}} to tensor<8x8xf32>
// CHECK: kiln.reduce sum {{.*}} : tensor<6x8xbf16> to tensor<8xf32>
// CHECK: kiln.matmul {{.*}} -> tensor<6x8xbf16>
// CHECK: [[FIRST:%.+]] = kiln.matmul {{.*}} trans_a : (tensor<6x8xbf16>, tensor<6x8xbf16>) -> tensor<8x8xf32>
// CHECK: [[SECOND:%.+]] = kiln.matmul {{.*}} trans_a : (tensor<6x8xbf16>, tensor<6x8xbf16>) -> tensor<8x8xf32>
// CHECK: kiln.add [[FIRST]], [[SECOND]] : tensor<8x8xf32>
// CHECK: kiln.return {{.*}} : tensor<f64>, tensor<8x8xf32>, tensor<8xf32>
kiln.program @forward(%tokens: tensor<6xi32> {kiln.name = "tokens"}, %targets: tensor<6xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<8x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<6xi32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %y = kiln.matmul %x, %w : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %z = kiln.matmul %y, %w : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %p = kiln.read @p : tensor<2x8xf32>
  %row = kiln.slice %p [1, 0] : tensor<2x8xf32> to tensor<1x8xf32>
  %b = kiln.read @b : tensor<8xf32>
  %rows = kiln.broadcast %b dims [1] : tensor<8xf32> to tensor<6x8xf32>
  %more = kiln.broadcast %row dims [0, 1] : tensor<1x8xf32> to tensor<6x8xf32>
  %h = kiln.add %z, %rows : tensor<6x8xf32>
  %i = kiln.add %h, %more : tensor<6x8xf32>
  %loss = kiln.cross_entropy %i, %targets, %scale : (tensor<6x8xf32>, tensor<6xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

kiln.state @w : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// A forward value that is computed in bf16 and cast to f32 is unchanged; the
// gradient of a table that is read in bf16 is never rounded.
// CHECK-LABEL: kiln.program @train
// CHECK: [[Y:%.+]] = kiln.matmul {{.*}} -> tensor<6x8xbf16>
// CHECK: kiln.cast [[Y]] : tensor<6x8xbf16> to tensor<6x8xf32>
// CHECK: kiln.exp {{.*}} : tensor<6x8xf32>
// CHECK: kiln.phase backward
// CHECK: [[SCATTERED:%.+]] = kiln.embedding_grad {{.*}} -> tensor<8x8xf32>
// CHECK-NOT: kiln.cast [[SCATTERED]]
kiln.program @forward(%tokens: tensor<6xi32> {kiln.name = "tokens"}, %targets: tensor<6xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<8x8xf32>
  %low = kiln.cast %w : tensor<8x8xf32> to tensor<8x8xbf16>
  %x = kiln.embedding %tokens, %low : (tensor<6xi32>, tensor<8x8xbf16>) -> tensor<6x8xbf16>
  %y = kiln.matmul %x, %low : (tensor<6x8xbf16>, tensor<8x8xbf16>) -> tensor<6x8xbf16>
  %wide = kiln.cast %y : tensor<6x8xbf16> to tensor<6x8xf32>
  %e = kiln.exp %wide : tensor<6x8xf32>
  %loss = kiln.cross_entropy %e, %targets, %scale : (tensor<6x8xf32>, tensor<6xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
