// RUN: kiln-opt %s --kiln-verify-level=level=forward -split-input-file -verify-diagnostics

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %e = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %a = kiln.dropout %e, %rng {p = 1.0e-01, key = 3, sequences = 2} : (tensor<8x8xf32>, tensor<1x3xi64>) -> tensor<8x8xf32> // expected-note {{the other op is here; keys must differ}}
  // expected-error @below {{has the random key 3, which another op already has}}
  %h = kiln.dropout %a, %rng {p = 1.0e-01, key = 3, sequences = 2} : (tensor<8x8xf32>, tensor<1x3xi64>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{expected exactly one result, a loss of type}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<8x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  kiln.return %h : tensor<8x8xf32>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{expected exactly one result, a loss of type}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f32>) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %l = kiln.reduce sum %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  kiln.return %l : tensor<f32>
}

// -----

// expected-error @below {{the module has no kiln.program of kind forward}}
module {}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} { // expected-note {{the first is here}}
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}
// expected-error @below {{is the second program of kind forward, expected exactly one}}
kiln.program @again(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{input 0 has the kiln.name 'ids', expected tokens, targets, rng or loss_scale}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "ids"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{has two inputs named 'tokens'}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{has no input named 'tokens', but a model is trained on tokens}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "targets"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{does not use its input 'tokens', but a model is trained on tokens}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %m = kiln.reduce mean %w dims [0, 1] : tensor<16x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{input 'tokens' has type 'tensor<8xi32>', expected i32 [batch, sequence length]}}
kiln.program @forward(%tokens: tensor<8xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<8xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{input 'targets' has type 'tensor<4x2xi32>', expected the type of 'tokens'}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %x: tensor<4x2xi32> {kiln.name = "targets"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{input 'rng' has type 'tensor<2x3xi64>', expected i64 [1, 3]}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %x: tensor<2x3xi64> {kiln.name = "rng"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{input 'loss_scale' has type 'tensor<f32>', expected f64 []}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %x: tensor<f32> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %e = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %some = kiln.slice %targets [0, 1] : tensor<2x4xi32> to tensor<2x2xi32>
  %ids = kiln.reshape %some : tensor<2x2xi32> to tensor<4xi32>
  // expected-error @below {{looks up 'targets', which contain -100 at ignored positions; look up 'tokens' instead}}
  %x = kiln.embedding %ids, %w : (tensor<4xi32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %h = kiln.concat %e, %e dim 0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<16x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // expected-error @below {{is an op that a model must not have, because kilnc itself adds such ops after the forward level}}
  kiln.phase backward
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

// The rows that this op writes are 'tokens', which the runtime checks, but they
// may also be 'targets'.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // expected-error @below {{is an op that a model must not have, because kilnc itself adds such ops after the forward level}}
  %d = kiln.embedding_grad %tokens, %h : (tensor<2x4xi32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %m = kiln.reduce mean %d dims [0, 1] : tensor<16x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // expected-error @below {{writes the trainable state @w, which the optimizer updates; declare the state frozen, or do not write it}}
  kiln.write @w, %w : tensor<16x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, source = "x"} // expected-note {{the other state is here}}
// expected-error @below {{is saved under the name 'x', and so is the state @w; give the two states different sources}}
kiln.state @x : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{has no embedding and no loss, so its vocabulary size is unknown}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %ids = kiln.reshape %tokens : tensor<2x4xi32> to tensor<8xi32>
  %m = kiln.reduce mean %w dims [0, 1] : tensor<16x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

// expected-error @below {{kiln.model has vocab_size = 17, but the program has an embedding table with only 16 rows or a loss with only 16 classes}}
module attributes {kiln.model = {vocab_size = 17 : i64}} {
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}
}

// -----

// expected-error @below {{kiln.model has batch = 3, but 'tokens' has type 'tensor<2x4xi32>'}}
module attributes {kiln.model = {batch = 3 : i64}} {
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}
}

// -----

// expected-error @below {{kiln.model has sequence_length = 8, but 'tokens' has type 'tensor<2x4xi32>'}}
module attributes {kiln.model = {sequence_length = 8 : i64}} {
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}
}

// -----

// The smallest table or logits tensor limits the vocabulary.
// expected-error @below {{kiln.model has vocab_size = 16, but the program has an embedding table with only 9 rows or a loss with only 9 classes}}
module attributes {kiln.model = {vocab_size = 16 : i64}} {
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %s: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = kiln.slice %w [0, 0] : tensor<16x8xf32> to tensor<9x8xf32>
  %k = kiln.linear_cross_entropy %h, %u, %targets, %s : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %k : tensor<f64>
}
}

// -----

kiln.state @w : tensor<2147483648x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<2147483648x8xf32>
  // expected-error @below {{has an operand with an extent of 2147483648, expected at most 2147483647}}
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<2147483648x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

kiln.state @b : tensor<30000000x4000000xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{needs more than 281474976710656 bytes for the values of the program and for copies of the states; make the model smaller}}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %h = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %m = kiln.reduce mean %h dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}

// -----

// The error is also reported if tokens and targets were concatenated.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %turned = kiln.transpose %targets [1, 0] : tensor<2x4xi32> to tensor<4x2xi32>
  %back = kiln.reshape %turned : tensor<4x2xi32> to tensor<2x4xi32>
  %ids = kiln.concat %tokens, %back dim 0 : (tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<4x4xi32>
  // expected-error @below {{looks up 'targets', which contain -100 at ignored positions; look up 'tokens' instead}}
  %x = kiln.embedding %ids, %w : (tensor<4x4xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %m = kiln.reduce mean %x dims [0, 1] : tensor<16x8xf32> to tensor<f32>
  %l = kiln.cast %m : tensor<f32> to tensor<f64>
  kiln.return %l : tensor<f64>
}
