// RUN: kiln-opt %s --split-input-file --kiln-autodiff --kiln-recompute=policy=full | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: kiln-opt %s --split-input-file --kiln-autodiff --kiln-recompute=policy=none | FileCheck %s --check-prefixes=CHECK,NONE

// A value that is computed from states alone is a residual of the stage that
// reads it: the policy that keeps everything keeps it, and the policy that
// keeps only inputs computes it again from the state.

kiln.state @w1 : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<3x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kiln.program @train
// CHECK: [[W1:%.+]] = kiln.read @w1
// CHECK: [[C1:%.+]] = kiln.cast [[W1]]
// CHECK: [[W2:%.+]] = kiln.read @w2
// CHECK: [[T2:%.+]] = kiln.transpose [[W2]]
// CHECK: [[C2:%.+]] = kiln.cast [[T2]]
// CHECK: kiln.phase backward
// NONE-NOT: kiln.recompute
// NONE: kiln.matmul {{%.+}}, [[C2]] trans_b
// FULL-NOT: [[C2]]{{[^0-9]}}
// FULL: [[R:%.+]]:2 = kiln.recompute([[W2]], {{%.+}})
// FULL-NEXT: ^bb0([[IN:%.+]]: tensor<3x8xf32>, {{.*}}):
// FULL-NEXT: [[T:%.+]] = kiln.transpose [[IN]]
// FULL-NEXT: [[C:%.+]] = kiln.cast [[T]]
// FULL-NEXT: [[M:%.+]] = kiln.matmul
// FULL-NEXT: kiln.yield [[C]], [[M]]
// FULL: kiln.matmul {{%.+}}, [[R]]#0 trans_b
kiln.program @forward(%x: tensor<5x4xbf16> {kiln.name = "x"}, %targets: tensor<5xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w1 = kiln.read @w1 : tensor<4x8xf32>
  %c1 = kiln.cast %w1 : tensor<4x8xf32> to tensor<4x8xbf16>
  %h1 = kiln.matmul %x, %c1 : (tensor<5x4xbf16>, tensor<4x8xbf16>) -> tensor<5x8xbf16>
  %a1 = kiln.gelu %h1 tanh : tensor<5x8xbf16>
  %w2 = kiln.read @w2 : tensor<3x8xf32>
  %t2 = kiln.transpose %w2 [1, 0] : tensor<3x8xf32> to tensor<8x3xf32>
  %c2 = kiln.cast %t2 : tensor<8x3xf32> to tensor<8x3xbf16>
  %l = kiln.matmul %a1, %c2 : (tensor<5x8xbf16>, tensor<8x3xbf16>) -> tensor<5x3xbf16>
  %a2 = kiln.gelu %l tanh : tensor<5x3xbf16>
  %loss = kiln.cross_entropy %a2, %targets, %scale : (tensor<5x3xbf16>, tensor<5xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Two stages read this value in the forward pass, so it belongs to none of them.
// It is computed again together with an op that is recomputed, and all later
// readers share the result.

kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kiln.program @train
// CHECK: [[C:%.+]] = kiln.cast
// CHECK: kiln.phase backward
// NONE: kiln.matmul {{%.+}}, [[C]] trans_b
// FULL: [[R:%.+]]:2 = kiln.recompute
// FULL-NEXT: ^bb0
// FULL-NEXT: kiln.cast
// FULL: kiln.matmul {{%.+}}, [[R]]#0 trans_b
kiln.program @forward(%x: tensor<5x4xbf16> {kiln.name = "x"}, %targets: tensor<5xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x4xf32>
  %c = kiln.cast %w : tensor<4x4xf32> to tensor<4x4xbf16>
  %h1 = kiln.matmul %x, %c : (tensor<5x4xbf16>, tensor<4x4xbf16>) -> tensor<5x4xbf16>
  %a1 = kiln.gelu %h1 tanh : tensor<5x4xbf16>
  %h2 = kiln.matmul %a1, %c : (tensor<5x4xbf16>, tensor<4x4xbf16>) -> tensor<5x4xbf16>
  %a2 = kiln.gelu %h2 tanh : tensor<5x4xbf16>
  %loss = kiln.cross_entropy %a2, %targets, %scale : (tensor<5x4xbf16>, tensor<5xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
