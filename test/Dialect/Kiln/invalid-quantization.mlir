// Diagnostics of quantized weights and of the kernels of GEMMs.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kiln.program @f(%c: tensor<40xi8>, %t: tensor<272xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'codes' is [40], expected [44]}}
  %w = kiln.dequantize %c, %t {encoding = #kiln.quantized<nf4, tensor<8x8xf32>>} : (tensor<40xi8>, tensor<272xf32>) -> tensor<8x8xf32>
  kiln.return
}

// -----

kiln.program @f(%c: tensor<44xi8>, %t: tensor<16xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'table' has type 'tensor<16xf32>', expected 272xf32}}
  %w = kiln.dequantize %c, %t {encoding = #kiln.quantized<nf4, tensor<8x8xf32>>} : (tensor<44xi8>, tensor<16xf32>) -> tensor<8x8xf32>
  kiln.return
}

// -----

kiln.program @f(%c: tensor<44xi8>, %t: tensor<272xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{decodes to elements of type 'f64', expected f32 or a narrower float type}}
  %w = kiln.dequantize %c, %t {encoding = #kiln.quantized<nf4, tensor<8x8xf32>>} : (tensor<44xi8>, tensor<272xf32>) -> tensor<8x8xf64>
  kiln.return
}

// -----

// expected-error @+1 {{has type 'tensor<64xi8>', expected 44 elements of i8, the bytes that encode 'tensor<8x8xf32>' as nf4}}
kiln.state @w : tensor<64xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<nf4, tensor<8x8xf32>>}

// -----

// expected-error @+1 {{encodes a weight of type 'tensor<64xf32>', expected a matrix of floating-point numbers}}
kiln.state @w : tensor<44xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<nf4, tensor<64xf32>>}

// -----

// expected-error @+1 {{has type 'tensor<64xi8>', expected 68 elements of i8, the bytes that encode 'tensor<8x8xf32>' as int8}}
kiln.state @w : tensor<64xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<int8, tensor<8x8xf32>, block = 64>}

// -----

// expected-error @+1 {{sets 'block', 'outliers' or 'inputs', which only int8 supports; omit them for nf4}}
kiln.state @w : tensor<44xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<nf4, tensor<8x8xf32>, block = 64>}

// -----

// expected-error @+1 {{the int8 encoding of 'tensor<8x4xf32>' has blocks of 0 elements, expected 64 or 4, the length of a row}}
kiln.state @w : tensor<36xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<int8, tensor<8x4xf32>>}

// -----

// expected-error @+1 {{the int8 encoding of 'tensor<8x4xf32>' has 5 outliers, expected 0 to 4, the number of inputs}}
kiln.state @w : tensor<36xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<int8, tensor<8x4xf32>, block = 64, outliers = 5, inputs = 1>}

// -----

kiln.program @f(%c: tensor<68xi8>, %t: tensor<272xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has a 'table', which only nf4 uses; omit it for int8}}
  %w = kiln.dequantize %c, %t {encoding = #kiln.quantized<int8, tensor<8x8xf32>, block = 64>} : (tensor<68xi8>, tensor<272xf32>) -> tensor<8x8xf32>
  kiln.return
}

// -----

kiln.program @f(%c: tensor<44xi8>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{has no 'table', expected a tensor of type 272xf32}}
  %w = kiln.dequantize %c {encoding = #kiln.quantized<nf4, tensor<8x8xf32>>} : (tensor<44xi8>) -> tensor<8x8xf32>
  kiln.return
}

// -----

kiln.program @f(%c: tensor<68xi8>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{'y' has type 'tensor<4x16xf32>', but the weight has type 'tensor<8x8xf32>': expected equal shapes}}
  %w = kiln.dequantize %c {encoding = #kiln.quantized<int8, tensor<8x8xf32>, block = 64>} : (tensor<68xi8>) -> tensor<4x16xf32>
  kiln.return
}

// -----

// expected-error @+1 {{is quantized, but only a frozen parameter may be quantized}}
kiln.state @w : tensor<44xi8> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<nf4, tensor<8x8xf32>>}

// -----

// expected-error @+1 {{has type 'tensor<272xf64>', expected tensor<272xf32> for a #kiln.nf4_table}}
kiln.state @t : tensor<272xf64> {role = #kiln.role<constant>, init = #kiln.nf4_table}

// -----

kiln.program @f(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{kernel is 'mkl', expected blas, avx512 or amx}}
  %y = kiln.matmul %x, %w {kernel = "mkl"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf64>, %w: tensor<8x8xf64>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{kernel is 'avx512', which multiplies f32, f16 or bf16, but the operands have element type 'f64'}}
  %y = kiln.matmul %x, %w {kernel = "avx512"} : (tensor<4x8xf64>, tensor<8x8xf64>) -> tensor<4x8xf64>
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x8xf16>, %w: tensor<8x8xf16>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @+1 {{kernel is 'amx', which multiplies bf16, but the operands have element type 'f16'}}
  %y = kiln.matmul %x, %w {kernel = "amx"} : (tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
  kiln.return
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
// expected-error @+1 {{is quantized and owned by a single rank; remove the owner, because each data-parallel rank must have all quantized states}}
kiln.state @w : tensor<44xi8> {role = #kiln.role<parameter>, frozen, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<nf4, tensor<8x8xf32>>, shard = #kiln.shard<tensor<8x8xf32> over "dp" owner = 1>}
}
