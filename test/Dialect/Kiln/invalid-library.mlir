// Diagnostics of matmuls with vendor library epilogues and of their commands.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kiln.program @f(%a: tensor<2x4x4xf32>, %b: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'a' has rank 3, expected 2}}
  %0 = kiln.linear %a, %a, %b : (tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x4xf64>, %b: tensor<4xf64>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'a' has element type f64, expected a type of at most 32 bits}}
  %0 = kiln.linear %a, %a, %b : (tensor<4x4xf64>, tensor<4x4xf64>, tensor<4xf64>) -> tensor<4x4xf64>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x4xf32>, %b: tensor<4x4xbf16>, %c: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'b' has element type 'bf16', expected 'f32'}}
  %0 = kiln.linear %a, %b, %c : (tensor<4x4xf32>, tensor<4x4xbf16>, tensor<4xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{inner extents differ: 'a' has 8, 'b' has 4}}
  %0 = kiln.linear %a, %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'y' is [4, 8], expected [4, 4]}}
  %0 = kiln.linear %a, %a, %b trans_b : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<8xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'bias' is [8], expected [4]}}
  %0 = kiln.linear %a, %a, %b trans_b : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xbf16>, %b: tensor<4xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'bias' has element type 'bf16', expected 'f32'}}
  %0 = kiln.linear %a, %a, %b trans_b : (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4xbf16>) -> tensor<4x4xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<4x8xf32>, %b: tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{grid is [5, 1], expected two tile counts: from 1 to 4 tiles that split the rows, and from 1 to 4 tiles that split the columns}}
  %0 = kiln.linear %a, %a, %b trans_b {grid = array<i64: 5, 1>} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  kiln.return
}

// -----

// expected-error @below {{has 'kiln.library_epilogues' = true, but the value must be a unit attribute, and only a module may have this attribute}}
module attributes {kiln.library_epilogues = true} {
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{passes a view of type 'memref<2x2xf32>' as its 'bias', expected contiguous rows, the shape [2] and the element type 'f32'}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] library "bias" bias(%v0)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  %v1 = kilnrt.view %a[0] : memref<2xf32>
  // expected-error @below {{has a library epilogue, so it must have a batch of 1, overwrite its result, have no kernel as an epilogue, and multiply elements of at most 32 bits}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, rw %v0) grid [1, 1] library "bias" bias(%v1)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{has the library epilogue "relu", which does not exist}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] library "relu"
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  %v1 = kilnrt.view %a[0] : memref<2x8xf32>
  %v2 = kilnrt.view %a[0] : memref<8xf32>
  // expected-error @below {{must have an operand 'bias' or 'aux' if, and only if, its library epilogue uses it}}
  kilnrt.gemm on @compute (ro %v0, ro %v1, wo %v1) grid [1, 1] library "dgelu" bias(%v2)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  %v1 = kilnrt.view %a[0] : memref<2xf32>
  // expected-error @below {{must have an operand 'bias' or 'aux' if, and only if, its library epilogue uses it}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] bias(%v1)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xbf16>
  %v1 = kilnrt.view %a[0] : memref<2x2xf32>
  %v2 = kilnrt.view %a[0] : memref<2xf32>
  // expected-error @below {{applies gelu to a result whose element type is wider than that of the operands, expected equal element types}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v1) grid [1, 1] library "gelu_bias" bias(%v2)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{has an 'aux' matrix with rows of 2 elements, expected a multiple of 8}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] library "dgelu" aux(%v0)
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 256 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x8xf32>
  %v1 = kilnrt.view %a[0] : memref<8x8xf32>
  %v2 = kilnrt.view %a[0] : memref<2x8xf32, strided<[16, 1]>>
  // expected-error @below {{passes a view of type 'memref<2x8xf32, strided<[16, 1]>>' as its 'aux', expected contiguous rows, the shape [2, 8] and the element type 'f32'}}
  kilnrt.gemm on @compute (ro %v0, ro %v1, wo %v0) grid [1, 1] library "dgelu" aux(%v2)
}

// -----

kiln.program @f(%a: tensor<8x8xf32>, %b: tensor<8xf32>, %w: tensor<8x6xf32>, %c: tensor<6xf32>, %n: tensor<8x8xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'y' has element type 'f32', expected 'bf16'}}
  %0 = kiln.linear_gelu %n, %n, %b : (tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8xf32>) -> tensor<8x8xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<8x8xf32>, %b: tensor<8xf32>, %w: tensor<8x6xf32>, %c: tensor<6xf32>, %n: tensor<8x8xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'bias' is}}
  %0 = kiln.linear_gelu %a, %a, %c : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<6xf32>) -> tensor<8x8xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<8x8xf32>, %b: tensor<8xf32>, %w: tensor<8x6xf32>, %c: tensor<6xf32>, %n: tensor<8x8xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'u' is}}
  %0, %1 = kiln.linear_gelu %a, %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x6xf32>)
  kiln.return
}

// -----

kiln.program @f(%a: tensor<8x8xf32>, %b: tensor<8xf32>, %w: tensor<8x6xf32>, %c: tensor<6xf32>, %n: tensor<8x8xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{has an auxiliary tensor 'u' with rows of 6 elements, expected a multiple of 8}}
  %0, %1 = kiln.linear_gelu %a, %w, %c : (tensor<8x8xf32>, tensor<8x6xf32>, tensor<6xf32>) -> (tensor<8x6xf32>, tensor<8x6xf32>)
  kiln.return
}

// -----

kiln.program @f(%a: tensor<8x8xf32>, %b: tensor<8xf32>, %w: tensor<8x6xf32>, %c: tensor<6xf32>, %n: tensor<8x8xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'u' is}}
  %0 = kiln.matmul_gelu_grad %a, %a, %w : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x8xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<8x8xf32>, %b: tensor<8xf32>, %w: tensor<8x6xf32>, %c: tensor<6xf32>, %n: tensor<8x8xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{has an auxiliary tensor 'u' with rows of 6 elements, expected a multiple of 8}}
  %0 = kiln.matmul_gelu_grad %a, %w, %w : (tensor<8x8xf32>, tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  kiln.return
}

// -----

kiln.program @f(%a: tensor<8x8xf32>, %b: tensor<8xf32>, %w: tensor<8x6xf32>, %c: tensor<6xf32>, %n: tensor<8x8xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'db' is}}
  %0, %1 = kiln.matmul_bias_grad %a, %w of_a : (tensor<8x8xf32>, tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<6xf32>)
  kiln.return
}

// -----

kiln.program @f(%a: tensor<8x8xf32>, %b: tensor<8xf32>, %w: tensor<8x6xf32>, %c: tensor<6xf32>, %n: tensor<8x8xbf16>) attributes {kind = #kiln.program_kind<train>} {
  // expected-error @+1 {{'db' is}}
  %0, %1 = kiln.matmul_bias_grad %a, %w : (tensor<8x8xf32>, tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<8xf32>)
  kiln.return
}
