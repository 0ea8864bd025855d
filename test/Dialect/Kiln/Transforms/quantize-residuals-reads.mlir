// RUN: kiln-opt %s --kiln-quantize-residuals=lossy=q8 -split-input-file | FileCheck %s

// A view of a residual becomes a view of the decoded value. Readers that are
// close to each other share a decoded value. A value that only the backward
// pass reads (%y) and a result of the program (%r) are not encoded.

// CHECK-LABEL: kiln.program @train
// CHECK: [[H:%.+]] = kiln.add
// CHECK: [[C:%.+]] = kiln.block_encode [[H]],
// CHECK-NOT: kiln.block_encode
// CHECK: kiln.phase backward
// CHECK: [[D:%.+]] = kiln.block_decode [[C]],
// CHECK: [[V:%.+]] = kiln.reshape [[D]]
// CHECK: kiln.silu_grad [[V]],
// CHECK: kiln.mul [[V]], {{%.+}}
// CHECK-NOT: kiln.block_decode
kiln.program @train(%x: tensor<16x128xbf16> {kiln.name = "x"}, %dy: tensor<2048xbf16> {kiln.name = "dy"}) -> (tensor<2048xbf16> {kiln.name = "dx"}, tensor<16x128xbf16> {kiln.name = "r"}) attributes {kind = #kiln.program_kind<train>} {
  %h = kiln.add %x, %x : tensor<16x128xbf16>
  %v = kiln.reshape %h : tensor<16x128xbf16> to tensor<2048xbf16>
  %y = kiln.silu %v : tensor<2048xbf16>
  %r = kiln.neg %x : tensor<16x128xbf16>
  %s = kiln.add %r, %r : tensor<16x128xbf16>
  kiln.phase backward
  %d0 = kiln.silu_grad %v, %dy : tensor<2048xbf16>
  %d1 = kiln.mul %v, %d0 : tensor<2048xbf16>
  %d2 = kiln.mul %d1, %y : tensor<2048xbf16>
  kiln.return %d2, %r : tensor<2048xbf16>, tensor<16x128xbf16>
}

// -----

// An op that is 17 ops after the first reader decodes again.

// CHECK-LABEL: kiln.program @train
// CHECK: [[C:%.+]] = kiln.block_encode
// CHECK: kiln.phase backward
// CHECK: [[D0:%.+]] = kiln.block_decode [[C]],
// CHECK-NEXT: kiln.silu_grad [[D0]],
// CHECK: [[D1:%.+]] = kiln.block_decode [[C]],
// CHECK-NEXT: kiln.mul [[D1]],
kiln.program @train(%x: tensor<16x128xf32> {kiln.name = "x"}, %dy: tensor<16x128xf32> {kiln.name = "dy"}) -> (tensor<16x128xf32> {kiln.name = "dx"}) attributes {kind = #kiln.program_kind<train>} {
  %h = kiln.add %x, %x : tensor<16x128xf32>
  %y = kiln.silu %h : tensor<16x128xf32>
  kiln.phase backward
  %0 = kiln.silu_grad %h, %dy : tensor<16x128xf32>
  %1 = kiln.neg %0 : tensor<16x128xf32>
  %2 = kiln.neg %1 : tensor<16x128xf32>
  %3 = kiln.neg %2 : tensor<16x128xf32>
  %4 = kiln.neg %3 : tensor<16x128xf32>
  %5 = kiln.neg %4 : tensor<16x128xf32>
  %6 = kiln.neg %5 : tensor<16x128xf32>
  %7 = kiln.neg %6 : tensor<16x128xf32>
  %8 = kiln.neg %7 : tensor<16x128xf32>
  %9 = kiln.neg %8 : tensor<16x128xf32>
  %10 = kiln.neg %9 : tensor<16x128xf32>
  %11 = kiln.neg %10 : tensor<16x128xf32>
  %12 = kiln.neg %11 : tensor<16x128xf32>
  %13 = kiln.neg %12 : tensor<16x128xf32>
  %14 = kiln.neg %13 : tensor<16x128xf32>
  %15 = kiln.neg %14 : tensor<16x128xf32>
  %16 = kiln.neg %15 : tensor<16x128xf32>
  %17 = kiln.mul %h, %16 : tensor<16x128xf32>
  kiln.return %17 : tensor<16x128xf32>
}
