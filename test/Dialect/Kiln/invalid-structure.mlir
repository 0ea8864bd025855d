// Diagnostics of modules and programs as a whole.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{argument 1 has type 'tensor<4x0xf32>', expected a device tensor with static positive extents, at most 2^48 elements, and an element type that can be stored: a float type, i8, i32 or i64}}
kiln.program @f(%a: tensor<4xf32>, %b: tensor<4x0xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

// expected-error @below {{argument 0 has type 'index', expected a device tensor with static positive extents, at most 2^48 elements, and an element type that can be stored: a float type, i8, i32 or i64}}
kiln.program @f(%a: index) attributes {kind = #kiln.program_kind<forward>} {
  kiln.return
}

// -----

// expected-error @below {{does not end with kiln.return}}
kiln.program @f(%a: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  kiln.yield %a : tensor<4xf32>
}

// -----

// expected-error @below {{zero_row is 4, expected the index of one of the 4 rows}}
kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0, zero_row = 4>}

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

// expected-error @below {{kiln.model has files = [1], expected an array of file names without a directory}}
module attributes {kiln.model = {files = [1]}} {}

// -----

// expected-error @below {{kiln.model has files = ["../config.json"], expected an array of file names without a directory}}
module attributes {kiln.model = {files = ["../config.json"]}} {}

// -----

// expected-error @below {{kiln.model has unused_tensors = [3], expected an array of tensor names}}
module attributes {kiln.model = {unused_tensors = [3]}} {}

// -----

// expected-error @below {{kiln.model has an unknown entry 'heads', expected type, name, vocab_size, batch, sequence_length, has_weights, storage, files, adapter_targets or unused_tensors}}
module attributes {kiln.model = {heads = 4}} {}

// -----

// A gemm dispatch whose first op is not a matmul.
kiln.program @f(%x: tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{of the family 'gemm' must have a body that begins with a kiln.matmul of rank 2 without 'accumulate'; its operands must be the first two body arguments, which no other op may use}}
  %y = kiln.dispatch gemm(%x, %x) space [4, 4] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %p = kiln.add %a, %b : tensor<4x4xf32>
    kiln.yield %p : tensor<4x4xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{of the family 'gemm' must have a body that begins with a kiln.matmul of rank 2 without 'accumulate'; its operands must be the first two body arguments, which no other op may use}}
  %y = kiln.dispatch gemm(%x, %x) space [4, 4] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %p = kiln.matmul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = kiln.add %p, %a : tensor<4x4xf32>
    kiln.yield %q : tensor<4x4xf32>
  }
  kiln.return
}

// -----

kiln.program @f(%x: tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{of the family 'gemm' must have a body that begins with a kiln.matmul of rank 2 without 'accumulate'; its operands must be the first two body arguments, which no other op may use}}
  %y = kiln.dispatch gemm(%x, %x, %x) space [4, 4] : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %c: tensor<4x4xf32>):
    %p = kiln.matmul %a, %b accumulate %c : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = kiln.relu %p : tensor<4x4xf32>
    kiln.yield %q : tensor<4x4xf32>
  }
  kiln.return
}

// -----

// A gemm dispatch whose space is not the shape of the matmul.
kiln.program @f(%x: tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{of the family 'gemm' must have a 'space' equal to the shape of its matmul, [4, 4]}}
  %y = kiln.dispatch gemm(%x, %x) space [2, 8] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %p = kiln.matmul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = kiln.relu %p : tensor<4x4xf32>
    kiln.yield %q : tensor<4x4xf32>
  }
  kiln.return
}

// -----

// An epilogue that needs whole rows.
kiln.program @f(%x: tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{of the family 'gemm' must have an epilogue that can be computed on one tile of the matmul at a time}}
  %y = kiln.dispatch gemm(%x, %x) space [4, 4] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %p = kiln.matmul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = kiln.softmax %p : (tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %q : tensor<4x4xf32>
  }
  kiln.return
}

// -----

// Results in the wrong order.
kiln.program @f(%x: tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{of the family 'gemm' must yield at least one value; if it yields the result of the matmul, this must be the last value}}
  %y:2 = kiln.dispatch gemm(%x, %x) space [4, 4] : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %p = kiln.matmul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = kiln.relu %p : tensor<4x4xf32>
    kiln.yield %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
  }
  kiln.return
}

// -----

// No result has as many bytes as the matmul result.
kiln.program @f(%x: tensor<4x4xf32>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{of the family 'gemm' must have an epilogue that can be computed on one tile of the matmul at a time}}
  %y = kiln.dispatch gemm(%x, %x) space [4, 4] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf64> {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %p = kiln.matmul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = kiln.cast %p : tensor<4x4xf32> to tensor<4x4xf64>
    kiln.yield %q : tensor<4x4xf64>
  }
  kiln.return
}

// -----

// An epilogue that updates an operand in place.
kiln.program @f(%x: tensor<4x4xf32>, %s: tensor<f64>) attributes {kind = #kiln.program_kind<evaluate>} {
  // expected-error @below {{of the family 'gemm' must not have an epilogue that updates an operand in place}}
  %y = kiln.dispatch gemm(%x, %x, %x, %s) space [4, 4] : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %c: tensor<4x4xf32>, %d: tensor<f64>):
    %p = kiln.matmul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = kiln.sgd %c, %p, %d, %d {weight_decay = 0.0} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f64>) -> tensor<4x4xf32>
    kiln.yield %q : tensor<4x4xf32>
  }
  kiln.return
}
