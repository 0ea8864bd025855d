// RUN: kiln-opt %s --kiln-autodiff=microbatches=4 --split-input-file | FileCheck %s

// Losses that are proven to be the sum of those of micro-batches. Terms that depend
// on no input are divided by the number of micro-batches.

// A cross entropy is a sum over the rows.
// CHECK-LABEL: kiln.program @train
// CHECK-NOT: kiln.scale %{{.*}} by 2.5{{.*}} : tensor<f64>
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Sums and differences of such terms, scaled by constants.
// CHECK-LABEL: kiln.program @train
// CHECK-NOT: kiln.scale %{{.*}} by 2.5{{.*}} : tensor<f64>
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  %half = kiln.scale %ce by 5.0e-01 : tensor<f64>
  %rows = kiln.mul %x, %x : tensor<8x8xf32>
  %total = kiln.reduce sum %rows dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %wide = kiln.cast %total : tensor<f32> to tensor<f64>
  %term = kiln.mul %wide, %scale : tensor<f64>
  %loss = kiln.sub %half, %term : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A term of parameters alone is divided among the micro-batches; a use of it that is no term of the loss is not.
// CHECK-LABEL: kiln.program @train
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  %squares = kiln.mul %w, %w : tensor<16x8xf32>
  %sum = kiln.reduce sum %squares dims [0, 1] : tensor<16x8xf32> to tensor<f32>
  // CHECK: [[L2:%.+]] = kiln.cast
  %l2 = kiln.cast %sum : tensor<f32> to tensor<f64>
  // CHECK: [[PART:%.+]] = kiln.scale [[L2]] by 2.500000e-01 : tensor<f64>
  // CHECK: [[MIX:%.+]] = kiln.add {{%.+}}, [[PART]]
  %both = kiln.add %ce, %l2 : tensor<f64>
  // CHECK: [[TIMES:%.+]] = kiln.mul {{%.+}}, [[L2]]
  %times = kiln.mul %ce, %l2 : tensor<f64>
  // CHECK: kiln.add [[MIX]], [[TIMES]]
  %loss = kiln.add %both, %times : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A term that is added twice is divided once in each place.
// CHECK-LABEL: kiln.program @train
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %ce = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  %m = kiln.reduce mean %w dims [0, 1] : tensor<16x8xf32> to tensor<f32>
  %mean = kiln.cast %m : tensor<f32> to tensor<f64>
  // CHECK: [[SUM:%.+]] = kiln.add
  %sum = kiln.add %ce, %mean : tensor<f64>
  // CHECK-NEXT: kiln.add [[SUM]], [[SUM]]
  %loss = kiln.add %sum, %sum : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Ops on rows, and on the tokens of a sequence, stay within it.
// CHECK-LABEL: kiln.program @train
// CHECK-NOT: kiln.scale %{{.*}} by 2.5{{.*}} : tensor<f64>
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %cut = kiln.reshape %x : tensor<8x8xf32> to tensor<2x4x8xf32>
  %moved = kiln.transpose %cut [1, 0, 2] : tensor<2x4x8xf32> to tensor<4x2x8xf32>
  %later = kiln.slice %moved [1, 0, 0] : tensor<4x2x8xf32> to tensor<3x2x8xf32>
  %padded = kiln.pad %later low [1, 0, 0] : tensor<3x2x8xf32> to tensor<4x2x8xf32>
  %both = kiln.concat %moved, %padded dim 2 : (tensor<4x2x8xf32>, tensor<4x2x8xf32>) -> tensor<4x2x16xf32>
  %means = kiln.reduce mean %both dims [0] : tensor<4x2x16xf32> to tensor<2x16xf32>
  %soft = kiln.softmax %means : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %sum = kiln.reduce sum %soft dims [0, 1] : tensor<2x16xf32> to tensor<f32>
  %wide = kiln.cast %sum : tensor<f32> to tensor<f64>
  %loss = kiln.mul %wide, %scale : tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// The same values for each sequence, and a statistic of parameters.
// CHECK-LABEL: kiln.program @train
// CHECK-NOT: kiln.scale %{{.*}} by 2.5{{.*}} : tensor<f64>
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %p = kiln.slice %w [0, 0] : tensor<16x8xf32> to tensor<4x8xf32>
  %each = kiln.broadcast %p dims [1, 2] : tensor<4x8xf32> to tensor<2x4x8xf32>
  %places = kiln.reshape %each : tensor<2x4x8xf32> to tensor<8x8xf32>
  %y = kiln.add %x, %places : tensor<8x8xf32>
  %g = kiln.constant dense<1.0> : tensor<8xf32> -> tensor<8xf32>
  %n, %rstd = kiln.rms_norm %y, %g {eps = 1.0e-06} : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  %o, %lse = kiln.attention %n, %n, %n rng %rng causal {sequences = 2, heads = 2, kv_heads = 2, scale = 0.5, p = 0.1, key = 1} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<1x3xi64>) -> (tensor<8x8xf32>, tensor<4x4xf32>)
  %d = kiln.dropout %o, %rng {p = 1.0e-01, key = 3, sequences = 2} : (tensor<8x8xf32>, tensor<1x3xi64>) -> tensor<8x8xf32>
  %logits = kiln.matmul %d, %w trans_b : (tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<8x16xf32>
  %loss = kiln.cross_entropy %logits, %targets, %scale : (tensor<8x16xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// The factor loss_scale may come early; a product adds up what it contracts.
// CHECK-LABEL: kiln.program @train
// CHECK-NOT: kiln.scale %{{.*}} by 2.5{{.*}} : tensor<f64>
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %narrow = kiln.cast %scale : tensor<f64> to tensor<f32>
  %s = kiln.broadcast %narrow dims [] : tensor<f32> to tensor<8x8xf32>
  %scaled = kiln.mul %x, %s : tensor<8x8xf32>
  %gram = kiln.matmul %x, %scaled trans_a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %mean = kiln.reduce mean %gram dims [0, 1] : tensor<8x8xf32> to tensor<f32>
  %loss = kiln.cast %mean : tensor<f32> to tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A state may be written if the value depends on no sequence.
// CHECK-LABEL: kiln.program @train
// CHECK: kiln.write @doubled
kiln.state @w : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @doubled : tensor<4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 1.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %w : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %doubled = kiln.read @doubled : tensor<4xf32>
  %twice = kiln.add %doubled, %doubled : tensor<4xf32>
  kiln.write @doubled, %twice : tensor<4xf32>
  %loss = kiln.linear_cross_entropy %x, %w, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
