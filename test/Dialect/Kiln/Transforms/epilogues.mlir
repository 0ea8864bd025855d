// RUN: kiln-opt %s --kiln-form-dispatches --kiln-divide-microbatches --kiln-verify-level=level=dispatched -split-input-file | FileCheck %s
// RUN: kiln-opt %s --kiln-form-dispatches=epilogues=false -split-input-file | FileCheck %s --check-prefix=NONE
// RUN: kiln-opt %s --kiln-form-dispatches=fuse=false -split-input-file | FileCheck %s --check-prefix=NONE

// A target whose GEMMs are computed by a vendor library has no epilogues on tiles.
// RUN: sed 's/^\/\/ -----/}\n&\nmodule attributes {kiln.target = "cuda"} {/; 1s/^/module attributes {kiln.target = "cuda"} {\n/; $s/$/\n}/' %s | kiln-opt --kiln-form-dispatches -split-input-file | FileCheck %s --check-prefix=NONE

// NONE-NOT: kiln.dispatch gemm

// Bias and activation run on the tiles of the matmul, whose result is no longer
// a separate value. The read of the bias moves before the matmul.
kiln.state @b : tensor<16xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kiln.program @bias_gelu
// CHECK: [[B:%.+]] = kiln.read @b
// CHECK: [[Y:%.+]] = kiln.dispatch gemm(%arg0, %arg1, [[B]]) space [8, 16]
// CHECK-SAME: -> tensor<8x16xf32> {
// CHECK-NEXT: ^bb0([[X:%.+]]: tensor<8x4xf32>, [[W:%.+]]: tensor<4x16xf32>, [[C:%.+]]: tensor<16xf32>):
// CHECK-NEXT: [[P:%.+]] = kiln.matmul [[X]], [[W]] {grid = array<i64: 1, 2>}
// CHECK-NEXT: [[D:%.+]] = kiln.broadcast [[C]]
// CHECK-NEXT: [[H:%.+]] = kiln.add [[P]], [[D]]
// CHECK-NEXT: [[G:%.+]] = kiln.gelu [[H]]
// CHECK-NEXT: kiln.yield [[G]]
// CHECK: kiln.return [[Y]]
kiln.program @bias_gelu(%x: tensor<8x4xf32> {kiln.name = "x"}, %w: tensor<4x16xf32> {kiln.name = "w"}) -> tensor<8x16xf32> attributes {kind = #kiln.program_kind<evaluate>} {
  %m = kiln.matmul %x, %w {grid = array<i64: 1, 2>} : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  %b = kiln.read @b : tensor<16xf32>
  %bb = kiln.broadcast %b dims [1] : tensor<16xf32> to tensor<8x16xf32>
  %h = kiln.add %m, %bb : tensor<8x16xf32>
  %g = kiln.gelu %h tanh : tensor<8x16xf32>
  kiln.return %g : tensor<8x16xf32>
}

// -----

