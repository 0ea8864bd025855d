// RUN: kiln-opt %s --kiln-quantize-weights -verify-diagnostics

// Trainable weights are not quantized, and neither are weights that a program writes.
// expected-error @below {{the model has no weights to quantize, because it has no frozen matrix that only matmuls read; use --lora, which freezes the weights}}
module {
kiln.state @w : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @u : tensor<8x8xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {kind = #kiln.program_kind<train>} {
  %u = kiln.read @u : tensor<8x8xf32>
  %y = kiln.matmul %x, %u : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  kiln.write @u, %y : tensor<8x8xf32>
  kiln.return %y : tensor<8x8xf32>
}
}
