// RUN: kiln-opt %s --kiln-autodiff=microbatches=4 --split-input-file --verify-diagnostics
// RUN: kiln-opt %s --kiln-autodiff --split-input-file -o /dev/null

// Losses for which there is no proof. Without micro-batches none is needed.

// A mean over the rows has the number of rows of a micro-batch.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // expected-error @below {{'kiln.reduce' op averages over the sequences of a micro-batch, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %mean = kiln.reduce mean %x dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %mean : tensor<f32> to tensor<f64>
  %loss = kiln.mul %wide, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A mean over the batch without loss_scale, beside a good term.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  // expected-error @below {{'kiln.reduce' op averages over the sequences of a micro-batch, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %mean = kiln.reduce mean %x dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %mean : tensor<f32> to tensor<f64>
  %loss = kiln.add %ce, %wide : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A sum that a constant normalizes.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  %rows = kiln.mul %x, %x : tensor<8x8xf32>
  %total = kiln.reduce sum %rows dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  // expected-error @below {{'kiln.scale' op is a sum over the sequences without the factor loss_scale, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %mean = kiln.scale %wide by 1.25e-01 : tensor<f64>
  %loss = kiln.add %ce, %mean : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A square of loss_scale.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  // expected-error @below {{'kiln.mul' op is not linear in loss_scale, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %loss = kiln.mul %ce, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A square root of it.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %rows = kiln.mul %x, %x : tensor<8x8xf32>
  %total = kiln.reduce sum %rows dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  // expected-error @below {{'kiln.sqrt' op is not linear in loss_scale, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %root = kiln.sqrt %scale : tensor<f64>
  %loss = kiln.mul %wide, %root : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A term of parameters times loss_scale.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  %sum = kiln.reduce sum %w dims [0, 1] : tensor<16x8xf32> to tensor<f32>
  %wide = kiln.cast %sum : tensor<f32> to tensor<f64>
  // expected-error @below {{'kiln.mul' op depends on loss_scale but on no sequence, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %term = kiln.mul %wide, %scale : tensor<f64>
  %loss = kiln.add %ce, %term : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A product of two sums over the sequences.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  %rows = kiln.mul %x, %x : tensor<8x8xf32>
  %total = kiln.reduce sum %rows dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  // expected-error @below {{'kiln.mul' op is not a linear function of a sum over the sequences, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %loss = kiln.mul %ce, %wide : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A logarithm of a sum.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  // expected-error @below {{'kiln.log' op is not linear in loss_scale, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %loss = kiln.log %ce : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A norm over the whole batch: the root of a sum.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %rows = kiln.mul %x, %x : tensor<8x8xf32>
  %total = kiln.reduce sum %rows dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  // expected-error @below {{'kiln.sqrt' op is not a linear function of a sum over the sequences, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %root = kiln.sqrt %wide : tensor<f64>
  %loss = kiln.mul %root, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A statistic of the batch that each row is compared with.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %sums = kiln.reduce sum %x dims [0] : tensor<8x8xf32> to tensor<8xf32>
  %each = kiln.broadcast %sums dims [1] : tensor<8xf32> to tensor<8x8xf32>
  // expected-error @below {{'kiln.sub' op is not a linear function of a sum over the sequences, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %rows = kiln.sub %x, %each : tensor<8x8xf32>
  %total = kiln.reduce sum %rows dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  %loss = kiln.mul %wide, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A maximum over the batch.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // expected-error @below {{'kiln.reduce' op compares the sequences of a micro-batch, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %max = kiln.reduce max %x dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %max : tensor<f32> to tensor<f64>
  %loss = kiln.mul %wide, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A softmax over the rows of all sequences.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %turned = kiln.transpose %x [1, 0] : tensor<8x8xf32> to tensor<8x8xf32>
  // expected-error @below {{'kiln.softmax' op does not treat the sequences of a batch independently and equally, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %rows = kiln.softmax %turned : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %total = kiln.reduce sum %rows dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  %loss = kiln.mul %wide, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Parameters of their own for each row of a micro-batch.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %p = kiln.slice %w [0, 0] : tensor<16x8xf32> to tensor<8x8xf32>
  // expected-error @below {{'kiln.mul' op does not treat the sequences of a batch independently and equally, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %rows = kiln.mul %x, %p : tensor<8x8xf32>
  %total = kiln.reduce sum %rows dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  %loss = kiln.mul %wide, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// One sequence of the micro-batch.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // expected-error @below {{'kiln.slice' op does not treat the sequences of a batch independently and equally, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %first = kiln.slice %x [0, 0] : tensor<8x8xf32> to tensor<4x8xf32>
  %total = kiln.reduce sum %first dims [0, 1] : tensor<4x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  %loss = kiln.mul %wide, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Attention across sequences.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // expected-error @below {{'kiln.attention' op does not treat the sequences of a batch independently and equally, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %rows, %lse = kiln.attention %x, %x, %x causal {sequences = 1, heads = 2, kv_heads = 2, scale = 0.5} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<2x8xf32>)
  %total = kiln.reduce sum %rows dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  %loss = kiln.mul %wide, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A mask that belongs to no sequence.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // expected-error @below {{'kiln.dropout' op does not treat the sequences of a batch independently and equally, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %dropped = kiln.dropout %w, %rng {p = 1.0e-01, key = 3, sequences = 1} : (tensor<16x8xf32>, tensor<1x3xi64>) -> tensor<16x8xf32>
  %loss = kiln.linear_cross_entropy %x, %dropped, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Targets in another order than the rows.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %turned = kiln.transpose %targets [1, 0] : tensor<2x4xi32> to tensor<4x2xi32>
  // expected-error @below {{'kiln.linear_cross_entropy' op does not treat the sequences of a batch independently and equally, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %loss = kiln.linear_cross_entropy %x, %w, %turned, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<4x2xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// loss_scale inside of the logits.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %narrow = kiln.cast %scale : tensor<f64> to tensor<f32>
  %s = kiln.broadcast %narrow dims [] : tensor<f32> to tensor<8x8xf32>
  %h = kiln.mul %x, %s : tensor<8x8xf32>
  // expected-error @below {{'kiln.linear_cross_entropy' op is not linear in loss_scale, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %loss = kiln.linear_cross_entropy %h, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A matmul that is added to another term is linear in one of its factors at a time.
kiln.state @w : tensor<16x8xf64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @p : tensor<4x1xf64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf64>
  %p = kiln.read @p : tensor<4x1xf64>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf64>) -> tensor<8x8xf64>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf64>, tensor<16x8xf64>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  %term = kiln.reshape %ce : tensor<f64> to tensor<1x1xf64>
  // expected-error @below {{'kiln.matmul' op adds a matmul to a term that does not scale with the sequences in the same way, so the losses of 4 micro-batches do not add up to the loss of the batch}}
  %sum = kiln.matmul %p, %p accumulate %term trans_a : (tensor<4x1xf64>, tensor<4x1xf64>, tensor<1x1xf64>) -> tensor<1x1xf64>
  %loss = kiln.reshape %sum : tensor<1x1xf64> to tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Statistics of the batch that are kept in a state.
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @seen : tensor<8xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %sums = kiln.reduce sum %x dims [0] : tensor<8x8xf32> to tensor<8xf32>
  // expected-error @below {{'kiln.write' op writes @seen with a value that may differ between the 4 parts of the batch (micro-batches times data-parallel ranks)}}
  kiln.write @seen, %sums : tensor<8xf32>
  %loss = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
