// A plan that is wrong is an error that names the slots.

// RUN: split-file %s %t
// RUN: kiln-run %t/right.mlir | FileCheck %s --check-prefix=RIGHT
// RUN: not kiln-run %t/overlap.mlir 2>&1 | FileCheck %s --check-prefix=OVERLAP
// RUN: not kiln-run %t/unwritten.mlir 2>&1 | FileCheck %s --check-prefix=UNWRITTEN
// RUN: not kiln-run %t/overwritten.mlir 2>&1 | FileCheck %s --check-prefix=OVERWRITTEN
// RUN: not kiln-run %t/dead.mlir 2>&1 | FileCheck %s --check-prefix=DEAD
// RUN: not kiln-run %t/outside.mlir 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: not kiln-run %t/state.mlir 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: kiln-run %t/copies.mlir | FileCheck %s --check-prefix=COPIES
// RUN: not kiln-run %t/early.mlir 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not kiln-run %t/changed.mlir 2>&1 | FileCheck %s --check-prefix=CHANGED
// RUN: not kiln-run %t/written.mlir 2>&1 | FileCheck %s --check-prefix=WRITTEN
// RUN: not kiln-run %t/again.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not kiln-run %t/no-start.mlir 2>&1 | FileCheck %s --check-prefix=START
// RUN: not kiln-run %t/no-source.mlir 2>&1 | FileCheck %s --check-prefix=SOURCE
// RUN: not kiln-run %t/ended.mlir 2>&1 | FileCheck %s --check-prefix=ENDED
// RUN: not kiln-run %t/host.mlir 2>&1 | FileCheck %s --check-prefix=HOST
// RUN: not kiln-run %t/host-state.mlir 2>&1 | FileCheck %s --check-prefix=HOMELESS

// RIGHT: y [2] = 4, 4
// OVERLAP: op 'b' at bytes [12, +8) overlaps slot 'a' at [8, +8), which lives at the same time
// UNWRITTEN: is command 0 and reads slot 'a' at byte 0, which nothing has written
// OVERWRITTEN: is command 1 and reads slot 'b' at byte 0, where slot 'a' wrote last
// DEAD: is command 2 and touches slot 'b', which lives from 1 to 1
// OUTSIDE: reaches outside of slot 'b' of 8 bytes
// STATE: reads slot 'w' at byte 4, where slot 'b' wrote last
// COPIES: y [2] = 1, 1
// EARLY: is command 1 and reads slot 'h' at byte 0, where a copy is under way
// CHANGED: waits for a copy whose source 'a' changed while it was under way
// WRITTEN: waits for a copy whose destination 'b' was written while it was under way
// AGAIN: waits for a copy whose destination 'h' was written while it was under way
// START: waits for what no kilnrt.copy_start began
// SOURCE: is command 0 and reads slot 'a' at byte 0, which nothing has written
// ENDED: is command 2 and touches slot 'a', which lives from 0 to 1
// HOST: has bytes [0, +8), expected an offset that 4 divides inside the arena of 4
// HOMELESS: moves the state @w to another offset

//--- right.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 24
kilnrt.kernel @double attributes {family = #kiln.family<row>, space = array<i64: 1, 2>, row_strides = array<i64: 2, 2>} {
^bb0(%x: tensor<2xf32>):
  %y = kiln.add %x, %x : tensor<2xf32>
  kiln.yield %y : tensor<2xf32>
}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 1] state @w
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class output offset 16 bytes 8 lifetime [1, 1]
  kilnrt.output "y" at %b + 0 : tensor<2xf32>
  kilnrt.launch @double(%w, %a) offsets [0, 0] strides [0, 0] immediates []
  kilnrt.launch @double(%a, %b) offsets [0, 0] strides [0, 0] immediates []
}

//--- overlap.mlir
kilnrt.arena states 0 height 24
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class output offset 12 bytes 8 lifetime [1, 1]
  kilnrt.fill %a offset 0 bytes 8
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 8
}

//--- unwritten.mlir
kilnrt.arena states 0 height 24
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 1]
  %b = kilnrt.slot "b" class output offset 16 bytes 8 lifetime [0, 1]
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 8
}

//--- overwritten.mlir
kilnrt.arena states 0 height 32
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 12 bytes 8 lifetime [1, 1]
  %c = kilnrt.slot "c" class activation offset 24 bytes 8 lifetime [1, 1]
  kilnrt.fill %a offset 0 bytes 8
  kilnrt.copy %b to %c offsets [0, 0] strides [0, 0] bytes 8
}

