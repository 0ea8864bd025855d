// RUN: kiln-opt %s --kiln-autodiff --kiln-offload-activations="lag=3 lead=2" | FileCheck %s
// RUN: kiln-opt %s --kiln-autodiff --kiln-offload-activations | FileCheck %s --check-prefix=DEFAULT
// RUN: kiln-opt %s --kiln-autodiff=microbatches=2 --kiln-build-step=microbatches=2 --kiln-offload-activations | FileCheck %s --check-prefix=LOOP

// Values of the forward pass that the backward pass reads are marked at their
// definition, also if they are read through a view: tensors of 32 x 128. The
// norm's statistics of 32 elements each stay on the device; its result is not
// read again. Values that the loss computes are used immediately.
//
// CHECK-LABEL: kiln.program @forward
// CHECK-NOT: kiln.offload
// CHECK-LABEL: kiln.program @train
// CHECK: kiln.embedding {{.*}} {kiln.offload = array<i64: 0, 3, 2>}
// CHECK: [[H:%.+]] = kiln.matmul {{.*}} {kiln.offload = array<i64: 0, 3, 2>}
// CHECK: [[VIEW:%.+]] = kiln.reshape [[H]] : tensor<32x128xf32> to tensor<64x64xf32>
// CHECK: kiln.gelu [[VIEW]] tanh {kiln.offload = array<i64: 0, 3, 2>}
// CHECK: kiln.layer_norm {{.*}} {eps = 1.000000e-05 : f64} :
// CHECK: kiln.scale {{.*}} {kiln.offload = array<i64: 0, 3, 2>}
// CHECK-NOT: kiln.offload
// CHECK: kiln.phase backward
// CHECK-NOT: kiln.offload
// CHECK: kiln.gelu_grad [[VIEW]],
// CHECK-NOT: kiln.offload
// CHECK: kiln.return
//
// DEFAULT-COUNT-4: kiln.offload = array<i64: 0, 6, 6>
// DEFAULT-NOT: kiln.offload
//
// The same holds for a program that loops over micro-batches.
//
// LOOP-LABEL: kiln.program @train
// LOOP: kiln.microbatches
// LOOP-COUNT-4: kiln.offload = array<i64: 0, 6, 6>
// LOOP: kiln.phase backward
// LOOP-NOT: kiln.offload
// LOOP: kiln.yield
kiln.state @table : tensor<5x128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w1 : tensor<128x128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @gain : tensor<128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<128x64xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x16xi32> {kiln.name = "tokens"}, %targets: tensor<2x16xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<5x128xf32>
  %x = kiln.embedding %tokens, %table : (tensor<2x16xi32>, tensor<5x128xf32>) -> tensor<32x128xf32>
  %w1 = kiln.read @w1 : tensor<128x128xf32>
  %h1 = kiln.matmul %x, %w1 : (tensor<32x128xf32>, tensor<128x128xf32>) -> tensor<32x128xf32>
  %view = kiln.reshape %h1 : tensor<32x128xf32> to tensor<64x64xf32>
  %curved = kiln.gelu %view tanh : tensor<64x64xf32>
  %a1 = kiln.reshape %curved : tensor<64x64xf32> to tensor<32x128xf32>
  %gain = kiln.read @gain : tensor<128xf32>
  %n, %mean, %rstd = kiln.layer_norm %a1, %gain, %gain {eps = 1.0e-05} : (tensor<32x128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<32x128xf32>, tensor<32xf32>, tensor<32xf32>)
  %w2 = kiln.read @w2 : tensor<128x64xf32>
  %twice = kiln.scale %n by 2.0 : tensor<32x128xf32>
  %l = kiln.matmul %twice, %w2 : (tensor<32x128xf32>, tensor<128x64xf32>) -> tensor<32x64xf32>
  %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<32x64xf32>, tensor<2x16xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
