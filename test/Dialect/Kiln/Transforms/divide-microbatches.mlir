// RUN: kiln-opt %s --kiln-divide-microbatches -split-input-file | FileCheck %s
// RUN: kiln-opt %s --kiln-divide-microbatches --kiln-divide-microbatches -split-input-file | FileCheck %s

// The backward segment begins with the op that reads the loss scale. Values of
// the forward segment that it reads are residuals, in the order in which they are
// first read. Parts of a micro-batch and values from outside are not residuals.
// CHECK-LABEL: kiln.program @loss
// CHECK-SAME: (%[[X:.+]]: tensor<8x4xf32> {{.*}}, %[[W:.+]]: tensor<4x4xf32> {{.*}}, %[[SCALE:.+]]: tensor<f64>
// CHECK: kiln.microbatches sliced(%[[X]]) count 2 order <"all-forward-first"> : (tensor<8x4xf32>) -> tensor<4x4xf32> forward {
// CHECK-NEXT: ^bb0(%[[PART:.+]]: tensor<4x4xf32>):
// CHECK-NEXT: %[[A:.+]] = kiln.relu %[[PART]]
// CHECK-NEXT: %[[B:.+]] = kiln.exp %[[A]]
// CHECK-NEXT: %[[C:.+]] = kiln.tanh %[[B]]
// CHECK-NEXT: kiln.yield %[[B]], %[[A]] : tensor<4x4xf32>, tensor<4x4xf32>
// CHECK-NEXT: } backward {
// CHECK-NEXT: ^bb0(%[[PART:.+]]: tensor<4x4xf32>, %[[B:.+]]: tensor<4x4xf32>, %[[A:.+]]: tensor<4x4xf32>, %[[SUM:.+]]: tensor<4x4xf32>):
// CHECK-NEXT: %[[S:.+]] = kiln.cast %[[SCALE]]
// CHECK-NEXT: %[[D:.+]] = kiln.mul %[[B]], %[[PART]]
// CHECK-NEXT: %[[E:.+]] = kiln.matmul %[[D]], %[[W]]
// CHECK-NEXT: %[[F:.+]] = kiln.mul %[[E]], %[[A]]
// CHECK-NEXT: %[[G:.+]] = kiln.add %[[SUM]], %[[F]]
// CHECK-NEXT: kiln.yield %[[G]] : tensor<4x4xf32>
// CHECK-NEXT: }
kiln.program @loss(%x: tensor<8x4xf32> {kiln.name = "x"}, %w: tensor<4x4xf32> {kiln.name = "w"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 2 order <"all-forward-first"> : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %a = kiln.relu %part : tensor<4x4xf32>
    %b = kiln.exp %a : tensor<4x4xf32>
    %c = kiln.tanh %b : tensor<4x4xf32>
    %t = kiln.cast %scale : tensor<f64> to tensor<f32>
    %d = kiln.mul %b, %part : tensor<4x4xf32>
    %e = kiln.matmul %d, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %f = kiln.mul %e, %a : tensor<4x4xf32>
    %g = kiln.add %sum, %f : tensor<4x4xf32>
    kiln.yield %g : tensor<4x4xf32>
  }
  kiln.return %s : tensor<4x4xf32>
}

// -----

