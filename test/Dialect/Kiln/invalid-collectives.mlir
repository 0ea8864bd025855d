// Diagnostics of collectives between ranks.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// The ranks of a mesh have named axes of more than one rank.

// expected-error @below {{has 'kiln.mesh' = {dp = 1 : i64}, but the value must be a dictionary of i64 that are larger than 1 and whose product is at most 65536, and only a module may have this attribute}}
module attributes {kiln.mesh = {dp = 1 : i64}} {}

// -----

// expected-error @below {{has 'kiln.mesh' = {dp = 65536 : i64, tp = 2 : i64}, but the value must be a dictionary of i64 that are larger than 1 and whose product is at most 65536}}
module attributes {kiln.mesh = {dp = 65536 : i64, tp = 2 : i64}} {}

// -----

// expected-error @below {{has 'kiln.mesh' = 2 : i64, but the value must be a dictionary}}
module attributes {kiln.mesh = 2 : i64} {}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{is over the axis 'tp', which the module's attribute 'kiln.mesh' does not have}}
  %s = kiln.all_reduce %x over "tp" : tensor<4xf32>
  kiln.return
}
}

// -----

kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{is over the axis 'dp', which the module's attribute 'kiln.mesh' does not have}}
  %s = kiln.all_reduce %x over "dp" : tensor<4xf32>
  kiln.return
}

// -----

// All tokens of a transfer have one wait (C1).
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>, %y: tensor<8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.collective_wait in the same block with all tokens as its operands, in order}}
  %t:2 = kiln.collective_start all_reduce %x, %y over "dp" : tensor<4xf32>, tensor<8xf32> -> tensor<4xf32>, tensor<8xf32>
  %s:2 = kiln.collective_wait %t#1, %t#0 : tensor<8xf32>, tensor<4xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have all results of one kiln.collective_start as its operands, in order}}
  %s = kiln.collective_wait %x : tensor<4xf32>
  kiln.return
}
}

// -----

// The types of operands and results are equal.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has no operand, expected at least one tensor}}
  "kiln.all_reduce"() <{axis = "dp"}> : () -> ()
  kiln.return
}
}

// -----

// A collective has one result for each operand.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>, %y: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has 2 operands and 1 results, expected one result for each operand}}
  "kiln.reduce_scatter"(%x, %y) <{axis = "dp"}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<2xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train() attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has no operand, expected at least one tensor}}
  "kiln.all_gather"() <{axis = "dp"}> : () -> ()
  kiln.return
}
}

// -----

// The axis is one of the mesh (C1).
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{is over the axis 'tp', which the module's attribute 'kiln.mesh' does not have}}
  %s = kiln.reduce_scatter %x over "tp" : tensor<4xf32> -> tensor<2xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{is over the axis 'tp'}}
  %s = kiln.all_gather %x over "tp" : tensor<4xf32> -> tensor<8xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{is over the axis 'tp'}}
  %s = kiln.take_shard %x over "tp" : tensor<4xf32> -> tensor<2xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{is over the axis 'tp'}}
  %t = kiln.collective_start all_gather %x over "tp" : tensor<4xf32> -> tensor<8xf32>
  %s = kiln.collective_wait %t : tensor<8xf32>
  kiln.return
}
}

// -----

// The shards of all ranks have at least as many elements as the tensor (C2).
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<5x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a shard of type 'tensor<19xf32>', expected the element type of 'tensor<5x8xf32>' and 20 to 40 elements}}
  %s = kiln.reduce_scatter %x over "dp" : tensor<5x8xf32> -> tensor<19xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<2x8xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a shard of type 'tensor<2x8xf32>', expected the element type of 'tensor<5x8xf32>' and 20 to 40 elements}}
  %s = kiln.all_gather %x over "dp" : tensor<2x8xf32> -> tensor<5x8xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<3xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a shard of type 'tensor<1xf32>', expected the element type of 'tensor<3xf32>'}}
  %s = kiln.take_shard %x over "dp" : tensor<3xf32> -> tensor<1xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a shard of type 'tensor<1xf32>'}}
  %t = kiln.collective_start reduce_scatter %x over "dp" : tensor<4xf32> -> tensor<1xf32>
  %s = kiln.collective_wait %t : tensor<1xf32>
  kiln.return
}
}

// -----

// A shard has no more elements than the tensor.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a shard of type 'tensor<5xf32>'}}
  %s = kiln.reduce_scatter %x over "dp" : tensor<4xf32> -> tensor<5xf32>
  kiln.return
}
}

// -----

// A shard has the element type of the tensor.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xbf16>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a shard of type 'tensor<4xbf16>', expected the element type of 'tensor<8xf32>'}}
  %s = kiln.all_gather %x over "dp" : tensor<4xbf16> -> tensor<8xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a shard of type 'tensor<2xf64>'}}
  %s = kiln.take_shard %x over "dp" : tensor<4xf32> -> tensor<2xf64>
  kiln.return
}
}

// -----

