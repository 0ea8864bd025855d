// RUN: kiln-opt %s --kiln-autodiff --kiln-build-step | FileCheck %s --check-prefixes=CHECK,CLIP
// RUN: kiln-opt %s --kiln-autodiff --kiln-build-step="clip=false optimizer=sgd" | FileCheck %s --check-prefixes=CHECK,SGD
// RUN: kiln-opt %s --kiln-autodiff=microbatches=3 --kiln-build-step="microbatches=3 optimizer=momentum:momentum=0.5" | FileCheck %s --check-prefixes=CHECK,MICRO

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// CLIP: kiln.state @w.m {{.*}} of = @w, role = #kiln.role<optimizer>, slot = "m"
// CLIP: kiln.state @w.v
// MICRO: kiln.state @w.momentum
// SGD-NOT: #kiln.role<optimizer>
// CHECK-LABEL: kiln.program @train

// CLIP-SAME: {kiln.name = "clip"}
// CLIP-SAME: {kiln.name = "grad_norm"}
// CLIP: [[DW:%.+]] = kiln.embedding_grad
// CLIP: [[SQ:%.+]] = kiln.sum_squares [[DW]]
// CLIP: [[F:%.+]], [[N:%.+]] = kiln.clip_factor
// CLIP: kiln.adam {{%.+}}, {{%.+}}, {{%.+}}, [[DW]], [[F]]
// CLIP-SAME: decoupled
// CLIP: kiln.write @w,
// CLIP: kiln.return {{%.+}}, [[N]]

// The update directly follows its gradient.
// SGD: [[DW:%.+]] = kiln.embedding_grad
// SGD-NEXT: [[P:%.+]] = kiln.sgd {{%.+}}, [[DW]]
// SGD-NEXT: kiln.write @w, [[P]]

// MICRO-SAME: tensor<6x4xi32> {kiln.name = "tokens"}
// MICRO: [[SUMS:%.+]]:2 = kiln.microbatches sliced({{.*}}) count 3
// MICRO: ^bb0({{.*}}: tensor<2x4xi32>
// MICRO: kiln.yield
// MICRO: kiln.sum_squares [[SUMS]]#1
// MICRO: kiln.momentum {{.*}}mu = 5.000000e-01
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.cross_entropy %h, %targets, %scale : (tensor<8x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
