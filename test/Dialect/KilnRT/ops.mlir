// Every op of the scheduled level with each of its optional parts, which come back
// as they were from the custom form, the generic form and bytecode. No attribute
// of the dialect is left to a dictionary.

// RUN: kiln-opt %s -o %t && FileCheck %s < %t
// RUN: kiln-opt %t | diff %t -
// RUN: kiln-opt %s --mlir-print-op-generic | kiln-opt | diff %t -
// RUN: kiln-opt %s --emit-bytecode | kiln-opt | diff %t -

// CHECK: kiln.state @w
kiln.state @w : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}

// CHECK: kilnrt.arena states 64 height 4096 host states 0 height 512{{$}}
kilnrt.arena states 64 height 4096 host states 0 height 512

// CHECK-NEXT: kilnrt.queue @compute engine device{{$}}
kilnrt.queue @compute engine device
// CHECK-NEXT: kilnrt.queue @host engine host{{$}}
kilnrt.queue @host engine host
// CHECK-NEXT: kilnrt.queue @copy_out engine link{{$}}
kilnrt.queue @copy_out engine link
// CHECK-NEXT: kilnrt.queue @ring engine link {note = "of the user"}
kilnrt.queue @ring engine link {note = "of the user"}

// CHECK-NEXT: kilnrt.kernel @row family<row> space [4, 4] row_strides [4, 4] {
kilnrt.kernel @row family<row> space [4, 4] row_strides [4, 4] {
^bb0(%x: tensor<4x4xf32>):
  %y = kiln.relu %x : tensor<4x4xf32>
  kiln.yield %y : tensor<4x4xf32>
}
// CHECK: kilnrt.kernel @epilogue family<row> epilogue space [4, 4] row_strides [4, 3, 4] {
kilnrt.kernel @epilogue family<row> epilogue space [4, 4] row_strides [4, 3, 4] {
^bb0(%x: tensor<4x4xf32>, %rng: tensor<1x3xi64>):
  %y = kiln.dropout %x, %rng {p = 5.0e-01, key = 0, sequences = 1} : (tensor<4x4xf32>, tensor<1x3xi64>) -> tensor<4x4xf32>
  kiln.yield %y : tensor<4x4xf32>
}
// CHECK: kilnrt.kernel @attention family<attention> row_strides [4, 4, 4, 4, 4] {
kilnrt.kernel @attention family<attention> row_strides [4, 4, 4, 4, 4] {
^bb0(%q: tensor<4x4xf32>, %k: tensor<4x4xf32>, %v: tensor<4x4xf32>):
  %o, %lse = kiln.attention %q, %k, %v causal {heads = 1, kv_heads = 1, kv_tile = 64, scale = 1.0, sequences = 1} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<1x4xf32>)
  kiln.yield %o, %lse : tensor<4x4xf32>, tensor<1x4xf32>
}
// CHECK: kilnrt.kernel @scatter family<scatter> row_strides [4, 4, 4] {
kilnrt.kernel @scatter family<scatter> row_strides [4, 4, 4] {
^bb0(%tokens: tensor<1x4xi32>, %dy: tensor<4x4xf32>):
  %dw = kiln.embedding_grad %tokens, %dy : (tensor<1x4xi32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.yield %dw : tensor<4x4xf32>
}

// CHECK: kilnrt.program @train_0 kind<train> attributes {kiln.name = "train"} {
kilnrt.program @train_0 kind<train> attributes {kiln.name = "train"} {
  // CHECK-NEXT: [[W:%.+]] = kilnrt.slot "w" class parameter offset 0 bytes 64 lifetime [0, 22] state @w why "state"{{$}}
  %w.slot = kilnrt.slot "w" class parameter offset 0 bytes 64 lifetime [0, 22] state @w why "state"
  // CHECK-NEXT: [[A:%.+]] = kilnrt.slot "a" class input offset 64 bytes 64 lifetime [0, 22]{{$}}
  %a.slot = kilnrt.slot "a" class input offset 64 bytes 64 lifetime [0, 22]
  // CHECK-NEXT: [[P:%.+]] = kilnrt.slot "p" class activation offset 128 bytes 112 lifetime [0, 22] rows [16, 32] why "result"{{$}}
  %p.slot = kilnrt.slot "p" class activation offset 128 bytes 112 lifetime [0, 22] rows [16, 32] why "result"
  // CHECK-NEXT: [[B:%.+]] = kilnrt.slot "b" class output offset 256 bytes 64 lifetime [0, 22] {note = "of the user"}
  %b.slot = kilnrt.slot "b" class output offset 256 bytes 64 lifetime [0, 22] {note = "of the user"}
  // CHECK-NEXT: [[RNG:%.+]] = kilnrt.slot "rng"
  %rng.slot = kilnrt.slot "rng" class input offset 320 bytes 24 lifetime [0, 22]
  // CHECK-NEXT: [[TOKENS:%.+]] = kilnrt.slot "tokens"
  %tokens.slot = kilnrt.slot "tokens" class input offset 384 bytes 16 lifetime [0, 22]
  // CHECK-NEXT: [[S:%.+]] = kilnrt.slot "s" class workspace
  %s = kilnrt.slot "s" class workspace offset 448 bytes 64 lifetime [0, 22]
  // CHECK-NEXT: [[N:%.+]] = kilnrt.slot "n" class gradient
  %n.slot = kilnrt.slot "n" class gradient offset 512 bytes 512 lifetime [0, 22]
  // CHECK-NEXT: [[H:%.+]] = kilnrt.slot "h" class optimizer in host offset 0 bytes 64 lifetime [0, 22]{{$}}
  %h.slot = kilnrt.slot "h" class optimizer in host offset 0 bytes 64 lifetime [0, 22]
  // CHECK-NEXT: kilnrt.slot "c" class constant
  %c.slot = kilnrt.slot "c" class constant offset 1024 bytes 64 lifetime [0, 22]
  // CHECK-NEXT: kilnrt.slot "m" class communication
  %m.slot = kilnrt.slot "m" class communication offset 1088 bytes 64 lifetime [0, 22]
  // CHECK-NEXT: [[T:%.+]] = kilnrt.token{{$}}
  %t = kilnrt.token

  // CHECK-NEXT: [[WV:%.+]] = kilnrt.view [[W]][0] : memref<4x4xf32>
  %w = kilnrt.view %w.slot[0] : memref<4x4xf32>
  // CHECK-NEXT: [[AV:%.+]] = kilnrt.view [[A]][0] : memref<4x4xf32>
  %a = kilnrt.view %a.slot[0] : memref<4x4xf32>
  // CHECK-NEXT: [[PV:%.+]] = kilnrt.view [[P]][0] : memref<4x4xf32, strided<[8, 1]>>
  %p = kilnrt.view %p.slot[0] : memref<4x4xf32, strided<[8, 1]>>
  // CHECK-NEXT: [[BV:%.+]] = kilnrt.view [[B]][0] : memref<4x4xf32>
  %b = kilnrt.view %b.slot[0] : memref<4x4xf32>
  // CHECK-NEXT: [[RNGV:%.+]] = kilnrt.view
  %rng = kilnrt.view %rng.slot[0] : memref<1x3xi64>
  // CHECK-NEXT: [[TOKENSV:%.+]] = kilnrt.view
  %tokens = kilnrt.view %tokens.slot[0] : memref<1x4xi32>
  // CHECK-NEXT: [[SUMS:%.+]] = kilnrt.view [[N]][448] : memref<1x4xf32>
  %sums = kilnrt.view %n.slot[448] : memref<1x4xf32>
  // CHECK-NEXT: [[LEFT:%.+]] = kilnrt.view [[N]][0] : memref<2x4x4xf32>
  %left = kilnrt.view %n.slot[0] : memref<2x4x4xf32>
  // CHECK-NEXT: [[NARROW:%.+]] = kilnrt.view [[N]][0] : memref<8x8xbf16>
  %narrow = kilnrt.view %n.slot[0] : memref<8x8xbf16>
  // CHECK-NEXT: [[WIDE:%.+]] = kilnrt.view [[N]][128] : memref<8x8xf32>
  %wide = kilnrt.view %n.slot[128] : memref<8x8xf32>
  // CHECK-NEXT: [[BIAS:%.+]] = kilnrt.view [[N]][128] : memref<8xbf16>
  %bias = kilnrt.view %n.slot[128] : memref<8xbf16>
  // CHECK-NEXT: [[WIDEBIAS:%.+]] = kilnrt.view [[N]][0] : memref<8xf32>
  %wideBias = kilnrt.view %n.slot[0] : memref<8xf32>
  // CHECK-NEXT: [[HV:%.+]] = kilnrt.view [[H]][0] : memref<4x4xf32, #kiln.memory<host>>
  %h = kilnrt.view %h.slot[0] : memref<4x4xf32, #kiln.memory<host>>
  // CHECK-NEXT: kilnrt.input "rng" at [[RNGV]]{{$}}
  kilnrt.input "rng" at %rng
  // CHECK-NEXT: kilnrt.input "x" at [[AV]] fact <data>
  kilnrt.input "x" at %a fact #kiln.input<data>
  // CHECK-NEXT: kilnrt.input "mask" at [[WV]] fact <data, batch_dim = 0>
  kilnrt.input "mask" at %w fact <data, batch_dim = 0>
  // CHECK-NEXT: kilnrt.output "y" at [[BV]]{{$}}
  kilnrt.output "y" at %b

  // CHECK-NEXT: kilnrt.fill on @compute (wo [[BV]]){{$}}
  kilnrt.fill on @compute (wo %b)
  // CHECK-NEXT: kilnrt.fill on @host after [@compute] (wo [[HV]]){{$}}
  kilnrt.fill on @host after [@compute] (wo %h)
  // CHECK-NEXT: kilnrt.copy on @compute (ro [[AV]], wo [[BV]]){{$}}
  kilnrt.copy on @compute (ro %a, wo %b)
  // CHECK-NEXT: kilnrt.copy on @compute after [@host, @compute] (ro [[AV]], wo [[BV]]){{$}}
  kilnrt.copy on @compute after [@host, @compute] (ro %a, wo %b)

  // CHECK-NEXT: kilnrt.launch @row on @compute (ro [[AV]], wo [[BV]]){{$}}
  kilnrt.launch @row on @compute (ro %a, wo %b)
  // CHECK-NEXT: kilnrt.launch @row on @compute after [@host] (ro [[AV]], wo [[BV]]) group 2{{$}}
  kilnrt.launch @row on @compute after [@host] (ro %a, wo %b) group 2
  // CHECK-NEXT: kilnrt.launch @attention on @compute (ro [[AV]], ro [[BV]], ro [[WV]], wo [[BV]], wo [[SUMS]]) args [0, 5.000000e-01] scratch([[S]]){{$}}
  kilnrt.launch @attention on @compute (ro %a, ro %b, ro %w, wo %b, wo %sums) args [0, 0.5] scratch(%s)
  // CHECK-NEXT: kilnrt.launch @scatter on @compute (ro [[TOKENSV]], ro [[AV]], wo [[BV]]) accumulate add{{$}}
  kilnrt.launch @scatter on @compute (ro %tokens, ro %a, wo %b) accumulate add
  // CHECK-NEXT: kilnrt.launch @scatter on @compute (ro [[TOKENSV]], ro [[AV]], wo [[BV]]){{$}}
  kilnrt.launch @scatter on @compute (ro %tokens, ro %a, wo %b) accumulate overwrite

  // CHECK-NEXT: kilnrt.gemm on @compute (ro [[AV]], ro [[WV]], wo [[BV]]) grid [1, 1]{{$}}
  kilnrt.gemm on @compute (ro %a, ro %w, wo %b) grid [1, 1]
  // CHECK-NEXT: kilnrt.gemm on @compute after [@host] (ro [[AV]] transposed, ro [[PV]] transposed, rw [[BV]]) grid [2, 1] scratch([[S]]){{$}}
  kilnrt.gemm on @compute after [@host] (ro %a transposed, ro %p transposed, rw %b) grid [2, 1] scratch(%s)
  // CHECK-NEXT: kilnrt.gemm on @compute (ro [[AV]], ro [[WV]], wo [[BV]]) grid [1, 1] kernel "avx512" scratch([[S]]){{$}}
  kilnrt.gemm on @compute (ro %a, ro %w, wo %b) grid [1, 1] kernel "avx512" scratch(%s)
  // CHECK-NEXT: kilnrt.gemm on @compute (ro [[LEFT]], ro [[LEFT]], wo [[LEFT]]) grid [1, 1]{{$}}
  kilnrt.gemm on @compute (ro %left, ro %left, wo %left) grid [1, 1]
  // CHECK-NEXT: kilnrt.gemm on @compute (ro [[NARROW]], ro [[NARROW]], wo [[WIDE]]) grid [1, 1] library "bias" bias([[WIDEBIAS]]){{$}}
  kilnrt.gemm on @compute (ro %narrow, ro %narrow, wo %wide) grid [1, 1] library "bias" bias(%wideBias)
  // CHECK-NEXT: kilnrt.gemm on @compute (ro [[NARROW]], ro [[NARROW]], wo [[NARROW]]) grid [1, 1] library "gelu_aux_bias" bias([[BIAS]]) aux([[NARROW]]) scratch([[S]]){{$}}
  kilnrt.gemm on @compute (ro %narrow, ro %narrow, wo %narrow) grid [1, 1] library "gelu_aux_bias" bias(%bias) aux(%narrow) scratch(%s)
  // CHECK-NEXT: kilnrt.gemm on @compute (ro [[AV]], ro [[WV]], wo [[BV]]) grid [1, 1] epilogue @epilogue{{ ?}}(ro [[RNGV]], wo [[BV]]) args [7] scratch([[S]]){{$}}
  kilnrt.gemm on @compute (ro %a, ro %w, wo %b) grid [1, 1] epilogue @epilogue(ro %rng, wo %b) args [7] scratch(%s)

  // CHECK-NEXT: kilnrt.begin copy [[T]] on @copy_out after [@compute, @host] (ro [[AV]], wo [[HV]]){{$}}
  kilnrt.begin copy %t on @copy_out after [@compute, @host] (ro %a, wo %h)
  // CHECK-NEXT: kilnrt.wait [[T]] on @compute and [@host]{{$}}
  kilnrt.wait %t on @compute and [@host]
  // CHECK-NEXT: kilnrt.begin send [[T]] on @ring (ro [[AV]], ro [[BV]]){{$}}
  kilnrt.begin send %t on @ring (ro %a, ro %b)
  // CHECK-NEXT: kilnrt.wait [[T]] on @ring{{$}}
  kilnrt.wait %t on @ring
  // CHECK-NEXT: kilnrt.begin receive [[T]] on @ring (wo [[AV]]){{$}}
  kilnrt.begin receive %t on @ring (wo %a)
  // CHECK-NEXT: kilnrt.wait [[T]] on @compute{{$}}
  kilnrt.wait %t on @compute
  // CHECK-NEXT: kilnrt.begin all_reduce over "dp" [[T]] on @ring after [@compute] (ro [[AV]], ro [[BV]], wo [[AV]], wo [[BV]]){{$}}
  kilnrt.begin all_reduce over "dp" %t on @ring after [@compute] (ro %a, ro %b, wo %a, wo %b)
  // CHECK-NEXT: kilnrt.wait [[T]] on @compute{{$}}
  kilnrt.wait %t on @compute

  // CHECK-NEXT: kilnrt.microbatches 2 forward {
  kilnrt.microbatches 2 forward {
    // CHECK-NEXT: [[V:%.+]] = kilnrt.view [[A]][16 + 16 * microbatch] : memref<1x4xf32>
    %v = kilnrt.view %a.slot[16 + 16 * microbatch] : memref<1x4xf32>
    // CHECK-NEXT: kilnrt.gemm on @compute (ro [[V]] transposed, ro [[V]], rw [[BV]] add_after_first) grid [1, 1]{{$}}
    kilnrt.gemm on @compute (ro %v transposed, ro %v, rw %b add_after_first) grid [1, 1]
  // CHECK-NEXT: } backward {
  } backward {
    // CHECK-NEXT: kilnrt.launch @scatter on @compute (ro [[TOKENSV]], ro [[AV]], wo [[BV]]) accumulate add_after_first{{$}}
    kilnrt.launch @scatter on @compute (ro %tokens, ro %a, wo %b) accumulate add_after_first
  }
}

// Programs of all kinds.
// CHECK: kilnrt.program @forward kind<forward> {
kilnrt.program @forward kind<forward> {
}
// CHECK: kilnrt.program @evaluate kind<evaluate> {
kilnrt.program @evaluate kind<evaluate> {
}
// CHECK: kilnrt.program @generate kind<generate> {
kilnrt.program @generate kind<generate> {
}

// Slots and tokens with one instance per micro-batch in flight.
// CHECK: kilnrt.program @rings kind<train> {
kilnrt.program @rings kind<train> {
  // CHECK-NEXT: [[T:%.+]] = kilnrt.token ring{{$}}
  %t = kilnrt.token ring
  // CHECK-NEXT: [[X:%.+]] = kilnrt.slot "x" class activation offset 0 bytes 60 lifetime [0, 3] ring [64, 3]{{$}}
  %x.slot = kilnrt.slot "x" class activation offset 0 bytes 60 lifetime [0, 3] ring [64, 3]
  // CHECK-NEXT: [[H:%.+]] = kilnrt.slot "h" class activation in host offset 64 bytes 64 lifetime [1, 2] ring [64, 3] rows [12, 16] why "copy on the host" {note = "of the user"}
  %h.slot = kilnrt.slot "h" class activation in host offset 64 bytes 64 lifetime [1, 2] ring [64, 3] rows [12, 16] why "copy on the host" {note = "of the user"}
  // CHECK-NEXT: kilnrt.microbatches 4 order <"F0 F1 B1 F2 F3 B0 B3 B2"> slots 3 attributes {note = "of the user"} forward {
  kilnrt.microbatches 4 order <"F0 F1 B1 F2 F3 B0 B3 B2"> slots 3 attributes {note = "of the user"} forward {
    // CHECK-NEXT: [[XV:%.+]] = kilnrt.view [[X]][12] : memref<3x4xf32>
    %x = kilnrt.view %x.slot[12] : memref<3x4xf32>
    // CHECK-NEXT: [[HV:%.+]] = kilnrt.view [[H]][0 + 4 * microbatch] : memref<3x4xf32, #kiln.memory<host>>
    %h = kilnrt.view %h.slot[0 + 4 * microbatch] : memref<3x4xf32, #kiln.memory<host>>
    // CHECK-NEXT: kilnrt.fill on @compute (wo [[XV]])
    kilnrt.fill on @compute (wo %x)
    // CHECK-NEXT: kilnrt.begin copy [[T]] on @copy_out after [@compute] (ro [[XV]], wo [[HV]])
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %x, wo %h)
  // CHECK-NEXT: } backward {
  } backward {
    // CHECK-NEXT: kilnrt.wait [[T]] on @compute
    kilnrt.wait %t on @compute
    // CHECK-NEXT: [[XV:%.+]] = kilnrt.view [[X]][0] : memref<3x4xf32>
    %x = kilnrt.view %x.slot[0] : memref<3x4xf32>
    // CHECK-NEXT: kilnrt.fill on @compute (wo [[XV]])
    kilnrt.fill on @compute (wo %x)
  // CHECK-NEXT: }
  }
}

