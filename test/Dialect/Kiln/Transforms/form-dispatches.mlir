// RUN: kiln-opt %s --kiln-form-dispatches --kiln-verify-level=level=dispatched -split-input-file | FileCheck %s
// RUN: kiln-opt %s --kiln-form-dispatches=fuse=false -split-input-file | FileCheck %s --check-prefix=ALONE

// Bias, residual and norm are one kernel. The residual sum is written because
// it has another use; the biased matmul result is not written.
// CHECK-LABEL: kiln.program @chain
// CHECK: [[M:%.+]] = kiln.matmul
// CHECK: [[D:%.+]]:4 = kiln.dispatch row({{.*}}) space [8, 4]
// CHECK: kiln.broadcast
// CHECK: kiln.add
// CHECK: kiln.add
// CHECK: kiln.layer_norm
// CHECK: kiln.yield
// CHECK-NOT: kiln.dispatch
// ALONE-LABEL: kiln.program @chain
// ALONE-COUNT-4: kiln.dispatch
kiln.program @chain(%x: tensor<8x4xf32> {kiln.name = "x"}, %w: tensor<4x4xf32> {kiln.name = "w"}, %b: tensor<4xf32> {kiln.name = "b"}) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %bb = kiln.broadcast %b dims [1] : tensor<4xf32> to tensor<8x4xf32>
  %p = kiln.add %m, %bb : tensor<8x4xf32>
  %s = kiln.add %x, %p : tensor<8x4xf32>
  %y, %mean, %rstd = kiln.layer_norm %s, %b, %b {eps = 1.0e-05} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  kiln.return %s, %y, %mean, %rstd : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// A recomputation for the backward pass does not join the forward kernel.
// CHECK-LABEL: kiln.program @phases
// CHECK: kiln.dispatch row
// CHECK: kiln.relu
// CHECK: kiln.matmul
// CHECK: kiln.dispatch row
// CHECK: kiln.relu
// CHECK: kiln.relu_grad
kiln.program @phases(%x: tensor<4x4xf32> {kiln.name = "x"}) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %r = kiln.relu %x : tensor<4x4xf32>
  %m = kiln.matmul %r, %r {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.phase backward
  %a = kiln.recompute(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%v: tensor<4x4xf32>):
    %s = kiln.relu %v : tensor<4x4xf32>
    kiln.yield %s : tensor<4x4xf32>
  }
  %g = kiln.relu_grad %x, %m : tensor<4x4xf32>
  kiln.return %a, %g : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// No kernel writes an argument into the concat's buffer, so the argument is
// copied; the matmul writes its result there.
// CHECK-LABEL: kiln.program @concat
// CHECK: [[M:%.+]] = kiln.matmul
// CHECK: [[C:%.+]] = kiln.dispatch permute
// CHECK: kiln.concat [[M]], [[C]] dim 1
kiln.program @concat(%x: tensor<4x4xf32> {kiln.name = "x"}) -> tensor<4x8xf32> attributes {kind = #kiln.program_kind<train>} {
  %m = kiln.matmul %x, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = kiln.concat %m, %x dim 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  kiln.return %c : tensor<4x8xf32>
}

// -----

// A value with one element per row is stored contiguously, so it is copied to
// become a column of the result.
// CHECK-LABEL: kiln.program @concat_values_of_rows
// CHECK: [[S:%.+]] = kiln.dispatch row
// CHECK: [[C:%.+]] = kiln.dispatch permute([[S]])
// CHECK: kiln.concat [[C]], %{{.+}} dim 1
kiln.program @concat_values_of_rows(%x: tensor<4x1xf32> {kiln.name = "x"}) -> tensor<4x2xf32> attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.reduce sum %x dims [1] : tensor<4x1xf32> to tensor<4xf32>
  %h = kiln.broadcast %s dims [0] : tensor<4xf32> to tensor<4x1xf32>
  %c = kiln.concat %h, %x dim 1 : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  kiln.return %c : tensor<4x2xf32>
}

// -----

// A kernel's column sums share one chunk size, which may be one row.
// CHECK-LABEL: kiln.program @chunks
// CHECK-COUNT-2: kiln.dispatch row
kiln.program @chunks(%x: tensor<8x4xf32> {kiln.name = "x"}) -> (tensor<8x4xf32>, tensor<1x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %a = kiln.reduce_partial %x chunk 1 : tensor<8x4xf32> to tensor<8x4xf32>
  %b = kiln.reduce_partial %x chunk 8 : tensor<8x4xf32> to tensor<1x4xf32>
  kiln.return %a, %b : tensor<8x4xf32>, tensor<1x4xf32>
}

// -----

// The cast of a bias is part of the kernel that adds it to every row; the cast
// of a matmul operand is a kernel of its own.
// CHECK-LABEL: kiln.program @casts
// CHECK: [[LOW:%.+]] = kiln.dispatch row(%{{.+}}) space [8, 8]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kiln.cast
// CHECK: kiln.dispatch gemm(%{{.+}}, [[LOW]], %{{.+}}) space [4, 8] : (tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8xf32>) -> tensor<4x8xbf16>
// CHECK: kiln.matmul
// CHECK: kiln.broadcast {{.*}} : tensor<8xf32> to tensor<4x8xf32>
// CHECK: kiln.cast {{.*}} : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK: kiln.add
kiln.program @casts(%x: tensor<4x8xbf16>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xbf16> attributes {kind = #kiln.program_kind<evaluate>} {
  %lw = kiln.cast %w : tensor<8x8xf32> to tensor<8x8xbf16>
  %lb = kiln.cast %b : tensor<8xf32> to tensor<8xbf16>
  %y = kiln.matmul %x, %lw {grid = array<i64: 1, 1>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %rows = kiln.broadcast %lb dims [1] : tensor<8xbf16> to tensor<4x8xbf16>
  %z = kiln.add %y, %rows : tensor<4x8xbf16>
  kiln.return %z : tensor<4x8xbf16>
}
