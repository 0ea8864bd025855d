// Residuals have one instance per micro-batch in flight.

// RUN: cat %s | kiln-opt --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule --kiln-verify-schedule -split-input-file | FileCheck %s
// RUN: sed 's/order <[^>]*> //' %s | kiln-opt --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule --kiln-verify-schedule -split-input-file -o %t.none
// RUN: FileCheck %s --check-prefix=NONE --input-file=%t.none --implicit-check-not='ring [' --implicit-check-not='token ring'
// RUN: sed 's/order <[^>]*> /order <"alternate"> /' %s | kiln-opt --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule --kiln-verify-schedule -split-input-file | sed 's/ order <"alternate">//' | cmp - %t.none
// RUN: sed 's/order <[^>]*> /order <"F3 F2 B3 F0 B0 B2 F1 B1"> /' %s | kiln-opt --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule --kiln-verify-schedule -split-input-file | FileCheck %s --check-prefix=CHECK
// RUN: sed 's/order <[^>]*> /order <"all-forward-first"> /' %s | kiln-opt --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule --kiln-verify-schedule -split-input-file | FileCheck %s --check-prefix=ALL

// Values that are live in both segments have a ring. Inputs, sums, values that are
// computed before the micro-batches, and values of one segment have none.
// CHECK: kilnrt.arena states 64 height 896
// CHECK-LABEL: kilnrt.program @residuals
// CHECK-NEXT: kilnrt.slot "w" class parameter {{.*}} lifetime [0, 7] state @w why "state"{{$}}
// CHECK-NEXT: kilnrt.slot "x" class input {{.*}} lifetime [0, 7] why "input"{{$}}
// CHECK-NEXT: kilnrt.slot "matmul" class materialized {{.*}} lifetime [0, 7] why "result"{{$}}
// CHECK-NEXT: kilnrt.slot "matmul" class output {{.*}} lifetime [1, 7] why "sum over micro-batches"{{$}}
// CHECK-NEXT: kilnrt.slot "matmul" class output {{.*}} lifetime [1, 7] why "sum over micro-batches"{{$}}
// CHECK-NEXT: [[A:%.+]] = kilnrt.slot "matmul" class activation {{.*}} lifetime [1, 6] ring [64, 2] why "result"{{$}}
// CHECK-NEXT: kilnrt.slot "matmul" class activation {{.*}} lifetime [2, 3] why "result"{{$}}
// CHECK-NEXT: [[C:%.+]] = kilnrt.slot "matmul" class activation {{.*}} lifetime [3, 7] ring [64, 2] why "result"{{$}}
// CHECK-NEXT: kilnrt.slot "matmul" class activation {{.*}} lifetime [4, 6] why "result"{{$}}
// CHECK-NEXT: kilnrt.slot "matmul" class activation {{.*}} lifetime [6, 7] why "result"{{$}}
// CHECK: kilnrt.microbatches 4 order <"{{.+}}"> slots 2 forward {
// CHECK: [[AV:%.+]] = kilnrt.view [[A]][0] : memref<4x4xf32>
// CHECK: [[CV:%.+]] = kilnrt.view [[C]][0] : memref<4x4xf32>
// CHECK-NEXT: kilnrt.gemm on @compute (ro [[AV]] transposed, {{.+}}, wo [[CV]])
// CHECK-NEXT: } backward {
// CHECK-NEXT: [[CV:%.+]] = kilnrt.view [[C]][0] : memref<4x4xf32>
// CHECK: kilnrt.gemm on @compute (ro [[CV]],
// CHECK: kilnrt.gemm on @compute ({{.+}} add_after_first)

// With one micro-batch in flight, the two residuals have one instance each.
// NONE: kilnrt.arena states 64 height 768
// NONE: kilnrt.microbatches 4 forward {

// ALL: kilnrt.arena states 64 height 1152
// ALL: lifetime [1, 6] ring [64, 4]
// ALL: kilnrt.microbatches 4 order <"all-forward-first"> slots 4 forward {
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}
kiln.program @residuals(%x: tensor<16x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32> {kiln.name = "y"}, tensor<4x4xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  %v = kiln.matmul %w, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s:2 = kiln.microbatches sliced(%x) count 4 order <"one-forward-one-backward:2"> : (tensor<16x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%part: tensor<4x4xf32>, %first: tensor<4x4xf32>, %second: tensor<4x4xf32>):
    %a = kiln.matmul %part, %v {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = kiln.matmul %a, %v trans_b {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = kiln.matmul %a, %b trans_a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = kiln.matmul %c, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d = kiln.matmul %l, %v accumulate %first {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %e = kiln.matmul %a, %l trans_a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = kiln.matmul %c, %e accumulate %second {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %d, %t : tensor<4x4xf32>, tensor<4x4xf32>
  }
  kiln.return %s#0, %s#1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Copies on the host that are live in both segments have a ring in the host arena. If
// a copy begins in the forward segment and the backward segment waits for it, its
// token has a ring.
// CHECK: kilnrt.arena states 0 height {{[0-9]+}} host states 0 height 256
// CHECK-LABEL: kilnrt.program @copies
// CHECK: kilnrt.slot "matmul" class activation {{.*}} lifetime [0, 4] why "result"{{$}}
// CHECK-NEXT: kilnrt.slot "matmul" class activation {{.*}} lifetime [1, 6] ring [64, 2] why "result"{{$}}
// CHECK-NEXT: kilnrt.slot "copy_out" class activation in host {{.*}} lifetime [2, 8] ring [64, 2] why "copy on the host"{{$}}
// CHECK-NEXT: kilnrt.slot "copy_out" class activation in host {{.*}} lifetime [3, 10] ring [64, 2] why "copy on the host"{{$}}
// CHECK-NEXT: kilnrt.slot "copy_in" class activation {{.*}} lifetime [7, 11] why "copy on the device"{{$}}
// CHECK-NEXT: kilnrt.slot "copy_in" class activation {{.*}} lifetime [9, 11] why "copy on the device"{{$}}
// CHECK-NEXT: [[T:%.+]] = kilnrt.token{{$}}
// CHECK-NEXT: [[U:%.+]] = kilnrt.token ring{{$}}
// CHECK-NEXT: kilnrt.token{{$}}
// CHECK-NEXT: kilnrt.token{{$}}
// CHECK: kilnrt.begin copy [[T]]
// CHECK: kilnrt.begin copy [[U]]
// CHECK-NEXT: kilnrt.wait [[T]]
// CHECK-NEXT: } backward {
// CHECK: kilnrt.wait [[U]]

// NONE: kilnrt.arena states 0 height {{[0-9]+}} host states 0 height 128
// ALL: kilnrt.arena states 0 height {{[0-9]+}} host states 0 height 512
kiln.program @copies(%x: tensor<16x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 4 order <"one-forward-one-backward:2"> : (tensor<16x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %a = kiln.matmul %part, %part {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = kiln.matmul %part, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = kiln.copy_out %a : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %u = kiln.copy_out %b : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %h = kiln.copy_wait %t, %a : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %c = kiln.matmul %part, %part accumulate %sum trans_a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %i = kiln.copy_wait %u, %b : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %k = kiln.copy_in %h : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
    %l = kiln.copy_wait %k, %h : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
    %m = kiln.copy_in %i : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
    %n = kiln.copy_wait %m, %i : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
    %o = kiln.matmul %l, %n accumulate %c {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %o : tensor<4x4xf32>
  }
  kiln.return %s : tensor<4x4xf32>
}
