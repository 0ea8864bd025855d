// What a product may have as its epilogue.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  // expected-error @below {{has 4 slots, 3 offsets and 4 strides}}
XXX   kilnrt.gemm(%a, %a, %a) epilogue @k(%a) immediates [] offsets [0, 0, 0] strides [0, 0, 0, 0] {m = 2, n = 2, k = 2, batch = 1, lead = array<i64: 2, 2, 2>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{has an epilogue, which needs batch 1 and beta 0, but they are 1 and 1}}
XXX   kilnrt.gemm(%a, %a, %a) epilogue @k(%a) immediates [] offsets [0, 0, 0, 0] strides [0, 0, 0, 0] {m = 2, n = 2, k = 2, batch = 1, lead = array<i64: 2, 2, 2>, batch_strides = array<i64: 0, 0, 0>, beta = 1, grid = array<i64: 1, 1>, element = f32}
}

// -----

// A kernel for whole rows is no epilogue.
kilnrt.kernel @k family<row> space [2, 2] row_strides [2, 2] {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.relu %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{names @k, which is no epilogue}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] epilogue @k(wo %v0)
}

// -----

// expected-note @below {{the kernel is declared here}}
kilnrt.kernel @k family<row> epilogue space [2, 2] row_strides [2, 2] {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.relu %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  %v1 = kilnrt.view %a[0] : memref<2x1xf32>
  // expected-error @below {{has an epilogue whose first operand is not the product}}
  kilnrt.gemm on @compute (ro %v0, ro %v1, wo %v1) grid [1, 1] epilogue @k(wo %v0)
}

// -----

// expected-note @below {{the kernel is declared here}}
kilnrt.kernel @k family<row> epilogue space [2, 2] row_strides [2, 2] {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.relu %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{passes 2 slots to its epilogue, expected 1}}
XXX   kilnrt.gemm(%a, %a, %a) epilogue @k(%a, %a) immediates [] offsets [0, 0, 0, 0, 0] strides [0, 0, 0, 0, 0] {m = 2, n = 2, k = 2, batch = 1, lead = array<i64: 2, 2, 2>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}
}

// -----

kilnrt.kernel @k family<row> epilogue space [2, 2] row_strides [2, 2] {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.relu %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{launches @k, which is the epilogue of a product}}
  kilnrt.launch @k on @compute (ro %v0, wo %v0)
}
