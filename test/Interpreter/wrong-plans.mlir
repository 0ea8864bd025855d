// A plan that is wrong is an error that names the slots.

// RUN: split-file %s %t
// RUN: kiln-run %t/right.mlir | FileCheck %s --check-prefix=RIGHT
// RUN: not kiln-run %t/overlap.mlir 2>&1 | FileCheck %s --check-prefix=OVERLAP
// RUN: not kiln-run %t/unwritten.mlir 2>&1 | FileCheck %s --check-prefix=UNWRITTEN
// RUN: not kiln-run %t/overwritten.mlir 2>&1 | FileCheck %s --check-prefix=OVERWRITTEN
// RUN: not kiln-run %t/dead.mlir 2>&1 | FileCheck %s --check-prefix=DEAD
// RUN: not kiln-run %t/outside.mlir 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: not kiln-run %t/state.mlir 2>&1 | FileCheck %s --check-prefix=STATE

// RIGHT: y [2] = 4, 4
// OVERLAP: op 'b' at bytes [12, +8) overlaps slot 'a' at [8, +8), which lives at the same time
// UNWRITTEN: is command 0 and reads slot 'a' at byte 0, which nothing has written
// OVERWRITTEN: is command 1 and reads slot 'b' at byte 0, where slot 'a' wrote last
// DEAD: is command 2 and touches slot 'b', which lives from 1 to 1
// OUTSIDE: reaches outside of slot 'b' of 8 bytes
// STATE: reads slot 'w' at byte 4, where slot 'b' wrote last

//--- right.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 24
kilnrt.kernel @double attributes {family = #kiln.family<row>, space = array<i64: 1, 2>, row_strides = array<i64: 2, 2>} {
^bb0(%x: tensor<2xf32>):
  %y = kiln.add %x, %x : tensor<2xf32>
  kiln.yield %y : tensor<2xf32>
}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class "parameter" offset 0 bytes 8 lifetime [0, 1] state @w
  %a = kilnrt.slot "a" class "activation" offset 8 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class "output" offset 16 bytes 8 lifetime [1, 1]
  kilnrt.output "y" at %b + 0 : tensor<2xf32>
  kilnrt.launch @double(%w, %a) offsets [0, 0] strides [0, 0] immediates []
  kilnrt.launch @double(%a, %b) offsets [0, 0] strides [0, 0] immediates []
}

//--- overlap.mlir
kilnrt.arena states 0 height 24
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class "activation" offset 8 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class "output" offset 12 bytes 8 lifetime [1, 1]
  kilnrt.fill %a offset 0 bytes 8
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 8
}

//--- unwritten.mlir
kilnrt.arena states 0 height 24
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class "activation" offset 8 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class "output" offset 16 bytes 8 lifetime [0, 1]
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 8
}

//--- overwritten.mlir
kilnrt.arena states 0 height 32
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class "activation" offset 8 bytes 8 lifetime [0, 0]
  %b = kilnrt.slot "b" class "activation" offset 12 bytes 8 lifetime [1, 1]
  %c = kilnrt.slot "c" class "activation" offset 24 bytes 8 lifetime [1, 1]
  kilnrt.fill %a offset 0 bytes 8
  kilnrt.copy %b to %c offsets [0, 0] strides [0, 0] bytes 8
}

//--- dead.mlir
kilnrt.arena states 0 height 32
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class "activation" offset 8 bytes 8 lifetime [0, 2]
  %b = kilnrt.slot "b" class "activation" offset 16 bytes 8 lifetime [1, 1]
  kilnrt.fill %a offset 0 bytes 8
  kilnrt.fill %b offset 0 bytes 8
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 8
}

//--- outside.mlir
kilnrt.arena states 0 height 32
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %b = kilnrt.slot "b" class "activation" offset 16 bytes 8 lifetime [0, 0]
  kilnrt.fill %b offset 4 bytes 8
}

//--- state.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 32
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class "parameter" offset 0 bytes 8 lifetime [1, 1] state @w
  %b = kilnrt.slot "b" class "activation" offset 4 bytes 8 lifetime [0, 0]
  %c = kilnrt.slot "c" class "activation" offset 16 bytes 8 lifetime [1, 1]
  kilnrt.fill %b offset 0 bytes 8
  kilnrt.fill %c offset 0 bytes 8
}