// The backward segment begins with the GEMM that computes the logits, if the loss
// is the next command. The loss may read a view of the logits.
// CHECK-LABEL: kiln.program @logits
// CHECK: forward {
// CHECK-NEXT: ^bb0(
// CHECK-NEXT: %[[A:.+]] = kiln.relu
// CHECK-NEXT: kiln.yield %[[A]] : tensor<4x4xf32>
// CHECK-NEXT: } backward {
// CHECK-NEXT: ^bb0(%{{.+}}: tensor<4x4xf32>, %[[A:.+]]: tensor<4x4xf32>, %{{.+}}: tensor<16xf32>):
// CHECK-NEXT: %[[L:.+]] = kiln.matmul %[[A]], %[[A]]
// CHECK-NEXT: %[[V:.+]] = kiln.reshape %[[L]]
// CHECK-NEXT: kiln.dispatch row(%[[V]], %{{.+}})
kiln.program @logits(%x: tensor<8x4xf32> {kiln.name = "x"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<16xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<16xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<16xf32>):
    %a = kiln.relu %part : tensor<4x4xf32>
    %l = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %v = kiln.reshape %l : tensor<4x4xf32> to tensor<16xf32>
    %d = kiln.dispatch row(%v, %scale) space [1, 16] : (tensor<16xf32>, tensor<f64>) -> tensor<16xf32> {
    ^bb0(%p: tensor<16xf32>, %q: tensor<f64>):
      %y = kiln.relu %p : tensor<16xf32>
      kiln.yield %y : tensor<16xf32>
    }
    %g = kiln.add %sum, %d : tensor<16xf32>
    kiln.yield %g : tensor<16xf32>
  }
  kiln.return %s : tensor<16xf32>
}

// -----

// A GEMM whose result the loss does not read stays in the forward segment, and so
// does a GEMM with another command between it and the loss.
// CHECK-LABEL: kiln.program @other_gemms
// CHECK: forward {
// CHECK: kiln.matmul
// CHECK: kiln.dispatch row
// CHECK: kiln.matmul
// CHECK: } backward {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: kiln.dispatch row
// CHECK-NOT: kiln.matmul
kiln.program @other_gemms(%x: tensor<8x4xf32> {kiln.name = "x"}, %scale: tensor<f64> {kiln.name = "loss_scale"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %l = kiln.matmul %part, %part {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %a = kiln.dispatch row(%l) space [4, 4] : (tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%p: tensor<4x4xf32>):
      %y = kiln.relu %p : tensor<4x4xf32>
      kiln.yield %y : tensor<4x4xf32>
    }
    %m = kiln.matmul %a, %part {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d = kiln.dispatch row(%l, %scale) space [4, 4] : (tensor<4x4xf32>, tensor<f64>) -> tensor<4x4xf32> {
    ^bb0(%p: tensor<4x4xf32>, %q: tensor<f64>):
      %y = kiln.relu %p : tensor<4x4xf32>
      kiln.yield %y : tensor<4x4xf32>
    }
    %f = kiln.mul %d, %m : tensor<4x4xf32>
    %g = kiln.add %sum, %f : tensor<4x4xf32>
    kiln.yield %g : tensor<4x4xf32>
  }
  kiln.return %s : tensor<4x4xf32>
}

// -----

// Without a loss scale, the backward segment begins with the first reader of a sum.
// CHECK-LABEL: kiln.program @sums
// CHECK: forward {
// CHECK: kiln.relu
// CHECK-NEXT: %[[B:.+]] = kiln.exp
// CHECK-NEXT: kiln.yield %[[B]]
// CHECK-NEXT: } backward {
// CHECK-NEXT: ^bb0(%{{.+}}: tensor<4x4xf32>, %[[B:.+]]: tensor<4x4xf32>, %[[FIRST:.+]]: tensor<4x4xf32>, %[[SECOND:.+]]: tensor<4x4xf32>):
// CHECK-NEXT: kiln.add %[[SECOND]], %[[B]]
// CHECK-NEXT: kiln.tanh
// CHECK-NEXT: kiln.add %[[FIRST]]
// CHECK-NEXT: kiln.yield
kiln.program @sums(%x: tensor<8x4xf32> {kiln.name = "x"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s:2 = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%part: tensor<4x4xf32>, %first: tensor<4x4xf32>, %second: tensor<4x4xf32>):
    %a = kiln.relu %part : tensor<4x4xf32>
    %b = kiln.exp %a : tensor<4x4xf32>
    %c = kiln.add %second, %b : tensor<4x4xf32>
    %d = kiln.tanh %b : tensor<4x4xf32>
    %e = kiln.add %first, %d : tensor<4x4xf32>
    kiln.yield %e, %c : tensor<4x4xf32>, tensor<4x4xf32>
  }
  kiln.return %s#0 : tensor<4x4xf32>
}

