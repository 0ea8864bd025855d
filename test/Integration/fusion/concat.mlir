// The producers of a concat's operands write into its buffer. A repeated
// operand, or a view of a value with other readers, has to be copied.

// RUN: %python -c "print('to be or not to be, that is the question: ' * 20)" > %t.txt
// RUN: rm -rf %t.fused-run %t.single-run
// RUN: kilnc %s -o %t.fused
// RUN: kilnc %s --fuse=off -o %t.single
// RUN: %t.fused --check-memory
// RUN: %t.single --check-memory
// RUN: %t.fused --data=%t.txt --steps=4 --save=%t.fused-run
// RUN: %t.single --data=%t.txt --steps=4 --save=%t.single-run
// RUN: cmp %t.fused-run/checkpoint-4/model.safetensors %t.single-run/checkpoint-4/model.safetensors

module attributes {kiln.model = {type = "mlp", name = "concat", vocab_size = 256 : i64, batch = 2 : i64, sequence_length = 8 : i64,
                                 has_weights = false, files = []}} {
  kiln.state @embedding : tensor<256x32xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
  kiln.state @head : tensor<160x256xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 2.0e-02>}
  kiln.program @forward(%tokens: tensor<2x8xi32> {kiln.name = "tokens"}, %targets: tensor<2x8xi32> {kiln.name = "targets"},
                        %rng: tensor<1x3xi64> {kiln.name = "rng"}, %loss_scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %table = kiln.read @embedding : tensor<256x32xf32>
    %rows = kiln.embedding %tokens, %table : (tensor<2x8xi32>, tensor<256x32xf32>) -> tensor<16x32xf32>
    %now = kiln.reshape %rows : tensor<16x32xf32> to tensor<2x8x32xf32>
    %twice = kiln.add %now, %now : tensor<2x8x32xf32>
    %padded = kiln.pad %now low [0, 3, 0] : tensor<2x8x32xf32> to tensor<2x11x32xf32>
    %before = kiln.slice %padded [0, 2, 0] : tensor<2x11x32xf32> to tensor<2x8x32xf32>
    %all = kiln.concat %now, %now, %twice, %before, %now dim 2
        : (tensor<2x8x32xf32>, tensor<2x8x32xf32>, tensor<2x8x32xf32>, tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x8x160xf32>
    %x = kiln.reshape %all : tensor<2x8x160xf32> to tensor<16x160xf32>
    %w = kiln.read @head : tensor<160x256xf32>
    %logits = kiln.matmul %x, %w : (tensor<16x160xf32>, tensor<160x256xf32>) -> tensor<16x256xf32>
    %loss = kiln.cross_entropy %logits, %targets, %loss_scale : (tensor<16x256xf32>, tensor<2x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
