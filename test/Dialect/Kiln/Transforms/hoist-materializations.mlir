// RUN: kiln-opt %s --kiln-autodiff=microbatches=4 --kiln-build-step=microbatches=4 --kiln-recompute="policy=none hoist" | FileCheck %s --check-prefixes=CHECK,KEPT
// RUN: kiln-opt %s --kiln-autodiff=microbatches=4 --kiln-build-step=microbatches=4 --kiln-recompute="policy=full hoist" | FileCheck %s --check-prefixes=CHECK,REPEATED

// A value that is computed from states alone, and that the backward pass reads,
// is computed once, before the micro-batches. A value that only the forward pass
// reads, or that the backward pass computes again, stays in each micro-batch.

// CHECK-LABEL: kiln.program @train
// KEPT: [[W:%.+]] = kiln.read @w2 :
// KEPT-NEXT: [[T:%.+]] = kiln.transpose [[W]]
// KEPT-NEXT: [[C2:%.+]] = kiln.cast [[T]]
// KEPT-NOT: kiln.cast
// REPEATED-NOT: kiln.cast
// CHECK: kiln.microbatches
// CHECK: kiln.cast {{.*}} : tensor<4x8xf32>
// REPEATED: kiln.transpose
// REPEATED: kiln.cast {{.*}} : tensor<8x3xf32>
// CHECK: kiln.phase backward
// REPEATED: kiln.recompute
// REPEATED: kiln.cast {{.*}} : tensor<8x3xf32>
// KEPT: kiln.matmul {{%.+}}, [[C2]] trans_b
kiln.state @w1 : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<3x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%x: tensor<5x4xbf16> {kiln.name = "x", kiln.input = #kiln.input<data, batch_dim = 0>}, %targets: tensor<5xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
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
