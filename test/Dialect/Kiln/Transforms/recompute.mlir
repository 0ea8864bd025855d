// RUN: kiln-opt %s --kiln-autodiff --kiln-recompute=policy=full | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: kiln-opt %s --kiln-autodiff --kiln-recompute=policy=poor | FileCheck %s --check-prefixes=CHECK,POOR
// RUN: kiln-opt %s --kiln-autodiff --kiln-recompute=policy=none | FileCheck %s --check-prefix=NONE
// RUN: not kiln-opt %s --kiln-autodiff --kiln-recompute=policy=most 2>&1 | FileCheck %s --check-prefix=ERROR
// ERROR: recompute policy is 'most', expected none, full, blocks, sqrt or poor

kiln.state @w1 : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w3 : tensor<6x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// Three matmuls, three stages. The values of a stage are recomputed before
// their first use, from the nearest kept value: the input of the stage or the
// input of the program.
// NONE-NOT: kiln.recompute
// CHECK-LABEL: kiln.program @train
// CHECK-SAME: [[X:%[^:]+]]: tensor<5x4xf32>
// CHECK: [[A1:%.+]] = kiln.gelu
// CHECK: [[A2:%.+]] = kiln.gelu
// CHECK: kiln.phase backward
// FULL: kiln.matmul [[A2]], {{.*}} trans_a
// FULL-NEXT: kiln.recompute([[A1]], {{%[^,]+}})
// FULL-NEXT: ^bb0
// FULL-NEXT: kiln.matmul
// FULL-NEXT: kiln.yield
// FULL: kiln.gelu_grad
// FULL: kiln.recompute([[X]], {{%[^,]+}})
// FULL: kiln.gelu_grad
// POOR: [[A2:%.+]] = kiln.recompute([[X]], {{.+}})
// POOR-NEXT: ^bb0
// POOR-NEXT: kiln.matmul
// POOR-NEXT: kiln.gelu
// POOR-NEXT: kiln.matmul
// POOR-NEXT: kiln.gelu
// POOR: kiln.matmul [[A2]], {{.*}} trans_a
// POOR: [[A1:%.+]] = kiln.recompute([[X]], {{.+}})
// POOR: kiln.recompute([[A1]], {{%[^,]+}})
// POOR: kiln.gelu_grad
// POOR: kiln.recompute([[X]], {{%[^,]+}})
// POOR: kiln.gelu_grad
kiln.program @forward(%x: tensor<5x4xf32> {kiln.name = "x"}, %targets: tensor<5xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w1 = kiln.read @w1 : tensor<4x8xf32>
  %h1 = kiln.matmul %x, %w1 : (tensor<5x4xf32>, tensor<4x8xf32>) -> tensor<5x8xf32>
  %a1 = kiln.gelu %h1 tanh : tensor<5x8xf32>
  %w2 = kiln.read @w2 : tensor<8x6xf32>
  %h2 = kiln.matmul %a1, %w2 : (tensor<5x8xf32>, tensor<8x6xf32>) -> tensor<5x6xf32>
  %a2 = kiln.gelu %h2 tanh : tensor<5x6xf32>
  %w3 = kiln.read @w3 : tensor<6x3xf32>
  %l = kiln.matmul %a2, %w3 : (tensor<5x6xf32>, tensor<6x3xf32>) -> tensor<5x3xf32>
  %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<5x3xf32>, tensor<5xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
