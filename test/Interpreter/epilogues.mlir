// The epilogue of a gemm in a schedule: its result, and views that would let a
// tile read bytes that another tile, or itself, has already overwritten.

// RUN: split-file %s %t
// RUN: kiln-run %t/right.mlir | FileCheck %s --check-prefix=RIGHT
// RUN: sed 's/@k(ro %g, wo %y)/@k(ro %c, wo %y)/' %t/right.mlir > %t/read.mlir
// RUN: not kiln-run %t/read.mlir 2>&1 | FileCheck %s --check-prefix=READ
// RUN: sed 's/@k(ro %g, wo %y)/@k(ro %g, wo %w)/' %t/right.mlir > %t/write.mlir
// RUN: not kiln-run %t/write.mlir 2>&1 | FileCheck %s --check-prefix=WRITE
// RUN: sed 's/%c = \(.*\) : memref<2x2xf32>/%c = \1 : memref<2x2xf32, strided<[3, 1]>>/; s/bytes 16 lifetime \[1, 2\]/bytes 20 lifetime [1, 2]/' %t/right.mlir > %t/strides.mlir
// RUN: not kiln-run %t/strides.mlir 2>&1 | FileCheck %s --check-prefix=STRIDES
// RUN: sed 's/@k(ro %g, wo %y)/& args [5]/' %t/right.mlir > %t/args.mlir
// RUN: not kiln-run %t/args.mlir 2>&1 | FileCheck %s --check-prefix=ARGS

// The matmul of ones is 2 everywhere. The epilogue writes y = 2 + g = 5 and
// keeps the matmul result; the launch adds both.
// RIGHT: y [2, 2] = 7, 7, 7, 7
// READ: must not write the result of the matmul over an operand of the epilogue
// WRITE: must not have an epilogue that overwrites an operand of the gemm
// STRIDES: has an epilogue whose first operand differs from the result of the gemm in shape, element type or row stride
// ARGS: passes arguments of types ('i64'), expected ()

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
  %w.slot = kilnrt.slot "w" class parameter offset 0 bytes 16 lifetime [0, 2] state @w
  %g.slot = kilnrt.slot "g" class parameter offset 64 bytes 16 lifetime [0, 2] state @g
  %c.slot = kilnrt.slot "c" class activation offset 128 bytes 16 lifetime [1, 2]
  %y.slot = kilnrt.slot "y" class activation offset 192 bytes 16 lifetime [1, 2]
  %z.slot = kilnrt.slot "z" class output offset 256 bytes 16 lifetime [0, 2]
  %w = kilnrt.view %w.slot[0] : memref<2x2xf32>
  %g = kilnrt.view %g.slot[0] : memref<2x2xf32>
  %c = kilnrt.view %c.slot[0] : memref<2x2xf32>
  %y = kilnrt.view %y.slot[0] : memref<2x2xf32>
  %z = kilnrt.view %z.slot[0] : memref<2x2xf32>
  kilnrt.output "y" at %z
  kilnrt.fill on @compute (wo %z)
  kilnrt.gemm on @compute (ro %w, ro %w, wo %c) grid [1, 1] epilogue @k(ro %g, wo %y)
  kilnrt.launch @add on @compute (ro %c, ro %y, wo %z)
}
