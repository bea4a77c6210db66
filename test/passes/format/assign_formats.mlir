// RUN: ashlar-opt %s -split-input-file -ashlar-assign-formats | FileCheck %s

// A residual block and its normalization: one transpose for the images, none inside, none at the pooled result.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<8x3x16x16xf32>
// CHECK: %[[T:.*]] = nn.transpose %[[X]] [0, 2, 3, 1] {nn.reordered} : tensor<8x3x16x16xf32> -> tensor<8x16x16x3xf32>
// CHECK: nn.conv %[[T]], %{{.*}} channels_last
// CHECK-NOT: nn.transpose
// CHECK: nn.reduce sum %{{.*}} dims = [0, 1, 2] : tensor<8x16x16x4xf32> -> tensor<4xf32>
// CHECK: nn.broadcast %{{.*}} dims = [3] : tensor<4xf32> -> tensor<8x16x16x4xf32>
// CHECK-NOT: nn.transpose
// CHECK: %[[POOLED:.*]] = nn.reduce sum %{{.*}} dims = [1, 2] : tensor<8x16x16x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT: return %[[POOLED]]
func.func @forward(%x: tensor<8x3x16x16xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<4x4x3x3xf32>) -> tensor<8x4xf32> attributes {nn.program = #nn.program<run>} {
  %a = nn.conv %x, %w windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
     : tensor<8x3x16x16xf32>, tensor<4x3x3x3xf32> -> tensor<8x4x16x16xf32>
  %m = nn.reduce sum %a dims = [0, 2, 3] : tensor<8x4x16x16xf32> -> tensor<4xf32>
  %b = nn.broadcast %m dims = [1] : tensor<4xf32> -> tensor<8x4x16x16xf32>
  %n = nn.sub %a, %b : tensor<8x4x16x16xf32>
  %h = nn.relu %n : tensor<8x4x16x16xf32>
  %c = nn.conv %h, %v windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
     : tensor<8x4x16x16xf32>, tensor<4x4x3x3xf32> -> tensor<8x4x16x16xf32>
  %o = nn.add %c, %h : tensor<8x4x16x16xf32>
  %p = nn.reduce sum %o dims = [2, 3] : tensor<8x4x16x16xf32> -> tensor<8x4xf32>
  return %p : tensor<8x4xf32>
}

// -----

// The backward pass of one: the gradient of the pool is made in the order of the convolutions, and the mask of the relu has it already.
// CHECK-LABEL: func.func @backward
// CHECK: nn.conv %{{.*}} channels_last
// CHECK: nn.broadcast %{{.*}} dims = [0, 3] : tensor<8x4xf32> -> tensor<8x16x16x4xf32>
// CHECK: nn.compare gt
// CHECK-NOT: nn.transpose
// CHECK: nn.conv_weights %{{.*}} channels_last {{.*}} -> tensor<4x3x3x3xf32>
// CHECK-NOT: nn.transpose
// CHECK: return
func.func @backward(%x: tensor<8x3x16x16xf32>, %w: tensor<4x3x3x3xf32>, %dp: tensor<8x4xf32>) -> tensor<4x3x3x3xf32> attributes {nn.program = #nn.program<backward>} {
  %a = nn.conv %x, %w windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
     : tensor<8x3x16x16xf32>, tensor<4x3x3x3xf32> -> tensor<8x4x16x16xf32>
  %d = nn.broadcast %dp dims = [0, 1] : tensor<8x4xf32> -> tensor<8x4x16x16xf32>
  %scale = nn.constant dense<0.5> : tensor<8x4x16x16xf32>
  %e = nn.mul %d, %scale : tensor<8x4x16x16xf32>
  %zero = nn.constant dense<0.0> : tensor<8x4x16x16xf32>
  %on = nn.compare gt %a, %zero : tensor<8x4x16x16xf32> -> tensor<8x4x16x16xi1>
  %da = nn.select %on, %e, %zero : tensor<8x4x16x16xi1>, tensor<8x4x16x16xf32>
  %dw = nn.conv_weights %x, %da windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
     : tensor<8x3x16x16xf32>, tensor<8x4x16x16xf32> -> tensor<4x3x3x3xf32>
  return %dw : tensor<4x3x3x3xf32>
}

// -----

// A reshape that joins height and width keeps the channels last, and the model's own transpose then has nothing to move.
// CHECK-LABEL: func.func @patches
// CHECK: %[[Y:.*]] = nn.conv
// CHECK: %[[R:.*]] = nn.reshape %[[Y]] : tensor<2x4x4x6xf32> -> tensor<2x16x6xf32>
// CHECK: %[[SAME:.*]] = nn.transpose %[[R]] [0, 1, 2]
// CHECK-NEXT: return %[[SAME]] : tensor<2x16x6xf32>
func.func @patches(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x2x2xf32>) -> tensor<2x16x6xf32> {
  %y = nn.conv %x, %w windows = [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>]
     : tensor<2x3x8x8xf32>, tensor<6x3x2x2xf32> -> tensor<2x6x4x4xf32>
  %r = nn.reshape %y : tensor<2x6x4x4xf32> -> tensor<2x6x16xf32>
  %t = nn.transpose %r [0, 2, 1] : tensor<2x6x16xf32> -> tensor<2x16x6xf32>
  return %t : tensor<2x16x6xf32>
}

