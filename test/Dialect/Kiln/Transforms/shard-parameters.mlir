// Programs gather the parameters of which each rank stores a shard.

// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=2 '--kiln-build-step=mesh=dp=2 zero=3 clip=false optimizer=sgd' --kiln-build-eval=evaluation --kiln-shard-parameters | FileCheck %s
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=4 '--kiln-build-step=mesh=dp=2 zero=3 microbatches=2 clip=false optimizer=sgd' --kiln-shard-parameters | FileCheck %s --check-prefix=PARTS
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-set-precision=precision=bf16 --kiln-autodiff=microbatches=2 '--kiln-build-step=mesh=dp=2 zero=3 clip=false optimizer=sgd' --kiln-shard-parameters --cse | FileCheck %s --check-prefix=NARROW
// Without shards, nothing changes.
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=2 '--kiln-build-step=mesh=dp=2 clip=false' -o %t.whole
// RUN: kiln-opt %t.whole --kiln-shard-parameters | diff %t.whole -
// Returned gradients are gathered, and no states.
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=2 '--kiln-build-step=mesh=dp=2 zero=3 clip=false optimizer=sgd keep-gradients' --kiln-shard-parameters | FileCheck %s --check-prefix=KEEP

// CHECK: #[[TABLE:.+]] = #kiln.layer<"wte", 0>
// CHECK: #[[HEAD:.+]] = #kiln.layer<"head", 3>
// CHECK: kiln.state @table : tensor<32x8xf32> {{{.*}}shard = #kiln.shard<tensor<64x8xf32> over "dp">}
// CHECK: kiln.state @a : tensor<4x8xf32> {{{.*}}shard = #kiln.shard<tensor<8x8xf32> over "dp">}

// The table is gathered once for each end of the model.
// CHECK-LABEL: kiln.program @train
// CHECK-DAG: [[T:%.+]] = kiln.read @table : tensor<32x8xf32>
// CHECK-DAG: [[A:%.+]] = kiln.read @a : tensor<4x8xf32>
// CHECK: [[FIRST:%.+]] = kiln.all_gather [[T]] over "dp" {kiln.layer = #[[TABLE]]} : tensor<32x8xf32> -> tensor<64x8xf32>
// CHECK-NEXT: kiln.embedding {{%.+}}, [[FIRST]]
// CHECK: [[WA:%.+]] = kiln.all_gather [[A]] over "dp"
// CHECK-NEXT: kiln.matmul {{%.+}}, [[WA]]
// CHECK: [[LAST:%.+]] = kiln.all_gather [[T]] over "dp" {kiln.layer = #[[HEAD]]}
// CHECK-NEXT: kiln.linear_cross_entropy_with_grad {{%.+}}, [[LAST]],
// A reader in the backward pass reads the parameter that the forward pass gathered in its layer.
// CHECK-NOT: kiln.all_gather
// CHECK: kiln.matmul {{%.+}}, [[WA]] trans_b
// CHECK-NOT: kiln.all_gather
// Updates read and write shards.
// CHECK: [[S:%.+]]:4 = kiln.reduce_scatter
// CHECK-NOT: kiln.take_shard
// CHECK: [[NEW:%.+]] = kiln.sgd [[T]], [[S]]#
// CHECK-NEXT: kiln.write @table, [[NEW]] : tensor<32x8xf32>
// CHECK-NOT: kiln.all_gather

// CHECK-LABEL: kiln.program @evaluate
// CHECK: [[T:%.+]] = kiln.read @table : tensor<32x8xf32>
// CHECK: [[FIRST:%.+]] = kiln.all_gather [[T]] over "dp"
// CHECK-NEXT: kiln.embedding {{%.+}}, [[FIRST]]
// CHECK: [[LAST:%.+]] = kiln.all_gather [[T]] over "dp"
// CHECK-NEXT: kiln.linear_cross_entropy {{%.+}}, [[LAST]],

// CHECK-LABEL: kiln.program @generate
// CHECK: [[T:%.+]] = kiln.read @table : tensor<32x8xf32>
// CHECK: kiln.all_gather [[T]] over "dp"
// CHECK-NEXT: kiln.embedding
// CHECK: [[LAST:%.+]] = kiln.all_gather [[T]] over "dp"
// CHECK-NEXT: kiln.matmul {{%.+}}, [[LAST]] trans_b

// If all readers cast a parameter, the shards are cast before they are gathered.
// NARROW-LABEL: kiln.program @train
// NARROW: [[A:%.+]] = kiln.read @a : tensor<4x8xf32>
// NARROW: [[C:%.+]] = kiln.cast [[A]] {kiln.layer = [[L:#.+]]} : tensor<4x8xf32> to tensor<4x8xbf16>
// NARROW: [[W:%.+]] = kiln.all_gather [[C]] over "dp" {kiln.layer = [[L]]} : tensor<4x8xbf16> -> tensor<8x8xbf16>
// NARROW: kiln.matmul {{%.+}}, [[W]]
// NARROW-NOT: kiln.all_gather [[A]]

// Each micro-batch gathers, because its readers are in the micro-batches.
// PARTS-LABEL: kiln.program @train
// PARTS: [[T:%.+]] = kiln.read @table : tensor<32x8xf32>
// PARTS-NOT: kiln.all_gather
// PARTS: kiln.microbatches
// PARTS: [[FIRST:%.+]] = kiln.all_gather [[T]] over "dp"
// PARTS-NEXT: kiln.embedding {{%.+}}, [[FIRST]]
// PARTS: kiln.yield
// PARTS: kiln.sgd [[T]],

// KEEP-LABEL: kiln.program @train
// KEEP: [[S:%.+]]:4 = kiln.reduce_scatter
// KEEP: kiln.write @table, {{%.+}} : tensor<32x8xf32>
// KEEP: [[G:%.+]] = kiln.all_gather [[S]]#3 over "dp" : tensor<32x8xf32> -> tensor<64x8xf32>
// KEEP: kiln.return {{%.+}}, [[G]],
