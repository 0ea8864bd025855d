// RUN: kiln-opt %s --kiln-autodiff --kiln-build-step=optimizer=sgd --kiln-offload-states=optimizer=1 | FileCheck %s

// All updates depend on the norm of all gradients, so they follow the backward
// pass. Each gradient is still copied to the host as soon as it is complete, and
// leaves the device when two further gradients have started to follow: its copy
// is waited for there, not at the update.

kiln.state @a : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @c : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @d : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// CHECK-LABEL: kiln.program @train
// CHECK: kiln.phase backward
// CHECK: [[D:%.+]] = kiln.matmul {{.*}} trans_a
// CHECK-NEXT: [[TD:%.+]] = kiln.copy_out [[D]]
// CHECK-NEXT: kiln.sum_squares [[D]]
// CHECK: [[C:%.+]] = kiln.matmul {{.*}} trans_a
// CHECK-NEXT: [[TC:%.+]] = kiln.copy_out [[C]]
// CHECK: [[B:%.+]] = kiln.matmul {{.*}} trans_a
// CHECK-NEXT: [[HD:%.+]] = kiln.copy_wait [[TD]], [[D]]
// CHECK-NEXT: [[TB:%.+]] = kiln.copy_out [[B]]
// CHECK: [[A:%.+]] = kiln.matmul {{.*}} trans_a
// CHECK-NEXT: [[HC:%.+]] = kiln.copy_wait [[TC]], [[C]]
// CHECK-NEXT: [[TA:%.+]] = kiln.copy_out [[A]]
// CHECK: kiln.clip_factor
// CHECK-NEXT: kiln.sgd {{%.+}}, [[HC]]
// CHECK: kiln.sgd {{%.+}}, [[HD]]
// CHECK: [[HB:%.+]] = kiln.copy_wait [[TB]], [[B]]
// CHECK-NEXT: kiln.sgd {{%.+}}, [[HB]]
// CHECK: [[HA:%.+]] = kiln.copy_wait [[TA]], [[A]]
// CHECK-NEXT: kiln.sgd {{%.+}}, [[HA]]

kiln.program @forward(%x: tensor<5x4xf32> {kiln.name = "x"}, %targets: tensor<5xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %a = kiln.read @a : tensor<4x4xf32>
  %b = kiln.read @b : tensor<4x4xf32>
  %c = kiln.read @c : tensor<4x4xf32>
  %d = kiln.read @d : tensor<4x4xf32>
  %h1 = kiln.matmul %x, %a : (tensor<5x4xf32>, tensor<4x4xf32>) -> tensor<5x4xf32>
  %h2 = kiln.matmul %h1, %b : (tensor<5x4xf32>, tensor<4x4xf32>) -> tensor<5x4xf32>
  %h3 = kiln.matmul %h2, %c : (tensor<5x4xf32>, tensor<4x4xf32>) -> tensor<5x4xf32>
  %h4 = kiln.matmul %h3, %d : (tensor<5x4xf32>, tensor<4x4xf32>) -> tensor<5x4xf32>
  %loss = kiln.cross_entropy %h4, %targets, %scale : (tensor<5x4xf32>, tensor<5xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
