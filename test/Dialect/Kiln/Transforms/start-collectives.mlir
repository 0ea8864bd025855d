// Collectives become starts and waits. All-gathers of states are joined and start early.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-place-copies -split-input-file | FileCheck %s
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=2 '--kiln-build-step=mesh=dp=2 zero=3 clip=false optimizer=sgd' --kiln-shard-parameters --kiln-expand-loss --kiln-set-numerics --kiln-recompute=policy=none -o %t.planned
// RUN: FileCheck %s --check-prefix=PLANNED < %t.planned
// RUN: kiln-opt %t.planned --kiln-form-dispatches --kiln-place-copies | FileCheck %s --check-prefix=STEP --implicit-check-not=kiln.layer
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-autodiff=microbatches=4 '--kiln-build-step=mesh=dp=2 zero=3 microbatches=2 clip=false optimizer=sgd' --kiln-shard-parameters --kiln-expand-loss --kiln-set-numerics --kiln-recompute=policy=none --kiln-form-dispatches --kiln-place-copies --kiln-divide-microbatches | FileCheck %s --check-prefix=PARTS

// The policy that keeps everything releases gathered parameters, and gathers them again.
// PLANNED-LABEL: kiln.program @train
// PLANNED: kiln.phase backward
// PLANNED: [[W:%.+]] = kiln.recompute([[SHARD:%.+]]) :
// PLANNED-NEXT: ^bb0([[IN:%.+]]: tensor<4x8xf32>):
// PLANNED-NEXT: [[G:%.+]] = kiln.all_gather [[IN]]
// PLANNED-NEXT: kiln.yield [[G]]
// PLANNED: kiln.matmul {{%.+}}, [[W]] trans_b

// The all-gathers of a layer are joined. Each starts before the readers of the previous one.
// STEP-LABEL: kiln.program @train
// STEP-DAG: [[T:%.+]] = kiln.read @table
// STEP-DAG: [[A:%.+]] = kiln.read @a
// STEP-DAG: [[B:%.+]] = kiln.read @b
// STEP-DAG: [[C:%.+]] = kiln.read @c
// STEP: [[S0:%.+]] = kiln.collective_start all_gather [[T]]
// STEP-NEXT: [[W0:%.+]] = kiln.collective_wait [[S0]]
// STEP-NEXT: [[S1:%.+]]:2 = kiln.collective_start all_gather [[A]], [[B]]
// STEP-NEXT: kiln.dispatch row({{%.+}}, [[W0]])
// STEP: [[W1:%.+]]:2 = kiln.collective_wait [[S1]]#0, [[S1]]#1
// STEP-NEXT: [[S2:%.+]] = kiln.collective_start all_gather [[C]]
// STEP-NEXT: kiln.dispatch gemm({{%.+}}, [[W1]]#0)
// STEP: kiln.matmul {{%.+}}, [[W1]]#1
// STEP-NEXT: [[W2:%.+]] = kiln.collective_wait [[S2]]
// The table is gathered again for the loss.
// STEP-NEXT: [[S3:%.+]] = kiln.collective_start all_gather [[T]]
// STEP: [[W3:%.+]] = kiln.collective_wait [[S3]]
// The backward pass gathers the layers again, in the order in which it reads them.
// STEP-NEXT: [[S4:%.+]] = kiln.collective_start all_gather [[C]]
// STEP-NEXT: kiln.matmul {{%.+}}, [[W3]] trans_b
// STEP: kiln.collective_start all_reduce
// STEP: [[W4:%.+]] = kiln.collective_wait [[S4]]
// STEP-NEXT: [[S5:%.+]]:2 = kiln.collective_start all_gather [[B]], [[A]]
// STEP-NEXT: kiln.matmul {{%.+}}, [[W4]] trans_b
// STEP: kiln.collective_wait [[S5]]#0, [[S5]]#1
// STEP: [[R:%.+]]:4 = kiln.collective_start reduce_scatter
// STEP-NEXT: kiln.collective_wait [[R]]#0, [[R]]#1, [[R]]#2, [[R]]#3

