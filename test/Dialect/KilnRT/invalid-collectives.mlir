// What collectives between ranks reject on the scheduled level.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// Collectives are over an axis, and other transfers are not (C2).
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is a collective without 'over', the axis of its ranks}}
  kilnrt.begin all_reduce %t on @dp after [@compute] (ro %v0, wo %v0)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is over an axis, but is no collective}}
  kilnrt.begin receive over "dp" %t on @dp after [@compute] (wo %v0)
  kilnrt.wait %t on @compute
}

// -----

// An all_reduce updates places (C3).
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  // expected-error @below {{is an all_reduce that has 0 reads and 1 writes, expected at least one read, and one write to each place that is read}}
  kilnrt.begin all_reduce over "dp" %t on @dp after [@compute] (wo %v0)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[0] : memref<16xf32>
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %v1 = kilnrt.view %b[0] : memref<8xf64>
  // expected-error @below {{accesses a view of type 'memref<8xf64>', expected views in device memory that all have the same element type}}
  kilnrt.begin all_reduce over "dp" %t on @dp after [@compute] (ro %v0, ro %v1, wo %v0, wo %v1)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %a[32] : memref<8xf32>
  %v1 = kilnrt.view %a[0] : memref<9xf32>
  // expected-error @below {{has overlapping views of the slot 'a', expected disjoint views}}
  kilnrt.begin all_reduce over "dp" %t on @dp after [@compute] (ro %v0, ro %v1, wo %v0, wo %v1)
  kilnrt.wait %t on @compute
}

// -----

kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %v0 = kilnrt.view %b[0] : memref<16xi32>
  // expected-error @below {{accesses a view of type 'memref<16xi32>', expected views in device memory that all have the same element type, either i8 or a float type in which kiln computes}}
  kilnrt.begin all_reduce over "dp" %t on @dp after [@compute] (ro %v0, wo %v0)
  kilnrt.wait %t on @compute
}

// -----

// A reduce_scatter also writes the places that it reads (C4).
module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{is a reduce_scatter that has 1 reads and 1 writes, expected at least one read, one write to each place that is read, and then one write of a shard for each of them}}
  kilnrt.begin reduce_scatter over "dp" %t on @dp after [@compute] (ro %whole, wo %shard)
  kilnrt.wait %t on @compute
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{is a reduce_scatter that has 1 reads and 2 writes, expected at least one read, one write to each place that is read, and then one write of a shard for each of them}}
  kilnrt.begin reduce_scatter over "dp" %t on @dp after [@compute] (ro %whole, wo %shard, wo %whole)
  kilnrt.wait %t on @compute
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{is a reduce_scatter that has 0 reads and 1 writes}}
  kilnrt.begin reduce_scatter over "dp" %t on @dp after [@compute] (wo %shard)
  kilnrt.wait %t on @compute
}
}

// -----

// An all_gather reads a shard for each tensor that it writes (C5).
module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{is an all_gather that has 1 reads and 2 writes, expected at least one read, and one write per read}}
  kilnrt.begin all_gather over "dp" %t on @dp after [@compute] (ro %shard, wo %whole, wo %shard)
  kilnrt.wait %t on @compute
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{is an all_gather that has 0 reads and 1 writes}}
  kilnrt.begin all_gather over "dp" %t on @dp after [@compute] (wo %whole)
  kilnrt.wait %t on @compute
}
}

// -----

// The shards of all ranks have at least as many elements as the tensor.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<1x4xf32>
  // expected-error @below {{has a shard of type 'memref<1x4xf32>' of a view of type 'memref<4x4xf32>', expected the same element type and between 1/2 and all of the view's elements}}
  kilnrt.begin reduce_scatter over "dp" %t on @dp after [@compute] (ro %whole, wo %whole, wo %shard)
  kilnrt.wait %t on @compute
}
}

// -----

module attributes {kiln.mesh = {dp = 3 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<5xf32>
  // expected-error @below {{has a shard of type 'memref<5xf32>' of a view of type 'memref<4x4xf32>', expected the same element type and between 1/3 and all of the view's elements}}
  kilnrt.begin all_gather over "dp" %t on @dp after [@compute] (ro %shard, wo %whole)
  kilnrt.wait %t on @compute
}
}

// -----

