// Gradients are summed over data-parallel ranks in buckets.

// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 bucket-bytes=100' | FileCheck %s --check-prefixes=CHECK,SMALL
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4' | FileCheck %s --check-prefixes=CHECK,LARGE
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 bucket-bytes=100 clip=false' | FileCheck %s --check-prefixes=NOCLIP
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 bucket-bytes=100' --kiln-set-numerics --kiln-form-dispatches --kiln-place-copies | FileCheck %s --check-prefix=START
// RUN: not kiln-opt %s '--kiln-build-step=mesh=dp=2' 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not kiln-opt %s '--kiln-build-step=mesh=pp=2' 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not kiln-opt %s '--kiln-build-step=mesh=dp=0' 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not kiln-opt %s '--kiln-build-step=mesh=dp=4 bucket-bytes=0' 2>&1 | FileCheck %s --check-prefix=BYTES
// COUNT: has a loss that kiln-autodiff split for 4 micro-batches, expected 2 (1 on each of 2 ranks); give kiln-autodiff and kiln-build-step the same option 'microbatches', for kiln-autodiff times the ranks
// AXIS: mesh has the unknown axis 'pp', expected dp=N or tp=N
// RANKS: mesh has '0' ranks on the axis 'dp', expected a number from 1 to 65536
// BYTES: bucket-bytes is 0, expected a positive number

// CHECK: module attributes {kiln.mesh = {dp = 4 : i64}}

// The gradients are complete in the order c, b, a. With buckets of 100 bytes, c is the first bucket,
// and b and a are the second one. The readers of c follow the start of the second bucket.
// SMALL: [[C:%.+]] = kiln.mul
// SMALL-NEXT: [[SC:%.+]] = kiln.all_reduce [[C]] over "dp" : tensor<4x8xf32>
// SMALL: [[SUMS:%.+]]:2 = kiln.all_reduce %{{.+}}, %{{.+}} over "dp" : tensor<8xf32>, tensor<8xf32>
// SMALL-NEXT: kiln.sum_squares [[SC]]
// SMALL-DAG: kiln.sum_squares [[SUMS]]#0
// SMALL-DAG: kiln.sum_squares [[SUMS]]#1
// SMALL: kiln.clip_factor

// LARGE: kiln.all_reduce %{{.+}} over "dp" : tensor<f64>
// LARGE: [[SUMS:%.+]]:3 = kiln.all_reduce %{{.+}}, %{{.+}}, %{{.+}} over "dp" : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>

// The returned loss is that of all ranks.
// CHECK-NOT: kiln.all_reduce
// CHECK: kiln.return

// Without clipping, an update is a reader, too.
// NOCLIP: [[SC:%.+]] = kiln.all_reduce {{.+}} : tensor<4x8xf32>
// NOCLIP: kiln.all_reduce {{.+}} : tensor<8xf32>, tensor<8xf32>
// NOCLIP-NEXT: kiln.adam {{.+}}, [[SC]]
// NOCLIP: kiln.adam
// NOCLIP: kiln.adam

// A transfer overlaps with the commands up to the first reader of its sums.
// START: [[T1:%.+]] = kiln.collective_start all_reduce %{{.+}} over "dp" : tensor<4x8xf32> -> tensor<4x8xf32>
// START: [[T2:%.+]]:2 = kiln.collective_start all_reduce
// START-NEXT: [[SC:%.+]] = kiln.collective_wait [[T1]] : tensor<4x8xf32>
// START-NEXT: kiln.dispatch row([[SC]])
// START: kiln.collective_wait [[T2]]#0, [[T2]]#1

kiln.state @a : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @c : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<8xf32> {kiln.gradient = @a}, tensor<8xf32> {kiln.gradient = @b}, tensor<4x8xf32> {kiln.gradient = @c}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 4 : i64} {
  %a = kiln.read @a : tensor<8xf32>
  %b = kiln.read @b : tensor<8xf32>
  %c = kiln.read @c : tensor<4x8xf32>
  %dc = kiln.mul %c, %c : tensor<4x8xf32>
  %db = kiln.mul %b, %b : tensor<8xf32>
  %da = kiln.mul %a, %a : tensor<8xf32>
  kiln.return %scale, %da, %db, %dc : tensor<f64>, tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>
}
