// A trace is for one rank, so programs with collectives or copies of shards are rejected.

// RUN: split-file %s %t
// RUN: %python -c "import struct; open(r'%t/trace', 'wb').write(b'KILNOPS1' + struct.pack('<Q5sQ64x4Q16xQ', 5, b'train', 64, 0, 0, 1, 0, 2**64 - 1))"
// RUN: not kiln-run %t/collective.mlir --check-trace=%t/trace 2>&1 | FileCheck %s
// RUN: not kiln-run %t/shard.mlir --check-trace=%t/trace 2>&1 | FileCheck %s
// CHECK: error: --check-trace: the program 'train' is for several ranks, but a trace is for one rank; compile the module and the executable without --mesh

//--- collective.mlir
module attributes {kiln.mesh = {dp = 2 : i64}} {
  kilnrt.arena states 0 height 64
  kilnrt.queue @compute engine host
  kilnrt.queue @dp engine link
  kilnrt.program @train kind<train> {
    %t = kilnrt.token
    %x.slot = kilnrt.slot "x" class gradient offset 0 bytes 16 lifetime [0, 1]
    %x = kilnrt.view %x.slot[0] : memref<4xf32>
    kilnrt.begin all_reduce over "dp" %t on @dp after [@compute] (ro %x, wo %x)
    kilnrt.wait %t on @compute
  }
}

//--- shard.mlir
module attributes {kiln.mesh = {dp = 2 : i64}} {
  kilnrt.arena states 0 height 64
  kilnrt.queue @compute engine host
  kilnrt.program @train kind<train> {
    %x.slot = kilnrt.slot "x" class gradient offset 0 bytes 16 lifetime [0, 0]
    %y.slot = kilnrt.slot "y" class gradient offset 16 bytes 8 lifetime [0, 0]
    %x = kilnrt.view %x.slot[0] : memref<4xf32>
    %y = kilnrt.view %y.slot[0] : memref<2xf32>
    kilnrt.copy over "dp" on @compute (ro %x, wo %y)
  }
}
