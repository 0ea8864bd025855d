// Compiled ops against interpreted ones: results that cancel to nothing are
// compared with what rounding allows, a damaged result is found.
//
// With one token per sequence the gradients of q and k are zeros but for
// rounding, as is the sum of a softmax less one; a pad lies beside the other
// operands of a concatenation.
//
// REQUIRES: kilnc
//
// RUN: kilnc %s --precision=fp32 -o %t.train
// RUN: kilnc %s --precision=fp32 --emit=schedule -o %t.schedule.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULE < %t.schedule.mlir
// RUN: %t.train --check-ops=%t.trace
// RUN: kiln-run %t.schedule.mlir --check-trace=%t.trace | FileCheck %s
//
// The pad writes rows of 11 that lie 20 apart.
// SCHEDULE: row_strides [8, 20]
// SCHEDULE: kiln.pad %arg0 low [0, 2]
//
// CHECK: op compared amplified worst difference / allowed
// CHECK-NOT: FAIL
// CHECK: ok attention_grad 3 2
// CHECK-NOT: FAIL
// CHECK: ok fused rows
// CHECK-NOT: FAIL
// CHECK: ok pad
// CHECK-NOT: FAIL
//
// To a schedule that has the pad elsewhere, it writes where it must not.
//
// RUN: sed 's/\[36\] : memref<4x11xf32, strided<\[20, 1\]>>/[0] : memref<4x11xf32, strided<[20, 1]>>/' %t.schedule.mlir > %t.moved.mlir
// RUN: not kiln-run %t.moved.mlir --check-trace=%t.trace 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// OUTSIDE: error: --check-trace: @{{.*}} command {{[0-9]+}} @{{.*}} changes byte {{[0-9]+}} of slot "concat", which is not one of its results
//
// The last bytes are those of a moment of Adam after its update, and eight that
// end the program.
//
// RUN: %python -c "d = bytearray(open(r'%t.trace', 'rb').read()); d[-9] ^= 0x3f; open(r'%t.trace', 'wb').write(d)"
// RUN: not kiln-run %t.schedule.mlir --check-trace=%t.trace 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG-DAG: error: --check-trace: the compiled result of adam differs from the interpreted result at @train command {{[0-9]+}} @{{.*}}: element {{[0-9]+}} of result 2 is 0.5, not
// WRONG-DAG: FAIL adam

module attributes {kiln.model = {batch = 4 : i64, files = [], has_weights = false, name = "small", sequence_length = 1 : i64, type = "mlir", vocab_size = 5 : i64}} {
  kiln.state @table : tensor<5x8xf32> {init = #kiln.normal<mean = 0.0 : f64, stddev = 0.5 : f64>, role = #kiln.role<parameter>}
  kiln.state @qkv : tensor<8x24xf32> {init = #kiln.normal<mean = 0.0 : f64, stddev = 0.5 : f64>, role = #kiln.role<parameter>}
  kiln.state @head : tensor<5x20xf32> {init = #kiln.normal<mean = 0.0 : f64, stddev = 0.5 : f64>, role = #kiln.role<parameter>}
  kiln.program @forward(%tokens: tensor<4x1xi32> {kiln.name = "tokens"}, %targets: tensor<4x1xi32> {kiln.name = "targets"}, %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %table = kiln.read @table : tensor<5x8xf32>
    %x = kiln.embedding %tokens, %table : (tensor<4x1xi32>, tensor<5x8xf32>) -> tensor<4x8xf32>
    %w = kiln.read @qkv : tensor<8x24xf32>
    %qkv = kiln.matmul %x, %w : (tensor<4x8xf32>, tensor<8x24xf32>) -> tensor<4x24xf32>
    %q = kiln.slice %qkv [0, 0] : tensor<4x24xf32> to tensor<4x8xf32>
    %k = kiln.slice %qkv [0, 8] : tensor<4x24xf32> to tensor<4x8xf32>
    %v = kiln.slice %qkv [0, 16] : tensor<4x24xf32> to tensor<4x8xf32>
    %o, %lse = kiln.attention %q, %k, %v causal {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f64, sequences = 4 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x1xf32>)
    %p = kiln.softmax %o : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %eighth = kiln.constant dense<0.125> : tensor<4x8xf32> -> tensor<4x8xf32>
    %less = kiln.sub %p, %eighth : tensor<4x8xf32>
    %sum = kiln.reduce sum %less dims [1] : tensor<4x8xf32> to tensor<4xf32>
    %column = kiln.reshape %sum : tensor<4xf32> to tensor<4x1xf32>
    %padded = kiln.pad %x low [0, 2] : tensor<4x8xf32> to tensor<4x11xf32>
    %both = kiln.concat %o, %column, %padded dim 1 : (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x11xf32>) -> tensor<4x20xf32>
    %h = kiln.read @head : tensor<5x20xf32>
    %logits = kiln.matmul %both, %h trans_b : (tensor<4x20xf32>, tensor<5x20xf32>) -> tensor<4x5xf32>
    %loss = kiln.cross_entropy %logits, %targets, %scale : (tensor<4x5xf32>, tensor<4x1xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
