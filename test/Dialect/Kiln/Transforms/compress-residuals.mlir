// RUN: kiln-opt %s --kiln-autodiff --kiln-compress-residuals=lossy=fewbit:2,rmm:0.25 -split-input-file | FileCheck %s --check-prefixes=BOTH
// RUN: kiln-opt %s --kiln-autodiff --kiln-compress-residuals=lossy=fewbit:2 -split-input-file | FileCheck %s --check-prefixes=CODE
// RUN: kiln-opt %s --kiln-autodiff --kiln-compress-residuals=lossy=rmm:0.25 -split-input-file | FileCheck %s --check-prefixes=SKETCH
// RUN: kiln-opt %s --kiln-autodiff --kiln-narrow-gradients=type=bf16 --kiln-compress-residuals=lossy=rmm:0.25 -split-input-file | FileCheck %s --check-prefixes=NARROW
// RUN: kiln-opt %s --kiln-autodiff --kiln-compress-residuals -split-input-file | FileCheck %s --check-prefixes=NONE
// RUN: kiln-opt %s --kiln-autodiff "--kiln-compress-residuals=lossy=fewbit:2 rebuild=false" -split-input-file | FileCheck %s --check-prefixes=KEEP

// gelu's output can be recomputed from its input while the input is kept: one
// encoding alone saves nothing, both together save the bytes of both values.

// BOTH: kiln.encoded = [#kiln.encoded<value = "{{.*}}", as = "fewbit:2", lossy = true, bytes = 2048, encoded_bytes = 128>
// BOTH-SAME: #kiln.encoded<value = "{{.*}}", as = "rmm:4/16", lossy = true, bytes = 2048, encoded_bytes = 512>
// BOTH-LABEL: kiln.program @train
// BOTH-SAME: [[RNG:%[a-z0-9]+]]: tensor<1x3xi64> {kiln.name = "rng"}
// BOTH: [[H:%.+]] = kiln.add
// BOTH: [[C:%.+]] = kiln.bucket_encode [[H]] {borders = array<f64: {{[^,]+, [^,]+, [^,]+}}>} : (tensor<64x8xf32>) -> tensor<128xi8>
// BOTH: [[A:%.+]] = kiln.gelu [[H]]
// BOTH: [[P:%.+]] = kiln.sketch_rows [[A]], [[RNG]] {key = 0 : i64, sequences = 4 : i64} : (tensor<64x8xf32>, tensor<1x3xi64>) -> tensor<16x8xf32>
// BOTH: kiln.phase backward
// BOTH: [[Q:%.+]] = kiln.sketch_rows {{%.+}}, [[RNG]] {key = 0 : i64, sequences = 4 : i64} : (tensor<64x3xf32>, tensor<1x3xi64>) -> tensor<16x3xf32>
// BOTH: kiln.matmul [[P]], [[Q]] trans_a
// BOTH: kiln.bucket_decode [[C]], {{%.+}} {levels =

// CODE-LABEL: kiln.program @train
// CODE-NOT: kiln.bucket
// SKETCH-LABEL: kiln.program @train
// SKETCH-NOT: kiln.sketch_rows
// NONE-LABEL: kiln.program @train
// NONE-NOT: kiln.bucket

// Without rebuilding, gelu's output is kept, so encoding its input alone pays.
// KEEP-LABEL: kiln.program @train
// KEEP: kiln.bucket_encode
// KEEP: kiln.bucket_decode
kiln.state @e : tensor<9x4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.state @w1 : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}
kiln.state @b1 : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<8x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<4x16xi32> {kiln.name = "tokens"}, %targets: tensor<4x16xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %e = kiln.read @e : tensor<9x4xf32>
  %w1 = kiln.read @w1 : tensor<4x8xf32>
  %b1 = kiln.read @b1 : tensor<8xf32>
  %w2 = kiln.read @w2 : tensor<8x3xf32>
  %x = kiln.embedding %tokens, %e : (tensor<4x16xi32>, tensor<9x4xf32>) -> tensor<64x4xf32>
  %h0 = kiln.matmul %x, %w1 : (tensor<64x4xf32>, tensor<4x8xf32>) -> tensor<64x8xf32>
  %b = kiln.broadcast %b1 dims [1] : tensor<8xf32> to tensor<64x8xf32>
  %h = kiln.add %h0, %b : tensor<64x8xf32>
  %a = kiln.gelu %h : tensor<64x8xf32>
  %l = kiln.matmul %a, %w2 : (tensor<64x8xf32>, tensor<8x3xf32>) -> tensor<64x3xf32>
  %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<64x3xf32>, tensor<4x16xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// A mask is exact and needs no lossy option. It saves
// memory if the backward pass does not read relu's output:
// the weights of its reader are frozen, or it has a sketch.

