// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-verify-stages

// A value goes to the next stage and waits in the slot of its own; a joined program is its program for another micro-batch.
module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
    func.func @forward() attributes {nn.program = #nn.program<forward>} {
      %h = nn.constant dense<1.0> : tensor<4xf32>
      dist.send %h "h" to [#dist.peer<stage = 1, channel = 0>] : tensor<4xf32>
      return
    }
    func.func @weights() attributes {nn.program = #nn.program<weights>} {
      %h = dist.take "h" : tensor<4xf32>
      dist.keep %h "p" : tensor<4xf32>
      return
    }
    func.func @"weights+update"() attributes {nn.program = #nn.program<weights, updates = true>} {
      %h = dist.take "h" : tensor<4xf32>
      dist.keep %h "p" : tensor<4xf32>
      return
    }
  }
  module @stage_1 attributes {dist.stage = #dist.stage<index = 1, count = 2, slots = 1>} {
    func.func @forward() attributes {nn.program = #nn.program<forward>} {
      %h = dist.receive "h" from <stage = 0, channel = 0> : tensor<4xf32>
      return
    }
  }
}

// -----

module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
  }
  module @stage_1 attributes {dist.stage = #dist.stage<index = 1, count = 2, slots = 1>} {
    func.func @forward() {
      // expected-error @+1 {{'dist.receive' op of stage 1, "forward", receives "h" on channel 3 from stage 0, which sends nothing there; add a dist.send or take it out}}
      %h = dist.receive "h" from <stage = 0, channel = 3> : tensor<4xf32>
      return
    }
  }
}

// -----

module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
    func.func @forward(%h: tensor<4xf32>) {
      // expected-error @+1 {{'dist.send' op of stage 0, "forward", sends "h" on channel 1 to stage 1, which receives nothing there; add a dist.receive or take it out}}
      dist.send %h "h" to [#dist.peer<stage = 1, channel = 1>] : tensor<4xf32>
      return
    }
  }
  module @stage_1 attributes {dist.stage = #dist.stage<index = 1, count = 2, slots = 1>} {
  }
}

// -----

module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
    func.func @forward(%h: tensor<4xf32>) {
      dist.send %h "h" to [#dist.peer<stage = 1, channel = 0>] : tensor<4xf32>
      return
    }
  }
  module @stage_1 attributes {dist.stage = #dist.stage<index = 1, count = 2, slots = 1>} {
    func.func @forward() {
      // expected-error @+1 {{'dist.receive' op of stage 1, "forward", receives "h" as 'tensor<8xf32>', but stage 0, "forward", sends 'tensor<4xf32>'; receive it with that type}}
      %h = dist.receive "h" from <stage = 0, channel = 0> : tensor<8xf32>
      return
    }
  }
}

// -----

module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
    func.func @forward(%h: tensor<4xf32>) {
      dist.send %h "h" to [#dist.peer<stage = 1, channel = 0>] : tensor<4xf32>
      return
    }
    func.func @backward(%d: tensor<4xf32>) {
      // expected-error @+1 {{'dist.send' op of stage 0, "backward", has "d" on channel 0, which "forward" has for "h"; give it a channel of its own}}
      dist.send %d "d" to [#dist.peer<stage = 1, channel = 0>] : tensor<4xf32>
      return
    }
  }
}

// -----

module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
    func.func @forward(%h: tensor<4xf32>) {
      // expected-error @+1 {{'dist.send' op of stage 0, "forward", has "h" from or for stage 2, but there are 2 stages, and a message goes to another one; use dist.keep within a stage}}
      dist.send %h "h" to [#dist.peer<stage = 2, channel = 0>] : tensor<4xf32>
      return
    }
  }
}

// -----

module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
    func.func @forward() {
      // expected-error @+1 {{'dist.receive' op of stage 0, "forward", has "h" from or for stage 0, but there are 2 stages}}
      %h = dist.receive "h" from <stage = 0, channel = 0> : tensor<4xf32>
      return
    }
  }
}

// -----

module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
    func.func @forward(%h: tensor<4xf32>) attributes {nn.program = #nn.program<forward>} {
      dist.keep %h "h" : tensor<4xf32>
      return
    }
    func.func @backward(%h: tensor<4xf32>) attributes {nn.program = #nn.program<backward>} {
      // expected-error @+1 {{'dist.keep' op of stage 0, "backward", puts "h" into the slot, as "forward" does; give it a name of its own}}
      dist.keep %h "h" : tensor<4xf32>
      return
    }
  }
}

// -----

module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
    func.func @backward() {
      // expected-error @+1 {{'dist.take' op of stage 0, "backward", takes "h", which no program of the stage receives, sends or keeps; add a dist.keep}}
      %h = dist.take "h" : tensor<4xf32>
      return
    }
  }
}

// -----

module {
  module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 2, slots = 1>} {
    func.func @forward(%h: tensor<4xf32>) {
      dist.keep %h "h" : tensor<4xf32>
      return
    }
    func.func @backward() {
      // expected-error @+1 {{'dist.take' op of stage 0, "backward", takes "h" as 'tensor<8xf32>', but "forward" puts 'tensor<4xf32>' there; take it with that type}}
      %h = dist.take "h" : tensor<8xf32>
      return
    }
  }
}
