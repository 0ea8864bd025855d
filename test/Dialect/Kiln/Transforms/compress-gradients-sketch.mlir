// Count sketches: ranks sum sketches, which tell which elements are large, and then one element of each block.

// DEFINE: %{step} = kiln-opt %s '--kiln-build-step=mesh=dp=2 optimizer=sgd clip=false'
// RUN: %{step} --kiln-compress-gradients=scheme=count-sketch:2 | FileCheck %s
// RUN: not %{step} --kiln-compress-gradients=scheme=count-sketch:3 2>&1 | FileCheck %s --check-prefix=NONE

// RUN: sed s/30x5xf32/30x5xbf16/g %s | not kiln-opt '--kiln-build-step=mesh=dp=2 optimizer=sgd clip=false' --kiln-compress-gradients=scheme=count-sketch:2 2>&1 | FileCheck %s --check-prefix=NARROW

// NARROW: has no compressible gradient among those that data-parallel ranks sum: count-sketch:2 compresses
// NONE: has no compressible gradient among those that data-parallel ranks sum: count-sketch:3 compresses matrices of at least 36 rows, in 16 bits if at most three quarters of the bytes are sent

// The tables have 3, 4 and 5 of 30 rows. Of each 16 elements, one is summed; the last block is padded.
// CHECK: module attributes {kiln.encoded = [#kiln.encoded<value = "a", as = "count-sketch:2", lossy = true, bytes = 600, encoded_bytes = 280>]
// CHECK: kiln.state @a.signs : tensor<3x30xf32> {init = #kiln.normal{{.*}} slot = "signs"}
// CHECK: kiln.state @a.error : tensor<30x5xf32> {{{.*}}shard = #kiln.shard<tensor<2x30x5xf32> over "dp">, slot = "error"}
// CHECK-LABEL: kiln.program @train
// CHECK-DAG: [[NUMBERS:%.+]] = kiln.read @a.signs
// CHECK-DAG: [[DA:%.+]] = kiln.mul {{.*}} : tensor<30x5xf32>
// CHECK: kiln.slice [[NUMBERS]] [0, 0] : tensor<3x30xf32> to tensor<1x30xf32>
// CHECK: [[S0:%.+]] = kiln.sub {{.*}} : tensor<30xf32>
// CHECK: [[D:%.+]] = kiln.add [[DA]],
// CHECK: kiln.broadcast [[S0]] dims [0] : tensor<30xf32> to tensor<30x5xf32>
// CHECK: kiln.reshape {{.*}} : tensor<30x5xf32> to tensor<10x15xf32>
// CHECK: kiln.reduce sum {{.*}} dims [0] : tensor<10x15xf32> to tensor<15xf32>
// CHECK: kiln.pad {{.*}} : tensor<30x5xf32> to tensor<32x5xf32>
// CHECK: kiln.reduce sum {{.*}} dims [0] : tensor<8x20xf32> to tensor<20xf32>
// CHECK: kiln.reduce sum {{.*}} dims [0] : tensor<6x25xf32> to tensor<25xf32>
// CHECK: [[OWN:%.+]] = kiln.concat {{.*}} -> tensor<12x5xf32>
// CHECK: [[SKETCH:%.+]] = kiln.all_reduce [[OWN]] over "dp" : tensor<12x5xf32>
// CHECK: kiln.slice [[SKETCH]] [0, 0] : tensor<12x5xf32> to tensor<3x5xf32>
// CHECK: kiln.pad {{.*}} : tensor<150xf32> to tensor<160xf32>
// CHECK: kiln.neg
// CHECK: kiln.reduce max {{.*}} dims [1] : tensor<10x16xf32> to tensor<10xf32>
// CHECK: [[CHOSEN:%.+]] = kiln.div {{.*}} : tensor<10xf32>
// CHECK: [[SUM:%.+]] = kiln.all_reduce [[CHOSEN]] over "dp" : tensor<10xf32>
// CHECK: [[E:%.+]] = kiln.sub [[D]],
// CHECK: kiln.write @a.error, [[E]]
// CHECK: kiln.broadcast [[SUM]] dims [0] : tensor<10xf32> to tensor<10x16xf32>
// CHECK: kiln.slice {{.*}} : tensor<160xf32> to tensor<150xf32>
// CHECK: [[G:%.+]] = kiln.reshape {{.*}} : tensor<150xf32> to tensor<30x5xf32>
// CHECK: kiln.sgd {{%.+}}, [[G]],

kiln.state @a : tensor<30x5xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<30x5xf32> {kiln.gradient = @a}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 2 : i64} {
  %a = kiln.read @a : tensor<30x5xf32>
  %da = kiln.mul %a, %a : tensor<30x5xf32>
  kiln.return %scale, %da : tensor<f64>, tensor<30x5xf32>
}
