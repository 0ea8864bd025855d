// RUN: kiln-opt %s --kiln-compress-residuals -split-input-file | FileCheck %s

// A residual is read through a view: the view is encoded. A view in the
// backward pass keeps its residual alive, so the residual is not encoded.

// CHECK: kiln.encoded
// CHECK-LABEL: kiln.program @train
// CHECK: [[V:%.+]] = kiln.reshape
// CHECK: kiln.bucket_encode [[V]]
// CHECK: kiln.phase backward
// CHECK: kiln.bucket_decode
kiln.program @train(%x: tensor<8x16xf32> {kiln.name = "x"}, %dy: tensor<128xf32> {kiln.name = "dy"}) -> (tensor<128xf32> {kiln.name = "dx"}) attributes {kind = #kiln.program_kind<train>} {
  %h = kiln.add %x, %x : tensor<8x16xf32>
  %v = kiln.reshape %h : tensor<8x16xf32> to tensor<128xf32>
  %y = kiln.relu %v : tensor<128xf32>
  kiln.phase backward
  %dx = kiln.relu_grad %v, %dy : tensor<128xf32>
  kiln.return %dx : tensor<128xf32>
}

// -----

// CHECK-NOT: kiln.encoded
// CHECK-LABEL: kiln.program @train
// CHECK-NOT: kiln.bucket_encode
// CHECK: kiln.relu_grad
kiln.program @train(%x: tensor<8x16xf32> {kiln.name = "x"}, %dy: tensor<128xf32> {kiln.name = "dy"}) -> (tensor<128xf32> {kiln.name = "dx"}) attributes {kind = #kiln.program_kind<train>} {
  %h = kiln.add %x, %x : tensor<8x16xf32>
  %y = kiln.relu %h : tensor<8x16xf32>
  kiln.phase backward
  %v = kiln.reshape %h : tensor<8x16xf32> to tensor<128xf32>
  %dx = kiln.relu_grad %v, %dy : tensor<128xf32>
  kiln.return %dx : tensor<128xf32>
}
