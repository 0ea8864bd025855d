// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kilnrt.queue @compute engine host
kilnrt.queue @copy_in engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %b[0] : memref<16xf32>
  // expected-error @below {{copies within one memory; exactly one side is a host slot}}
  kilnrt.begin copy %t on @copy_in after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1]
  // expected-error @below {{has 2 offsets and 1 strides, expected two of each}}
XXX   %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0] bytes 64
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{needs exactly one kilnrt.wait, in the same block}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{needs exactly one kilnrt.wait, in the same block}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.wait %t on @compute
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @copy_out engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 3]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{needs exactly one kilnrt.wait, in the same block}}
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v0, wo %v1)
  kilnrt.loop 2 {
    kilnrt.wait %t on @compute
  }
}

// -----

kilnrt.queue @compute engine host
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %h = kilnrt.slot "a" class activation in host offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %v1 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{copies between device and host, which is what kilnrt.copy_start does}}
  kilnrt.copy on @compute (ro %v0, wo %v1)
}

// -----

kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{has 1 offsets and 2 strides, expected two of each}}
XXX   kilnrt.copy %a to %a offsets [0] strides [0, 0] bytes 64
}

// -----

kilnrt.program @train kind<train> {
  %h = kilnrt.slot "x" class input in host offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{'x' has to lie in a device slot}}
  kilnrt.input "x" at %v0
}

// -----

kilnrt.program @train kind<train> {
  %h = kilnrt.slot "y" class output in host offset 0 bytes 64 lifetime [0, 0]
  %v0 = kilnrt.view %h[0] : memref<16xf32, #kiln.memory<host>>
  // expected-error @below {{'y' has to lie in a device slot}}
  kilnrt.output "y" at %v0
}

// -----

kilnrt.program @p kind<train> {
  // expected-error @below {{unknown slot class 'banana'}}
  %s = kilnrt.slot "s" class banana offset 0 bytes 64 lifetime [0, 0]
}

// -----

kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 4] {
^bb0(%x: tensor<4xf32>):
  %y = kiln.relu %x : tensor<4xf32>
  kiln.yield %y : tensor<4xf32>
}
kilnrt.queue @compute engine host
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %b = kilnrt.slot "b" class output offset 64 bytes 16 lifetime [0, 0]
  %v0 = kilnrt.view %a[0] : memref<4xf32>
  %v1 = kilnrt.view %b[0] : memref<4xf32>
  // expected-error @below {{attribute 'group' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 2}}
  kilnrt.launch @k on @compute (ro %v0, wo %v1) group 1
}

// -----

kilnrt.kernel @k family<row> space [1, 4] row_strides [4, 4] {
^bb0(%x: tensor<4xf32>):
  %y = kiln.relu %x : tensor<4xf32>
  kiln.yield %y : tensor<4xf32>
}
kilnrt.program @p kind<train> {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %b = kilnrt.slot "b" class output offset 64 bytes 16 lifetime [0, 0]
  // expected-error @below {{invalid properties}}
XXX   "kilnrt.launch"(%a, %b) <{kernel = @k, offsets = array<i64: 0, 0>, strides = array<i64: 0, 0>, immediates = array<i64>, operandSegmentSizes = array<i32: 2, 0>, group = "banana"}> : (!kilnrt.slot, !kilnrt.slot) -> ()
}
