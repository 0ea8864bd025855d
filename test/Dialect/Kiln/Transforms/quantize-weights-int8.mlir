// RUN: kiln-opt %s --kiln-quantize-weights=encoding=int8 | FileCheck %s --check-prefixes=CHECK,BLOCK
// RUN: kiln-opt %s --kiln-quantize-weights=encoding=int8:scales=row,outliers=2 | FileCheck %s --check-prefixes=CHECK,ROW
// RUN: not kiln-opt %s --kiln-quantize-weights=encoding=int8:outliers=5 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not kiln-opt %s --kiln-quantize-weights=encoding=int8:columns=2 2>&1 | FileCheck %s --check-prefix=OPTION

// Inputs are the columns of a matrix that matmuls transpose, and the rows of others. There is no
// table.
// CHECK-NOT: quantization_table
// BLOCK: kiln.state @columns : tensor<52xi8> {frozen, {{.+}}, quantized = #kiln.quantized<int8, tensor<12x4xf32>, block = 64>, role
// BLOCK: kiln.state @rows : tensor<52xi8> {frozen, {{.+}}, quantized = #kiln.quantized<int8, tensor<4x12xf32>, block = 64>, role
// ROW: kiln.state @columns : tensor<152xi8> {frozen, {{.+}}, quantized = #kiln.quantized<int8, tensor<12x4xf32>, block = 4, outliers = 2, inputs = 1>, role
// ROW: kiln.state @rows : tensor<120xi8> {frozen, {{.+}}, quantized = #kiln.quantized<int8, tensor<4x12xf32>, block = 12, outliers = 2>, role
// CHECK-LABEL: kiln.program @f
// CHECK: [[C:%.+]] = kiln.read @columns
// CHECK: [[W:%.+]] = kiln.dequantize [[C]] {encoding = #kiln.quantized<int8, tensor<12x4xf32>, {{.+}}>} : ({{.+}}) -> tensor<12x4xbf16>
// CHECK: kiln.matmul %{{.+}}, [[W]] trans_b
// CHECK: [[R:%.+]] = kiln.read @rows
// CHECK: [[V:%.+]] = kiln.dequantize [[R]] {encoding = #kiln.quantized<int8, tensor<4x12xf32>, {{.+}}>} : ({{.+}}) -> tensor<4x12xf32>
// CHECK: kiln.matmul %{{.+}}, [[V]] :
// MANY: option 'outliers' is 5, expected at most 4, the number of inputs of this weight
// OPTION: option 'encoding' has 'columns=2', expected outliers=N, scales=block or scales=row
kiln.state @columns : tensor<12x4xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @rows : tensor<4x12xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%x: tensor<6x4xbf16>, %z: tensor<6x4xf32>) -> (tensor<6x12xbf16>, tensor<6x12xf32>) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @columns : tensor<12x4xf32>
  %n = kiln.cast %w : tensor<12x4xf32> to tensor<12x4xbf16>
  %y = kiln.matmul %x, %n trans_b : (tensor<6x4xbf16>, tensor<12x4xbf16>) -> tensor<6x12xbf16>
  %v = kiln.read @rows : tensor<4x12xf32>
  %p = kiln.matmul %z, %v : (tensor<6x4xf32>, tensor<4x12xf32>) -> tensor<6x12xf32>
  kiln.return %y, %p : tensor<6x12xbf16>, tensor<6x12xf32>
}
