// RUN: kiln-opt %s --kiln-quantize-weights -verify-diagnostics

// expected-error @below {{the model has no weights to quantize, because it has no frozen matrix that only matmuls read; use --lora, which freezes the weights}}
module {
kiln.state @w : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
}
