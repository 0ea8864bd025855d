// RUN: kiln-opt %s --kiln-quantize-weights -split-input-file | FileCheck %s
// RUN: not kiln-opt %s --kiln-quantize-weights=encoding=int3 -split-input-file 2>&1 | FileCheck %s --check-prefix=ENCODING

// Frozen matrices that only matmuls read, as their right operand, are quantized. A conversion
// becomes the type that is decoded. Trainable weights, tables and left operands do not change.
// CHECK: kiln.state @quantization_table : tensor<272xf32> {init = #kiln.nf4_table, role = #kiln.role<constant>}
// CHECK: kiln.state @w : tensor<44xi8> {frozen, init = #kiln.normal<{{.+}}>, quantized = #kiln.quantized<nf4, tensor<8x8xf32>>, role = #kiln.role<parameter>}
// CHECK: kiln.state @v : tensor<8x8xf32> {frozen
// CHECK: kiln.state @a : tensor<8x8xf32> {init
// CHECK-LABEL: kiln.program @f
// CHECK-DAG: [[C:%.+]] = kiln.read @w : tensor<44xi8>
// CHECK-DAG: [[T:%.+]] = kiln.read @quantization_table : tensor<272xf32>
// CHECK: [[W:%.+]] = kiln.dequantize [[C]], [[T]] {encoding = #kiln.quantized<nf4, tensor<8x8xf32>>} : (tensor<44xi8>, tensor<272xf32>) -> tensor<8x8xbf16>
// CHECK: kiln.matmul %{{.+}}, [[W]] trans_b
// CHECK-NOT: kiln.dequantize
// ENCODING: option 'encoding' is 'int3', expected nf4 or int8
kiln.state @w : tensor<8x8xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
kiln.state @v : tensor<8x8xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @a : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @f(%x: tensor<4x8xbf16>, %z: tensor<8x8xf32>) -> (tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<8x8xf32>
  %n = kiln.cast %w : tensor<8x8xf32> to tensor<8x8xbf16>
  %y = kiln.matmul %x, %n trans_b : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %v = kiln.read @v : tensor<8x8xf32>
  %p = kiln.matmul %v, %z : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = kiln.read @a : tensor<8x8xf32>
  %q = kiln.matmul %z, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  kiln.return %y, %p, %q : tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>
}
