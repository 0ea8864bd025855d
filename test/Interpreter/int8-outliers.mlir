// Outliers keep the error of a matmul with an int8 weight below 1 %; see Inputs/outliers.py.

// RUN: %python %S/Inputs/outliers.py kiln-opt kiln-run %s %t

kiln.state @w : tensor<64x128xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%x: tensor<16x128xf32> {kiln.name = "x"}) -> (tensor<16x64xf32> {kiln.name = "y"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<64x128xf32>
  %y = kiln.matmul %x, %w trans_b : (tensor<16x128xf32>, tensor<64x128xf32>) -> tensor<16x64xf32>
  kiln.return %y : tensor<16x64xf32>
}
