// A pass that replaces an op of a layer, or inserts ops that process its result, gives the
// new ops the layer. kiln-form-dispatches removes layers.

// RUN: kiln-opt %s --kiln-set-precision=precision=bf16 | FileCheck %s --check-prefix=PRECISION
// RUN: kiln-opt %s --kiln-autodiff=microbatches=2 --kiln-build-step=microbatches=2 --kiln-expand-loss --kiln-set-numerics | FileCheck %s --check-prefix=STEP
// RUN: kiln-opt %s --kiln-autodiff --kiln-compress-residuals=lossy=fewbit:2,rmm:0.25 | FileCheck %s --check-prefix=LOSSY
// RUN: sed 's/kiln.target/kiln.library_epilogues, kiln.target/' %s | kiln-opt --kiln-set-numerics | FileCheck %s --check-prefix=VENDOR
// RUN: kiln-opt %s --kiln-autodiff --kiln-expand-loss --kiln-set-numerics --kiln-form-dispatches --mlir-print-op-generic | FileCheck %s --check-prefix=FORMED --implicit-check-not=kiln.layer

// With policy blocks, only the input of a layer is kept, and its inner values are recomputed.
// RUN: kiln-opt %s --kiln-autodiff --kiln-recompute=policy=blocks -o %t.blocks
// RUN: kiln-opt %s --kiln-autodiff --kiln-recompute=policy=full -o %t.full
// RUN: not diff %t.blocks %t.full
// RUN: sed 's/{kiln.layer = #first}//' %s | kiln-opt --kiln-autodiff --kiln-recompute=policy=blocks -o %t.bare.blocks
// RUN: sed 's/{kiln.layer = #first}//' %s | kiln-opt --kiln-autodiff --kiln-recompute=policy=full -o %t.bare.full
// RUN: diff %t.bare.blocks %t.bare.full

// PRECISION: #layer = #kiln.layer<"h.0", 0>
// PRECISION: #layer1 = #kiln.layer<"head", 1>
// PRECISION-LABEL: kiln.program @forward
// PRECISION: kiln.gelu
// PRECISION: [[Y:%.+]] = kiln.matmul {{.*}} {kiln.layer = #layer} : {{.*}} -> tensor<64x8xbf16>
// PRECISION: [[WIDE:%.+]] = kiln.cast [[Y]] {kiln.layer = #layer} : tensor<64x8xbf16> to tensor<64x8xf32>
// PRECISION: [[Z:%.+]] = kiln.exp [[WIDE]] {kiln.layer = #layer}
// PRECISION: kiln.cast [[Z]] {kiln.layer = #layer} : tensor<64x8xf32> to tensor<64x8xbf16>

// STEP: #layer1 = #kiln.layer<"head", 1>
// STEP-LABEL: kiln.program @train
// STEP: kiln.microbatches
// STEP: kiln.reduce_partial {{.*}}kiln.layer = #layer1
// STEP: kiln.reduce_combine {{.*}} {kiln.layer = #layer1}
// STEP: kiln.scale {{.*}} by 1.250000e-01 {kiln.layer = #layer1}
// STEP: kiln.reshape {{.*}} {kiln.layer = #layer1}
// STEP: kiln.softmax_cross_entropy {{.*}} {kiln.layer = #layer1}
// STEP: kiln.scaled_total {{.*}} {kiln.layer = #layer1}
// STEP: kiln.scale {{.*}} by 5.000000e-01 {kiln.layer = #layer1}
// STEP: kiln.add {{.*}} {kiln.layer = #layer1}
// STEP: kiln.add {{.*}} {kiln.layer = #layer1}
// STEP: kiln.phase backward

// LOSSY-LABEL: kiln.program @train
// LOSSY: kiln.bucket_encode {{.*}}kiln.layer = #layer}
// LOSSY: kiln.sketch_rows {{.*}}kiln.layer = #layer,
// LOSSY: kiln.phase backward

// VENDOR-LABEL: kiln.program @forward
// VENDOR: kiln.linear_gelu {{.*}}kiln.layer = #layer}

// FORMED: kiln.dispatch
#first = #kiln.layer<"h.0", 0>
#last = #kiln.layer<"head", 1>
module attributes {kiln.target = "cuda"} {
kiln.state @e : tensor<9x8xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
kiln.state @w1 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @b1 : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w2 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w3 : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<4x16xi32> {kiln.name = "tokens"}, %targets: tensor<4x16xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %e = kiln.read @e : tensor<9x8xf32>
  %w1 = kiln.read @w1 : tensor<8x8xf32>
  %b1 = kiln.read @b1 : tensor<8xf32>
  %w2 = kiln.read @w2 : tensor<8x8xf32>
  %w3 = kiln.read @w3 : tensor<9x8xf32>
  %x = kiln.embedding %tokens, %e {kiln.layer = #first} : (tensor<4x16xi32>, tensor<9x8xf32>) -> tensor<64x8xf32>
  %p = kiln.matmul %x, %w1 {kiln.layer = #first} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
  %rows = kiln.broadcast %b1 dims [1] {kiln.layer = #first} : tensor<8xf32> to tensor<64x8xf32>
  %s = kiln.add %p, %rows {kiln.layer = #first} : tensor<64x8xf32>
  %a = kiln.gelu %s tanh {kiln.layer = #first} : tensor<64x8xf32>
  %y = kiln.matmul %a, %w2 {kiln.layer = #first} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
  %z = kiln.exp %y {kiln.layer = #first} : tensor<64x8xf32>
  %means = kiln.reduce mean %w2 dims [0] {kiln.layer = #last} : tensor<8x8xf32> to tensor<8xf32>
  %mean = kiln.reduce sum %means dims [0] {kiln.layer = #last} : tensor<8xf32> to tensor<f32>
  %penalty = kiln.cast %mean {kiln.layer = #last} : tensor<f32> to tensor<f64>
  %ce = kiln.linear_cross_entropy %z, %w3, %targets, %scale {kiln.layer = #last} : (tensor<64x8xf32>, tensor<9x8xf32>, tensor<4x16xi32>, tensor<f64>) -> tensor<f64>
  %loss = kiln.add %ce, %penalty {kiln.layer = #last} : tensor<f64>
  kiln.return %loss : tensor<f64>
}
}
