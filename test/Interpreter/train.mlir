// Training uses the driver of executables: the same flags, log and files.

// RUN: %python -c "print('to be or not to be, that is the question: ' * 20)" > %t.txt
// RUN: rm -rf %t.dir %t.resumed
// RUN: kiln-run %s --data=%t.txt --val-data=%t.txt --steps=30 --lr=2.0 --grad-clip=0 --seed=7 --log=%t.jsonl --dump=%t.own --save=%t.dir --save-every=20
// RUN: FileCheck %s --input-file=%t.jsonl

// The first loss is log(256), that of equal probabilities; then it falls.
// CHECK:      "event":"start"
// CHECK-SAME: "seed":7
// CHECK-SAME: "library":"interpreter"
// CHECK:      "step":1,"loss":5.54
// CHECK:      "step":30,"loss":{{[12]}}.
// CHECK:      "event":"eval","step":30,"loss":{{[12]}}.
// CHECK:      "event":"end","steps":30

// The same run in f64 differs only by rounding.
// RUN: kiln-run %s --data=%t.txt --steps=30 --lr=2.0 --grad-clip=0 --seed=7 --log=%t.wide.jsonl --eval-type=f64 --dump=%t.wide
// RUN: %python %S/Inputs/compare_safetensors.py %t.own %t.wide 1e-5 | FileCheck %s --check-prefix=SAME
// SAME: loss: F64 and F64, relative difference {{[1-9]}}
// SAME: embedding: F32 and F64, relative difference {{[1-9]}}
// SAME: head: F32 and F64

// A resumed run has the bits of an uninterrupted one.
// A variable RANK of another program does not make this one a rank.
// RUN: env RANK=1 kiln-run %s --data=%t.txt --resume=%t.dir/checkpoint-20 --steps=30 --lr=2.0 --grad-clip=0 --dump=%t.resumed
// RUN: cmp %t.own %t.resumed

// RUN: kiln-run %s --describe | FileCheck %s --check-prefix=DESCRIBE
// DESCRIBE: bigram

// RUN: not kiln-run %s --data=%t.txt --steps=1 --entry=evaluate 2>&1 | FileCheck %s --check-prefix=ENTRY
// ENTRY: error: --entry=evaluate contradicts training, which runs @train

module attributes {kiln.model = {name = "bigram", type = "test", vocab_size = 256 : i64, batch = 4 : i64, sequence_length = 8 : i64, has_weights = false}} {
  kiln.state @embedding : tensor<256x6xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}
  kiln.state @head : tensor<256x6xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0e-01>}

  // Two micro-batches.
  kiln.program @train(%tokens: tensor<4x8xi32> {kiln.name = "tokens"}, %targets: tensor<4x8xi32> {kiln.name = "targets"},
                      %rng: tensor<2x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"},
                      %lr: tensor<f64> {kiln.name = "lr"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<train>} {
    %e = kiln.read @embedding : tensor<256x6xf32>
    %h = kiln.read @head : tensor<256x6xf32>
    %sum:3 = kiln.microbatches sliced(%tokens, %targets, %rng) count 2
        : (tensor<4x8xi32>, tensor<4x8xi32>, tensor<2x3xi64>) -> (tensor<f64>, tensor<256x6xf32>, tensor<256x6xf32>) {
    ^bb0(%some: tensor<2x8xi32>, %their: tensor<2x8xi32>, %r: tensor<1x3xi64>,
         %loss0: tensor<f64>, %de0: tensor<256x6xf32>, %dh0: tensor<256x6xf32>):
      %x = kiln.embedding %some, %e : (tensor<2x8xi32>, tensor<256x6xf32>) -> tensor<16x6xf32>
      %loss, %dx, %dh = kiln.linear_cross_entropy_with_grad %x, %h, %their, %scale
          : (tensor<16x6xf32>, tensor<256x6xf32>, tensor<2x8xi32>, tensor<f64>) -> (tensor<f64>, tensor<16x6xf32>, tensor<256x6xf32>)
      %de = kiln.embedding_grad %some, %dx, %de0 : (tensor<2x8xi32>, tensor<16x6xf32>, tensor<256x6xf32>) -> tensor<256x6xf32>
      %loss1 = kiln.add %loss0, %loss : tensor<f64>
      %dh1 = kiln.add %dh0, %dh : tensor<256x6xf32>
      kiln.yield %loss1, %de, %dh1 : tensor<f64>, tensor<256x6xf32>, tensor<256x6xf32>
    }
    %one = kiln.constant dense<1.0> : tensor<f64> -> tensor<f64>
    %e1 = kiln.sgd %e, %sum#1, %one, %lr {weight_decay = 0.0} : (tensor<256x6xf32>, tensor<256x6xf32>, tensor<f64>, tensor<f64>) -> tensor<256x6xf32>
    %h1 = kiln.sgd %h, %sum#2, %one, %lr {weight_decay = 0.0} : (tensor<256x6xf32>, tensor<256x6xf32>, tensor<f64>, tensor<f64>) -> tensor<256x6xf32>
    kiln.write @embedding, %e1 : tensor<256x6xf32>
    kiln.write @head, %h1 : tensor<256x6xf32>
    kiln.return %sum#0 : tensor<f64>
  }

  kiln.program @evaluate(%tokens: tensor<4x8xi32> {kiln.name = "tokens"}, %targets: tensor<4x8xi32> {kiln.name = "targets"},
                         %scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<evaluate>} {
    %e = kiln.read @embedding : tensor<256x6xf32>
    %h = kiln.read @head : tensor<256x6xf32>
    %x = kiln.embedding %tokens, %e : (tensor<4x8xi32>, tensor<256x6xf32>) -> tensor<32x6xf32>
    %loss = kiln.linear_cross_entropy %x, %h, %targets, %scale
        : (tensor<32x6xf32>, tensor<256x6xf32>, tensor<4x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
