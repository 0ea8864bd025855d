// Sums over ranks are transfers on a queue of their axis.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-place-copies --kiln-divide-microbatches --kiln-schedule -split-input-file | FileCheck %s

module attributes {kiln.mesh = {dp = 2 : i64}} {
// A value that only the sum reads is summed in place, and is live until the wait. A value that
// another op reads later is copied first.
// CHECK: kilnrt.queue @dp engine link
// CHECK-LABEL: kilnrt.program @sums
// CHECK: [[X:%.+]] = kilnrt.slot "matmul" class activation offset {{[0-9]+}} bytes 64 lifetime [0, 6]
// CHECK: [[Y:%.+]] = kilnrt.slot "matmul" class activation offset {{[0-9]+}} bytes 64 lifetime [1, 4]
// CHECK: [[C:%.+]] = kilnrt.slot "collective_start" class activation offset {{[0-9]+}} bytes 64 lifetime [2, 6] why "copy that is summed"
// CHECK: [[T:%.+]] = kilnrt.token
// CHECK: [[XV:%.+]] = kilnrt.view [[X]][0]
// CHECK: [[YV:%.+]] = kilnrt.view [[Y]][0]
// CHECK: [[CV:%.+]] = kilnrt.view [[C]][0]
// CHECK: kilnrt.copy on @compute (ro [[YV]], wo [[CV]])
// CHECK: kilnrt.begin all_reduce over "dp" [[T]] on @dp after [@compute] (ro [[XV]], ro [[CV]], wo [[XV]], wo [[CV]])
// CHECK: kilnrt.gemm on @compute (ro {{%.+}}, ro [[YV]], wo {{%.+}})
// CHECK: kilnrt.wait [[T]] on @compute
// CHECK: kilnrt.gemm on @compute (ro [[XV]], ro [[CV]], wo {{%.+}})
kiln.program @sums(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s:2 = kiln.all_reduce %x, %y over "dp" : tensor<4x4xf32>, tensor<4x4xf32>
  %z = kiln.matmul %a, %y {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = kiln.matmul %s#0, %s#1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %z, %u : tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
// The sum of %s over ranks starts when the last backward segment has computed the sum over
// micro-batches, and overlaps with the rest of that segment.
// CHECK-LABEL: kilnrt.program @gradients
// CHECK: kilnrt.microbatches 2 forward {
// CHECK: } backward {
// CHECK: kilnrt.gemm {{.*}} add_after_first
// CHECK: kilnrt.begin all_reduce over "dp" [[T:%[^ ]+]] on @dp {{.*}} when last
// CHECK: kilnrt.gemm {{.*}} add_after_first
// CHECK-NEXT: }
// CHECK: kilnrt.begin all_reduce over "dp" [[U:%[^ ]+]] on @dp {{[^w]*}}wo {{[^w]*$}}
// CHECK: kilnrt.wait [[T]] on @compute{{$}}
// CHECK: kilnrt.wait [[U]] on @compute{{$}}
kiln.program @gradients(%x: tensor<8x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s:2 = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%part: tensor<4x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %t = kiln.matmul %part, %part accumulate %a trans_a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %u = kiln.matmul %part, %part accumulate %b trans_b {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %t, %u : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %p = kiln.all_reduce %s#0 over "dp" : tensor<4x4xf32>
  %q = kiln.all_reduce %s#1 over "dp" : tensor<4x4xf32>
  kiln.return %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
// Of two operands with the same bytes, one is copied, so that no bytes are summed twice.
// CHECK-LABEL: kilnrt.program @aliases
// CHECK: [[X:%.+]] = kilnrt.view %matmul.slot[0]
// CHECK: [[C:%.+]] = kilnrt.view %collective_start.slot[0]
// CHECK: kilnrt.copy on @compute (ro {{%.+}}, wo [[C]])
// CHECK: kilnrt.begin all_reduce over "dp" %token on @dp after [@compute] (ro [[X]], ro [[C]], wo [[X]], wo [[C]])
kiln.program @aliases(%a: tensor<4x4xf32> {kiln.name = "a", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32>, tensor<16xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = kiln.reshape %x : tensor<4x4xf32> to tensor<16xf32>
  %s:2 = kiln.all_reduce %x, %y over "dp" : tensor<4x4xf32>, tensor<16xf32>
  kiln.return %s#0, %s#1 : tensor<4x4xf32>, tensor<16xf32>
}
}