// -----

// If no op reads a sum or the loss scale, the backward segment only yields.
// CHECK-LABEL: kiln.program @no_reader
// CHECK: forward {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: %[[A:.+]] = kiln.relu
// CHECK-NEXT: kiln.yield %[[A]]
// CHECK-NEXT: } backward {
// CHECK-NEXT: ^bb0(%{{.+}}: tensor<4x4xf32>, %[[A:.+]]: tensor<4x4xf32>, %{{.+}}: tensor<4x4xf32>):
// CHECK-NEXT: kiln.yield %[[A]]
kiln.program @no_reader(%x: tensor<8x4xf32> {kiln.name = "x"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %a = kiln.relu %part : tensor<4x4xf32>
    kiln.yield %a : tensor<4x4xf32>
  }
  kiln.return %s : tensor<4x4xf32>
}

// -----

// A residual is a whole buffer: views of it, of a part and of a value from outside
// are computed again. A residual with several views is yielded once.
// CHECK-LABEL: kiln.program @views
// CHECK: %[[OUT:.+]] = kiln.exp
// CHECK: forward {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: %[[A:.+]] = kiln.relu
// CHECK-NEXT: kiln.reshape
// CHECK-NEXT: kiln.slice
// CHECK-NEXT: kiln.slice
// CHECK-NEXT: kiln.reshape
// CHECK-NEXT: kiln.slice
// CHECK-NEXT: kiln.yield %[[A]] : tensor<4x4xf32>
// CHECK-NEXT: } backward {
// CHECK-NEXT: ^bb0(%[[PART:.+]]: tensor<4x4xf32>, %[[A:.+]]: tensor<4x4xf32>, %[[SUM:.+]]: tensor<4xf32>):
// CHECK-NEXT: %[[B:.+]] = kiln.reshape %[[A]] : tensor<4x4xf32> to tensor<16xf32>
// CHECK-NEXT: %[[C:.+]] = kiln.slice %[[B]] [4] : tensor<16xf32> to tensor<4xf32>
// CHECK-NEXT: %[[D:.+]] = kiln.slice %[[B]] [8] : tensor<16xf32> to tensor<4xf32>
// CHECK-NEXT: %[[E:.+]] = kiln.reshape %[[PART]] : tensor<4x4xf32> to tensor<16xf32>
// CHECK-NEXT: %[[F:.+]] = kiln.slice %[[OUT]] [0] : tensor<16xf32> to tensor<4xf32>
// CHECK-NEXT: kiln.add %[[SUM]], %[[C]]
// CHECK-NEXT: kiln.add %{{.+}}, %[[D]]
// CHECK-NEXT: kiln.reduce sum %[[E]]
// CHECK-NEXT: kiln.mul %{{.+}}, %[[F]]
// CHECK-NEXT: kiln.yield
kiln.program @views(%x: tensor<8x4xf32> {kiln.name = "x"}, %o: tensor<16xf32> {kiln.name = "o"}) -> (tensor<4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %out = kiln.exp %o : tensor<16xf32>
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4xf32>):
    %a = kiln.relu %part : tensor<4x4xf32>
    %b = kiln.reshape %a : tensor<4x4xf32> to tensor<16xf32>
    %c = kiln.slice %b [4] : tensor<16xf32> to tensor<4xf32>
    %d = kiln.slice %b [8] : tensor<16xf32> to tensor<4xf32>
    %e = kiln.reshape %part : tensor<4x4xf32> to tensor<16xf32>
    %f = kiln.slice %out [0] : tensor<16xf32> to tensor<4xf32>
    %g = kiln.add %sum, %c : tensor<4xf32>
    %h = kiln.add %g, %d : tensor<4xf32>
    %i = kiln.reduce sum %e dims [0] : tensor<16xf32> to tensor<f32>
    %j = kiln.mul %h, %f : tensor<4xf32>
    kiln.yield %j : tensor<4xf32>
  }
  kiln.return %s : tensor<4xf32>
}

