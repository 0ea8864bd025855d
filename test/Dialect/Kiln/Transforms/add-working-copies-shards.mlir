// Narrow copies of parameters of which each rank has a shard.

// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=1 clip=false optimizer=sgd' --kiln-shard-parameters=cast-shards=false --kiln-add-working-copies | FileCheck %s --check-prefix=WHOLE
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=1 clip=false optimizer=sgd' --kiln-shard-parameters=cast-shards=false --kiln-add-working-copies=bucket-bytes=20 | FileCheck %s --check-prefix=BUCKETS
// RUN: kiln-opt %s '--kiln-build-step=mesh=dp=4 zero=3 clip=false optimizer=sgd' --kiln-shard-parameters=cast-shards=false --kiln-add-working-copies=gather=false | FileCheck %s --check-prefix=SHARD

// With gather, each rank stores the whole copy and its shard of the master copy, which only the update
// reads. The updated shards of the copy are gathered.
// WHOLE-DAG: kiln.state @w : tensor<33x8xf32> {{{.*}}shard = #kiln.shard<tensor<130x8xf32> over "dp">}
// WHOLE-DAG: kiln.state @w.bf16 : tensor<130x8xbf16> {init = {{[^,]*}}, of = @w, role = #kiln.role<mirror>}
// WHOLE-LABEL: kiln.program @train
// WHOLE-DAG: [[W:%.+]] = kiln.read @w : tensor<33x8xf32>
// WHOLE-DAG: [[N:%.+]] = kiln.read @w.bf16 : tensor<130x8xbf16>
// WHOLE-NOT: kiln.all_gather
// WHOLE: kiln.matmul {{%.+}}, [[N]] trans_b
// WHOLE: kiln.sgd
// WHOLE: [[NEW:%.+]], [[COPY:%.+]] = kiln.sgd [[W]], {{.*}} -> (tensor<33x8xf32>, tensor<33x8xbf16>)
// WHOLE: [[G:%.+]]:2 = kiln.all_gather {{%.+}}, [[COPY]] over "dp" : tensor<3xbf16>, tensor<33x8xbf16> -> tensor<10xbf16>, tensor<130x8xbf16>
// WHOLE: kiln.write @w, [[NEW]]
// WHOLE: kiln.write @w.bf16, [[G]]#1 : tensor<130x8xbf16>

// BUCKETS: kiln.all_gather {{%.+}} over "dp" : tensor<3xbf16> -> tensor<10xbf16>
// BUCKETS: kiln.sgd {{.*}} -> (tensor<33x8xf32>, tensor<33x8xbf16>)
// BUCKETS-NEXT: kiln.all_gather {{%.+}} over "dp" : tensor<33x8xbf16> -> tensor<130x8xbf16>

// Other programs read the copy.
// WHOLE-LABEL: kiln.program @evaluate
// WHOLE-NOT: @w :
// WHOLE: kiln.read @w.bf16 : tensor<130x8xbf16>
// WHOLE-NOT: kiln.all_gather

// Without gather, a copy is divided like its parameter, and programs gather narrow elements.
// SHARD: kiln.state @w.bf16 : tensor<33x8xbf16> {{{.*}}role = #kiln.role<mirror>, shard = #kiln.shard<tensor<130x8xbf16> over "dp">}
// SHARD-LABEL: kiln.program @train
// SHARD: [[N:%.+]] = kiln.read @w.bf16 : tensor<33x8xbf16>
// SHARD: [[G:%.+]] = kiln.all_gather [[N]] over "dp" : tensor<33x8xbf16> -> tensor<130x8xbf16>
// SHARD-NEXT: kiln.matmul {{%.+}}, [[G]] trans_b
// A reader of a wide parameter gets a cast of the gathered copy.
// SHARD: [[G:%.+]] = kiln.all_gather {{%.+}} over "dp" : tensor<3xbf16> -> tensor<10xbf16>
// SHARD-NEXT: [[C:%.+]] = kiln.cast [[G]] : tensor<10xbf16> to tensor<10xf32>
// SHARD-NEXT: kiln.mul [[C]], [[C]]
// SHARD: [[NEW:%.+]], [[COPY:%.+]] = kiln.sgd {{.*}} -> (tensor<33x8xf32>, tensor<33x8xbf16>)
// SHARD-NEXT: kiln.write @w, [[NEW]]
// SHARD-NEXT: kiln.write @w.bf16, [[COPY]]
// SHARD-NOT: kiln.all_gather
// SHARD-LABEL: kiln.program @evaluate
// SHARD-NOT: @w :
// SHARD: [[N:%.+]] = kiln.read @w.bf16 : tensor<33x8xbf16>
// SHARD: kiln.all_gather [[N]] over "dp" : tensor<33x8xbf16> -> tensor<130x8xbf16>

kiln.state @gain : tensor<10xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<130x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @train(%scale: tensor<f64> {kiln.name = "loss_scale"}, %x: tensor<4x8xbf16> {kiln.name = "x"}, %dw: tensor<130x8xf32> {kiln.name = "dw"}) -> (tensor<f64> {kiln.name = "loss"}, tensor<10xf32> {kiln.gradient = @gain}, tensor<130x8xf32> {kiln.gradient = @w}) attributes {kind = #kiln.program_kind<train>, kiln.microbatches = 4 : i64} {
  %a = kiln.read @gain : tensor<10xf32>
  %w = kiln.read @w : tensor<130x8xf32>
  %c = kiln.cast %w : tensor<130x8xf32> to tensor<130x8xbf16>
  %y = kiln.matmul %x, %c trans_b : (tensor<4x8xbf16>, tensor<130x8xbf16>) -> tensor<4x130xbf16>
  %da = kiln.mul %a, %a : tensor<10xf32>
  kiln.return %scale, %da, %dw : tensor<f64>, tensor<10xf32>, tensor<130x8xf32>
}
kiln.program @evaluate(%x: tensor<4x8xbf16> {kiln.name = "x"}) -> (tensor<4x130xbf16> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %w = kiln.read @w : tensor<130x8xf32>
  %c = kiln.cast %w : tensor<130x8xf32> to tensor<130x8xbf16>
  %y = kiln.matmul %x, %c trans_b : (tensor<4x8xbf16>, tensor<130x8xbf16>) -> tensor<4x130xbf16>
  kiln.return %y : tensor<4x130xbf16>
}
