// RUN: kiln-opt %s --kiln-form-dispatches --kiln-divide-microbatches --kiln-schedule -split-input-file | FileCheck %s

// The matmul writes into the slot of the epilogue's result. The residual dies
// here but keeps its slot: the matmul writes before the residual is read.
// CHECK: kilnrt.kernel @[[K:k[0-9]+_epilogue]] family<row> epilogue space [8, 4] row_strides [4, 4, 4, 4] {
// CHECK: ^bb0([[P:%.+]]: tensor<8x4xf32>, [[B:%.+]]: tensor<4xf32>, [[R:%.+]]: tensor<8x4xf32>):
// CHECK-NOT: kiln.matmul
// CHECK: kiln.yield
// CHECK-LABEL: kilnrt.program @residual
// CHECK: [[X:%.+]] = kilnrt.slot "x"
// CHECK: [[W:%.+]] = kilnrt.slot "w"
// CHECK: [[B:%.+]] = kilnrt.slot "b"
// CHECK: [[R:%.+]] = kilnrt.slot "matmul"
// CHECK: [[Y:%.+]] = kilnrt.slot "matmul+add+add" {{.*}} why "matmul, then result of its epilogue"
// CHECK: [[XV:%.+]] = kilnrt.view [[X]][0]
// CHECK: [[WV:%.+]] = kilnrt.view [[W]][0]
// CHECK: [[BV:%.+]] = kilnrt.view [[B]][0]
// CHECK: [[YV:%.+]] = kilnrt.view [[Y]][0]
// CHECK: [[RV:%.+]] = kilnrt.view [[R]][0]
// CHECK: kilnrt.gemm on @compute (ro [[XV]], ro [[WV]], wo [[RV]]) grid [1, 1]{{$}}
// CHECK-NEXT: kilnrt.gemm on @compute (ro [[XV]], ro [[WV]], wo [[YV]]) grid [1, 1] epilogue @[[K]] (ro [[BV]], ro [[RV]], wo [[YV]]){{$}}
// CHECK-NOT: kilnrt.launch
kiln.program @residual(%x: tensor<8x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %w: tensor<4x4xf32> {kiln.name = "w", kiln.input = #kiln.input<data>}, %b: tensor<4xf32> {kiln.name = "b", kiln.input = #kiln.input<data>}) -> (tensor<8x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %r = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %m = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %bb = kiln.broadcast %b dims [1] : tensor<4xf32> to tensor<8x4xf32>
  %h = kiln.add %m, %bb : tensor<8x4xf32>
  %y = kiln.add %h, %r : tensor<8x4xf32>
  kiln.return %y : tensor<8x4xf32>
}

// -----

// One result reuses the slot of the matmul result, the other that of a dead
// epilogue operand, but not that of a matmul operand that other tiles read.
// CHECK-LABEL: kilnrt.program @gate_grad
// CHECK: [[X:%.+]] = kilnrt.slot "x"
// CHECK: [[A:%.+]] = kilnrt.slot "matmul"
// CHECK: [[B:%.+]] = kilnrt.slot "matmul"
// CHECK: [[Y:%.+]] = kilnrt.slot "matmul+swiglu_grad"
// CHECK-NOT: kilnrt.slot
// CHECK: [[XV:%.+]] = kilnrt.view [[X]][0]
// CHECK: [[YV:%.+]] = kilnrt.view [[Y]][0]
// CHECK: [[BV:%.+]] = kilnrt.view [[B]][0]
// CHECK: [[AV:%.+]] = kilnrt.view [[A]][0]
// CHECK: kilnrt.gemm on @compute (ro [[XV]], ro [[XV]], wo [[AV]]) grid [1, 1]{{$}}
// CHECK: kilnrt.gemm on @compute (ro [[AV]], ro [[XV]], wo [[BV]]) grid [1, 1]{{$}}
// CHECK: kilnrt.gemm on @compute (ro [[AV]], ro [[AV]], wo [[YV]]) grid [1, 1] epilogue @{{.+}} (ro [[AV]], ro [[BV]], wo [[YV]], wo [[BV]])
kiln.program @gate_grad(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32> {kiln.name = "a"}, tensor<4x4xf32> {kiln.name = "b"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %a = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = kiln.matmul %a, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %da, %db = kiln.swiglu_grad %a, %b, %m : tensor<4x4xf32>
  kiln.return %da, %db : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// The matmul writes where its epilogue's result goes, inside the concat.
// CHECK-LABEL: kilnrt.program @concat
// CHECK: [[C:%.+]] = kilnrt.slot "concat"
// CHECK: [[V:%.+]] = kilnrt.view [[C]][16] : memref<4x4xf32, strided<[8, 1]>>
// CHECK: kilnrt.gemm on @compute ({{.*}}, wo [[V]]) grid [1, 1] epilogue @{{.+}} (wo [[V]])
kiln.program @concat(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x8xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %r = kiln.matmul %x, %x trans_a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = kiln.relu %m : tensor<4x4xf32>
  %c = kiln.concat %r, %g dim 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  kiln.return %c : tensor<4x8xf32>
}

// -----

// The result must be stored in the buffer of the running sum, which the
// epilogue reads: the matmul result needs a buffer of its own.
// CHECK-LABEL: kilnrt.program @sum
// CHECK: [[S:%.+]] = kilnrt.slot {{.*}} why "sum over micro-batches"
// CHECK: [[P:%.+]] = kilnrt.slot {{.*}} why "matmul of which only the results of the epilogue are kept"
// CHECK: kilnrt.microbatches 2 forward {
// CHECK: backward {
// CHECK: [[PV:%.+]] = kilnrt.view [[P]][0]
// CHECK: [[SV:%.+]] = kilnrt.view [[S]][0]
// CHECK: kilnrt.gemm on @compute ({{.*}}, wo [[PV]]) grid [1, 1] epilogue @{{.+}} (ro [[SV]], wo [[SV]])
kiln.program @sum(%x: tensor<8x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}) -> (tensor<4x4xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %m = kiln.matmul %part, %part {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %g = kiln.relu %m : tensor<4x4xf32>
    %n = kiln.add %g, %sum : tensor<4x4xf32>
    kiln.yield %n : tensor<4x4xf32>
  }
  kiln.return %s : tensor<4x4xf32>
}

// -----

// A matmul result with another use has a slot. Dropout keys are arguments.
// CHECK-LABEL: kilnrt.program @kept
// CHECK: [[P:%.+]] = kilnrt.slot "matmul+dropout"
// CHECK: [[D:%.+]] = kilnrt.slot "matmul+dropout"
// CHECK: [[PV:%.+]] = kilnrt.view [[P]][0]
// CHECK: [[DV:%.+]] = kilnrt.view [[D]][0]
// CHECK: kilnrt.gemm on @compute ({{.*}}, wo [[PV]]) grid [1, 1] epilogue @{{.+}} (ro {{%.+}}, wo [[DV]]) args [7]
kiln.program @kept(%x: tensor<4x4xf32> {kiln.name = "x", kiln.input = #kiln.input<data>}, %rng: tensor<1x3xi64> {kiln.name = "rng"}) -> (tensor<4x4xf32> {kiln.name = "y"}, tensor<4x4xf32> {kiln.name = "z"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %m = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = kiln.dropout %m, %rng {p = 2.5e-01, key = 7, sequences = 2} : (tensor<4x4xf32>, tensor<1x3xi64>) -> tensor<4x4xf32>
  kiln.return %m, %d : tensor<4x4xf32>, tensor<4x4xf32>
}
