// What is copied between device and host, printed as it was written.

// RUN: kiln-opt %s -o %t && FileCheck %s < %t
// RUN: kiln-opt %t | diff %t -
// RUN: kiln-opt %s --mlir-print-op-generic | kiln-opt | diff %t -
// RUN: kiln-opt %s --emit-bytecode | kiln-opt | diff %t -

// CHECK: kilnrt.arena states 0 height 128 {host_height = 64 : i64}
kilnrt.arena states 0 height 128 host states 0 height 64

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.queue @copy_in engine link
// CHECK-LABEL: kilnrt.program @train
kilnrt.program @train kind<train> {
  %u = kilnrt.token
  %t = kilnrt.token
  // CHECK: [[A:%.+]] = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime{{ ?}}[0, 1]{{$}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  // CHECK: [[H:%.+]] = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime{{ ?}}[0, 4] {host}
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 4]
  // CHECK: [[B:%.+]] = kilnrt.slot "b"
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [2, 4]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // CHECK: [[T:%.+]] = kilnrt.copy_start [[A]] to [[H]] offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  // CHECK: kilnrt.wait [[T]]
  kilnrt.wait %t on @compute
  // CHECK: kilnrt.loop 2
  kilnrt.loop 2 {
    %v2 = kilnrt.view %h[0 + 32 * iteration] : memref<8xf32, #kiln.memory<host>>
    %v3 = kilnrt.view %b[0 + 32 * iteration] : memref<8xf32>
    // CHECK: [[U:%.+]] = kilnrt.copy_start [[H]] to [[B]] offsets [0, 0] strides [32, 32] bytes 32
    kilnrt.begin copy %u on @copy_in after [@compute] (ro %v2, wo %v3)
    // CHECK: kilnrt.wait [[U]]
    kilnrt.wait %u on @compute
  }
}