// -----

// A copy that begins in the forward segment and is awaited in the backward segment:
// its token and its source are residuals.
// CHECK-LABEL: kiln.program @copies
// CHECK: forward {
// CHECK: %[[A:.+]] = kiln.relu
// CHECK-NEXT: %[[T:.+]] = kiln.copy_out %[[A]]
// CHECK-NEXT: kiln.yield %[[T]], %[[A]] : tensor<4x4xf32, #kiln.memory<host>>, tensor<4x4xf32>
// CHECK-NEXT: } backward {
// CHECK-NEXT: ^bb0(%{{.+}}: tensor<4x4xf32>, %[[T:.+]]: tensor<4x4xf32, #kiln.memory<host>>, %[[A:.+]]: tensor<4x4xf32>, %{{.+}}: tensor<4x4xf32>):
// CHECK-NEXT: kiln.add
// CHECK-NEXT: %[[H:.+]] = kiln.copy_wait %[[T]], %[[A]]
// CHECK-NEXT: %[[U:.+]] = kiln.copy_in %[[H]]
// CHECK-NEXT: kiln.copy_wait %[[U]], %[[H]]
kiln.program @copies(%x: tensor<8x4xf32> {kiln.name = "x"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %a = kiln.relu %part : tensor<4x4xf32>
    %t = kiln.copy_out %a : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %b = kiln.add %sum, %part : tensor<4x4xf32>
    %h = kiln.copy_wait %t, %a : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %u = kiln.copy_in %h : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
    %c = kiln.copy_wait %u, %h : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
    %d = kiln.add %b, %c : tensor<4x4xf32>
    kiln.yield %d : tensor<4x4xf32>
  }
  kiln.return %s : tensor<4x4xf32>
}

// -----

// The source of such a copy may be a part of the micro-batch or a view.
// CHECK-LABEL: kiln.program @copied_views
// CHECK: forward {
// CHECK-NEXT: ^bb0(%[[PART:.+]]: tensor<4x4xf32>):
// CHECK-NEXT: %[[V:.+]] = kiln.reshape %[[PART]]
// CHECK-NEXT: %[[T:.+]] = kiln.copy_out %[[PART]]
// CHECK-NEXT: %[[U:.+]] = kiln.copy_out %[[V]]
// CHECK-NEXT: kiln.yield %[[T]], %[[U]]
// CHECK-NEXT: } backward {
// CHECK-NEXT: ^bb0(%[[PART:.+]]: tensor<4x4xf32>, %[[T:.+]]: tensor<4x4xf32, #kiln.memory<host>>, %[[U:.+]]: tensor<16xf32, #kiln.memory<host>>, %{{.+}}: tensor<4x4xf32>):
// CHECK-NEXT: %[[V:.+]] = kiln.reshape %[[PART]]
// CHECK-NEXT: kiln.add
// CHECK-NEXT: kiln.copy_wait %[[T]], %[[PART]]
// CHECK-NEXT: kiln.copy_wait %[[U]], %[[V]]
kiln.program @copied_views(%x: tensor<8x4xf32> {kiln.name = "x"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %v = kiln.reshape %part : tensor<4x4xf32> to tensor<16xf32>
    %t = kiln.copy_out %part : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %u = kiln.copy_out %v : tensor<16xf32> to tensor<16xf32, #kiln.memory<host>>
    %b = kiln.add %sum, %part : tensor<4x4xf32>
    %h = kiln.copy_wait %t, %part : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
    %i = kiln.copy_wait %u, %v : tensor<16xf32> to tensor<16xf32, #kiln.memory<host>>
    kiln.yield %b : tensor<4x4xf32>
  }
  kiln.return %s : tensor<4x4xf32>
}
