// RUN: kiln-opt %s --kiln-autodiff --kiln-quantize-residuals=lossy=q8 | FileCheck %s --check-prefixes=EIGHT
// RUN: kiln-opt %s --kiln-autodiff --kiln-quantize-residuals=lossy=q4 | FileCheck %s --check-prefixes=FOUR
// RUN: kiln-opt %s --kiln-autodiff --kiln-quantize-residuals=lossy=fewbit:3 | FileCheck %s --check-prefixes=NONE
// RUN: kiln-opt %s --kiln-autodiff --kiln-compress-residuals=lossy=q4,rmm:0.5 --kiln-rebuild-activations --kiln-quantize-residuals=lossy=q4,rmm:0.5 | FileCheck %s --check-prefixes=BOTH

// A layer of 4 sequences of 16 rows. The forward pass reads %h and %a itself,
// the backward pass reads decoded values. Weights, the statistics of the loss
// and gradients are not encoded.

// NONE-NOT: kiln.encoded
// NONE-LABEL: kiln.program @train
// NONE-NOT: kiln.block

// EIGHT: kiln.encoded = [#kiln.encoded<value = "{{.*}}", as = "q8", lossy = true, bytes = 32768, encoded_bytes = 8320>
// EIGHT-LABEL: kiln.program @train
// EIGHT: [[H:%.+]] = kiln.add
// EIGHT: [[S:%.+]] = kiln.block_scales [[H]] {bits = 8 : i64} : (tensor<64x128xf32>) -> tensor<32xf32>
// EIGHT: [[C:%.+]] = kiln.block_encode [[H]], [[S]] : (tensor<64x128xf32>, tensor<32xf32>) -> tensor<8192xi8>
// EIGHT: [[A:%.+]] = kiln.gelu [[H]]
// EIGHT: [[SA:%.+]] = kiln.block_scales [[A]]
// EIGHT: [[CA:%.+]] = kiln.block_encode [[A]], [[SA]]
// EIGHT: kiln.phase backward
// EIGHT: [[DA:%.+]] = kiln.block_decode [[CA]], [[SA]] : (tensor<8192xi8>, tensor<32xf32>) -> tensor<64x128xf32>
// EIGHT: kiln.matmul [[DA]], {{%.+}} trans_a
// EIGHT: [[DH:%.+]] = kiln.block_decode [[C]], [[S]]
// EIGHT: kiln.gelu_grad [[DH]],
// EIGHT-NOT: kiln.block

// Codes of 4 bits: a byte has a code of each half.
// FOUR: as = "q4", lossy = true, bytes = 32768, encoded_bytes = 4224>
// FOUR-LABEL: kiln.program @train
// FOUR: [[H:%.+]] = kiln.add
// FOUR: [[S:%.+]] = kiln.block_scales [[H]] {bits = 4 : i64}
// FOUR: [[X:%.+]] = kiln.reshape [[H]] : tensor<64x128xf32> to tensor<8192xf32>
// FOUR: [[X0:%.+]] = kiln.slice [[X]] [0] : tensor<8192xf32> to tensor<4096xf32>
// FOUR: [[X1:%.+]] = kiln.slice {{%.+}} [4096] : tensor<8192xf32> to tensor<4096xf32>
// FOUR: [[S0:%.+]] = kiln.slice [[S]] [0] : tensor<32xf32> to tensor<16xf32>
// FOUR: [[S1:%.+]] = kiln.slice [[S]] [16] : tensor<32xf32> to tensor<16xf32>
// FOUR: [[C:%.+]] = kiln.block_encode [[X0]], [[X1]], [[S0]], [[S1]] : (tensor<4096xf32>, tensor<4096xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<4096xi8>
// FOUR: kiln.phase backward
// FOUR: [[D:%.+]] = kiln.block_decode [[C]], [[S]] : (tensor<4096xi8>, tensor<32xf32>) -> tensor<64x128xf32>
// FOUR: kiln.gelu_grad [[D]],

// A sketch of half of the rows, encoded, is larger than nothing: %a is
// recomputed from the decoded %h.
// BOTH: kiln.encoded = [#kiln.encoded<value = "{{.*}}", as = "q4", lossy = true, bytes = 32768, encoded_bytes = 4224>]
// BOTH-LABEL: kiln.program @train
// BOTH-NOT: kiln.sketch_rows
// BOTH: kiln.phase backward
// BOTH: [[D:%.+]] = kiln.block_decode
// BOTH: kiln.recompute([[D]])
// BOTH: kiln.gelu_grad [[D]],
kiln.state @e : tensor<9x4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.state @w1 : tensor<4x128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, frozen}
kiln.state @b1 : tensor<128xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<128x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<4x16xi32> {kiln.name = "tokens"}, %targets: tensor<4x16xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %e = kiln.read @e : tensor<9x4xf32>
  %w1 = kiln.read @w1 : tensor<4x128xf32>
  %b1 = kiln.read @b1 : tensor<128xf32>
  %w2 = kiln.read @w2 : tensor<128x3xf32>
  %x = kiln.embedding %tokens, %e : (tensor<4x16xi32>, tensor<9x4xf32>) -> tensor<64x4xf32>
  %h0 = kiln.matmul %x, %w1 : (tensor<64x4xf32>, tensor<4x128xf32>) -> tensor<64x128xf32>
  %b = kiln.broadcast %b1 dims [1] : tensor<128xf32> to tensor<64x128xf32>
  %h = kiln.add %h0, %b : tensor<64x128xf32>
  %a = kiln.gelu %h : tensor<64x128xf32>
  %l = kiln.matmul %a, %w2 : (tensor<64x128xf32>, tensor<128x3xf32>) -> tensor<64x3xf32>
  %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<64x3xf32>, tensor<4x16xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