// The transfers of a segment complete in it. The backward segment begins with the logits.
// PARTS-LABEL: kiln.program @train
// PARTS: forward {
// PARTS-COUNT-3: kiln.collective_start all_gather
// PARTS-NOT: kiln.collective_start
// PARTS: } backward {
// PARTS: [[S:%.+]] = kiln.collective_start all_gather {{.*}} -> tensor<64x8xf32>
// PARTS-NEXT: [[W:%.+]] = kiln.collective_wait [[S]]
// PARTS-NEXT: kiln.collective_start all_gather
// PARTS-NEXT: kiln.matmul {{%.+}}, [[W]] trans_b
// PARTS: kiln.collective_start reduce_scatter
// PARTS: kiln.yield

// Large all-gathers of a layer are not joined.
// CHECK-LABEL: kiln.program @large
// CHECK: [[A:%.+]] = kiln.collective_start all_gather {{%[^,]+}} over
// CHECK: kiln.collective_wait [[A]]
// CHECK: [[B:%.+]]:2 = kiln.collective_start all_gather {{%[^,]+}}, {{%[^,]+}} over
// CHECK: kiln.collective_wait [[B]]#0, [[B]]#1
#layer = #kiln.layer<"h.0", 0>
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @a : tensor<512x1024xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<1024x1024xf32> over "dp">}
kiln.state @b : tensor<1x512xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x256xf32> over "dp">}
kiln.state @c : tensor<1x512xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<4x256xf32> over "dp">}
kiln.program @large() -> (tensor<1024x1024xf32>, tensor<4x256xf32>) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.read @a : tensor<512x1024xf32>
  %b = kiln.read @b : tensor<1x512xf32>
  %c = kiln.read @c : tensor<1x512xf32>
  %x = kiln.all_gather %a over "dp" {kiln.layer = #layer} : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %u = kiln.exp %x {kiln.layer = #layer} : tensor<1024x1024xf32>
  %y = kiln.all_gather %b over "dp" {kiln.layer = #layer} : tensor<1x512xf32> -> tensor<4x256xf32>
  %z = kiln.all_gather %c over "dp" {kiln.layer = #layer} : tensor<1x512xf32> -> tensor<4x256xf32>
  %v = kiln.add %y, %z {kiln.layer = #layer} : tensor<4x256xf32>
  kiln.return %u, %v : tensor<1024x1024xf32>, tensor<4x256xf32>
}
}

// -----

// Different element types, and values that are no states, are not joined. A state that several
// all-gathers of a layer read is gathered once.
// CHECK-LABEL: kiln.program @separate
// CHECK-DAG: [[A:%.+]] = kiln.read @a
// CHECK-DAG: [[B:%.+]] = kiln.read @b
// CHECK: [[S:%.+]] = kiln.collective_start all_gather [[A]] over
// CHECK-NEXT: kiln.collective_start all_gather [[B]] over "dp" : tensor<4xbf16> -> tensor<8xbf16>
// CHECK: [[W:%.+]] = kiln.collective_wait [[S]]
// CHECK-NEXT: [[X:%.+]]:2 = kiln.dispatch row([[W]])
// CHECK: kiln.collective_start all_gather [[X]]#1 over "dp"
#layer = #kiln.layer<"h.0", 0>
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @a : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "dp">}
kiln.state @b : tensor<4xbf16> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xbf16> over "dp">}
kiln.program @separate() -> (tensor<8xf32>, tensor<8xbf16>, tensor<16xf32>) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.read @a : tensor<4xf32>
  %b = kiln.read @b : tensor<4xbf16>
  %s = kiln.all_gather %a over "dp" {kiln.layer = #layer} : tensor<4xf32> -> tensor<8xf32>
  %t = kiln.all_gather %a over "dp" {kiln.layer = #layer} : tensor<4xf32> -> tensor<8xf32>
  %u = kiln.add %s, %t {kiln.layer = #layer} : tensor<8xf32>
  %c = kiln.all_gather %b over "dp" {kiln.layer = #layer} : tensor<4xbf16> -> tensor<8xbf16>
  %d = kiln.exp %c {kiln.layer = #layer} : tensor<8xbf16>
  %x = kiln.exp %u {kiln.layer = #layer} : tensor<8xf32>
  %y = kiln.all_gather %x over "dp" {kiln.layer = #layer} : tensor<8xf32> -> tensor<16xf32>
  kiln.return %u, %d, %y : tensor<8xf32>, tensor<8xbf16>, tensor<16xf32>
}
}
