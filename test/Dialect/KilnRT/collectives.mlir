// Collectives of all kinds, and copies of shards.

// RUN: kiln-opt %s -o %t && FileCheck %s < %t
// RUN: kiln-opt %t | diff %t -
// RUN: kiln-opt %s --mlir-print-op-generic | kiln-opt | diff %t -
// RUN: kiln-opt %s --emit-bytecode | kiln-opt | diff %t -

module attributes {kiln.mesh = {dp = 3 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link

// CHECK-LABEL: kilnrt.program @train
kilnrt.program @train kind<train> {
  // CHECK: [[T:%.+]] = kilnrt.token
  %t = kilnrt.token
  %a.slot = kilnrt.slot "a" class parameter offset 0 bytes 160 lifetime [0, 7]
  %b.slot = kilnrt.slot "b" class activation offset 192 bytes 64 lifetime [0, 7]
  %c.slot = kilnrt.slot "c" class activation offset 256 bytes 64 lifetime [0, 7]
  %i.slot = kilnrt.slot "i" class parameter offset 320 bytes 128 lifetime [0, 7]
  // CHECK: [[A:%.+]] = kilnrt.view {{.*}} : memref<5x8xf32>
  %a = kilnrt.view %a.slot[0] : memref<5x8xf32>
  // CHECK: [[B:%.+]] = kilnrt.view {{.*}} : memref<14xf32>
  %b = kilnrt.view %b.slot[0] : memref<14xf32>
  // CHECK: [[C:%.+]] = kilnrt.view {{.*}} : memref<4xf32>
  %c = kilnrt.view %c.slot[0] : memref<4xf32>
  // CHECK: [[D:%.+]] = kilnrt.view {{.*}} : memref<2xf32>
  %d = kilnrt.view %c.slot[16] : memref<2xf32>
  // CHECK: [[I:%.+]] = kilnrt.view {{.*}} : memref<4x16xi8>
  %i = kilnrt.view %i.slot[0] : memref<4x16xi8>
  // CHECK: [[J:%.+]] = kilnrt.view {{.*}} : memref<2x16xi8>
  %j = kilnrt.view %i.slot[64] : memref<2x16xi8>

  // CHECK: kilnrt.begin reduce_scatter over "dp" [[T]] on @dp after [@compute] (ro [[A]], ro [[C]], wo [[A]], wo [[C]], wo [[B]], wo [[D]]){{$}}
  kilnrt.begin reduce_scatter over "dp" %t on @dp after [@compute] (ro %a, ro %c, wo %a, wo %c, wo %b, wo %d)
  kilnrt.wait %t on @compute
  // The shards of all ranks may have more elements than the tensor.
  // CHECK: kilnrt.begin all_gather over "dp" [[T]] on @dp after [@compute] (ro [[B]], ro [[D]], wo [[A]], wo [[C]]){{$}}
  kilnrt.begin all_gather over "dp" %t on @dp after [@compute] (ro %b, ro %d, wo %a, wo %c)
  kilnrt.wait %t on @compute
  // An all_gather moves elements of any type.
  // CHECK: kilnrt.begin all_gather over "dp" [[T]] on @dp (ro [[J]], wo [[I]]){{$}}
  kilnrt.begin all_gather over "dp" %t on @dp (ro %j, wo %i)
  kilnrt.wait %t on @compute
  // Rank 2 alone has the memory of a tensor that it owns.
  // CHECK: kilnrt.slot "o" class gradient offset 448 bytes 16 lifetime [0, 7] owner 2
  %o.slot = kilnrt.slot "o" class gradient offset 448 bytes 16 lifetime [0, 7] owner 2
  // CHECK: [[O:%.+]] = kilnrt.view {{.*}} : memref<4xf32>
  %o = kilnrt.view %o.slot[0] : memref<4xf32>
  // CHECK: kilnrt.begin reduce_scatter over "dp" owners [2] [[T]] on @dp (ro [[C]], wo [[C]], wo [[O]]){{$}}
  kilnrt.begin reduce_scatter over "dp" owners [2] %t on @dp (ro %c, wo %c, wo %o)
  kilnrt.wait %t on @compute
  // CHECK: kilnrt.copy over "dp" on @compute (ro [[A]], wo [[B]]){{$}}
  kilnrt.copy over "dp" on @compute (ro %a, wo %b)
}
}
