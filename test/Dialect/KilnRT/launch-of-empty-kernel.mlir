// An op is not verified yet when one that refers to it is: what stands behind may
// lack its region, its attributes or its operands.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

"builtin.module"() ({
XXX   "kilnrt.program"() <{kind = #kiln.program_kind<train>, sym_name = "train"}> ({
XXX     %0 = "kilnrt.slot"() <{bytes = 32 : i64, first = 0 : i64, last = 1 : i64, name = "a", offset = 0 : i64, slot_class = #kilnrt.slot_class<input>, why = "input"}> : () -> !kilnrt.slot
XXX     "kilnrt.launch"(%0) <{immediates = array<i64>, kernel = @k, offsets = array<i64: 0>, operandSegmentSizes = array<i32: 1, 0>, strides = array<i64: 0>}> : (!kilnrt.slot) -> ()
  }) : () -> ()
  // expected-error @below {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
XXX   "kilnrt.kernel"() <{family = #kiln.family<row>, row_strides = array<i64: 8>, space = array<i64: 256, 8>, sym_name = "k"}> ({
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
XXX   "kilnrt.program"() <{kind = #kiln.program_kind<train>, sym_name = "train"}> ({
XXX     %0 = "kilnrt.slot"() <{bytes = 32 : i64, first = 0 : i64, last = 1 : i64, name = "a", offset = 0 : i64, slot_class = #kilnrt.slot_class<input>}> : () -> !kilnrt.slot
XXX     "kilnrt.launch"(%0) <{immediates = array<i64>, kernel = @k, offsets = array<i64: 0>, operandSegmentSizes = array<i32: 1, 0>, strides = array<i64: 0>}> : (!kilnrt.slot) -> ()
  }) : () -> ()
  // expected-error @below {{expects a non-empty block}}
XXX   "kilnrt.kernel"() <{family = #kiln.family<row>, row_strides = array<i64: 8>, sym_name = "k"}> ({
  ^bb0(%x: tensor<2xf32>):
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
XXX   "kilnrt.program"() <{kind = #kiln.program_kind<train>, sym_name = "train"}> ({
XXX     %0 = "kilnrt.slot"() <{bytes = 16 : i64, first = 0 : i64, last = 0 : i64, name = "a", offset = 0 : i64, slot_class = #kilnrt.slot_class<input>}> : () -> !kilnrt.slot
XXX     "kilnrt.gemm"(%0, %0, %0) <{batch = 1 : i64, batch_strides = array<i64: 0, 0, 0>, beta = 0 : i64, element = f32, epilogue = @k, grid = array<i64: 1, 1>, immediates = array<i64>, k = 2 : i64, lead = array<i64: 2, 2, 2>, m = 2 : i64, n = 2 : i64, offsets = array<i64: 0, 0, 0>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>, strides = array<i64: 0, 0, 0>}> : (!kilnrt.slot, !kilnrt.slot, !kilnrt.slot) -> ()
  }) : () -> ()
  // expected-error @below {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
XXX   "kilnrt.kernel"() <{epilogue, family = #kiln.family<row>, row_strides = array<i64: 2>, sym_name = "k"}> ({
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  "kiln.state"() <{init = #kiln.splat<value = 0.0>, of = @w, role = #kiln.role<mirror>, sym_name = "m", type = tensor<2xf32>}> : () -> ()
  // expected-error @below {{requires attribute 'role'}}
  "kiln.state"() <{host, init = #kiln.splat<value = 0.0>, sym_name = "w", type = tensor<2xf32>}> : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  "kiln.program"() <{function_type = (tensor<4xf32>) -> (), kind = #kiln.program_kind<train>, sym_name = "train"}> ({
  ^bb0(%x: tensor<4xf32>):
    // expected-error @below {{needs exactly one reader, a kiln.copy_wait of its source in the same block}}
    %f = "kiln.copy_out"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %h = "kiln.copy_wait"(%f) : (tensor<4xf32>) -> tensor<4xf32>
    "kiln.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

kilnrt.queue @compute engine host
// A program reads another program's slots, or what is no slot at all.
kilnrt.program @train kind<train> {
  // expected-note @below {{the op is here}}
XXX   %a = builtin.unrealized_conversion_cast to !kilnrt.slot
  %v0 = kilnrt.view %a[0] : memref<2xf32>
  kilnrt.fill on @compute (wo %v0)
// expected-error @-4 {{contains 'builtin.unrealized_conversion_cast', expected ops of the kilnrt dialect alone}}
}

// -----

// expected-error @below {{expects parent op 'kilnrt.program'}}
%a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 0]

// -----

// expected-error @below {{has block arguments, expected none}}
kilnrt.program @train kind<train> {
XXX ^bb0(%a: !kilnrt.slot):
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{names @w, which is no kiln.state}}
  %a = kilnrt.slot "a" class parameter offset 0 bytes 8 lifetime [0, 0] state @w
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has bytes [-4, +8), expected from 0 to}}
  %a = kilnrt.slot "a" class activation offset -4 bytes 8 lifetime [0, 0]
}

// -----

// expected-error @below {{has states of 8 bytes in a height of 4}}
kilnrt.arena states 8 height 4

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{runs 0 times, expected at least 1}}
  kilnrt.loop 0 {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has block arguments, expected none}}
  kilnrt.loop 2 {
XXX   ^bb0(%t: !kilnrt.token):
  }
}

// -----

kilnrt.program @train kind<train> {
  kilnrt.loop 2 {
    // expected-error @below {{expects parent op 'kilnrt.program'}}
    kilnrt.loop 2 {
    }
  }
}

// -----

// expected-error @below {{has 1 row strides, expected 2, none of them negative}}
kilnrt.kernel @k family<row> row_strides [2] {
^bb0(%x: tensor<2xf32>):
  kiln.yield %x : tensor<2xf32>
}

// -----

// expected-error @below {{needs tensors as arguments}}
kilnrt.kernel @k family<row> row_strides [2] {
^bb0(%x: f32):
  kiln.yield
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<0x2xf32>
  %v1 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{has extents 0, 2, 2 and a batch of 1, expected positive numbers}}
  kilnrt.gemm on @compute (ro %v0, ro %v1, wo %v0) grid [1, 1]
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  // expected-error @below {{needs three of 'lead' and of 'batch_strides'}}
XXX   kilnrt.gemm(%a, %a, %a) offsets [0, 0, 0] strides [0, 0, 0] {m = 2, n = 2, k = 2, batch = 1, lead = array<i64: 2, 2>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{needs a grid of tiles over 2 rows and 2 columns}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [3, 1]
}
