// Every way in which memory could be reused too early, in plans made by hand.

// RUN: kiln-opt %s --kiln-verify-schedule -split-input-file -verify-diagnostics

// Two copies of one source are under way while it is read and others write
// elsewhere; what ends may be written; slots of the two sides share no bytes.
kilnrt.program @right attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 6]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [3, 3]
  %c = kilnrt.slot "c" class activation offset 64 bytes 64 lifetime [4, 10]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [1, 5] {host}
  %i = kilnrt.slot "c" class activation offset 64 bytes 64 lifetime [2, 10] {host}
  kilnrt.fill %a offset 0 bytes 64
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  %g = kilnrt.copy_start %a to %i offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.copy %a to %c offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.wait %t
  kilnrt.wait %g
  kilnrt.loop 2 {
    %u = kilnrt.copy_start %i to %c offsets [0, 0] strides [0, 0] bytes 64
    kilnrt.wait %u
  }
}

// -----

kilnrt.program @overlap attributes {kind = #kiln.program_kind<train>} {
  // expected-note @below {{the other slot is here}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  // expected-error @below {{'b' shares bytes with 'a', which lives at the same time}}
  %b = kilnrt.slot "b" class activation offset 32 bytes 64 lifetime [1, 1]
  kilnrt.fill %a offset 0 bytes 64
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 64
}

// -----

// A state lives for ever.
kiln.state @w : tensor<16xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, host}
kilnrt.program @overlap_on_the_host attributes {kind = #kiln.program_kind<train>} {
  // expected-note @below {{the other slot is here}}
  %w = kilnrt.slot "w" class parameter offset 0 bytes 64 lifetime [0, 1] state @w {host}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  // expected-error @below {{'h' shares bytes with 'w', which lives at the same time}}
  %h = kilnrt.slot "h" class activation offset 32 bytes 64 lifetime [0, 1] {host}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.wait %t
}

// -----

kilnrt.program @source_written attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  // expected-error @below {{writes the source of a copy that is under way}}
  kilnrt.fill %a offset 0 bytes 64
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
}

// -----

kilnrt.kernel @double attributes {family = #kiln.family<row>, space = array<i64: 1, 16>, row_strides = array<i64: 16, 16>} {
^bb0(%x: tensor<16xf32>):
  %y = kiln.add %x, %x : tensor<16xf32>
  kiln.yield %y : tensor<16xf32>
}
kilnrt.program @source_written_by_kernel attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.launch @double(%a, %b) offsets [0, 0] strides [0, 0] immediates []
  // expected-error @below {{writes the source of a copy that is under way}}
  kilnrt.launch @double(%b, %a) offsets [0, 0] strides [0, 0] immediates []
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
}

// -----

// Scratch is written too.
kilnrt.kernel @double attributes {family = #kiln.family<row>, space = array<i64: 1, 16>, row_strides = array<i64: 16, 16>} {
^bb0(%x: tensor<16xf32>):
  %y = kiln.add %x, %x : tensor<16xf32>
  kiln.yield %y : tensor<16xf32>
}
kilnrt.program @source_is_scratch attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  // expected-error @below {{writes the source of a copy that is under way}}
  kilnrt.launch @double(%b, %b) scratch(%a) offsets [0, 0] strides [0, 0] immediates []
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
}

// -----

kilnrt.program @source_of_product attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  // expected-error @below {{writes the source of a copy that is under way}}
  kilnrt.gemm(%b, %b, %a) offsets [0, 0, 0] strides [0, 0, 0] {m = 4, n = 4, k = 4, batch = 1, lead = array<i64: 4, 4, 4>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
}

// -----

