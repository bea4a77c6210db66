// RUN: ashlar-opt %s -ashlar-move-reshaped-rows -verify-diagnostics

// expected-error@+1 {{has no dist.mesh; run ashlar-seed-layouts first}}
module {
  func.func @rows(%x: tensor<6x5xf32>) {
    nn.reshape %x : tensor<6x5xf32> -> tensor<30xf32>
    return
  }
}
