// RUN: kiln-opt %s --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule -split-input-file | FileCheck %s

// Source and copy live from the beginning of the copy to its wait; what comes
// back has a slot of its own. The host has an arena of its own.
// CHECK: kilnrt.arena states 0 height {{[0-9]+}} host states 0 height 64
// CHECK-LABEL: kilnrt.program @there_and_back
// CHECK: [[X:%.+]] = kilnrt.slot "matmul" class activation offset {{[0-9]+}} bytes 64 lifetime [0, 3]
// CHECK: [[H:%.+]] = kilnrt.slot "copy_out" class activation in host offset 0 bytes 64 lifetime [1, 6] why "copy on the host"
// CHECK: [[Y:%.+]] = kilnrt.slot "copy_in" class activation offset {{[0-9]+}} bytes 64 lifetime [5, 7] why "copy on the device"
// CHECK: [[T:%.+]] = kilnrt.token
// CHECK: [[U:%.+]] = kilnrt.token
// CHECK: [[XV:%.+]] = kilnrt.view [[X]][0] : memref<4x4xf32>
// CHECK-NEXT: kilnrt.gemm on @compute ({{.*}}, wo [[XV]])
// CHECK-NEXT: [[HV:%.+]] = kilnrt.view [[H]][0] : memref<4x4xf32, #kiln.memory<host>>
// CHECK-NEXT: kilnrt.begin copy [[T]] on @copy_out after [@compute] (ro [[XV]], wo [[HV]])
// CHECK-NEXT: kilnrt.view
// CHECK-NEXT: kilnrt.gemm
// CHECK-NEXT: kilnrt.wait [[T]] on @compute{{$}}
// CHECK-NEXT: kilnrt.view
// CHECK-NEXT: kilnrt.gemm
// CHECK-NEXT: [[YV:%.+]] = kilnrt.view [[Y]][0] : memref<4x4xf32>
// CHECK-NEXT: kilnrt.begin copy [[U]] on @copy_in after [@compute] (ro [[HV]], wo [[YV]])
// CHECK-NEXT: kilnrt.wait [[U]] on @compute{{$}}
// CHECK-NEXT: kilnrt.gemm on @compute (ro {{%.+}}, ro [[YV]], wo {{%.+}})
kiln.program @there_and_back(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = kiln.copy_out %x : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %1 = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %h = kiln.copy_wait %f, %x : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %2 = kiln.matmul %a, %1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = kiln.copy_in %h : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %y = kiln.copy_wait %g, %h : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %3 = kiln.matmul %2, %y {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %3 : tensor<4x4xf32>
}

// -----

// The optimizer on the host. States have places on both sides; a gradient that is
// copied is one there too; the update writes over the state that it reads; and what
// becomes the mirror's new value is copied straight into it.
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w.device : tensor<4x4xf32> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}
// CHECK: kilnrt.arena states 64 height {{[0-9]+}} host states 64 height 128
// CHECK-LABEL: kilnrt.program @train
// CHECK: [[W:%.+]] = kilnrt.slot "w" class parameter in host offset 0 bytes 64 lifetime [0, 6] state @w why "state"
// CHECK: [[M:%.+]] = kilnrt.slot "w.device" class parameter offset 0 bytes 64 {{.*}} state @w.device why "state"
// CHECK: [[G:%.+]] = kilnrt.slot "matmul" class gradient
// CHECK: [[H:%.+]] = kilnrt.slot "copy_out" class gradient in host offset 64 bytes 64 lifetime [2, 4] why
// CHECK-NOT: kilnrt.slot
// CHECK: [[T:%.+]] = kilnrt.token
// CHECK: [[U:%.+]] = kilnrt.token
// CHECK: [[MV:%.+]] = kilnrt.view [[M]][0]
// CHECK: [[GV:%.+]] = kilnrt.view [[G]][0]
// CHECK: [[HV:%.+]] = kilnrt.view [[H]][0]
// CHECK-NEXT: kilnrt.begin copy [[T]] on @copy_out after [@compute] (ro [[GV]], wo [[HV]])
// CHECK-NEXT: kilnrt.wait [[T]] on @compute
// CHECK-NEXT: [[WV:%.+]] = kilnrt.view [[W]][0]
// CHECK-NEXT: kilnrt.launch {{.*}} (ro [[WV]], ro [[HV]], {{.*}}, wo [[WV]])
// CHECK-NEXT: kilnrt.begin copy [[U]] on @copy_in after [@compute] (ro [[WV]], wo [[MV]])
// CHECK-NEXT: kilnrt.wait [[U]] on @compute
// CHECK-NOT: kilnrt.copy
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %d = kiln.read @w.device : tensor<4x4xf32>
  %y = kiln.matmul %x, %d {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = kiln.matmul %x, %y trans_a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = kiln.copy_out %g : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %f, %g : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %p = kiln.sgd %w, %h, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32, #kiln.memory<host>>
  %i = kiln.copy_in %p : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  kiln.write @w, %p : tensor<4x4xf32, #kiln.memory<host>>
  %n = kiln.copy_wait %i, %p : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  kiln.write @w.device, %n : tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// A state whose entry value is still wanted is not copied over: the new value
// waits in a slot of its own, and is copied on its side at the end.
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kilnrt.program @train
// CHECK: [[W:%.+]] = kilnrt.slot "w"
// CHECK: [[X:%.+]] = kilnrt.slot "matmul"
// CHECK: [[H:%.+]] = kilnrt.slot "copy_out" class activation in host
// CHECK: [[D:%.+]] = kilnrt.slot "copy_in"
// CHECK: [[XV:%.+]] = kilnrt.view [[X]][0]
// CHECK: [[HV:%.+]] = kilnrt.view [[H]][0]
// CHECK: kilnrt.begin copy {{%.+}} on @copy_out after [@compute] (ro [[XV]], wo [[HV]])
// CHECK: [[WV:%.+]] = kilnrt.view [[W]][0]
// CHECK: [[DV:%.+]] = kilnrt.view [[D]][0]
// CHECK: kilnrt.begin copy {{%.+}} on @copy_in after [@compute] (ro [[WV]], wo [[DV]])
// CHECK: kilnrt.gemm on @compute (ro {{%.+}}, ro [[DV]],
// CHECK-NEXT: kilnrt.copy on @compute (ro [[HV]], wo [[WV]])
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %n = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = kiln.copy_out %n : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %f, %n : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %i = kiln.copy_in %w : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %d = kiln.copy_wait %i, %w : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %y = kiln.matmul %x, %d {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.write @w, %h : tensor<4x4xf32, #kiln.memory<host>>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// An update on the host moves behind the copies that read the state, their waits
// included.
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kilnrt.program @train
// CHECK: [[W:%.+]] = kilnrt.slot "w"
// CHECK: [[WV:%.+]] = kilnrt.view [[W]][0]
// CHECK: kilnrt.begin copy [[T:%.+]] on @copy_in after [@compute] (ro [[WV]],
// CHECK-NEXT: kilnrt.view
// CHECK-NEXT: kilnrt.gemm
// CHECK-NEXT: kilnrt.wait [[T]] on @compute
// CHECK-NEXT: kilnrt.launch {{.*}} (ro [[WV]], {{.*}}, wo [[WV]])
kiln.program @train(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %f = kiln.copy_out %x : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %f, %x : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %p = kiln.sgd %w, %h, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32, #kiln.memory<host>>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32, #kiln.memory<host>>
  kiln.write @w, %p : tensor<4x4xf32, #kiln.memory<host>>
  %i = kiln.copy_in %w : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %z = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = kiln.copy_wait %i, %w : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %y = kiln.matmul %z, %d {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// A part of what lies at the right distance is copied from where it lies: rows of
// a tensor, by the offset of the first; of every micro-batch its own.
// CHECK-LABEL: kilnrt.program @parts
// CHECK: [[X:%.+]] = kilnrt.slot "x"
// CHECK: [[ROWS:%.+]] = kilnrt.view [[X]][64] : memref<4x4xf32>
// CHECK: kilnrt.begin copy {{%.+}} on @copy_out after [@compute] (ro [[ROWS]],
// CHECK: kilnrt.microbatches 2 forward {
// CHECK-NEXT: [[PART:%.+]] = kilnrt.view [[X]][0 + 64 * microbatch] : memref<4x4xf32>
// CHECK: kilnrt.begin copy [[T:%.+]] on @copy_out after [@compute] (ro [[PART]],
// CHECK: kilnrt.wait [[T]] on @compute
kiln.program @parts(%x: tensor<8x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.slice %x [4, 0] : tensor<8x4xf32> to tensor<4x4xf32>
  %f = kiln.copy_out %s : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %h = kiln.copy_wait %f, %s : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %g = kiln.copy_in %h : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %d = kiln.copy_wait %g, %h : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
  %sum = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %before: tensor<4x4xf32>):
    %k = kiln.copy_out %part : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %l = kiln.copy_wait %k, %part : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %m = kiln.copy_in %l : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
    %n = kiln.copy_wait %m, %l : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
    %t = kiln.matmul %n, %d accumulate %before {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %t : tensor<4x4xf32>
  }
  kiln.return %sum : tensor<4x4xf32>
}

// -----

// A copy may be in progress during micro-batches: its slots are live in all of them.
// CHECK-LABEL: kilnrt.program @across_microbatches
// CHECK: kilnrt.slot "x" {{.*}} lifetime [0, 2]
// CHECK: kilnrt.slot "copy_out" class input in host {{.*}} lifetime [0, 2]
// CHECK: kilnrt.begin copy [[T:%.+]] on @copy_out
// CHECK-NEXT: kilnrt.microbatches 2 forward {
// CHECK: } backward {
// CHECK: }
// CHECK-NEXT: kilnrt.wait [[T]] on @compute
kiln.program @across_microbatches(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %f = kiln.copy_out %x : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<2x4xf32>, %sum: tensor<4x4xf32>):
    %t = kiln.matmul %part, %part accumulate %sum trans_a {grid = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %t : tensor<4x4xf32>
  }
  %h = kiln.copy_wait %f, %x : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
  kiln.return %s : tensor<4x4xf32>
}

// -----

// An update moves after all readers of its state, and overwrites the state.
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kilnrt.program @two_reads
// CHECK: kilnrt.gemm on @compute
// CHECK: kilnrt.launch
// CHECK-NOT: kilnrt.copy
kiln.program @two_reads(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %one: tensor<f64> {kiln.name = "one", kiln.input = #kiln.input<data>}, %lr: tensor<f64> {kiln.name = "lr"}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %v = kiln.read @w : tensor<4x4xf32>
  %w = kiln.read @w : tensor<4x4xf32>
  %p = kiln.sgd %w, %x, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @w, %p : tensor<4x4xf32>
  %y = kiln.matmul %x, %v {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}