// The tokens of an all_reduce have the types of its operands.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has an operand of type 'tensor<4xf32>' and a result of type 'tensor<2xf32>', expected the same type}}
  %t = kiln.collective_start all_reduce %x over "dp" : tensor<4xf32> -> tensor<2xf32>
  %s = kiln.collective_wait %t : tensor<2xf32>
  kiln.return
}
}

// -----

// Collectives access device memory.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has a tensor of type 'tensor<8xf32, #kiln.memory<host>>', expected tensors in device memory}}
  %s = kiln.all_gather %x over "dp" : tensor<4xf32> -> tensor<8xf32, #kiln.memory<host>>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{has an operand of type 'tensor<4xf32>' and a result of type 'tensor<2xf32, #kiln.memory<host>>', expected tensors in the same memory}}
  %s = kiln.take_shard %x over "dp" : tensor<4xf32> -> tensor<2xf32, #kiln.memory<host>>
  kiln.return
}
}

// -----

// A token has one user, the wait (C1).
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4xf32>) attributes {kind = #kiln.program_kind<forward>} {
  // expected-error @below {{must have exactly one user, a kiln.collective_wait in the same block with all tokens as its operands, in order}}
  %t = kiln.collective_start all_gather %x over "dp" : tensor<4xf32> -> tensor<8xf32>
  kiln.return
}
}

// -----

// The axis of a divided state is one of the mesh (C7).
module attributes {kiln.mesh = {dp = 2 : i64}} {
// expected-error @below {{is divided over the axis 'tp', which the module's attribute 'kiln.mesh' does not have}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "tp">}
}

// -----

module {
// expected-error @below {{is divided over the axis 'dp', which the module's attribute 'kiln.mesh' does not have}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "dp">}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
// expected-error @below {{has type 'tensor<3xf32>', expected the element type of 'tensor<8xf32>' and 4 to 8 elements}}
kiln.state @w : tensor<3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "dp">}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
// expected-error @below {{has type 'tensor<9xf32>', expected the element type of 'tensor<8xf32>'}}
kiln.state @w : tensor<9xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "dp">}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
// expected-error @below {{has type 'tensor<4xbf16>', expected the element type of 'tensor<8xf32>'}}
kiln.state @w : tensor<4xbf16> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "dp">}
}

// -----

// A quantized state encodes a part of a weight, not of the codes.
module attributes {kiln.mesh = {dp = 2 : i64}} {
// expected-error @below {{has a shard of type 'tensor<8x8xf32>', expected the element type of 'tensor<68xi8>'}}
kiln.state @w : tensor<68xi8> {frozen, role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, quantized = #kiln.quantized<int8, tensor<8x8xf32>, block = 64>, shard = #kiln.shard<tensor<68xi8> over "dp">}
}

// -----

// A divided mirror has the shards of its parameter (C2).
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "dp">}
// expected-error @below {{mirrors @w, expected a parameter that has the shape of the mirror}}
kiln.state @m : tensor<5xbf16> {role = #kiln.role<mirror>, of = @w, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xbf16> over "dp">}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @w : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// expected-error @below {{mirrors @w, expected a parameter that has the shape of the mirror}}
kiln.state @m : tensor<4xbf16> {role = #kiln.role<mirror>, of = @w, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xbf16> over "dp">}
}

// -----

// A whole mirror has the shape of the whole parameter.
module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "dp">}
// expected-error @below {{mirrors @w, expected a parameter that has the shape of the mirror}}
kiln.state @m : tensor<4xbf16> {role = #kiln.role<mirror>, of = @w, init = #kiln.splat<value = 0.0>}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
// expected-error @below {{is owned by rank 2, expected a rank below 2, the size of the axis 'dp'}}
kiln.state @w : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "dp" owner = 2>}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
// expected-error @below {{has type 'tensor<4xf32>', expected 'tensor<8xf32>', because one rank owns the whole tensor}}
kiln.state @w : tensor<4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>, shard = #kiln.shard<tensor<8xf32> over "dp" owner = 1>}
}

// -----

// expected-error @below {{a tensor with an owner must have a single block and an owner of at least 0, got owner 1 and 2 blocks}}
#shard = #kiln.shard<tensor<8xf32> over "dp" blocks = 2 owner = 1>

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4x4xf32>) -> () attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{has 2 owner ranks, expected one for each tensor}}
  %s = kiln.reduce_scatter %x over "dp" owners [0, 1] : tensor<4x4xf32> -> tensor<4x4xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4x4xf32>) -> () attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{names rank 2 as the owner of a tensor, expected a rank below 2, the size of the axis 'dp'}}
  %s = kiln.all_gather %x over "dp" owners [2] : tensor<4x4xf32> -> tensor<4x4xf32>
  kiln.return
}
}

// -----

module attributes {kiln.mesh = {dp = 2 : i64}} {
kiln.program @train(%x: tensor<4x4xf32>) -> () attributes {kind = #kiln.program_kind<train>} {
  // expected-error @below {{has a shard of type 'tensor<2x4xf32>', expected 'tensor<4x4xf32>', because one rank owns the whole tensor}}
  %s = kiln.take_shard %x over "dp" owner 1 : tensor<4x4xf32> -> tensor<2x4xf32>
  kiln.return
}
}
