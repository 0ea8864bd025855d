// Diagnostics of collectives between ranks.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// The ranks of a mesh have named axes of more than one rank.

// expected-error @below {{has 'kiln.mesh' = {dp = 1 : i64}, but the value must be a dictionary of i64 that are larger than 1 and whose product is at most 65536, and only a module may have this attribute}}
module attributes {kiln.mesh = {dp = 1 : i64}} {}

// -----

// expected-error @below {{has 'kiln.mesh' = {dp = 65536 : i64, tp = 2 : i64}, but the value must be a dictionary of i64 that are larger than 1 and whose product is at most 65536}}
module attributes {kiln.mesh = {dp = 65536 : i64, tp = 2 : i64}} {}

// -----

// expected-error @below {{has 'kiln.mesh' = 2 : i64, but the value must be a dictionary}}
module attributes {kiln.mesh = 2 : i64} {}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{is over the axis 'tp', which the module's attribute 'kiln.mesh' does not have}}
  %s = kiln.all_reduce %x over "tp" : tensor<4xf32>
  kiln.return
}
}

// -----

kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{is over the axis 'dp', which the module's attribute 'kiln.mesh' does not have}}
  %s = kiln.all_reduce %x over "dp" : tensor<4xf32>
  kiln.return
}

// -----

// All tokens of a transfer have one wait (C1).
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>, %y: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have one user, a kiln.all_reduce_wait of all tokens, in order, in the same block}}
  %t:2 = kiln.all_reduce_start %x, %y over "dp" : tensor<4xf32>, tensor<8xf32>
  %s:2 = kiln.all_reduce_wait %t#1, %t#0 : tensor<8xf32>, tensor<4xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has tokens that are not all results of one kiln.all_reduce_start}}
  %s = kiln.all_reduce_wait %x : tensor<4xf32>
  kiln.return
}
}

// -----

// The types of operands and results are equal.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has no operand, expected at least one tensor}}
  "kiln.all_reduce"() <{axis = "dp"}> : () -> ()
  kiln.return
}
}