// -----

// A reshape that joins the channels with others needs the dims as they are: a transpose ahead of it.
// CHECK-LABEL: func.func @flatten
// CHECK: %[[Y:.*]] = nn.conv
// CHECK: %[[T:.*]] = nn.transpose %[[Y]] [0, 3, 1, 2] {nn.reordered} : tensor<2x4x4x6xf32> -> tensor<2x6x4x4xf32>
// CHECK: nn.reshape %[[T]] : tensor<2x6x4x4xf32> -> tensor<2x96xf32>
func.func @flatten(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x2x2xf32>) -> tensor<2x96xf32> {
  %y = nn.conv %x, %w windows = [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>]
     : tensor<2x3x8x8xf32>, tensor<6x3x2x2xf32> -> tensor<2x6x4x4xf32>
  %r = nn.reshape %y : tensor<2x6x4x4xf32> -> tensor<2x96xf32>
  return %r : tensor<2x96xf32>
}

// -----

// Images of one pixel: no element moves, so there is a reshape and no transpose.
// CHECK-LABEL: func.func @pixel
// CHECK: %[[Y:.*]] = nn.conv
// CHECK-NOT: nn.transpose
// CHECK: nn.reshape %[[Y]] : tensor<2x1x1x6xf32> -> tensor<2x6xf32>
func.func @pixel(%x: tensor<2x3x2x2xf32>, %w: tensor<6x3x2x2xf32>) -> tensor<2x6xf32> {
  %y = nn.conv %x, %w windows = [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>]
     : tensor<2x3x2x2xf32>, tensor<6x3x2x2xf32> -> tensor<2x6x1x1xf32>
  %r = nn.reshape %y : tensor<2x6x1x1xf32> -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// -----

// Images that come with the channels last, and a model that transposes them for its convolutions: nothing moves.
// CHECK-LABEL: func.func @channels_last_model
// CHECK-NOT: nn.transpose
// CHECK: nn.conv %{{.*}} channels_last
// CHECK: %[[H:.*]] = nn.relu
// CHECK: %[[SAME:.*]] = nn.transpose %[[H]] [0, 1, 2, 3]
// CHECK-NEXT: return %[[SAME]]
func.func @channels_last_model(%x: tensor<2x8x8x3xf32>, %w: tensor<6x3x2x2xf32>) -> tensor<2x4x4x6xf32> {
  %t = nn.transpose %x [0, 3, 1, 2] : tensor<2x8x8x3xf32> -> tensor<2x3x8x8xf32>
  %y = nn.conv %t, %w windows = [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>]
     : tensor<2x3x8x8xf32>, tensor<6x3x2x2xf32> -> tensor<2x6x4x4xf32>
  %h = nn.relu %y : tensor<2x6x4x4xf32>
  %u = nn.transpose %h [0, 2, 3, 1] : tensor<2x6x4x4xf32> -> tensor<2x4x4x6xf32>
  return %u : tensor<2x4x4x6xf32>
}

// -----

// Slices, pads and joins along the channels; collectives take what they move as it stands.
// CHECK-LABEL: func.func @moves
// CHECK: nn.slice %{{.*}} [0, 0, 1, 0] to [2, 4, 4, 3] by [1, 2, 1, 1] : tensor<2x4x4x6xf32> -> tensor<2x2x3x3xf32>
// CHECK: nn.pad %{{.*}} low = [0, 0, 1, 2] interior = [0, 1, 0, 0] : tensor<2x2x3x3xf32> -> tensor<2x4x4x6xf32>
// CHECK: nn.concat %{{.*}} dim = 3
// CHECK: dist.all_gather %{{.*}} dim = 3 over ["x"]
// CHECK: dist.all_reduce sum %{{.*}} over ["x"] : tensor<2x4x4x24xf32>
module {
  dist.mesh @mesh <["x" = 2]>
  func.func @moves(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x2x2xf32>) -> tensor<2x24xf32> {
    %y = nn.conv %x, %w windows = [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>]
       : tensor<2x3x8x8xf32>, tensor<6x3x2x2xf32> -> tensor<2x6x4x4xf32>
    %s = nn.slice %y [0, 0, 0, 1] to [2, 3, 4, 4] by [1, 1, 2, 1] : tensor<2x6x4x4xf32> -> tensor<2x3x2x3xf32>
    %p = nn.pad %s low = [0, 2, 0, 1] interior = [0, 0, 1, 0] : tensor<2x3x2x3xf32> -> tensor<2x6x4x4xf32>
    %c = nn.concat %p, %y dim = 1 : (tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>) -> tensor<2x12x4x4xf32>
    %g = dist.all_gather %c dim = 1 over ["x"] : tensor<2x12x4x4xf32> -> tensor<2x24x4x4xf32>
    %r = dist.all_reduce sum %g over ["x"] : tensor<2x24x4x4xf32>
    %q = nn.reduce max %r dims = [2, 3] : tensor<2x24x4x4xf32> -> tensor<2x24xf32>
    return %q : tensor<2x24xf32>
  }
}

// -----

// A constant of different elements stands as it is; one of equal ones is made as it is wanted.
// CHECK-LABEL: func.func @constants
// CHECK: %[[TABLE:.*]] = nn.constant dense<{{.*}}> : tensor<1x2x1x2xf32>
// CHECK: nn.transpose %[[TABLE]] [0, 2, 3, 1] {nn.reordered}
// CHECK: nn.constant dense<1.000000e+00> : tensor<1x1x2x2xf32>
func.func @constants(%x: tensor<1x1x1x2xf32>, %w: tensor<2x1x1x1xf32>) -> tensor<1x2xf32> {
  %table = nn.constant dense<[[[[1.0, 2.0]], [[3.0, 4.0]]]]> : tensor<1x2x1x2xf32>
  %one = nn.constant dense<1.0> : tensor<1x2x1x2xf32>
  %y = nn.conv %x, %w windows = [#nn.window<1>, #nn.window<1>] : tensor<1x1x1x2xf32>, tensor<2x1x1x1xf32> -> tensor<1x2x1x2xf32>
  %a = nn.add %y, %table : tensor<1x2x1x2xf32>
  %b = nn.add %a, %one : tensor<1x2x1x2xf32>
  %s = nn.reduce sum %b dims = [2, 3] : tensor<1x2x1x2xf32> -> tensor<1x2xf32>
  return %s : tensor<1x2xf32>
}

// -----

// The gradient of a max pooling reads places and gradients in each window; both stand with the channels last.
// CHECK-LABEL: func.func @pool
// CHECK: nn.max_pool %{{.*}} dims = [1, 2]
// CHECK: nn.max_pool_place %{{.*}} dims = [1, 2]
// CHECK-NOT: nn.transpose
// CHECK: nn.broadcast %{{.*}} dims = [0, 1, 2, 5] : tensor<2x2x2x6xf32> -> tensor<2x2x2x2x2x6xf32>
// CHECK-NOT: nn.transpose
// CHECK: nn.unwindows %{{.*}} dims = [1, 2] {{.*}} : tensor<2x2x2x2x2x6xf32> -> tensor<2x4x4x2x2x6xf32>
func.func @pool(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x2x2xf32>) -> tensor<2x6xf32> {
  %y = nn.conv %x, %w windows = [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>]
     : tensor<2x3x8x8xf32>, tensor<6x3x2x2xf32> -> tensor<2x6x4x4xf32>
  %m = nn.max_pool %y dims = [2, 3] [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>] : tensor<2x6x4x4xf32> -> tensor<2x6x2x2xf32>
  %p = nn.max_pool_place %y, %m dims = [2, 3] [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>]
     : tensor<2x6x4x4xf32>, tensor<2x6x2x2xf32> -> tensor<2x6x2x2xi32>
  %f = nn.cast %p : tensor<2x6x2x2xi32> -> tensor<2x6x2x2xf32>
  %b = nn.broadcast %f dims = [0, 1, 2, 3] : tensor<2x6x2x2xf32> -> tensor<2x6x2x2x2x2xf32>
  %u = nn.unwindows %b dims = [2, 3] [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>] : tensor<2x6x2x2x2x2xf32> -> tensor<2x6x4x4x2x2xf32>
  %s = nn.reduce sum %u dims = [2, 3, 4, 5] : tensor<2x6x4x4x2x2xf32> -> tensor<2x6xf32>
  return %s : tensor<2x6xf32>
}

// -----

// Images that are weights, too.
// CHECK-LABEL: func.func @same
// CHECK-SAME: %[[X:.*]]: tensor<1x2x1xf32>
// CHECK: %[[T:.*]] = nn.reshape %[[X]] : tensor<1x2x1xf32> -> tensor<1x1x2xf32>
// CHECK: nn.conv %[[T]], %[[X]] channels_last
func.func @same(%x: tensor<1x2x1xf32>) -> tensor<1x1x1xf32> {
  %y = nn.conv %x, %x windows = [#nn.window<1>] : tensor<1x2x1xf32>, tensor<1x2x1xf32> -> tensor<1x1x1xf32>
  return %y : tensor<1x1x1xf32>
}

// -----

// A softmax works along the last dim, whatever stands last in memory.
// CHECK-LABEL: func.func @softmax
// CHECK: %[[Y:.*]] = nn.conv
// CHECK: %[[T:.*]] = nn.transpose %[[Y]] [0, 2, 1] {nn.reordered} : tensor<2x4x6xf32> -> tensor<2x6x4xf32>
// CHECK: nn.softmax %[[T]] : tensor<2x6x4xf32>
func.func @softmax(%x: tensor<2x3x8xf32>, %w: tensor<6x3x2xf32>) -> tensor<2x6x4xf32> {
  %y = nn.conv %x, %w windows = [#nn.window<2, stride = 2>] : tensor<2x3x8xf32>, tensor<6x3x2xf32> -> tensor<2x6x4xf32>
  %s = nn.softmax %y : tensor<2x6x4xf32>
  return %s : tensor<2x6x4xf32>
}
