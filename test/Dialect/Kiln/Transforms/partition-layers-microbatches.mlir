// The sum of the last layer feeds the loss directly. The exchange of sums over classes belongs to the
// backward segment, but that sum to the forward segment.

// RUN: kiln-opt %s --kiln-to-step-pipeline="mesh=tp=2 microbatches=2" --kiln-to-planned-pipeline --kiln-to-dispatched-pipeline | FileCheck %s

// CHECK-LABEL: kiln.program @train
// CHECK: forward {
// CHECK: kiln.collective_start all_reduce
// CHECK: kiln.collective_start all_reduce
// CHECK: kiln.collective_wait
// CHECK-NOT: kiln.collective_start
// CHECK: } backward {
// CHECK: kiln.matmul
// CHECK: kiln.collective_start all_gather

module attributes {kiln.model = {type = "mlp", name = "mlp", vocab_size = 9 : i64, batch = 2 : i64, sequence_length = 4 : i64, has_weights = false, files = []}} {
kiln.state @wte : tensor<9x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
kiln.state @w1 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.4>}
kiln.state @w2 : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 0.4>}
kiln.program @forward(%tokens: tensor<2x4xi32> {kiln.name = "tokens"}, %targets: tensor<2x4xi32> {kiln.name = "targets"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
  %wte = kiln.read @wte : tensor<9x8xf32>
  %x = kiln.embedding %tokens, %wte : (tensor<2x4xi32>, tensor<9x8xf32>) -> tensor<8x8xf32>
  %w1 = kiln.read @w1 : tensor<8x8xf32>
  %w2 = kiln.read @w2 : tensor<8x8xf32>
  %h = kiln.matmul %x, %w1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = kiln.relu %h : tensor<8x8xf32>
  %y = kiln.matmul %a, %w2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = kiln.linear_cross_entropy %y, %wte, %targets, %scale : (tensor<8x8xf32>, tensor<9x8xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>
  kiln.return %loss : tensor<f64>
}
}
