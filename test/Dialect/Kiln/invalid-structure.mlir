// Diagnostics of modules and programs as a whole.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{argument 1 has type 'tensor<4x0xf32>', expected a tensor of f32, f64, i8, i32 or i64 with static positive extents}}
kiln.program @f(%a: tensor<4xf32>, %b: tensor<4x0xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

// expected-error @below {{argument 0 has type 'index', expected a tensor}}
kiln.program @f(%a: index) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

// expected-error @below {{does not end in kiln.return}}
kiln.program @f(%a: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.yield %a : tensor<4xf32>
}

// -----

// expected-error @below {{type attribute of tensor with static positive extents}}
kiln.state @w : tensor<0x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// -----

// expected-error @below {{kiln.model has batch = 0 : i64, expected a positive i64}}
module attributes {kiln.model = {batch = 0 : i64}} {}

// -----

// expected-error @below {{kiln.model has vocab_size = 16 : i32, expected a positive i64}}
module attributes {kiln.model = {vocab_size = 16 : i32}} {}

// -----

// expected-error @below {{kiln.model has name = 3 : i64, expected a string}}
module attributes {kiln.model = {name = 3}} {}

// -----

// expected-error @below {{kiln.model has has_weights = 1 : i64, expected true or false}}
module attributes {kiln.model = {has_weights = 1}} {}

// -----

// expected-error @below {{kiln.model has files = [1], expected an array of names of files without a directory}}
module attributes {kiln.model = {files = [1]}} {}

// -----

// expected-error @below {{kiln.model has files = ["../config.json"], expected an array of names of files without a directory}}
module attributes {kiln.model = {files = ["../config.json"]}} {}

// -----

// expected-error @below {{kiln.model has an unknown entry 'heads', expected type, name, vocab_size, batch, sequence_length, has_weights or files}}
module attributes {kiln.model = {heads = 4}} {}
