// What is copied between device and host, printed as it was written.

// RUN: kiln-opt %s -o %t && FileCheck %s < %t
// RUN: kiln-opt %t | diff %t -
// RUN: kiln-opt %s --mlir-print-op-generic | kiln-opt | diff %t -
// RUN: kiln-opt %s --emit-bytecode | kiln-opt | diff %t -

// CHECK: kilnrt.arena states 0 height 128 {host_height = 64 : i64}
kilnrt.arena states 0 height 128 {host_height = 64}

// CHECK-LABEL: kilnrt.program @train
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  // CHECK: [[A:%.+]] = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime{{ ?}}[0, 1]{{$}}
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  // CHECK: [[H:%.+]] = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime{{ ?}}[0, 4] {host}
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 4] {host}
  // CHECK: [[B:%.+]] = kilnrt.slot "b"
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [2, 4]
  // CHECK: [[T:%.+]] = kilnrt.copy_start [[A]] to [[H]] offsets [0, 0] strides [0, 0] bytes 64
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  // CHECK: kilnrt.wait [[T]]
  kilnrt.wait %t
  // CHECK: kilnrt.loop 2
  kilnrt.loop 2 {
    // CHECK: [[U:%.+]] = kilnrt.copy_start [[H]] to [[B]] offsets [0, 0] strides [32, 32] bytes 32
    %u = kilnrt.copy_start %h to %b offsets [0, 0] strides [32, 32] bytes 32
    // CHECK: kilnrt.wait [[U]]
    kilnrt.wait %u
  }
}
