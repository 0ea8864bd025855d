// An op is not verified yet when one that refers to it is: what stands behind may
// lack its region, its attributes or its operands.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

"builtin.module"() ({
  "kilnrt.queue"() <{sym_name = "compute", engine = #kilnrt<engine host>}> : () -> ()
  "kilnrt.program"() <{kind = #kiln.program_kind<train>, sym_name = "train"}> ({
    %0 = "kilnrt.slot"() <{bytes = 32 : i64, first = 0 : i64, last = 1 : i64, name = "a", offset = 0 : i64, slot_class = #kilnrt.slot_class<input>, why = "input"}> : () -> !kilnrt.slot
    %1 = "kilnrt.view"(%0) <{offset = 0 : i64, view_type = memref<8xf32>}> : (!kilnrt.slot) -> !kilnrt.place
    "kilnrt.launch"(%1) <{kernel = @k, queue = @compute, operandSegmentSizes = array<i32: 1, 0, 0>}> : (!kilnrt.place) -> ()
  }) : () -> ()
  // expected-error @below {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
  "kilnrt.kernel"() <{kind = "row", row_strides = array<i64: 8>, space = array<i64: 256, 8>, sym_name = "k"}> ({
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  "kilnrt.queue"() <{sym_name = "compute", engine = #kilnrt<engine host>}> : () -> ()
  "kilnrt.program"() <{kind = #kiln.program_kind<train>, sym_name = "train"}> ({
    %0 = "kilnrt.slot"() <{bytes = 32 : i64, first = 0 : i64, last = 1 : i64, name = "a", offset = 0 : i64, slot_class = #kilnrt.slot_class<input>}> : () -> !kilnrt.slot
    %1 = "kilnrt.view"(%0) <{offset = 0 : i64, view_type = memref<8xf32>}> : (!kilnrt.slot) -> !kilnrt.place
    "kilnrt.launch"(%1) <{kernel = @k, queue = @compute, operandSegmentSizes = array<i32: 1, 0, 0>}> : (!kilnrt.place) -> ()
  }) : () -> ()
  // expected-error @below {{expects a non-empty block}}
  "kilnrt.kernel"() <{kind = "row", row_strides = array<i64: 8>, sym_name = "k"}> ({
  ^bb0(%x: tensor<2xf32>):
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  "kilnrt.queue"() <{sym_name = "compute", engine = #kilnrt<engine host>}> : () -> ()
  "kilnrt.program"() <{kind = #kiln.program_kind<train>, sym_name = "train"}> ({
    %0 = "kilnrt.slot"() <{bytes = 16 : i64, first = 0 : i64, last = 0 : i64, name = "a", offset = 0 : i64, slot_class = #kilnrt.slot_class<input>}> : () -> !kilnrt.slot
    %1 = "kilnrt.view"(%0) <{offset = 0 : i64, view_type = memref<2x2xf32>}> : (!kilnrt.slot) -> !kilnrt.place
    "kilnrt.gemm"(%1, %1, %1) <{queue = @compute, epilogue = @k, grid = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>}> : (!kilnrt.place, !kilnrt.place, !kilnrt.place) -> ()
  }) : () -> ()
  // expected-error @below {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
  "kilnrt.kernel"() <{epilogue, kind = "row", row_strides = array<i64: 2>, sym_name = "k"}> ({
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  "kiln.state"() <{init = #kiln.splat<value = 0.0>, of = @w, role = #kiln.role<mirror>, sym_name = "m", type = tensor<2xf32>}> : () -> ()
  // expected-error @below {{requires attribute 'role'}}
  "kiln.state"() <{init = #kiln.splat<value = 0.0>, sym_name = "w", type = tensor<2xf32>}> : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  "kiln.program"() <{function_type = (tensor<4xf32>) -> (), kind = #kiln.program_kind<train>, sym_name = "train"}> ({
  ^bb0(%x: tensor<4xf32>):
    // expected-error @below {{must have exactly one user, a kiln.copy_wait with the same source, in the same block or in the backward segment of the same micro-batch}}
    %f = "kiln.copy_out"(%x) : (tensor<4xf32>) -> tensor<4xf32, #kiln.memory<host>>
    %h = "kiln.copy_wait"(%f) : (tensor<4xf32, #kiln.memory<host>>) -> tensor<4xf32, #kiln.memory<host>>
    "kiln.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

// A view of what is no slot.
kilnrt.program @train kind<train> {
  %a = builtin.unrealized_conversion_cast to !kilnrt.slot
  // expected-error @below {{has an operand that is not the result of a kilnrt.slot}}
  %v0 = kilnrt.view %a[0] : memref<2xf32>
}

// -----

// A command on what is no view.
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = builtin.unrealized_conversion_cast to !kilnrt.place
  // expected-error @below {{has an operand that is not the result of a preceding valid kilnrt.view, kilnrt.slot or kilnrt.token}}
  kilnrt.fill on @compute (wo %a)
}

// -----

// expected-error @below {{contains 'builtin.unrealized_conversion_cast', expected only ops of the kilnrt dialect}}
kilnrt.program @train kind<train> {
  // expected-note @below {{the op is here}}
  %a = builtin.unrealized_conversion_cast to !kilnrt.slot
}

// -----

// expected-error @below {{expects parent op 'kilnrt.program'}}
%a = kilnrt.slot "a" class activation offset 0 bytes 8 lifetime [0, 0]

// -----

// expected-error @below {{has block arguments, expected none}}
kilnrt.program @train kind<train> {
^bb0(%a: !kilnrt.slot):
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{names @w, which is not a kiln.state}}
  %a = kilnrt.slot "a" class parameter offset 0 bytes 8 lifetime [0, 0] state @w
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has the offset -4 and the size 8, expected each of them from 0 to}}
  %a = kilnrt.slot "a" class activation offset -4 bytes 8 lifetime [0, 0]
}

// -----

// expected-error @below {{reserves 8 bytes for states in an arena of 4 bytes}}
kilnrt.arena states 8 height 4

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{cannot be executed: the order is for 0 micro-batches, expected a number of micro-batches from 1 to 1048576}}
  kilnrt.microbatches 0 forward {
  } backward {
  }
}

// -----

kilnrt.program @train kind<train> {
  // expected-error @below {{has block arguments, expected none}}
  kilnrt.microbatches 2 forward {
  } backward {
  ^bb0(%t: !kilnrt.token):
  }
}

// -----

kilnrt.program @train kind<train> {
  kilnrt.microbatches 2 forward {
    // expected-error @below {{expects parent op 'kilnrt.program'}}
    kilnrt.microbatches 2 forward {
    } backward {
    }
  } backward {
  }
}

// -----

// expected-error @below {{has 1 row strides, expected 2, each of them at least 0}}
kilnrt.kernel @k family<row> row_strides [2] {
^bb0(%x: tensor<2xf32>):
  kiln.yield %x : tensor<2xf32>
}

// -----

// expected-error @below {{must have a body that ends in kiln.yield and whose arguments are tensors}}
kilnrt.kernel @k family<row> row_strides [2] {
^bb0(%x: f32):
  kiln.yield
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  // expected-error @below {{has the type 'memref<0x2xf32>', expected positive extents}}
  %v0 = kilnrt.view %a[0] : memref<0x2xf32>
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<4xf32>
  // expected-error @below {{has a matrix of type 'memref<4xf32>', expected equal ranks of 'a', 'b' and 'c': 2, or 3 with a batch}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1]
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 24 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  %v1 = kilnrt.view %a[0] : memref<3x2xf32>
  // expected-error @below {{but the extents of these matrices do not match}}
  kilnrt.gemm on @compute (ro %v0, ro %v1, wo %v0) grid [1, 1]
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{has an invalid grid, expected two tile counts: from 1 to 2 tiles that split the rows, and from 1 to 2 tiles that split the columns}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [3, 1]
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{has the kernel "mkl", expected blas, avx512 or amx}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] kernel "mkl"
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 32 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf64>
  // expected-error @below {{has the kernel "avx512", which supports only operands of f32, f16 or bf16 and does not support library epilogues}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] kernel "avx512"
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<2x2xf32>
  // expected-error @below {{has the kernel "amx", which supports only operands of bf16 and does not support library epilogues}}
  kilnrt.gemm on @compute (ro %v0, ro %v0, wo %v0) grid [1, 1] kernel "amx"
}
