// The pass verifies the level of its input module.

// RUN: kiln-opt %s --kiln-form-dispatches --kiln-schedule -split-input-file -verify-diagnostics

kiln.program @f(%x: tensor<8x16xf32> {kiln.name = "x"}, %y: tensor<16x16xf32> {kiln.name = "y"}) -> (tensor<8x16xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{has no grid}}
  // expected-note @below {{'kiln-set-numerics' should have run before}}
  %0 = kiln.matmul %x, %y : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  kiln.return %0 : tensor<8x16xf32>
}

// -----

kiln.program @f(%x: tensor<8x16xf32> {kiln.name = "x"}) -> (tensor<8x16xf32>, tensor<8x16xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{has no kv_tile}}
  // expected-note @below {{'kiln-set-numerics' should have run before}}
  %0:2 = kiln.attention %x, %x, %x {sequences = 2, heads = 4, kv_heads = 4, scale = 1.0} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x4xf32>)
  kiln.return %0#0, %0#0 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

kiln.program @f(%x: tensor<8x16xf32> {kiln.name = "x"}) -> (tensor<8xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{computes a mean, expected a sum whose result is scaled}}
  // expected-note @below {{'kiln-set-numerics' should have run before}}
  %0 = kiln.reduce mean %x dims [1] : tensor<8x16xf32> to tensor<8xf32>
  kiln.return %0 : tensor<8xf32>
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 64 bytes 32 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  %v1 = kilnrt.view %b[0] : memref<2x2xf64>
  // expected-error @below {{multiplies 'f32' by 'f32' into 'f64', expected three equal float types of 16 to 64 bits, bf16 by bf16 into f32, or f16 by f16 into f32}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v1) grid [1, 1]
}