// NONE: kiln.encoded = [#kiln.encoded<value = "{{.*}}", as = "mask", lossy = false, bytes = 2048, encoded_bytes = 64>
// NONE-LABEL: kiln.program @train
// NONE: [[H:%.+]] = kiln.add
// NONE: [[C:%.+]] = kiln.bucket_encode [[H]] {borders = array<f64: 0.000000e+00>} : (tensor<64x8xf32>) -> tensor<64xi8>
// NONE: kiln.bucket_decode [[C]], {{%.+}} {levels = array<f64: 0.000000e+00, 1.000000e+00>}
// NONE-NOT: kiln.relu_grad
// BOTH-LABEL: kiln.program @train
// CODE-LABEL: kiln.program @train
// SKETCH-LABEL: kiln.program @train
// KEEP-LABEL: kiln.program @train
kiln.state @e : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b1 : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<8x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}
kiln.program @forward(%tokens: tensor<4x16xi32> {kiln.name = "tokens"}, %targets: tensor<4x16xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %e = kiln.read @e : tensor<9x8xf32>
  %b1 = kiln.read @b1 : tensor<8xf32>
  %w2 = kiln.read @w2 : tensor<8x3xf32>
  %x = kiln.embedding %tokens, %e : (tensor<4x16xi32>, tensor<9x8xf32>) -> tensor<64x8xf32>
  %b = kiln.broadcast %b1 dims [1] : tensor<8xf32> to tensor<64x8xf32>
  %h = kiln.add %x, %b : tensor<64x8xf32>
  %a = kiln.relu %h : tensor<64x8xf32>
  %l = kiln.matmul %a, %w2 : (tensor<64x8xf32>, tensor<8x3xf32>) -> tensor<64x3xf32>
  %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<64x3xf32>, tensor<4x16xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

// -----

// Two matmuls of one value share one sketch. For a weight stored as [outputs,
// inputs], the sketch is the right operand. A value with another reader in the
// backward pass (here relu_grad reads %h, an operand of a matmul) is kept.

// A gradient that is converted before it is returned is estimated, too.
// NARROW: [[P:%.+]] = kiln.sketch_rows {{.*}}key = 0
// NARROW: kiln.phase backward
// NARROW: [[G:%.+]] = kiln.matmul %{{.+}}, [[P]] trans_a : (tensor<16x5xf32>, tensor<16x8xf32>) -> tensor<5x8xf32>
// NARROW: kiln.cast [[G]] : tensor<5x8xf32> to tensor<5x8xbf16>

// SKETCH-LABEL: kiln.program @train
// SKETCH: [[X:%.+]] = kiln.embedding
// SKETCH: [[P:%.+]] = kiln.sketch_rows [[X]], {{.*}}key = 0
// SKETCH-NOT: key = 0
// SKETCH: kiln.phase backward
// SKETCH: [[Q:%.+]] = kiln.sketch_rows {{.*}}key = 0
// SKETCH: kiln.matmul [[Q]], [[P]] trans_a : (tensor<16x5xf32>, tensor<16x8xf32>) -> tensor<5x8xf32>
// SKETCH: [[R:%.+]] = kiln.sketch_rows {{.*}}key = 0
// SKETCH: kiln.matmul [[P]], [[R]] trans_a : (tensor<16x8xf32>, tensor<16x5xf32>) -> tensor<8x5xf32>
// SKETCH-NOT: kiln.bucket
// BOTH-LABEL: kiln.program @train
// CODE-LABEL: kiln.program @train
// NONE-LABEL: kiln.program @train
// KEEP-LABEL: kiln.program @train
kiln.state @e : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w1 : tensor<8x5xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<5x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w3 : tensor<5x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<4x16xi32> {kiln.name = "tokens"}, %targets: tensor<4x16xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %e = kiln.read @e : tensor<9x8xf32>
  %w1 = kiln.read @w1 : tensor<8x5xf32>
  %w2 = kiln.read @w2 : tensor<5x8xf32>
  %w3 = kiln.read @w3 : tensor<5x3xf32>
  %x = kiln.embedding %tokens, %e : (tensor<4x16xi32>, tensor<9x8xf32>) -> tensor<64x8xf32>
  %u = kiln.matmul %x, %w1 : (tensor<64x8xf32>, tensor<8x5xf32>) -> tensor<64x5xf32>
  %v = kiln.matmul %x, %w2 trans_b : (tensor<64x8xf32>, tensor<5x8xf32>) -> tensor<64x5xf32>
  %h = kiln.add %u, %v : tensor<64x5xf32>
  %a = kiln.relu %h : tensor<64x5xf32>
  %s = kiln.add %h, %a : tensor<64x5xf32>
  %l1 = kiln.matmul %s, %w3 : (tensor<64x5xf32>, tensor<5x3xf32>) -> tensor<64x3xf32>
  %l2 = kiln.matmul %h, %w3 : (tensor<64x5xf32>, tensor<5x3xf32>) -> tensor<64x3xf32>
  %l = kiln.add %l1, %l2 : tensor<64x3xf32>
  %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<64x3xf32>, tensor<4x16xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
