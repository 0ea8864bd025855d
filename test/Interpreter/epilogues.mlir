// The epilogue of a product in a schedule: what it computes, and places that
// would let a tile see what another tile, or itself, has written too early.

// RUN: split-file %s %t
// RUN: kiln-run %t/right.mlir | FileCheck %s --check-prefix=RIGHT
// RUN: sed 's/%g, %y)/%c, %y)/' %t/right.mlir > %t/read.mlir
// RUN: not kiln-run %t/read.mlir 2>&1 | FileCheck %s --check-prefix=READ
// RUN: sed 's/(%w, %w, %c) epilogue @k(%g, %y)/(%w, %w, %c) epilogue @k(%g, %w)/' %t/right.mlir > %t/write.mlir
// RUN: not kiln-run %t/write.mlir 2>&1 | FileCheck %s --check-prefix=WRITE
// RUN: sed 's/lead = array<i64: 2, 2, 2>/lead = array<i64: 2, 2, 3>/; s/bytes 16 lifetime \[1, 2\]/bytes 20 lifetime [1, 2]/' %t/right.mlir > %t/strides.mlir
// RUN: not kiln-run %t/strides.mlir 2>&1 | FileCheck %s --check-prefix=STRIDES
// RUN: sed 's/immediates \[\]/immediates [5]/' %t/right.mlir > %t/immediates.mlir
// RUN: not kiln-run %t/immediates.mlir 2>&1 | FileCheck %s --check-prefix=IMMEDIATES

// The product of ones is 2 everywhere; y = product + g is written, the product
// stays; then both are added.
// RIGHT: y [2, 2] = 7, 7, 7, 7
// READ: writes its product over what the epilogue reads
// WRITE: has an epilogue that writes over an operand of the product
// STRIDES: has other row strides than its product
// IMMEDIATES: passes 1 immediates, expected 0

//--- right.mlir
kiln.state @w : tensor<2x2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @g : tensor<2x2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 3.0>}
kilnrt.arena states 128 height 320
kilnrt.kernel @k family<row> epilogue space [2, 2] row_strides [2, 2, 2] {
^bb0(%p: tensor<2x2xf32>, %g: tensor<2x2xf32>):
  %y = kiln.add %p, %g : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.kernel @add family<row> space [2, 2] row_strides [2, 2, 2] {
^bb0(%p: tensor<2x2xf32>, %g: tensor<2x2xf32>):
  %y = kiln.add %p, %g : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 16 lifetime [0, 2] state @w
  %g = kilnrt.slot "g" class parameter offset 64 bytes 16 lifetime [0, 2] state @g
  %c = kilnrt.slot "c" class activation offset 128 bytes 16 lifetime [1, 2]
  %y = kilnrt.slot "y" class activation offset 192 bytes 16 lifetime [1, 2]
  %z = kilnrt.slot "z" class output offset 256 bytes 16 lifetime [0, 2]
  %v0 = kilnrt.view %z[0] : memref<2x2xf32>
  kilnrt.output "y" at %v0
  %v1 = kilnrt.view %z[0] : memref<4xf32>
  kilnrt.fill on @compute (wo %v1)
  %v2 = kilnrt.view %w[0] : memref<2x2xf32>
  %v3 = kilnrt.view %c[0] : memref<2x2xf32>
  %v4 = kilnrt.view %g[0] : memref<2x2xf32>
  %v5 = kilnrt.view %y[0] : memref<2x2xf32>
  kilnrt.gemm on @compute (ro %v2, ro %v2, wo %v3) grid [1, 1] epilogue @k(ro %v4, wo %v5)
  kilnrt.launch @add on @compute (ro %v3, ro %v5, wo %v0)
}