// An epilogue reads the product and its other operands, and writes the results behind them.
kilnrt.kernel @add attributes {epilogue, family = #kiln.family<row>, space = array<i64: 4, 4>, row_strides = array<i64: 4, 4, 4>} {
^bb0(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>):
  %z = kiln.add %x, %y : tensor<4x4xf32>
  kiln.yield %z : tensor<4x4xf32>
}
kilnrt.program @source_of_epilogue attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 3]
  %c = kilnrt.slot "c" class activation offset 128 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.gemm(%b, %b, %c) epilogue @add(%a, %c) immediates [] offsets [0, 0, 0, 0, 0] strides [0, 0, 0, 0, 0] {m = 4, n = 4, k = 4, batch = 1, lead = array<i64: 4, 4, 4>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}
  // expected-error @below {{writes the source of a copy that is under way}}
  kilnrt.gemm(%b, %b, %c) epilogue @add(%b, %a) immediates [] offsets [0, 0, 0, 0, 0] strides [0, 0, 0, 0, 0] {m = 4, n = 4, k = 4, batch = 1, lead = array<i64: 4, 4, 4>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
}

// -----

kilnrt.program @destination_read attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %h to %a offsets [0, 0] strides [0, 0] bytes 64
  // expected-error @below {{touches the destination of a copy that is under way}}
  kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 64
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
}

// -----

kilnrt.program @destination_written attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %h to %a offsets [0, 0] strides [0, 0] bytes 64
  // expected-error @below {{touches the destination of a copy that is under way}}
  kilnrt.fill %a offset 0 bytes 64
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
}

// -----

// A second copy may neither leave a destination nor come to a source.
kilnrt.program @copied_on attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  // expected-error @below {{touches the destination of a copy that is under way}}
  %u = kilnrt.copy_start %h to %b offsets [0, 0] strides [0, 0] bytes 64
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
  kilnrt.wait %u
}

// -----

kilnrt.program @copied_over attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3] {host}
  %i = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 3] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  // expected-error @below {{writes the source of a copy that is under way}}
  %u = kilnrt.copy_start %i to %a offsets [0, 0] strides [0, 0] bytes 64
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
  kilnrt.wait %u
}

// -----

kilnrt.program @across_a_loop attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3] {host}
  // expected-note @below {{the copy begins here}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  // expected-error @below {{begins or ends during a copy that is under way}}
  kilnrt.loop 2 {
  }
  // expected-note @below {{and is waited for here}}
  kilnrt.wait %t
}

// -----

// Slots are touched while they live: by both ends of a copy, by the caller, by
// every iteration of a loop.

kilnrt.program @source_dies attributes {kind = #kiln.program_kind<train>} {
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 0 bytes 64 lifetime [1, 1]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2] {host}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.fill %b offset 0 bytes 64
  // expected-error @below {{touches slot 'a' at command 2, which lives from command 0 to 0}}
  kilnrt.wait %t
}

// -----

kilnrt.program @destination_too_late attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  // expected-note @below {{the slot is here}}
  %h = kilnrt.slot "h" class activation offset 0 bytes 64 lifetime [1, 1] {host}
  // expected-error @below {{touches slot 'h' at command 0, which lives from command 1 to 1}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.wait %t
}

// -----

kilnrt.program @input attributes {kind = #kiln.program_kind<train>} {
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class input offset 0 bytes 64 lifetime [1, 1]
  %b = kilnrt.slot "b" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{touches slot 'a' at command 0, which lives from command 1 to 1}}
  kilnrt.input "x" at %a + 0 : tensor<16xf32> fact #kiln.input<data>
  kilnrt.fill %b offset 0 bytes 64
  kilnrt.fill %a offset 0 bytes 64
}

// -----

kilnrt.program @output attributes {kind = #kiln.program_kind<train>} {
  // expected-note @below {{the slot is here}}
  %a = kilnrt.slot "a" class output offset 0 bytes 64 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 0 bytes 64 lifetime [1, 1]
  // expected-error @below {{touches slot 'a' at command 1, which lives from command 0 to 0}}
  kilnrt.output "y" at %a + 0 : tensor<16xf32>
  kilnrt.fill %a offset 0 bytes 64
  kilnrt.fill %b offset 0 bytes 64
}

// -----

// The second iteration would read what the first left of 'c'.
kilnrt.program @part_of_a_loop attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'a' lives from command 0 to 2, through a part of the loop from 1 to 4}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 2]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [2, 2]
  %c = kilnrt.slot "c" class activation offset 0 bytes 64 lifetime [3, 3]
  kilnrt.fill %a offset 0 bytes 64
  kilnrt.loop 2 {
    kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 64
    kilnrt.fill %c offset 0 bytes 64
  }
}
