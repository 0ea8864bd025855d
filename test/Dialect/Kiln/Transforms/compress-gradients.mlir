// PowerSGD: gradients of matrices are summed as products of two thin matrices.

// DEFINE: %{step} = kiln-opt %s '--kiln-build-step=mesh=dp=2 optimizer=sgd clip=false
// RUN: %{step}' --kiln-compress-gradients=scheme=powersgd:2 | FileCheck %s
// RUN: %{step} bucket-bytes=100' --kiln-compress-gradients=scheme=powersgd:1 | FileCheck %s --check-prefix=BUCKETS
// RUN: %{step} zero=1' --kiln-compress-gradients=scheme=powersgd:2 | FileCheck %s --check-prefix=ZERO
// RUN: not %{step}' --kiln-compress-gradients=scheme=powersgd:3 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not %{step}' --kiln-compress-gradients=scheme=powersgd:0 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=4 '--kiln-build-step=mesh=dp=2 zero=2 microbatches=2' --kiln-compress-gradients=scheme=powersgd:1 2>&1 | FileCheck %s --check-prefix=PARTS
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=4 '--kiln-build-step=mesh=dp=2 zero=2 microbatches=2 whole-gradients' | FileCheck %s --check-prefix=WHOLE
// RUN: not kiln-opt %S/Inputs/tied.mlir '--kiln-autodiff=microbatches=2 scale-gradients' '--kiln-build-step=mesh=dp=2' --kiln-compress-gradients=scheme=powersgd:1 2>&1 | FileCheck %s --check-prefix=SCALED

// NONE: error: 'kiln.program' op has no compressible gradient among those that data-parallel ranks sum: powersgd:3 compresses matrices whose factors have at most half as many bytes
// RANK: error: scheme is 'powersgd:0', expected one of int8, powersgd:N with N from 1 to 64, gradzip:N with N from 1 to 64, count-sketch:N with N from 2 to 256
// PARTS: error: 'kiln.program' op sums gradients over ranks in each micro-batch, but only sums that are computed once per step can be compressed; set the option whole-gradients of kiln-build-step
// SCALED: error: 'kiln.program' op scales the gradients

// The vector and the matrix with few rows are summed as they are.
// CHECK: module attributes {kiln.encoded = [#kiln.encoded<value = "a", as = "powersgd:2", lossy = true, bytes = 512, encoded_bytes = 192>]
// CHECK: kiln.state @a.error : tensor<8x16xf32> {{{.*}}of = @a, role = #kiln.role<optimizer>, shard = #kiln.shard<tensor<2x8x16xf32> over "dp">, slot = "error"}
// CHECK: kiln.state @a.basis : tensor<2x16xf32> {init = #kiln.normal<mean = 0.000000e+00 : f64, stddev = 1.000000e+00 : f64>, of = @a, role = #kiln.role<optimizer>, slot = "basis"}
// CHECK-LABEL: kiln.program @train
// CHECK-DAG: [[E:%.+]] = kiln.read @a.error
// CHECK-DAG: [[Q:%.+]] = kiln.read @a.basis
// CHECK-DAG: [[DA:%.+]] = kiln.mul {{.*}} : tensor<8x16xf32>
// CHECK-DAG: [[DB:%.+]] = kiln.mul {{.*}} : tensor<2x16xf32>
// CHECK-DAG: [[DC:%.+]] = kiln.mul {{.*}} : tensor<16xf32>
// CHECK: [[D:%.+]] = kiln.add [[DA]], [[E]]
// CHECK: kiln.slice [[Q]] [1, 0]
// CHECK: [[U:%.+]] = kiln.concat
// CHECK: [[P:%.+]] = kiln.matmul [[U]], [[D]] trans_b : {{.*}} -> tensor<2x8xf32>
// CHECK: [[SP:%.+]] = kiln.all_reduce [[P]] over "dp" : tensor<2x8xf32>
// CHECK: kiln.all_reduce [[DB]], [[DC]] over "dp"
// CHECK: kiln.slice [[SP]] [0, 0] : tensor<2x8xf32> to tensor<1x8xf32>
// CHECK: kiln.reduce sum {{.*}} dims [1]
// CHECK: kiln.rsqrt
// CHECK: [[L:%.+]] = kiln.concat {{.*}} -> tensor<2x8xf32>
// CHECK: [[R:%.+]] = kiln.matmul [[L]], [[D]] : {{.*}} -> tensor<2x16xf32>
// CHECK: [[SR:%.+]] = kiln.all_reduce [[R]] over "dp" : tensor<2x16xf32>
// CHECK: [[G:%.+]] = kiln.matmul [[L]], [[SR]] trans_a : {{.*}} -> tensor<8x16xf32>
// CHECK: [[H:%.+]] = kiln.matmul [[L]], [[R]] trans_a : {{.*}} -> tensor<8x16xf32>
// CHECK: [[NE:%.+]] = kiln.sub [[D]], [[H]]
// CHECK: [[NQ:%.+]] = kiln.add [[SR]],
// CHECK: kiln.write @a.error, [[NE]]
// CHECK: kiln.write @a.basis, [[NQ]]
// CHECK: kiln.sgd {{%.+}}, [[G]],

// The sum of a bucket overlaps with the ops before its readers, which follow the next bucket.
// BUCKETS-LABEL: kiln.program @train
// BUCKETS: kiln.all_reduce {{.*}} : tensor<1x8xf32>
// BUCKETS: kiln.all_reduce {{.*}} : tensor<2x16xf32>
// BUCKETS: [[R:%.+]] = kiln.all_reduce {{.*}} : tensor<1x16xf32>
// BUCKETS: kiln.write @a.error

// With whole gradients, ranks sum once per step.
// WHOLE: kiln.microbatches
// WHOLE-NOT: kiln.reduce_scatter
// WHOLE: kiln.yield
// WHOLE: kiln.reduce_scatter

// Each rank updates its shard of the sum.
// ZERO-LABEL: kiln.program @train
// ZERO: kiln.all_reduce {{.*}} : tensor<2x8xf32>
// ZERO: kiln.reduce_scatter {{.*}} : tensor<2x16xf32>, tensor<16xf32>
// ZERO: [[G:%.+]] = kiln.matmul {{.*}} trans_a : {{.*}} -> tensor<8x16xf32>
// ZERO: [[S:%.+]] = kiln.take_shard [[G]] over "dp" : tensor<8x16xf32> -> tensor<4x16xf32>
// ZERO: kiln.sgd {{%.+}}, [[S]],

kiln.state @a : tensor<8x16xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b : tensor<2x16xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @c : tensor<16xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<8x16xf32> {kiln.gradient = @a}, tensor<2x16xf32> {kiln.gradient = @b}, tensor<16xf32> {kiln.gradient = @c}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 2 : i64} {
  %a = kiln.read @a : tensor<8x16xf32>
  %b = kiln.read @b : tensor<2x16xf32>
  %c = kiln.read @c : tensor<16xf32>
  %da = kiln.mul %a, %a : tensor<8x16xf32>
  %db = kiln.mul %b, %b : tensor<2x16xf32>
  %dc = kiln.mul %c, %c : tensor<16xf32>
  kiln.return %scale, %da, %db, %dc : tensor<f64>, tensor<8x16xf32>, tensor<2x16xf32>, tensor<16xf32>
}
