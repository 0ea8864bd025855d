// RUN: kiln-opt %s -split-input-file -verify-diagnostics

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  // expected-error @below {{copies within one memory; exactly one side is a host slot}}
  %t = kilnrt.copy_start %a to %b offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.wait %t
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1] {host}
  // expected-error @below {{has 2 offsets and 1 strides, expected two of each}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0] bytes 64
  kilnrt.wait %t
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1] {host}
  // expected-error @below {{needs exactly one kilnrt.wait, in the same block}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1] {host}
  // expected-error @below {{needs exactly one kilnrt.wait, in the same block}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.wait %t
  kilnrt.wait %t
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 3] {host}
  // expected-error @below {{needs exactly one kilnrt.wait, in the same block}}
  %t = kilnrt.copy_start %a to %h offsets [0, 0] strides [0, 0] bytes 64
  kilnrt.loop 2 {
    kilnrt.wait %t
  }
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  %h = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0] {host}
  // expected-error @below {{copies between device and host, which is what kilnrt.copy_start does}}
  kilnrt.copy %a to %h offsets [0, 0] strides [0, 0] bytes 64
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 0]
  // expected-error @below {{has 1 offsets and 2 strides, expected two of each}}
  kilnrt.copy %a to %a offsets [0] strides [0, 0] bytes 64
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %h = kilnrt.slot "x" class input offset 0 bytes 64 lifetime [0, 0] {host}
  // expected-error @below {{'x' has to lie in a device slot}}
  kilnrt.input "x" at %h + 0 : tensor<16xf32>
}

// -----

kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %h = kilnrt.slot "y" class output offset 0 bytes 64 lifetime [0, 0] {host}
  // expected-error @below {{'y' has to lie in a device slot}}
  kilnrt.output "y" at %h + 0 : tensor<16xf32>
}

// -----

kilnrt.program @p attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{unknown slot class 'banana'}}
  %s = kilnrt.slot "s" class banana offset 0 bytes 64 lifetime [0, 0]
}

// -----

kilnrt.kernel @k attributes {family = #kiln.family<row>, row_strides = array<i64: 4, 4>, space = array<i64: 1, 4>} {
^bb0(%x: tensor<4xf32>):
  %y = kiln.relu %x : tensor<4xf32>
  kiln.yield %y : tensor<4xf32>
}
kilnrt.program @p attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %b = kilnrt.slot "b" class output offset 64 bytes 16 lifetime [0, 0]
  // expected-error @below {{attribute 'group' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 2}}
  kilnrt.launch @k(%a, %b) offsets [0, 0] strides [0, 0] immediates [] group 1
}

// -----

kilnrt.kernel @k attributes {family = #kiln.family<row>, row_strides = array<i64: 4, 4>, space = array<i64: 1, 4>} {
^bb0(%x: tensor<4xf32>):
  %y = kiln.relu %x : tensor<4xf32>
  kiln.yield %y : tensor<4xf32>
}
kilnrt.program @p attributes {kind = #kiln.program_kind<train>} {
  %a = kilnrt.slot "a" class input offset 0 bytes 16 lifetime [0, 0]
  %b = kilnrt.slot "b" class output offset 64 bytes 16 lifetime [0, 0]
  // expected-error @below {{invalid properties}}
  "kilnrt.launch"(%a, %b) <{kernel = @k, offsets = array<i64: 0, 0>, strides = array<i64: 0, 0>, immediates = array<i64>, operandSegmentSizes = array<i32: 2, 0>, group = "banana"}> : (!kilnrt.slot, !kilnrt.slot) -> ()
}
