// RUN: kiln-opt %s --kiln-quantize-weights -verify-diagnostics

// expected-error @below {{the model has no weights to quantize, expected frozen matrices that only matmuls read}}
module {
kiln.state @w : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
}
