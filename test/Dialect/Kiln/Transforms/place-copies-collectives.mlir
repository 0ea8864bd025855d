// Collectives and kiln.take_shard read copies of states on the host.

// RUN: kiln-opt %s --kiln-place-copies -split-input-file | FileCheck %s
// The backward segment of micro-batches gathers what it reads, with copies between its ops.
// RUN: kiln-opt %S/Inputs/tied.mlir --kiln-set-precision=precision=bf16 --kiln-autodiff=microbatches=4 '--kiln-build-step=mesh=dp=2 zero=3 microbatches=2 clip=false optimizer=sgd' --kiln-shard-parameters=cast-shards --kiln-expand-loss --kiln-set-numerics --kiln-offload-states=parameters=1 --kiln-recompute=policy=none --kiln-offload-activations --kiln-form-dispatches --kiln-place-copies --kiln-divide-microbatches | FileCheck %s --check-prefix=PARTS

// PARTS-LABEL: kiln.program @train
// PARTS: } backward {
// PARTS: kiln.collective_start all_gather {{.*}} -> tensor<64x8xbf16>
// PARTS: kiln.copy_wait
// PARTS: kiln.matmul {{.*}} -> tensor<16x64xbf16>

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @a : tensor<4x8xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8x8xf32> over "dp">}
kiln.state @b : tensor<4x8xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8x8xf32> over "dp">}
kiln.state @c : tensor<8x8xf32, #kiln.memory<host>> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.state @x : tensor<8x8xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}

// An all-gather starts after the copy that it reads, before the readers of the previous one. If it
// casts the shard, the cast starts early, too.
// CHECK-LABEL: kiln.program @gather
// CHECK: [[CA:%.+]] = kiln.copy_in
// CHECK-NEXT: [[A:%.+]] = kiln.copy_wait [[CA]]
// CHECK-NEXT: [[S:%.+]] = kiln.collective_start all_gather [[A]]
// CHECK-NEXT: [[W:%.+]] = kiln.collective_wait [[S]]
// CHECK-NEXT: [[CB:%.+]] = kiln.copy_in
// CHECK-NEXT: [[B:%.+]] = kiln.copy_wait [[CB]]
// CHECK-NEXT: [[N:%.+]] = kiln.dispatch row([[B]])
// CHECK: [[T:%.+]] = kiln.collective_start all_gather [[N]]
// CHECK-NEXT: kiln.matmul {{%.+}}, [[W]]
// CHECK-NEXT: kiln.collective_wait [[T]]
kiln.program @gather() -> (tensor<8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.read @x : tensor<8x8xf32>
  %a = kiln.read @a : tensor<4x8xf32>
  %b = kiln.read @b : tensor<4x8xf32>
  %wa = kiln.all_gather %a over "dp" : tensor<4x8xf32> -> tensor<8x8xf32>
  %y = kiln.matmul %x, %wa {grid = array<i64: 1, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %n = kiln.dispatch row(%b) space [4, 8] : (tensor<4x8xf32>) -> tensor<4x8xbf16> {
  ^bb0(%in: tensor<4x8xf32>):
    %c = kiln.cast %in : tensor<4x8xf32> to tensor<4x8xbf16>
    kiln.yield %c : tensor<4x8xbf16>
  }
  %wb = kiln.all_gather %n over "dp" : tensor<4x8xbf16> -> tensor<8x8xbf16>
  %w = kiln.dispatch row(%y, %wb) space [8, 8] : (tensor<8x8xf32>, tensor<8x8xbf16>) -> tensor<8x8xf32> {
  ^bb0(%l: tensor<8x8xf32>, %r: tensor<8x8xbf16>):
    %c = kiln.cast %r : tensor<8x8xbf16> to tensor<8x8xf32>
    %s = kiln.add %l, %c : tensor<8x8xf32>
    kiln.yield %s : tensor<8x8xf32>
  }
  kiln.return %w : tensor<8x8xf32>
}

// CHECK-LABEL: kiln.program @take
// CHECK: [[I:%.+]] = kiln.copy_in
// CHECK: kiln.matmul
// CHECK: [[C:%.+]] = kiln.copy_wait [[I]]
// CHECK-NEXT: kiln.take_shard [[C]]
kiln.program @take() -> (tensor<8x8xf32>, tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.read @x : tensor<8x8xf32>
  %c = kiln.read @c : tensor<8x8xf32>
  %y = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = kiln.take_shard %c over "dp" : tensor<8x8xf32> -> tensor<4x8xf32>
  %z = kiln.matmul %y, %x {grid = array<i64: 1, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  kiln.return %z, %s : tensor<8x8xf32>, tensor<4x8xf32>
}
}
