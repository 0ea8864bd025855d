// Diagnostics of gemms with an epilogue.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{has reads, writes or arguments of an epilogue, but no epilogue}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] args [1]
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{has an epilogue, which needs a batch of 1 and the accumulation 'overwrite', but the batch is 1 and the accumulation is add}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, rw %v0) grid [1, 1] epilogue @k(wo %v0)
}

// -----

// A kernel for whole rows cannot be an epilogue.
kilnrt.kernel @k family<row> space [2, 2] row_strides [2, 2] {
^bb0(%x: tensor<2x2xf32>):
  %y = kiln.relu %x : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{names @k, which is not an epilogue}}
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
  // expected-error @below {{has an epilogue whose first operand differs from the result of the gemm in shape, element type or row stride}}
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
  // expected-error @below {{has 1 reads and 1 writes, expected 0 reads and 1 writes}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] epilogue @k(ro %v0, wo %v0)
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
  // expected-error @below {{launches @k, which is an epilogue: only a kilnrt.gemm can use it}}
  kilnrt.launch @k on @compute (ro %v0, wo %v0)
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
  // expected-error @below {{has the argument unit, expected an i64 or an f64}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] epilogue @k(wo %v0) args [unit]
}