// The later of two matmuls gets the epilogue. Its result has another use, so it
// stays, as the last result of the dispatch.
// CHECK-LABEL: kiln.program @gate
// CHECK: [[A:%.+]] = kiln.matmul %arg0, %arg1
// CHECK: [[B:%.+]]:2 = kiln.dispatch gemm(%arg0, %arg2, [[A]]) space [8, 4]
// CHECK: ^bb0([[X:%.+]]: tensor<8x4xf32>, [[W:%.+]]: tensor<4x4xf32>, [[C:%.+]]: tensor<8x4xf32>):
// CHECK: [[P:%.+]] = kiln.matmul [[X]], [[W]]
// CHECK: [[S:%.+]] = kiln.swiglu [[C]], [[P]]
// CHECK: kiln.yield [[S]], [[P]]
// CHECK: kiln.return [[B]]#0, [[A]], [[B]]#1
kiln.program @gate(%x: tensor<8x4xf32> {kiln.name = "x"}, %u: tensor<4x4xf32> {kiln.name = "u"}, %v: tensor<4x4xf32> {kiln.name = "v"}) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.matmul %x, %u {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %b = kiln.matmul %x, %v {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %s = kiln.swiglu %a, %b : tensor<8x4xf32>
  kiln.return %s, %a, %b : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// Dropout is keyed per element. An operand of the epilogue may also be an
// operand of the matmul; it is then passed twice.
// CHECK-LABEL: kiln.program @dropout
// CHECK: kiln.dispatch gemm(%arg0, %arg1, %arg2, %arg0) space [4, 4]
// CHECK: ^bb0({{.*}}, [[RNG:%.+]]: tensor<1x3xi64>, [[R:%.+]]: tensor<4x4xf32>):
// CHECK: [[P:%.+]] = kiln.matmul
// CHECK: [[D:%.+]] = kiln.dropout [[P]], [[RNG]]
// CHECK: kiln.add [[D]], [[R]]
kiln.program @dropout(%x: tensor<4x4xf32> {kiln.name = "x"}, %w: tensor<4x4xf32> {kiln.name = "w"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}) -> tensor<4x4xf32> attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = kiln.dropout %m, %rng {p = 2.5e-01, key = 3, sequences = 2} : (tensor<4x4xf32>, tensor<1x3xi64>) -> tensor<4x4xf32>
  %y = kiln.add %d, %x : tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// A norm needs whole rows, and ops that are fused with it are not split off.
// CHECK-LABEL: kiln.program @norm
// CHECK-NOT: kiln.dispatch gemm
kiln.program @norm(%x: tensor<8x4xf32> {kiln.name = "x"}, %w: tensor<4x4xf32> {kiln.name = "w"}, %b: tensor<4xf32> {kiln.name = "b"}) -> (tensor<8x4xf32>, tensor<8x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %s = kiln.add %x, %m : tensor<8x4xf32>
  %y, %mean, %rstd = kiln.layer_norm %s, %b, %b {eps = 1.0e-05} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  kiln.return %s, %y : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// An epilogue cannot compute column sums, which need more than one tile.
// CHECK-LABEL: kiln.program @column_sum
// CHECK-NOT: kiln.dispatch gemm
kiln.program @column_sum(%x: tensor<8x4xf32> {kiln.name = "x"}, %w: tensor<4x4xf32> {kiln.name = "w"}) -> (tensor<8x4xf32>, tensor<2x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %g = kiln.relu_grad %x, %m : tensor<8x4xf32>
  %p = kiln.reduce_partial %g chunk 4 : tensor<8x4xf32> to tensor<2x4xf32>
  kiln.return %g, %p : tensor<8x4xf32>, tensor<2x4xf32>
}

// -----

// CHECK-LABEL: kiln.program @batch
// CHECK-NOT: kiln.dispatch gemm
kiln.program @batch(%x: tensor<2x4x4xf32> {kiln.name = "x"}) -> tensor<2x4x4xf32> attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %y = kiln.relu %m : tensor<2x4x4xf32>
  kiln.return %y : tensor<2x4x4xf32>
}

// -----

// CHECK-LABEL: kiln.program @accumulate
// CHECK-NOT: kiln.dispatch gemm
kiln.program @accumulate(%x: tensor<4x4xf32> {kiln.name = "x"}) -> tensor<4x4xf32> attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %x accumulate %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = kiln.relu %m : tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// The other operand is a transpose of the matmul result, computed after it.
// CHECK-LABEL: kiln.program @later
// CHECK-NOT: kiln.dispatch gemm
kiln.program @later(%x: tensor<4x4xf32> {kiln.name = "x"}) -> tensor<4x4xf32> attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = kiln.transpose %m [1, 0] : tensor<4x4xf32> to tensor<4x4xf32>
  %y = kiln.add %m, %t : tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}

// -----

// A kernel of the backward pass reads a matmul result of the forward pass.
// CHECK-LABEL: kiln.program @phases
// CHECK-NOT: kiln.dispatch gemm
kiln.program @phases(%x: tensor<4x4xf32> {kiln.name = "x"}) -> tensor<4x4xf32> attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.phase backward
  %g = kiln.relu_grad %m, %x : tensor<4x4xf32>
  kiln.return %g : tensor<4x4xf32>
}

// -----

// An update must follow the other reads of its state; the matmul that computes
// its gradient is not delayed with it.
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kiln.program @update
// CHECK-NOT: kiln.dispatch gemm
kiln.program @update(%x: tensor<4x4xf32> {kiln.name = "x"}, %one: tensor<f64> {kiln.name = "one"}, %lr: tensor<f64> {kiln.name = "lr"}) -> tensor<4x4xf32> attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  %g = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = kiln.sgd %w, %g, %one, %lr {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
  kiln.write @w, %p : tensor<4x4xf32>
  kiln.return %x : tensor<4x4xf32>
}

// -----

// The new value of a sum over micro-batches shares the buffer of the sum: an epilogue
// would overwrite it tile by tile while the matmul still reads the sum.
// CHECK-LABEL: kiln.program @sum
// CHECK-NOT: kiln.dispatch gemm
kiln.program @sum(%x: tensor<8x4xf32> {kiln.name = "x"}) -> tensor<4x4xf32> attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %m = kiln.matmul %part, %sum {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n = kiln.add %m, %part : tensor<4x4xf32>
    kiln.yield %n : tensor<4x4xf32>
  }
  kiln.return %s : tensor<4x4xf32>
}
