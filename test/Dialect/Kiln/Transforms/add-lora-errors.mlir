// RUN: split-file %s %t
// RUN: not kiln-opt %t/model.mlir --kiln-add-lora=lora=r=2 2>&1 | FileCheck %s --check-prefix=DEFAULT
// RUN: not kiln-opt %t/model.mlir --kiln-add-lora=lora=targets=q_proj 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not kiln-opt %t/model.mlir --kiln-add-lora=lora=targets=up:table 2>&1 | FileCheck %s --check-prefix=HEAD
// RUN: not kiln-opt %t/model.mlir --kiln-add-lora=lora=r=7,targets=up 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not kiln-opt %t/model.mlir --kiln-add-lora=lora=r=0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not kiln-opt %t/model.mlir --kiln-add-lora=lora=r=1,targets=up,dropout=0.5 2>&1 | FileCheck %s --check-prefix=RNG
// RUN: not kiln-opt %t/twice.mlir 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not kiln-opt %t/alone.mlir 2>&1 | FileCheck %s --check-prefix=ALONE

// DEFAULT: error: --lora has no targets, and this model has no default targets: expected targets=all-linear or, separated by colons, some of up, down
// NAME: error: --lora: no linear layer is named 'q_proj', expected all-linear or some of up, down
// HEAD: error: --lora: no linear layer is named 'table', expected all-linear or some of up, down
// RANK: error: --lora: r is 7, but the weight of 'h.0.up' is a matrix of 6 outputs and 8 inputs: expected at most 6
// ZERO: error: --lora: r is 0, expected 1 to 2147483647
// RNG: error: --lora: dropout needs the input 'rng', and the program has none
// RUN: not kiln-opt %t/lone.mlir 2>&1 | FileCheck %s --check-prefix=LONE
// RUN: not kiln-opt %t/trained.mlir 2>&1 | FileCheck %s --check-prefix=TRAINED
// RUN: not kiln-opt %t/empty.mlir 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not kiln-opt %t/rank.mlir 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not kiln-opt %t/tied.mlir --kiln-add-lora=lora=r=1,targets=table 2>&1 | FileCheck %s --check-prefix=TIED
// RUN: kiln-opt %t/tied.mlir --kiln-add-lora=lora=r=1,targets=down -o /dev/null
// RUN: not kiln-opt %t/same.mlir --kiln-add-lora=lora=r=1,targets=all-linear 2>&1 | FileCheck %s --check-prefix=SAME
// LONE: error: {{.*}}is the only factor of the adapter of @w, expected the factors a and b
// TRAINED: error: {{.*}}is trainable and has no 'adapter', but the module has 'kiln.lora', so only states with 'adapter' may be trainable
// EMPTY: error: {{.*}}has 'kiln.lora', but no state has 'adapter', expected both or neither
// OTHER: error: {{.*}}has type 'tensor<3x6xf32>', expected a matrix of adapter rank r = 2, as in 'kiln.lora' of the module
// TIED: error: {{.*}}reads the weight of 'table', so --lora cannot adapt this layer: the weight may only be read by matmuls, as the right operand, with the same layout in each
// SAME: error: --lora: two weights belong to layers named 'down', expected different names
// SHAPE: error: {{.*}}has type 'tensor<2x7xf32>', expected a matrix with 6 columns, one for each input of @w
// ALONE: error: {{.*}}has 'adapter', but the module does not have the attribute 'kiln.lora', which holds the options of the adapters

//--- model.mlir
kiln.state @table : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @h.0.up.weight : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @down.weight : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %up = kiln.read @h.0.up.weight : tensor<8x6xf32>
  %u = kiln.matmul %x, %up : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %down = kiln.read @down.weight : tensor<8x6xf32>
  %d = kiln.matmul %u, %down trans_b : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %d, %table, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

//--- lone.mlir
module attributes {kiln.lora = "r=2"} {
kiln.state @w : tensor<8x6xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w.a : tensor<2x6xf32> {adapter = #kiln.adapter<a of @w>, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
}

//--- trained.mlir
module attributes {kiln.lora = "r=2"} {
kiln.state @w : tensor<8x6xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
}

//--- empty.mlir
module attributes {kiln.lora = "r=2"} {
kiln.state @w : tensor<8x6xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
}

//--- rank.mlir
module attributes {kiln.lora = "r=2"} {
kiln.state @w : tensor<8x6xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w.a : tensor<3x6xf32> {adapter = #kiln.adapter<a of @w>, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
}

//--- tied.mlir
kiln.state @table : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @down : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %down = kiln.read @down : tensor<8x8xf32>
  %d = kiln.matmul %x, %down trans_b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %logits = kiln.matmul %d, %table trans_b : (tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<8x16xf32>
  %flat = kiln.reshape %targets : tensor<2x4xi32> to tensor<8xi32>
  %loss = kiln.cross_entropy %logits, %flat, %scale : (tensor<8x16xf32>, tensor<8xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

//--- same.mlir
kiln.state @table : tensor<16x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @down : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @down.weight : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %table = kiln.read @table : tensor<16x8xf32>
  %x = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %one = kiln.read @down : tensor<8x8xf32>
  %two = kiln.read @down.weight : tensor<8x8xf32>
  %d = kiln.matmul %x, %one trans_b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = kiln.matmul %d, %two trans_b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %e, %table, %targets, %scale : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}

//--- twice.mlir
module attributes {kiln.lora = "r=2"} {
kiln.state @w : tensor<8x6xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w.a : tensor<2x7xf32> {adapter = #kiln.adapter<a of @w>, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w.b : tensor<8x2xf32> {adapter = #kiln.adapter<b of @w>, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
}

//--- alone.mlir
kiln.state @w : tensor<8x6xf32> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w.a : tensor<2x6xf32> {adapter = #kiln.adapter<a of @w>, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