//--- dead.mlir
kilnrt.arena states 0 height 32
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 16 bytes 8 lifetime [1, 1]
  kilnrt.fill %a offset 0 bytes 8
  kilnrt.fill %b offset 0 bytes 8
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 8
}

//--- outside.mlir
kilnrt.arena states 0 height 32
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %b = kilnrt.slot "b" class activation offset 16 bytes 8 lifetime [0, 0]
  kilnrt.fill %b offset 4 bytes 8
}

//--- state.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 32
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [1, 1] state @w
  %b = kilnrt.slot "b" class activation offset 4 bytes 8 lifetime [0, 0]
  %c = kilnrt.slot "c" class activation offset 16 bytes 8 lifetime [1, 1]
  kilnrt.fill %b offset 0 bytes 8
  kilnrt.fill %c offset 0 bytes 8
}

//--- copies.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 {host_height = 8}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 4] state @w
  %b = kilnrt.slot "b" class output offset 8 bytes 8 lifetime [2, 4]
  %h = kilnrt.slot "h" class activation offset 0 bytes 8 lifetime [0, 3] {host}
  kilnrt.output "y" at %b + 0 : tensor<2xf32>
  %t = kilnrt.copy_start %w to %h offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.wait %t
  %u = kilnrt.copy_start %h to %b offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.wait %u
}

//--- early.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 {host_height = 16}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 2] state @w
  %h = kilnrt.slot "h" class activation offset 0 bytes 8 lifetime [0, 2] {host}
  %i = kilnrt.slot "i" class activation offset 8 bytes 8 lifetime [0, 2] {host}
  %t = kilnrt.copy_start %w to %h offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.copy %h to %i offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.wait %t
}

//--- changed.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 {host_height = 8}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 3] state @w
  %a = kilnrt.slot "a" class activation offset 8 bytes 8 lifetime [0, 3]
  %h = kilnrt.slot "h" class activation offset 0 bytes 8 lifetime [0, 3] {host}
  kilnrt.copy %w to %a offsets [0, 0] strides [0, 0] bytes 8
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.fill %a offset 0 bytes 8
  kilnrt.wait %t
}

//--- written.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 {host_height = 8}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 4] state @w
  %b = kilnrt.slot "b" class activation offset 8 bytes 8 lifetime [2, 4]
  %h = kilnrt.slot "h" class activation offset 0 bytes 8 lifetime [0, 4] {host}
  %t = kilnrt.copy_start %w to %h offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.wait %t
  %u = kilnrt.copy_start %h to %b offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.fill %b offset 0 bytes 8
  kilnrt.wait %u
}

//--- again.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kilnrt.arena states 8 height 16 {host_height = 8}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 3] state @w
  %h = kilnrt.slot "h" class activation offset 0 bytes 8 lifetime [0, 3] {host}
  %t = kilnrt.copy_start %w to %h offsets [0, 0] strides [0, 0] bytes 8
  %u = kilnrt.copy_start %w to %h offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.wait %t
  kilnrt.wait %u
}

//--- no-start.mlir
kilnrt.arena states 0 height 0
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  kilnrt.loop 2 {
  ^bb0(%t: !kilnrt.token):
    kilnrt.wait %t
  }
}

//--- no-source.mlir
kilnrt.arena states 0 height 8 {host_height = 8}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 1]
  %h = kilnrt.slot "h" class activation offset 0 bytes 8 lifetime [0, 1] {host}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.wait %t
}

//--- ended.mlir
kilnrt.arena states 0 height 8 {host_height = 8}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 1]
  %h = kilnrt.slot "h" class activation offset 0 bytes 8 lifetime [0, 2] {host}
  kilnrt.fill %a offset 0 bytes 8
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.wait %t
}

//--- host.mlir
kilnrt.arena states 0 height 8 {host_height = 4}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 2]
  %h = kilnrt.slot "h" class activation offset 0 bytes 8 lifetime [0, 2] {host}
  kilnrt.fill %a offset 0 bytes 8
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 8
  kilnrt.wait %t
}

//--- host-state.mlir
kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>, host}
kilnrt.arena states 0 height 8 {host_height = 8}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 0] state @w {host}
}
kilnrt.program @evaluate attributes {kind = #kiln.program_kind<evaluate>} {
  %w = kilnrt.slot "w" class parameter offset 0 bytes 8 lifetime [0, 0] state @w
}
