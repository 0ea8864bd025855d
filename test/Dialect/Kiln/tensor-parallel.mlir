// Ops and states of tensor parallelism.

// RUN: kiln-opt %s -o %t && FileCheck %s < %t
// RUN: kiln-opt %t | diff %t -
// RUN: kiln-opt %s --mlir-print-op-generic | kiln-opt | diff %t -
// RUN: kiln-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD

module attributes {kiln.mesh = {dp = 3 : i64, tp = 2 : i64}} {
// The columns of five rows are divided over two ranks, and these shards over three ranks.
// CHECK: kiln.state @w : tensor<7xf32> {{{.*}}shard = #kiln.shard<tensor<5x4xf32> over "dp" of #kiln.shard<tensor<5x8xf32> over "tp" blocks = 5>>
kiln.state @w : tensor<7xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.02>, shard = #kiln.shard<tensor<5x4xf32> over "dp" of #kiln.shard<tensor<5x8xf32> over "tp" blocks = 5>>}
// A mirror is divided like its parameter, or over one axis less.
// CHECK: kiln.state @w.bf16
kiln.state @w.bf16 : tensor<5x4xbf16> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w, shard = #kiln.shard<tensor<5x8xbf16> over "tp" blocks = 5>}
// CHECK: kiln.state @w.f16
kiln.state @w.f16 : tensor<7xf16> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w, shard = #kiln.shard<tensor<5x4xf16> over "dp" of #kiln.shard<tensor<5x8xf16> over "tp" blocks = 5>>}

// FOLD-LABEL: kiln.program @train
// CHECK-LABEL: kiln.program @train
kiln.program @train(%x: tensor<8x6xf32>, %w: tensor<5x6xf32>, %targets: tensor<2x4xi32>, %scale: tensor<f64>, %rank: tensor<i32> {kiln.name = "tp_rank"}) -> tensor<f64> attributes {kind = #kiln.program_kind<train>} {
  // In a program that is not differentiated anymore, a share is its operand.
  // CHECK: kiln.share %{{.+}} over "tp" : tensor<8x6xf32>
  // FOLD-NOT: kiln.share
  %s = kiln.share %x over "tp" : tensor<8x6xf32>
  // CHECK: kiln.shard_rows %{{.+}}, %{{.+}} {padding_index = 3 : i64, rows = 5 : i64} : (tensor<2x4xi32>, tensor<i32>) -> tensor<2x4xi32>
  %rows = kiln.shard_rows %targets, %rank {rows = 5, padding_index = 3} : (tensor<2x4xi32>, tensor<i32>) -> tensor<2x4xi32>
  // Each rank has four of the eight rows.
  // CHECK: kiln.take_shard %{{.+}} over "tp" : tensor<2x4xi32> -> tensor<4xi32>
  %tokens = kiln.take_shard %targets over "tp" : tensor<2x4xi32> -> tensor<4xi32>
  // CHECK: kiln.shard_positions %{{.+}} {period = 4 : i64} : (tensor<i32>) -> tensor<4xi32>
  %positions = kiln.shard_positions %rank {period = 4} : (tensor<i32>) -> tensor<4xi32>
  // CHECK: kiln.embedding %{{.+}}, %{{.+}}, %{{.+}} : (tensor<2x4xi32>, tensor<5x6xf32>, tensor<i32>) -> tensor<8x6xf32>
  %e = kiln.embedding %targets, %w, %rank : (tensor<2x4xi32>, tensor<5x6xf32>, tensor<i32>) -> tensor<8x6xf32>
  // CHECK: kiln.embedding_grad %{{.+}}, %{{.+}} {padding_index = -1 : i64}
  %dw = kiln.embedding_grad %rows, %e {padding_index = -1} : (tensor<2x4xi32>, tensor<8x6xf32>) -> tensor<5x6xf32>
  // CHECK: kiln.linear_cross_entropy %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} rank %{{.+}} {classes = 9 : i64}
  %loss = kiln.linear_cross_entropy %s, %dw, %targets, %scale rank %rank {classes = 9} : (tensor<8x6xf32>, tensor<5x6xf32>, tensor<2x4xi32>, tensor<f64>, tensor<i32>) -> tensor<f64>
  // CHECK: kiln.linear_cross_entropy_with_grad %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} rank %{{.+}} {classes = 9 : i64}
  %l:3 = kiln.linear_cross_entropy_with_grad %s, %dw, %targets, %scale, %loss rank %rank {classes = 9} : (tensor<8x6xf32>, tensor<5x6xf32>, tensor<2x4xi32>, tensor<f64>, tensor<f64>, tensor<i32>) -> (tensor<f64>, tensor<8x6xf32>, tensor<5x6xf32>)
  kiln.return %l#0 : tensor<f64>
}

// CHECK-LABEL: kiln.program @evaluate
kiln.program @evaluate(%logits: tensor<8x5xbf16>, %targets: tensor<8xi32>, %scale: tensor<f64>, %rank: tensor<i32> {kiln.name = "tp_rank"}) -> tensor<8xf32> attributes {kind = #kiln.program_kind<evaluate>} {
  // CHECK: kiln.shard_softmax
  %sum, %at = kiln.shard_softmax %logits, %targets, %rank {classes = 9} : (tensor<8x5xbf16>, tensor<8xi32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: kiln.shard_cross_entropy
  %loss = kiln.shard_cross_entropy %logits, %targets, %rank, %sum, %at, %scale {classes = 9} : (tensor<8x5xbf16>, tensor<8xi32>, tensor<i32>, tensor<8xf32>, tensor<8xf32>, tensor<f64>) -> tensor<8xf32>
  kiln.return %loss : tensor<8xf32>
}

// FOLD-LABEL: kiln.program @forward
kiln.program @forward(%x: tensor<8x6xf32>) -> tensor<8x6xf32> attributes {kind = #kiln.program_kind<forward>} {
  // FOLD: kiln.share
  %s = kiln.share %x over "tp" : tensor<8x6xf32>
  kiln.return %s : tensor<8x6xf32>
}
}
