// The copy of a sum over ranks to the host follows the next sum, and copies are in the order of the sums.

// DEFINE: %{step} = kiln-opt %s '--kiln-build-step=mesh=dp=4 optimizer=sgd bucket-bytes=100
// RUN: %{step} clip=false' --kiln-offload-states=optimizer=1 | FileCheck %s --check-prefixes=CHECK,FREE
// RUN: %{step}' --kiln-offload-states=optimizer=1 | FileCheck %s --check-prefixes=CHECK,CLIP

// CHECK-LABEL: kiln.program @train
// CHECK: [[A:%.+]] = kiln.all_reduce {{.*}} : tensor<4x8xf32>
// CHECK-NOT: kiln.copy_out
// CHECK: [[B:%.+]] = kiln.all_reduce {{.*}} : tensor<5x8xf32>
// CHECK-NEXT: kiln.copy_out [[A]]
// CHECK: [[C:%.+]] = kiln.all_reduce {{.*}} : tensor<6x8xf32>
// CHECK-NEXT: kiln.copy_out [[B]]
// CHECK: kiln.copy_out [[C]]
// FREE: kiln.sgd
// CLIP: kiln.clip_factor

kiln.state @a : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<5x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @c : tensor<6x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<4x8xf32> {kiln.gradient = @a}, tensor<5x8xf32> {kiln.gradient = @b}, tensor<6x8xf32> {kiln.gradient = @c}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 4 : i64} {
  %a = kiln.read @a : tensor<4x8xf32>
  %b = kiln.read @b : tensor<5x8xf32>
  %c = kiln.read @c : tensor<6x8xf32>
  %da = kiln.mul %a, %a : tensor<4x8xf32>
  %db = kiln.mul %b, %b : tensor<5x8xf32>
  %dc = kiln.mul %c, %c : tensor<6x8xf32>
  kiln.return %scale, %da, %db, %dc : tensor<f64>, tensor<4x8xf32>, tensor<5x8xf32>, tensor<6x8xf32>
}
