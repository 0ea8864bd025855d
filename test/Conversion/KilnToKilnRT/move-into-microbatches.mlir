// Commands that are before or after the micro-batches, and start or wait for
// transfers, move into the first or the last execution of a segment.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule -split-input-file | FileCheck %s

// The copy of the sum %s to the host starts when the last backward segment has
// computed the sum, so its slot on the host is live from there on. The update
// waits for the copy, and moves with it. The sum %t is complete only at the end.
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kilnrt.program @gradient
// CHECK-DAG: [[W:%.+]] = kilnrt.slot "w"
// CHECK-DAG: kilnrt.slot "matmul" {{.*}} lifetime [0, 6] why "sum over micro-batches"
// CHECK-DAG: kilnrt.slot "copy_out" class gradient in host {{.*}} lifetime [1, 3] why "copy on the host"
// CHECK-DAG: kilnrt.slot "copy_out" class {{.*}} in host {{.*}} lifetime [5, 6] why "copy on the host"
// CHECK: kilnrt.microbatches 2 forward {
// CHECK: } backward {
// CHECK: kilnrt.gemm {{.*}} add_after_first
// CHECK: kilnrt.begin copy [[T:%.+]] on @copy_out {{.*}} when last
// CHECK-NEXT: kilnrt.wait [[T]] on @compute when last
// CHECK: kilnrt.launch {{.*}} when last
// CHECK: kilnrt.gemm {{.*}} add_after_first
// CHECK-NEXT: }
// CHECK: kilnrt.begin copy [[U:%.+]] on @copy_out {{[^w]*}}wo {{[^w]*$}}
// CHECK-NEXT: kilnrt.wait [[U]] on @compute
kiln.program @gradient(%x: tensor<8x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %s:2 = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%part: tensor<4x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %t = kiln.matmul %part, %part accumulate %a trans_a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %u = kiln.matmul %part, %part accumulate %b trans_b {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %t, %u : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %f = kiln.copy_out %s#0 : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %g = kiln.copy_out %s#1 : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %f, %s#0 : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %p = kiln.sgd %w, %h, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32, #kiln.memory<host>>
  kiln.write @w, %p : tensor<4x4xf32, #kiln.memory<host>>
  %i = kiln.copy_wait %g, %s#1 : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  kiln.return %s#0 : tensor<4x4xf32>
}

// -----

// All commands that read the sum %s move into micro-batches. The sum is
// nevertheless live in all of them: its lifetime ends after them.
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kilnrt.program @all_readers_move
// CHECK: kilnrt.slot "matmul" class gradient {{.*}} lifetime [0, 5] why "sum over micro-batches"
// CHECK: kilnrt.microbatches 2 order <"all-forward-first"> slots 2 forward {
// CHECK: kilnrt.launch {{.*}} when last
kiln.program @all_readers_move(%x: tensor<8x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %s:2 = kiln.microbatches sliced(%x) count 2 order <"all-forward-first"> : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%part: tensor<4x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %t = kiln.matmul %part, %part accumulate %a trans_a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %u = kiln.matmul %part, %part accumulate %b trans_b {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %t, %u : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %f = kiln.copy_out %s#0 : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %f, %s#0 : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %p = kiln.sgd %w, %h, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32, #kiln.memory<host>>
  kiln.write @w, %p : tensor<4x4xf32, #kiln.memory<host>>
  %y = kiln.matmul %s#1, %s#1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// Waits for copies that start before micro-batches move to the first reader: %v is
// read in the forward segment, %w only in the backward segment. The wait for %u,
// which a command before the micro-batches reads, stays.
kiln.state @u : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}
kiln.state @v : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}
// CHECK-LABEL: kilnrt.program @waits
// CHECK: kilnrt.begin copy [[U:%.+]] on @copy_in
// CHECK: kilnrt.begin copy [[V:%.+]] on @copy_in
// CHECK: kilnrt.begin copy [[W:%.+]] on @copy_in
// CHECK-NEXT: kilnrt.wait [[U]] on @compute{{$}}
// CHECK-NOT: kilnrt.wait
// CHECK: kilnrt.microbatches 2 forward {
// CHECK-NEXT: kilnrt.wait [[V]] on @compute when first
// CHECK: kilnrt.gemm
// CHECK: } backward {
// CHECK: kilnrt.gemm
// CHECK-NEXT: kilnrt.wait [[W]] on @compute when first
// CHECK: kilnrt.gemm
// CHECK-NOT: kilnrt.wait
kiln.program @waits(%x: tensor<8x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %u = kiln.read @u : tensor<4x4xf32, #kiln.memory<host>>
  %v = kiln.read @v : tensor<4x4xf32, #kiln.memory<host>>
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %fu = kiln.copy_in %u : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %fv = kiln.copy_in %v : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %fw = kiln.copy_in %w : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %du = kiln.copy_wait %fu, %u : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %uu = kiln.matmul %du, %du {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dv = kiln.copy_wait %fv, %v : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %dw = kiln.copy_wait %fw, %w : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %a = kiln.matmul %part, %dv {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = kiln.matmul %a, %part {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = kiln.matmul %c, %dw accumulate %sum {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %b : tensor<4x4xf32>
  }
  %y = kiln.matmul %s, %uu {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}