// A shard has no more elements than its tensor.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<2x4xf32>
  %shard = kilnrt.view %b[0] : memref<4x4xf32>
  // expected-error @below {{has a shard of type 'memref<4x4xf32>' of a view of type 'memref<2x4xf32>'}}
  kilnrt.begin all_gather over "dp" %t on @dp after [@compute] (ro %shard, wo %whole)
  kilnrt.wait %t on @compute
}
}

// -----

// The axis is one of the mesh.
module attributes {kiln.mesh = {pp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{is over the axis 'dp', which the module's attribute 'kiln.mesh' does not have}}
  kilnrt.begin reduce_scatter over "dp" %t on @dp after [@compute] (ro %whole, wo %whole, wo %shard)
  kilnrt.wait %t on @compute
}
}

// -----

module {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{is over the axis 'dp', which the module's attribute 'kiln.mesh' does not have}}
  kilnrt.begin all_gather over "dp" %t on @dp after [@compute] (ro %shard, wo %whole)
  kilnrt.wait %t on @compute
}
}

// -----

// Every place has the same element type. Sums are of floats.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<2x4xf64>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{accesses a view of type 'memref<2x4xf32>', expected views in device memory that all have the same element type, either i8 or a float type in which kiln computes}}
  kilnrt.begin reduce_scatter over "dp" %t on @dp after [@compute] (ro %whole, wo %whole, wo %shard)
  kilnrt.wait %t on @compute
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xi32>
  %shard = kilnrt.view %b[0] : memref<2x4xi32>
  // expected-error @below {{accesses a view of type 'memref<4x4xi32>', expected views in device memory that all have the same element type, either i8 or a float type in which kiln computes}}
  kilnrt.begin reduce_scatter over "dp" %t on @dp after [@compute] (ro %whole, wo %whole, wo %shard)
  kilnrt.wait %t on @compute
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xi32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{accesses a view of type 'memref<2x4xf32>', expected views in device memory that all have the same element type}}
  kilnrt.begin all_gather over "dp" %t on @dp after [@compute] (ro %shard, wo %whole)
  kilnrt.wait %t on @compute
}
}

// -----

// Collectives access device memory.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation in host offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32, #kiln.memory<host>>
  // expected-error @below {{accesses a view of type 'memref<2x4xf32, #kiln.memory<host>>', expected views in device memory that all have the same element type}}
  kilnrt.begin all_gather over "dp" %t on @dp after [@compute] (ro %shard, wo %whole)
  kilnrt.wait %t on @compute
}
}

// -----

// No two places overlap.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %a[32] : memref<2x4xf32>
  // expected-error @below {{has overlapping views of the slot 'a', expected disjoint views}}
  kilnrt.begin reduce_scatter over "dp" %t on @dp after [@compute] (ro %whole, wo %whole, wo %shard)
  kilnrt.wait %t on @compute
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %t = kilnrt.token
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %a[0] : memref<2x4xf32>
  // expected-error @below {{has overlapping views of the slot 'a', expected disjoint views}}
  kilnrt.begin all_gather over "dp" %t on @dp after [@compute] (ro %shard, wo %whole)
  kilnrt.wait %t on @compute
}
}

// -----

// A copy over an axis copies a shard.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<1x4xf32>
  // expected-error @below {{has a shard of type 'memref<1x4xf32>' of a view of type 'memref<4x4xf32>', expected the same element type and between 1/2 and all of the view's elements}}
  kilnrt.copy over "dp" on @compute (ro %whole, wo %shard)
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<2x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf64>
  // expected-error @below {{has a shard of type 'memref<2x4xf64>' of a view of type 'memref<2x4xf32>'}}
  kilnrt.copy over "dp" on @compute (ro %whole, wo %shard)
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32>
  // expected-error @below {{is over the axis 'tp', which the module's attribute 'kiln.mesh' does not have}}
  kilnrt.copy over "tp" on @compute (ro %whole, wo %shard)
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kilnrt.queue @compute engine host
kilnrt.queue @dp engine link
kilnrt.program @train kind<train> {
  %a = kilnrt.slot "a" class activation offset 0 bytes 64 lifetime [0, 1]
  %b = kilnrt.slot "b" class activation in host offset 64 bytes 64 lifetime [0, 1]
  %whole = kilnrt.view %a[0] : memref<4x4xf32>
  %shard = kilnrt.view %b[0] : memref<2x4xf32, #kiln.memory<host>>
  // expected-error @below {{copies between device and host: use kilnrt.begin copy}}
  kilnrt.copy over "dp" on @compute (ro %whole, wo %shard)
}
}
