// Trains a model with kiln.softplus.
//
// REQUIRES: kiln-run
//
// RUN: rm -rf %t && mkdir %t
// RUN: %python -c "print('to be or not to be, that is the question: ' * 20)" > %t/text.txt
// RUN: kilnc %s --max-threads=2 -o %t/cpu
// RUN: kilnc %s --max-threads=2 --emit=schedule -o %t/schedule.mlir
// RUN: kilnc %s --max-threads=2 --target=cuda-emu -o %t/emu
//
// Every command agrees with the interpreter, and both targets compute the same bits.
//
// RUN: %t/cpu --check-ops=%t/ops.trace
// RUN: kiln-run %t/schedule.mlir --check-trace=%t/ops.trace | FileCheck %s --implicit-check-not=FAIL
// CHECK: ok fused rows
// RUN: kiln-diff %t/cpu %t/emu --data=%t/text.txt --steps=3 | FileCheck %s --check-prefix=EQUAL
// EQUAL: {{^}}equal: 3 steps, {{[0-9]+}} tensors, bit for bit{{$}}
// RUN: kilnc %s --max-threads=2 --precision=bf16 -o %t/bf16
// RUN: kilnc %s --max-threads=2 --precision=bf16 --target=cuda-emu -o %t/bf16-emu
// RUN: kiln-diff %t/bf16 %t/bf16-emu --data=%t/text.txt --steps=3 | FileCheck %s --check-prefix=EQUAL
//
// The loss decreases, and does not depend on the plan or the number of threads.
//
// RUN: %python %inputs/same_bits.py --steps=3 kilnc %s %t/plans "" --fuse=off --recompute=full
// RUN: %python %inputs/same_bits.py --steps=3 kilnc %s %t/parts --microbatches=2 "--fuse=off --recompute=full"
// RUN: %t/cpu --data=%t/text.txt --steps=3 --threads=1 --save=%t/one
// RUN: %t/cpu --data=%t/text.txt --steps=3 --threads=2 --save=%t/two
// RUN: cmp %t/one/checkpoint-3/model.safetensors %t/two/checkpoint-3/model.safetensors
// RUN: %t/cpu --data=%t/text.txt --steps=60 --lr=0.01 --log=%t/log.jsonl
// RUN: %python -c "import json; losses = [event['loss'] for event in map(json.loads, open(r'%t/log.jsonl')) if event.get('event', 'step') == 'step']; assert losses[-1] < 0.7 * losses[0], losses"

module attributes {kiln.model = {type = "mlp", name = "softplus", vocab_size = 256 : i64, batch = 4 : i64, sequence_length = 8 : i64,
                                 has_weights = false, files = []}} {
  kiln.state @table : tensor<256x16xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
  kiln.state @head : tensor<16x256xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
  kiln.program @forward(%tokens: tensor<4x8xi32> {kiln.name = "tokens"}, %targets: tensor<4x8xi32> {kiln.name = "targets"},
                        %rng: tensor<1x3xi64> {kiln.name = "rng"}, %loss_scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %table = kiln.read @table : tensor<256x16xf32>
    %x = kiln.embedding %tokens, %table : (tensor<4x8xi32>, tensor<256x16xf32>) -> tensor<32x16xf32>
    %h = kiln.softplus %x : tensor<32x16xf32>
    %w = kiln.read @head : tensor<16x256xf32>
    %logits = kiln.matmul %h, %w : (tensor<32x16xf32>, tensor<16x256xf32>) -> tensor<32x256xf32>
    %loss = kiln.cross_entropy %logits, %targets, %loss_scale : (tensor<32x256xf32>, tensor<4x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