// Commands that only the first or the last execution of a segment executes.
// CHECK: kilnrt.program @first_and_last kind<train> {
kilnrt.program @first_and_last kind<train> {
  %t = kilnrt.token
  %x.slot = kilnrt.slot "x" class activation offset 0 bytes 64 lifetime [0, 6]
  %h.slot = kilnrt.slot "h" class activation in host offset 0 bytes 64 lifetime [0, 6]
  kilnrt.microbatches 2 forward {
    %x = kilnrt.view %x.slot[0] : memref<4x4xf32>
    %h = kilnrt.view %h.slot[0] : memref<4x4xf32, #kiln.memory<host>>
    // CHECK: kilnrt.fill on @compute after [@host] (wo %{{[^ ]+}}) when first{{$}}
    kilnrt.fill on @compute after [@host] (wo %x) when first
    // CHECK-NEXT: kilnrt.copy on @compute (ro %{{[^ ]+}}, wo %{{[^ ]+}}) when last {note = "of the user"}
    kilnrt.copy on @compute (ro %x, wo %x) when last {note = "of the user"}
    // CHECK-NEXT: kilnrt.gemm on @compute {{.*}} grid [1, 1] when last{{$}}
    kilnrt.gemm on @compute (ro %x, ro %x, wo %x) grid [1, 1] when last
  } backward {
    %x = kilnrt.view %x.slot[0] : memref<4x4xf32>
    %h = kilnrt.view %h.slot[0] : memref<4x4xf32, #kiln.memory<host>>
    // CHECK: kilnrt.begin copy %{{[^ ]+}} on @copy_out after [@compute] (ro %{{[^ ]+}}, wo %{{[^ ]+}}) when last{{$}}
    kilnrt.begin copy %t on @copy_out after [@compute] (ro %x, wo %h) when last
    // CHECK-NEXT: kilnrt.wait %{{[^ ]+}} on @compute and [@host] when last{{$}}
    kilnrt.wait %t on @compute and [@host] when last
    // CHECK-NEXT: kilnrt.launch @row {{.*}} group 2 when first{{$}}
    kilnrt.launch @row on @compute (ro %x, wo %x) group 2 when first
    // CHECK-NEXT: kilnrt.fill on @compute (wo %{{[^ ]+}}){{$}}
    kilnrt.fill on @compute (wo %x) when always
  }
}

// The default number of ring slots is 1, and an order may need fewer than `slots`.
// CHECK: kilnrt.program @default_slots kind<train> {
kilnrt.program @default_slots kind<train> {
  // CHECK-NEXT: kilnrt.microbatches 3 order <"alternate"> forward {
  kilnrt.microbatches 3 order <"alternate"> slots 1 forward {
  } backward {
  }
}
// CHECK: kilnrt.program @more_slots kind<train> {
kilnrt.program @more_slots kind<train> {
  // CHECK-NEXT: kilnrt.microbatches 3 slots 2 forward {
  kilnrt.microbatches 3 slots 2 forward {
  } backward {
  }
}

// An arena without host memory, and an empty one.
module {
  // CHECK: kilnrt.arena states 0 height 64{{$}}
  kilnrt.arena states 0 height 64 host states 0 height 0
}
