// RUN: kiln-opt %s --split-input-file --verify-diagnostics

module attributes {kiln.mesh = {tp = 2 : i64}} {
// expected-error @below {{'kiln.state' op has type 'tensor<5x3xf32>', expected the element type of 'tensor<5x8xf32>' and 4 to 8 elements in each of 5 blocks}}
kiln.state @w : tensor<5x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<5x8xf32> over "tp" blocks = 5>}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64, tp = 2 : i64}} {
// expected-error @below {{'kiln.state' op has a shard of type 'tensor<3x4xf32>', expected the element type of 'tensor<8x4xf32>' and 16 to 32 elements}}
kiln.state @w : tensor<6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<3x4xf32> over "dp" of #kiln.shard<tensor<8x4xf32> over "tp">>}
}

// -----

// expected-error @below {{expected a number of blocks that divides the 40 elements of 'tensor<5x8xf32>', got 3}}
kiln.state @w : tensor<5x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<5x8xf32> over "tp" blocks = 3>}

// -----

// expected-error @below {{the tensor is already divided over the axis 'tp', expected another axis}}
kiln.state @w : tensor<10xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<5x4xf32> over "tp" of #kiln.shard<tensor<5x8xf32> over "tp">>}

// -----

// expected-error @below {{expected #kiln.shard after 'of', got 1 : i64}}
kiln.state @w : tensor<10xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<5x4xf32> over "tp" of 1 : i64>}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @f(%x: tensor<8x6xf32>) -> tensor<8x6xf32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.share' op is over the axis 'tp', which the module's attribute 'kiln.mesh' does not have}}
  %s = kiln.share %x over "tp" : tensor<8x6xf32>
  kiln.return %s : tensor<8x6xf32>
}
}

// -----

kiln.program @f(%x: tensor<8x6xf32>, %w: tensor<5x6xf32>, %targets: tensor<8xi32>, %scale: tensor<f64>, %rank: tensor<i32> {kiln.name = "tp_rank"}) -> tensor<f64> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.linear_cross_entropy' op has only one of 'rank' and 'classes', expected both or none of them}}
  %loss = kiln.linear_cross_entropy %x, %w, %targets, %scale rank %rank : (tensor<8x6xf32>, tensor<5x6xf32>, tensor<8xi32>, tensor<f64>, tensor<i32>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

module attributes {kiln.mesh = {tp = 2 : i64}} {
kiln.program @f(%x: tensor<8x6xf32>, %w: tensor<5x6xf32>, %targets: tensor<8xi32>, %scale: tensor<f64>, %rank: tensor<i32> {kiln.name = "tp_rank"}) -> tensor<f64> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.linear_cross_entropy' op classes is 11, expected at least 5, the number of rows of 'weight', and at most 10}}
  %loss = kiln.linear_cross_entropy %x, %w, %targets, %scale rank %rank {classes = 11} : (tensor<8x6xf32>, tensor<5x6xf32>, tensor<8xi32>, tensor<f64>, tensor<i32>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
}

// -----

kiln.program @f(%x: tensor<8x6xf32>, %w: tensor<5x6xf32>, %targets: tensor<8xi32>, %scale: tensor<f64>, %rank: tensor<i32> {kiln.name = "tp_rank"}) -> tensor<f64> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.linear_cross_entropy' op has 'rank', but the module's attribute 'kiln.mesh' does not have the axis 'tp'}}
  %loss = kiln.linear_cross_entropy %x, %w, %targets, %scale rank %rank {classes = 9} : (tensor<8x6xf32>, tensor<5x6xf32>, tensor<8xi32>, tensor<f64>, tensor<i32>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

kiln.program @f(%tokens: tensor<8xi32>, %w: tensor<5x6xf32>, %rank: tensor<i32> {kiln.name = "tp_rank"}) -> tensor<8x6xf32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.embedding' op padding_index is -2, expected a number from 0 to 2147483647}}
  %y = kiln.embedding %tokens, %w, %rank {padding_index = -2} : (tensor<8xi32>, tensor<5x6xf32>, tensor<i32>) -> tensor<8x6xf32>
  kiln.return %y : tensor<8x6xf32>
}

// -----

kiln.program @f(%logits: tensor<8x5xf32>, %targets: tensor<8xi32>, %rank: tensor<i32> {kiln.name = "tp_rank"}) -> tensor<8xf32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.shard_softmax' op classes is 4, expected at least 5, the number of columns of the logits, and at most 2147483647}}
  %s, %t = kiln.shard_softmax %logits, %targets, %rank {classes = 4} : (tensor<8x5xf32>, tensor<8xi32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>)
  kiln.return %s : tensor<8xf32>
}

// -----

kiln.program @f(%tokens: tensor<8xi32>, %rank: tensor<i32> {kiln.name = "tp_rank"}) -> tensor<8xi32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.shard_rows' op rows is 0, expected a number from 1 to 2147483647}}
  %s = kiln.shard_rows %tokens, %rank {rows = 0} : (tensor<8xi32>, tensor<i32>) -> tensor<8xi32>
  kiln.return %s : tensor<8xi32>
}

// -----

kiln.program @f(%x: tensor<8x6xf32>, %rng: tensor<1x5xi64>) -> tensor<8x6xf32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.dropout' op 'rng' has shape [1, 5], expected [1, 3] for seed, step and first sequence, or [1, 4] with the index of this rank on the axis tp}}
  %y = kiln.dropout %x, %rng {p = 0.1, key = 1, sequences = 2} : (tensor<8x6xf32>, tensor<1x5xi64>) -> tensor<8x6xf32>
  kiln.return %y : tensor<8x6xf32>
}

// -----

kiln.program @f(%x: tensor<8x6xf32>, %rng: tensor<1x3xi64>, %rank: tensor<i32>) -> tensor<8x6xf32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.dropout' op has only one of the operand 'rank' and the attribute 'length', expected both or none}}
  %y = kiln.dropout %x, %rng, %rank {p = 0.1, key = 1, sequences = 2} : (tensor<8x6xf32>, tensor<1x3xi64>, tensor<i32>) -> tensor<8x6xf32>
  kiln.return %y : tensor<8x6xf32>
}

// -----

kiln.program @f(%x: tensor<8x6xf32>, %rng: tensor<1x3xi64>, %rank: tensor<i32>) -> tensor<8x6xf32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.dropout' op length is 0, expected a positive number}}
  %y = kiln.dropout %x, %rng, %rank {p = 0.1, key = 1, sequences = 2, length = 0} : (tensor<8x6xf32>, tensor<1x3xi64>, tensor<i32>) -> tensor<8x6xf32>
  kiln.return %y : tensor<8x6xf32>
}

// -----

kiln.program @f(%rank: tensor<i32>) -> tensor<8xi32> attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{'kiln.shard_positions' op period is 0, expected a number from 1 to 2147483647}}
  %y = kiln.shard_positions %rank {period = 0} : (tensor<i32>) -> tensor<8xi32>
  kiln.return %y : tensor<8xi32>
}
