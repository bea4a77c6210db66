// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-plan-memory=memory-limit=50000

// A program that fits says nothing.
func.func @fits(%x: tensor<1000xf32> {nn.name = "x"}) -> (tensor<1000xf32> {nn.name = "y"}) {
  %y = exec.fusion loop(%x) : (tensor<1000xf32>) -> tensor<1000xf32> {
  ^bb0(%a: tensor<1000xf32>):
    %r = nn.relu %a : tensor<1000xf32>
    exec.yield %r : tensor<1000xf32>
  }
  return %y : tensor<1000xf32>
}

// -----

// Of two programs the one with the larger peak is named, and what is alive there: named tensors, and temporaries by the op that computes
// them. The third transpose goes right into y. Beside 32 kB of tensors, to whole pages, a process has 28 KiB where ranks meet.
// expected-error@below {{the program needs 61.44 KB (inputs and outputs 16.00 KB, temporaries 16.77 KB, synchronization buffers 28.67 KB), but the memory is 50.00 KB; @large needs most, with 4 tensors alive at its peak, the largest: first 8.00 KB, second 8.00 KB, x 8.00 KB, y 8.00 KB; use more devices or a smaller batch}}
module {
  func.func @small(%x: tensor<40x50xf32> {nn.name = "x"}) {
    return
  }
  func.func @large(%x: tensor<40x50xf32> {nn.name = "x"}) -> (tensor<50x40xf32> {nn.name = "y"}) {
    %0 = exec.fusion loop(%x) : (tensor<40x50xf32>) -> tensor<50x40xf32> {
    ^bb0(%a: tensor<40x50xf32>):
      %t = nn.transpose %a [1, 0] : tensor<40x50xf32> -> tensor<50x40xf32>
      exec.yield %t : tensor<50x40xf32>
    } loc("first")
    %1 = exec.fusion loop(%0) : (tensor<50x40xf32>) -> tensor<40x50xf32> {
    ^bb0(%a: tensor<50x40xf32>):
      %t = nn.transpose %a [1, 0] : tensor<50x40xf32> -> tensor<40x50xf32>
      exec.yield %t : tensor<40x50xf32>
    } loc("second")
    %2 = exec.fusion loop(%1) : (tensor<40x50xf32>) -> tensor<50x40xf32> {
    ^bb0(%a: tensor<40x50xf32>):
      %t = nn.transpose %a [1, 0] : tensor<40x50xf32> -> tensor<50x40xf32>
      exec.yield %t : tensor<50x40xf32>
    } loc("third")
    return %2 : tensor<50x40xf32>
  }
}
