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
kilnrt.kernel @k attributes {epilogue, family = #kiln.family<row>, space = array<i64: 2, 2>, row_strides = array<i64: 2, 2, 2>} {
^bb0(%p: tensor<2x2xf32>, %g: tensor<2x2xf32>):
  %y = kiln.add %p, %g : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.kernel @add attributes {family = #kiln.family<row>, space = array<i64: 2, 2>, row_strides = array<i64: 2, 2, 2>} {
^bb0(%p: tensor<2x2xf32>, %g: tensor<2x2xf32>):
  %y = kiln.add %p, %g : tensor<2x2xf32>
  kiln.yield %y : tensor<2x2xf32>
}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 16 lifetime [0, 2] state @w
  %g = kilnrt.slot "g" class parameter offset 64 bytes 16 lifetime [0, 2] state @g
  %c = kilnrt.slot "c" class activation offset 128 bytes 16 lifetime [1, 2]
  %y = kilnrt.slot "y" class activation offset 192 bytes 16 lifetime [1, 2]
  %z = kilnrt.slot "z" class output offset 256 bytes 16 lifetime [0, 2]
  kilnrt.output "y" at %z + 0 : tensor<2x2xf32>
  kilnrt.fill %z offset 0 bytes 16
  kilnrt.gemm(%w, %w, %c) epilogue @k(%g, %y) immediates [] offsets [0, 0, 0, 0, 0] strides [0, 0, 0, 0, 0] {m = 2, n = 2, k = 2, batch = 1, lead = array<i64: 2, 2, 2>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}
  kilnrt.launch @add(%c, %y, %z) offsets [0, 0, 0] strides [0, 0, 0] immediates []
}
