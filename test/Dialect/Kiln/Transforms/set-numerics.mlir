// RUN: kiln-opt %s --kiln-set-numerics=max-threads=2 | FileCheck %s
// RUN: kiln-opt %s --kiln-set-numerics="max-threads=2 gemm-kernels=f32:avx512,bf16:blas" | FileCheck %s --check-prefix=KERNELS
// RUN: not kiln-opt %s --kiln-set-numerics=gemm-kernels=f32:mkl 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// KERNELS-LABEL: kiln.program @grids
// KERNELS: kiln.matmul {{.*}} {grid = array<i64: 1, 2>, kernel = "avx512"}
// UNKNOWN: option 'gemm-kernels' lists 'f32:mkl', expected TYPE:KERNEL, where KERNEL is blas, avx512 or amx

// CHECK-LABEL: kiln.program @column_sum
// CHECK: [[P:%.+]] = kiln.reduce_partial %{{.+}} chunk 64 : tensor<1000x8xf32> to tensor<16x8xf32>
// CHECK: kiln.reduce_combine [[P]]
// CHECK-NOT: kiln.reduce sum
kiln.program @column_sum(%x: tensor<1000x8xf32> {kiln.name = "x"}) -> tensor<8xf32> attributes {kind = #kiln.program_kind<train>} {
  %y = kiln.reduce sum %x dims [0] : tensor<1000x8xf32> to tensor<8xf32>
  kiln.return %y : tensor<8xf32>
}

// CHECK-LABEL: kiln.program @mean
// CHECK: [[S:%.+]] = kiln.reduce sum
// CHECK: kiln.scale [[S]] by 1.250000e-01
kiln.program @mean(%x: tensor<4x8xf32> {kiln.name = "x"}) -> tensor<4xf32> attributes {kind = #kiln.program_kind<train>} {
  %y = kiln.reduce mean %x dims [1] : tensor<4x8xf32> to tensor<4xf32>
  kiln.return %y : tensor<4xf32>
}

// A mean of f16 elements is computed in f32 and then rounded.
// CHECK-LABEL: kiln.program @half_mean
// CHECK: [[S:%.+]] = kiln.reduce sum {{.*}} : tensor<4x8xf16> to tensor<4xf32>
// CHECK: [[M:%.+]] = kiln.scale [[S]] by 1.250000e-01 : tensor<4xf32>
// CHECK: kiln.cast [[M]] : tensor<4xf32> to tensor<4xf16>
kiln.program @half_mean(%x: tensor<4x8xf16> {kiln.name = "x"}) -> tensor<4xf16> attributes {kind = #kiln.program_kind<train>} {
  %y = kiln.reduce mean %x dims [1] : tensor<4x8xf16> to tensor<4xf16>
  kiln.return %y : tensor<4xf16>
}

// The larger extent is split; a small matmul is not split.
// CHECK-LABEL: kiln.program @grids
// CHECK: kiln.matmul {{.*}} {grid = array<i64: 1, 2>}
// CHECK: kiln.matmul {{.*}} {grid = array<i64: 2, 1>}
// CHECK: kiln.matmul {{.*}} {grid = array<i64: 1, 1>}
kiln.program @grids(%a: tensor<64x128xf32> {kiln.name = "a"}, %b: tensor<128x512xf32> {kiln.name = "b"}, %c: tensor<8x8xf32> {kiln.name = "c"}) -> (tensor<64x512xf32>, tensor<512x64xf32>, tensor<8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %b : (tensor<64x128xf32>, tensor<128x512xf32>) -> tensor<64x512xf32>
  %y = kiln.matmul %b, %a trans_a trans_b : (tensor<128x512xf32>, tensor<64x128xf32>) -> tensor<512x64xf32>
  %z = kiln.matmul %c, %c : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  kiln.return %x, %y, %z : tensor<64x512xf32>, tensor<512x64xf32>, tensor<8x8xf32>
}

// A sum of two matmuls becomes an accumulation; a broadcast is not worth a
// buffer to accumulate into; a value with another use keeps its buffer.
// CHECK-LABEL: kiln.program @accumulate
// CHECK: [[P:%.+]] = kiln.matmul
// CHECK: kiln.matmul {{%.+}}, {{%.+}} accumulate [[P]]
// CHECK: [[Q:%.+]] = kiln.matmul {{%.+}}, {{%.+}} {grid
// CHECK: kiln.add [[Q]]
// CHECK: [[R:%.+]] = kiln.matmul {{%.+}}, {{%.+}} {grid
// CHECK: kiln.add %{{.+}}, [[R]]
kiln.program @accumulate(%a: tensor<8x8xf32> {kiln.name = "a"}, %b: tensor<8xf32> {kiln.name = "b"}) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %p = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %q = kiln.matmul %a, %a trans_b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = kiln.add %p, %q : tensor<8x8xf32>
  %m = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %bb = kiln.broadcast %b dims [1] : tensor<8xf32> to tensor<8x8xf32>
  %t = kiln.add %m, %bb : tensor<8x8xf32>
  %n = kiln.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %u = kiln.add %a, %n : tensor<8x8xf32>
  kiln.return %s, %t, %u : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
