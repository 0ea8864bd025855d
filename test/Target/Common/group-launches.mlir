// RUN: kiln-opt %s --kiln-group-launches -split-input-file | FileCheck %s
// RUN: kiln-opt %s --kiln-group-launches --kiln-group-launches -split-input-file | FileCheck %s

// Independent launches of one kernel become adjacent, and the first one has the
// size of their group. The lifetimes of slots follow the new order.
// CHECK-LABEL: module attributes {kiln.target = "cuda"}
// CHECK-DAG: [[C:%.+]] = kilnrt.slot "c" {{.*}} lifetime [2, 2]
// CHECK-DAG: [[E:%.+]] = kilnrt.slot "e" {{.*}} lifetime [1, 1]
// CHECK: [[CV:%.+]] = kilnrt.view [[C]][0]
// CHECK: [[EV:%.+]] = kilnrt.view [[E]][0]
// CHECK: kilnrt.launch @neg on @compute ({{.*}}) group 2{{$}}
// CHECK-NEXT: kilnrt.launch @neg on @compute (ro [[EV]],
// CHECK-NEXT: kilnrt.launch @exp on @compute (ro [[CV]],
module attributes {kiln.target = "cuda"} {
kilnrt.kernel @neg family<row> space [1, 16] row_strides [16, 16] {
^bb0(%x: tensor<16xf32>):
  %y = kiln.neg %x : tensor<16xf32>
  kiln.yield %y : tensor<16xf32>
}
kilnrt.kernel @exp family<row> space [1, 16] row_strides [16, 16] {
^bb0(%x: tensor<16xf32>):
  %y = kiln.exp %x : tensor<16xf32>
  kiln.yield %y : tensor<16xf32>
}
kilnrt.queue @compute engine device
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 0]
  %c = kilnrt.slot "c" class activation offset 128 bytes 64 lifetime [1, 1]
  %d = kilnrt.slot "d" class activation offset 192 bytes 64 lifetime [1, 1]
  %e = kilnrt.slot "e" class activation offset 256 bytes 64 lifetime [2, 2]
  %f = kilnrt.slot "f" class activation offset 320 bytes 64 lifetime [2, 2]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.launch @neg on @compute (ro %v0, wo %v1)
  %v2 = kilnrt.view %c[0] : memref<16xf32>
  %v3 = kilnrt.view %d[0] : memref<16xf32>
  kilnrt.launch @exp on @compute (ro %v2, wo %v3)
  %v4 = kilnrt.view %e[0] : memref<16xf32>
  %v5 = kilnrt.view %f[0] : memref<16xf32>
  kilnrt.launch @neg on @compute (ro %v4, wo %v5)
}
}

// -----

// Launches on different queues are not grouped.
// CHECK-LABEL: kilnrt.program @two_queues
// CHECK-NOT: group
module attributes {kiln.target = "cuda"} {
kilnrt.kernel @neg family<row> space [1, 16] row_strides [16, 16] {
^bb0(%x: tensor<16xf32>):
  %y = kiln.neg %x : tensor<16xf32>
  kiln.yield %y : tensor<16xf32>
}
kilnrt.queue @compute engine device
kilnrt.queue @other engine device
kilnrt.program @two_queues kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 0]
  %c = kilnrt.slot "c" class activation offset 128 bytes 64 lifetime [1, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  %v2 = kilnrt.view %c[0] : memref<16xf32>
  kilnrt.launch @neg on @compute (ro %v0, wo %v1)
  kilnrt.launch @neg on @other (ro %v0, wo %v2)
}
}

// -----

// Launches are not grouped on a CPU, which starts kernels immediately.
// CHECK-LABEL: module {
// CHECK: kilnrt.launch @neg
// CHECK-NOT: group
module {
kilnrt.kernel @neg family<row> space [1, 16] row_strides [16, 16] {
^bb0(%x: tensor<16xf32>):
  %y = kiln.neg %x : tensor<16xf32>
  kiln.yield %y : tensor<16xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %c = kilnrt.slot "c" class activation offset 128 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  kilnrt.launch @neg on @compute (ro %v0, wo %v1)
  %v2 = kilnrt.view %c[0] : memref<16xf32>
  kilnrt.launch @neg on @compute (ro %v0, wo %v2)
}
}
