// RUN: kiln-opt %s --split-input-file '--kiln-partition-layers=mesh=tp=2' '--kiln-autodiff=divide-rows' | FileCheck %s
// RUN: kiln-opt %s --split-input-file '--kiln-partition-layers=mesh=tp=2' '--kiln-build-eval=divide-rows' | FileCheck %s --check-prefix=EVAL

// Two ranks divide the ten tokens of two sequences: each has five rows of the values between the
// embedding, the MLP and the head. The programs of evaluation are divided, too.

kiln.state @wte : tensor<9x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @wpe : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @gain : tensor<6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @shift : tensor<6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @up : tensor<6x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @down : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @bias : tensor<6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// The gradients of parameters that are read with the rows of a rank are parts of sums.
// CHECK: kiln.program @train({{.*}}%[[RNG:[^:]*]]: tensor<1x3xi64> {kiln.name = "rng"}, {{.*}}%[[RANK:[^:]*]]: tensor<i32> {kiln.name = "tp_rank"})
// CHECK-SAME: tensor<5x6xf32> {kiln.gradient = @wte}, tensor<8x6xf32> {kiln.gradient = @wpe, kiln.partial = "tp"}, tensor<6xf32> {kiln.gradient = @gain, kiln.partial = "tp"}, tensor<6xf32> {kiln.gradient = @shift, kiln.partial = "tp"}
// CHECK-SAME: tensor<6x4xf32> {kiln.gradient = @up}, tensor<4x6xf32> {kiln.gradient = @down}, tensor<6xf32> {kiln.gradient = @bias, kiln.partial = "tp"})
// EVAL: kiln.program @evaluate
// EVAL-COUNT-2: kiln.reduce_scatter
// EVAL-NOT: kiln.all_reduce
// EVAL: kiln.program @generate
kiln.program @forward(%tokens: tensor<2x5xi32> {kiln.name = "tokens"}, %targets: tensor<2x5xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  // CHECK: %[[E:.+]] = kiln.embedding
  // CHECK: %[[ROWS:.+]] = kiln.reduce_scatter %[[E]] over "tp" : tensor<10x6xf32> -> tensor<5x6xf32>
  %wte = kiln.read @wte : tensor<9x6xf32>
  %e = kiln.embedding %tokens, %wte : (tensor<2x5xi32>, tensor<9x6xf32>) -> tensor<10x6xf32>
  // A broadcast of positions becomes a lookup.
  // CHECK: %[[WPE:.+]] = kiln.read @wpe
  // CHECK: %[[TABLE:.+]] = kiln.slice %[[WPE]] [0, 0] : tensor<8x6xf32> to tensor<5x6xf32>
  // CHECK: %[[NUMBERS:.+]] = kiln.shard_positions %[[RANK]] {period = 5 : i64} : (tensor<i32>) -> tensor<5xi32>
  // CHECK: %[[P:.+]] = kiln.embedding %[[NUMBERS]], %[[TABLE]] : (tensor<5xi32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  // CHECK: %[[X:.+]] = kiln.add %[[ROWS]], %[[P]] : tensor<5x6xf32>
  %wpe = kiln.read @wpe : tensor<8x6xf32>
  %table = kiln.slice %wpe [0, 0] : tensor<8x6xf32> to tensor<5x6xf32>
  %repeated = kiln.broadcast %table dims [1, 2] : tensor<5x6xf32> to tensor<2x5x6xf32>
  %p = kiln.reshape %repeated : tensor<2x5x6xf32> to tensor<10x6xf32>
  %x = kiln.add %e, %p : tensor<10x6xf32>
  // CHECK: %[[N:[^,]+]], %{{.+}}, %{{.+}} = kiln.layer_norm %[[X]], {{.*}} -> (tensor<5x6xf32>, tensor<5xf32>, tensor<5xf32>)
  // CHECK: %[[G:.+]] = kiln.all_gather %[[N]] over "tp" : tensor<5x6xf32> -> tensor<10x6xf32>
  // CHECK: %[[H:.+]] = kiln.matmul %[[G]], %{{.+}} : (tensor<10x6xf32>, tensor<6x4xf32>) -> tensor<10x4xf32>
  %gain = kiln.read @gain : tensor<6xf32>
  %shift = kiln.read @shift : tensor<6xf32>
  %n, %mean, %rstd = kiln.layer_norm %x, %gain, %shift {eps = 1.0e-5} : (tensor<10x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<10x6xf32>, tensor<10xf32>, tensor<10xf32>)
  %up = kiln.read @up : tensor<6x8xf32>
  %h = kiln.matmul %n, %up : (tensor<10x6xf32>, tensor<6x8xf32>) -> tensor<10x8xf32>
  %a = kiln.relu %h : tensor<10x8xf32>
  // CHECK: %[[Y:.+]] = kiln.matmul %{{.+}}, %{{.+}} : (tensor<10x4xf32>, tensor<4x6xf32>) -> tensor<10x6xf32>
  // CHECK: %[[S:.+]] = kiln.reduce_scatter %[[Y]] over "tp" : tensor<10x6xf32> -> tensor<5x6xf32>
  // CHECK: kiln.broadcast %{{.+}} dims [1] : tensor<6xf32> to tensor<5x6xf32>
  %down = kiln.read @down : tensor<8x6xf32>
  %y = kiln.matmul %a, %down : (tensor<10x8xf32>, tensor<8x6xf32>) -> tensor<10x6xf32>
  %bias = kiln.read @bias : tensor<6xf32>
  %b = kiln.broadcast %bias dims [1] : tensor<6xf32> to tensor<10x6xf32>
  %z = kiln.add %y, %b : tensor<10x6xf32>
  // The mask depends on the numbers of the rows.
  // CHECK: kiln.dropout %{{.+}}, %[[RNG]], %[[RANK]] {key = 1 : i64, length = 5 : i64, p = 1.000000e-01 : f64, sequences = 2 : i64} : (tensor<5x6xf32>, tensor<1x3xi64>, tensor<i32>) -> tensor<5x6xf32>
  %d = kiln.dropout %z, %rng {p = 0.1, key = 1, sequences = 2} : (tensor<10x6xf32>, tensor<1x3xi64>) -> tensor<10x6xf32>
  // CHECK: %[[LAST:.+]] = kiln.add %[[X]], %{{.+}} : tensor<5x6xf32>
  // CHECK: %[[ALL:.+]] = kiln.all_gather %[[LAST]] over "tp" : tensor<5x6xf32> -> tensor<10x6xf32>
  // CHECK: kiln.linear_cross_entropy_with_grad %[[ALL]]
  %last = kiln.add %x, %d : tensor<10x6xf32>
  %loss = kiln.linear_cross_entropy %last, %wte, %targets, %scale : (tensor<10x6xf32>, tensor<9x6xf32>, tensor<2x5xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// The backward pass has the same collectives in the reverse order, and no others. The first
// reduce_scatter sums the gradient of the head.
// CHECK: kiln.reduce_scatter %{{.+}} over "tp" : tensor<10x6xf32> -> tensor<5x6xf32>
// CHECK: kiln.phase backward
// CHECK-NOT: all_reduce
// CHECK: %[[DZ:.+]] = kiln.dropout
// CHECK: %[[DY:.+]] = kiln.all_gather %[[DZ]] over "tp" : tensor<5x6xf32> -> tensor<10x6xf32>
// CHECK: kiln.matmul %[[DY]], %{{.+}} trans_b
// CHECK: %[[DG:.+]] = kiln.matmul %{{.+}}, %{{.+}} trans_b : (tensor<10x4xf32>, tensor<6x4xf32>) -> tensor<10x6xf32>
// CHECK-NEXT: %[[DN:.+]] = kiln.reduce_scatter %[[DG]] over "tp" : tensor<10x6xf32> -> tensor<5x6xf32>
// CHECK: kiln.layer_norm_grad {{.*}}%[[DN]]
// CHECK: kiln.all_gather %{{.+}} over "tp" : tensor<5x6xf32> -> tensor<10x6xf32>
// CHECK-NOT: over "tp"
// CHECK: kiln.return

// -----

// Three tokens for two ranks: the second one has a row of padding, in which all values must be
// finite. A norm without an epsilon divides by zero there, so it is not divided, and computed from
// gathered rows.

kiln.state @wte : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @gain : tensor<6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @up : tensor<6x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @down : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}

// CHECK: kiln.program @train
// CHECK-SAME: {kiln.gradient = @gain},
// EVAL: kiln.program @evaluate
kiln.program @forward(%tokens: tensor<1x3xi32> {kiln.name = "tokens"}, %targets: tensor<1x3xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  // CHECK: %[[ROWS:.+]] = kiln.reduce_scatter %{{.+}} over "tp" : tensor<3x6xf32> -> tensor<2x6xf32>
  %wte = kiln.read @wte : tensor<8x6xf32>
  %e = kiln.embedding %tokens, %wte : (tensor<1x3xi32>, tensor<8x6xf32>) -> tensor<3x6xf32>
  // CHECK: kiln.silu %[[ROWS]] : tensor<2x6xf32>
  %silu = kiln.silu %e : tensor<3x6xf32>
  // CHECK: %[[X:.+]] = kiln.add %{{.+}}, %{{.+}} : tensor<2x6xf32>
  %x = kiln.add %e, %silu : tensor<3x6xf32>
  // CHECK: %[[G:.+]] = kiln.all_gather %[[X]] over "tp" : tensor<2x6xf32> -> tensor<3x6xf32>
  // CHECK: kiln.rms_norm %[[G]], {{.*}} -> (tensor<3x6xf32>, tensor<3xf32>)
  %gain = kiln.read @gain : tensor<6xf32>
  %n, %rstd = kiln.rms_norm %x, %gain {eps = 0.0} : (tensor<3x6xf32>, tensor<6xf32>) -> (tensor<3x6xf32>, tensor<3xf32>)
  %up = kiln.read @up : tensor<6x8xf32>
  %h = kiln.matmul %n, %up : (tensor<3x6xf32>, tensor<6x8xf32>) -> tensor<3x8xf32>
  %a = kiln.relu %h : tensor<3x8xf32>
  %down = kiln.read @down : tensor<8x6xf32>
  %y = kiln.matmul %a, %down : (tensor<3x8xf32>, tensor<8x6xf32>) -> tensor<3x6xf32>
  %last = kiln.add %x, %y : tensor<3x6xf32>
  %loss = kiln.linear_cross_entropy %last, %wte, %targets, %scale : (tensor<3x6xf32>, tensor<8x6xf32>, tensor<1x3xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
// All ranks have the gradient of the norm, of which each takes its rows.
// CHECK: kiln.phase backward
// CHECK: kiln.all_reduce %{{.+}} over "tp" : tensor<3x6xf32>
// CHECK: %[[DX:.+]] = kiln.rms_norm_grad
// CHECK: kiln.take_shard %[[DX]] over "tp" : tensor<3x6xf32> -> tensor<2x6xf32>

// -----

// A factor that is infinite in f32 is not finite times a row of zeros, so it is not applied to the rows
// of a rank.

kiln.state @wte : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @up : tensor<6x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @down : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}

// CHECK: kiln.program @train
// EVAL: kiln.program @evaluate
kiln.program @forward(%tokens: tensor<1x3xi32> {kiln.name = "tokens"}, %targets: tensor<1x3xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %wte = kiln.read @wte : tensor<8x6xf32>
  %e = kiln.embedding %tokens, %wte : (tensor<1x3xi32>, tensor<8x6xf32>) -> tensor<3x6xf32>
  // CHECK: kiln.scale %{{.+}} by {{1.0*e\+300}} : tensor<3x6xf32>
  %large = kiln.scale %e by 1.0e300 : tensor<3x6xf32>
  %x = kiln.tanh %large : tensor<3x6xf32>
  %up = kiln.read @up : tensor<6x8xf32>
  %h = kiln.matmul %x, %up : (tensor<3x6xf32>, tensor<6x8xf32>) -> tensor<3x8xf32>
  %a = kiln.relu %h : tensor<3x8xf32>
  %down = kiln.read @down : tensor<8x6xf32>
  %y = kiln.matmul %a, %down : (tensor<3x8xf32>, tensor<8x6xf32>) -> tensor<3x6xf32>
  %last = kiln.add %x, %y : tensor<3x6xf32>
  %loss = kiln.linear_cross_entropy %last, %wte, %targets, %scale : (tensor<3x6xf32>, tensor<8x6xf32>, tensor<1x3xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
