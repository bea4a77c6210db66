// SPDX-License-Identifier: Apache-2.0
//
// Every nn op parses, prints and parses again to the same.

// RUN: ashlar-opt %s | ashlar-opt | FileCheck %s

// CHECK: nn.variable @dense trainable : tensor<2xf32> = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
nn.variable @dense trainable : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32>
// CHECK: nn.variable @fill : tensor<2xi64> = #nn.fill<3.000000e+00 : f64>
nn.variable @fill : tensor<2xi64> = #nn.fill<3.0 : f64>
// CHECK: nn.variable @uniform trainable : tensor<f32> = #nn.uniform<-1.000000e+00 : f64, 1.000000e+00 : f64>
nn.variable @uniform trainable : tensor<f32> = #nn.uniform<-1.0 : f64, 1.0 : f64>
// CHECK: nn.variable @normal trainable : tensor<f32> = #nn.normal<0.000000e+00 : f64, 5.000000e-01 : f64>
nn.variable @normal trainable : tensor<f32> = #nn.normal<0.0 : f64, 0.5 : f64>
// CHECK: nn.variable @without : tensor<i64>
nn.variable @without : tensor<i64>
// CHECK: nn.variable @momentum state_of @dense : tensor<2xf32>
nn.variable @momentum state_of @dense : tensor<2xf32>
// CHECK: nn.variable @counter internal : tensor<i64>
nn.variable @counter internal : tensor<i64>

// CHECK-LABEL: @variables
func.func @variables() {
  // CHECK: %[[V:.*]] = nn.read @dense : tensor<2xf32>
  %v = nn.read @dense : tensor<2xf32>
  // CHECK: %[[G:.*]] = nn.gradient %[[V]] of @dense : tensor<2xf32>
  %g = nn.gradient %v of @dense : tensor<2xf32>
  // CHECK: nn.write @dense, %[[G]] : tensor<2xf32>
  nn.write @dense, %g : tensor<2xf32>
  return
}

// CHECK-LABEL: @sources
func.func @sources(%seed: tensor<i64>) -> tensor<2x3xf32> {
  // CHECK: nn.constant dense<2.000000e+00> : tensor<4xf32>
  %c = nn.constant dense<2.0> : tensor<4xf32>
  // CHECK: %[[I:.*]] = nn.index [3, 1] : tensor<2x3xi64>
  %i = nn.index [3, 1] : tensor<2x3xi64>
  // CHECK: %[[T:.*]] = nn.constant dense<7> : tensor<i32>
  %t = nn.constant dense<7> : tensor<i32>
  // CHECK: nn.random uniform %[[I]], %{{.*}}, %{{.*}}, %[[T]] : (tensor<2x3xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x3xf32>
  %u = nn.random uniform %i, %seed, %seed, %t : (tensor<2x3xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x3xf32>
  // CHECK: nn.random normal
  %n = nn.random normal %i, %seed, %seed, %t : (tensor<2x3xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x3xf32>
  return %u : tensor<2x3xf32>
}

// CHECK-LABEL: @unary
func.func @unary(%x: tensor<2x3xf32>, %b: tensor<2x3xi1>) {
  // CHECK: nn.neg %[[X:.*]] : tensor<2x3xf32>
  %0 = nn.neg %x : tensor<2x3xf32>
  // CHECK: nn.abs %[[X]] : tensor<2x3xf32>
  %1 = nn.abs %x : tensor<2x3xf32>
  // CHECK: nn.sign %[[X]] : tensor<2x3xf32>
  %2 = nn.sign %x : tensor<2x3xf32>
  // CHECK: nn.exp %[[X]] : tensor<2x3xf32>
  %3 = nn.exp %x : tensor<2x3xf32>
  // CHECK: nn.log %[[X]] : tensor<2x3xf32>
  %4 = nn.log %x : tensor<2x3xf32>
  // CHECK: nn.sqrt %[[X]] : tensor<2x3xf32>
  %5 = nn.sqrt %x : tensor<2x3xf32>
  // CHECK: nn.erf %[[X]] : tensor<2x3xf32>
  %6 = nn.erf %x : tensor<2x3xf32>
  // CHECK: nn.tanh %[[X]] : tensor<2x3xf32>
  %7 = nn.tanh %x : tensor<2x3xf32>
  // CHECK: nn.sigmoid %[[X]] : tensor<2x3xf32>
  %8 = nn.sigmoid %x : tensor<2x3xf32>
  // CHECK: nn.relu %[[X]] : tensor<2x3xf32>
  %9 = nn.relu %x : tensor<2x3xf32>
  // CHECK: nn.floor %[[X]] : tensor<2x3xf32>
  %u0 = nn.floor %x : tensor<2x3xf32>
  // CHECK: nn.ceil %[[X]] : tensor<2x3xf32>
  %u1 = nn.ceil %x : tensor<2x3xf32>
  // CHECK: nn.round %[[X]] : tensor<2x3xf32>
  %u2 = nn.round %x : tensor<2x3xf32>
  // CHECK: nn.sin %[[X]] : tensor<2x3xf32>
  %u3 = nn.sin %x : tensor<2x3xf32>
  // CHECK: nn.cos %[[X]] : tensor<2x3xf32>
  %u4 = nn.cos %x : tensor<2x3xf32>
  // CHECK: nn.tan %[[X]] : tensor<2x3xf32>
  %u5 = nn.tan %x : tensor<2x3xf32>
  // CHECK: nn.asin %[[X]] : tensor<2x3xf32>
  %u6 = nn.asin %x : tensor<2x3xf32>
  // CHECK: nn.acos %[[X]] : tensor<2x3xf32>
  %u7 = nn.acos %x : tensor<2x3xf32>
  // CHECK: nn.atan %[[X]] : tensor<2x3xf32>
  %u8 = nn.atan %x : tensor<2x3xf32>
  // CHECK: nn.sinh %[[X]] : tensor<2x3xf32>
  %u9 = nn.sinh %x : tensor<2x3xf32>
  // CHECK: nn.cosh %[[X]] : tensor<2x3xf32>
  %u10 = nn.cosh %x : tensor<2x3xf32>
  // CHECK: nn.asinh %[[X]] : tensor<2x3xf32>
  %u11 = nn.asinh %x : tensor<2x3xf32>
  // CHECK: nn.acosh %[[X]] : tensor<2x3xf32>
  %u12 = nn.acosh %x : tensor<2x3xf32>
  // CHECK: nn.atanh %[[X]] : tensor<2x3xf32>
  %u13 = nn.atanh %x : tensor<2x3xf32>
  // CHECK: nn.leaky_relu %[[X]], 1.000000e-01 : tensor<2x3xf32>
  %10 = nn.leaky_relu %x, 0.1 : tensor<2x3xf32>
  // CHECK: nn.gelu %[[X]] : tensor<2x3xf32>
  %11 = nn.gelu %x : tensor<2x3xf32>
  // CHECK: nn.gelu %[[X]] tanh_approximation : tensor<2x3xf32>
  %12 = nn.gelu %x tanh_approximation : tensor<2x3xf32>
  // CHECK: nn.not %{{.*}} : tensor<2x3xi1>
  %13 = nn.not %b : tensor<2x3xi1>
  // CHECK: nn.cast %[[X]] : tensor<2x3xf32> -> tensor<2x3xbf16>
  %14 = nn.cast %x : tensor<2x3xf32> -> tensor<2x3xbf16>
  // CHECK: %[[I:.*]] = nn.cast %[[X]] : tensor<2x3xf32> -> tensor<2x3xi8>
  %i8 = nn.cast %x : tensor<2x3xf32> -> tensor<2x3xi8>
  // CHECK: %[[U:.*]] = nn.cast %[[I]] : tensor<2x3xi8> -> tensor<2x3xui64>
  %ui64 = nn.cast %i8 : tensor<2x3xi8> -> tensor<2x3xui64>
  // CHECK: nn.abs %[[U]] : tensor<2x3xui64>
  %size = nn.abs %ui64 : tensor<2x3xui64>
  // CHECK: nn.bitcast %[[X]] : tensor<2x3xf32> -> tensor<2x3xui32>
  %bits = nn.bitcast %x : tensor<2x3xf32> -> tensor<2x3xui32>
  // CHECK: nn.softmax %[[X]] : tensor<2x3xf32>
  %15 = nn.softmax %x : tensor<2x3xf32>
  // CHECK: nn.log_softmax %[[X]] : tensor<2x3xf32>
  %16 = nn.log_softmax %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: @binary
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xi1>, %[[I:.*]]: tensor<4xi32>
func.func @binary(%x: tensor<4xf32>, %y: tensor<4xf32>, %b: tensor<4xi1>, %i: tensor<4xi32>) {
  // CHECK: nn.add %[[X]], %[[Y]] : tensor<4xf32>
  %0 = nn.add %x, %y : tensor<4xf32>
  // CHECK: nn.sub %[[X]], %[[Y]] : tensor<4xf32>
  %1 = nn.sub %x, %y : tensor<4xf32>
  // CHECK: nn.mul %[[X]], %[[Y]] : tensor<4xf32>
  %2 = nn.mul %x, %y : tensor<4xf32>
  // CHECK: nn.div %[[X]], %[[Y]] : tensor<4xf32>
  %3 = nn.div %x, %y : tensor<4xf32>
  // CHECK: nn.pow %[[X]], %[[Y]] : tensor<4xf32>
  %4 = nn.pow %x, %y : tensor<4xf32>
  // CHECK: nn.rem %[[X]], %[[Y]] : tensor<4xf32>
  %r = nn.rem %x, %y : tensor<4xf32>
  // CHECK: nn.max %[[X]], %[[Y]] : tensor<4xf32>
  %5 = nn.max %x, %y : tensor<4xf32>
  // CHECK: nn.min %[[X]], %[[Y]] : tensor<4xf32>
  %6 = nn.min %x, %y : tensor<4xf32>
  // CHECK: nn.and %[[B]], %[[B]] : tensor<4xi1>
  %7 = nn.and %b, %b : tensor<4xi1>
  // CHECK: nn.or %[[B]], %[[B]] : tensor<4xi1>
  %8 = nn.or %b, %b : tensor<4xi1>
  // CHECK: nn.and %[[I]], %[[I]] : tensor<4xi32>
  %i0 = nn.and %i, %i : tensor<4xi32>
  // CHECK: nn.not %[[I]] : tensor<4xi32>
  %i1 = nn.not %i : tensor<4xi32>
  // CHECK: nn.compare le %[[X]], %[[Y]] : tensor<4xf32> -> tensor<4xi1>
  %9 = nn.compare le %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: nn.select %[[B]], %[[X]], %[[Y]] : tensor<4xi1>, tensor<4xf32>
  %10 = nn.select %b, %x, %y : tensor<4xi1>, tensor<4xf32>
  return
}

// CHECK-LABEL: @shapes
func.func @shapes(%v: tensor<3xf32>, %x: tensor<2x3xf32>) {
  // CHECK: nn.broadcast %{{.*}} dims = [1] : tensor<3xf32> -> tensor<2x3xf32>
  %0 = nn.broadcast %v dims = [1] : tensor<3xf32> -> tensor<2x3xf32>
  // CHECK: nn.reshape %{{.*}} : tensor<2x3xf32> -> tensor<6xf32>
  %1 = nn.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  // CHECK: nn.reshape %{{.*}} {moves_rows} : tensor<2x3xf32> -> tensor<6xf32>
  nn.reshape %x {moves_rows} : tensor<2x3xf32> -> tensor<6xf32>
  // CHECK: nn.transpose %{{.*}} [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %2 = nn.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  // CHECK: nn.concat %{{.*}}, %{{.*}} dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  %3 = nn.concat %x, %x dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  // CHECK: nn.slice %{{.*}} [0, 0] to [2, 3] by [1, 2] : tensor<2x3xf32> -> tensor<2x2xf32>
  %4 = nn.slice %x [0, 0] to [2, 3] by [1, 2] : tensor<2x3xf32> -> tensor<2x2xf32>
  // CHECK: nn.pad %{{.*}} low = [0, 1] interior = [0, 1] : tensor<2x3xf32> -> tensor<2x7xf32>
  %5 = nn.pad %x low = [0, 1] interior = [0, 1] : tensor<2x3xf32> -> tensor<2x7xf32>
  return
}

// CHECK-LABEL: @windows
func.func @windows(%x: tensor<2x8x8x3xf32>) {
  // CHECK: %[[W:.*]] = nn.windows %{{.*}} dims = [1, 2] [#nn.window<3, stride = 2, low = 1>, #nn.window<2, dilation = 2>]
  // CHECK-SAME: tensor<2x8x8x3xf32> -> tensor<2x4x6x3x2x3xf32>
  %0 = nn.windows %x dims = [1, 2] [#nn.window<3, stride = 2, low = 1>, #nn.window<2, dilation = 2>] : tensor<2x8x8x3xf32> -> tensor<2x4x6x3x2x3xf32>
  // CHECK: nn.unwindows %[[W]] dims = [1, 2] [#nn.window<3, stride = 2, low = 1>, #nn.window<2, dilation = 2>]
  // CHECK-SAME: tensor<2x4x6x3x2x3xf32> -> tensor<2x8x8x3x2x3xf32>
  %1 = nn.unwindows %0 dims = [1, 2] [#nn.window<3, stride = 2, low = 1>, #nn.window<2, dilation = 2>] : tensor<2x4x6x3x2x3xf32> -> tensor<2x8x8x3x2x3xf32>
  // CHECK: %[[Y:.*]] = nn.max_pool %{{.*}} dims = [1] [#nn.window<2, stride = 2>] : tensor<2x8x8x3xf32> -> tensor<2x4x8x3xf32>
  %2 = nn.max_pool %x dims = [1] [#nn.window<2, stride = 2>] : tensor<2x8x8x3xf32> -> tensor<2x4x8x3xf32>
  // CHECK: nn.max_pool_place %{{.*}}, %[[Y]] dims = [1] [#nn.window<2, stride = 2>]
  // CHECK-SAME: tensor<2x8x8x3xf32>, tensor<2x4x8x3xf32> -> tensor<2x4x8x3xi32>
  %3 = nn.max_pool_place %x, %2 dims = [1] [#nn.window<2, stride = 2>] : tensor<2x8x8x3xf32>, tensor<2x4x8x3xf32> -> tensor<2x4x8x3xi32>
  return
}

// CHECK-LABEL: @resample
func.func @resample(%x: tensor<4x2xf32>, %i: tensor<4xi64>, %start: tensor<i64>) {
  // CHECK: nn.resample %{{.*}} dim = 1 places = dense<{{\[\[}}0], [1], [1]]> : tensor<3x1xi64> weights = dense<{{\[\[}}1.000000e+00], [5.000000e-01], [2.000000e+00]]>
  // CHECK-SAME: tensor<3x1xf64> : tensor<4x2xf32> -> tensor<4x3xf32>
  %0 = nn.resample %x dim = 1 places = dense<[[0], [1], [1]]> : tensor<3x1xi64> weights = dense<[[1.0], [0.5], [2.0]]> : tensor<3x1xf64> : tensor<4x2xf32> -> tensor<4x3xf32>
  // CHECK: nn.resample %{{.*}} dim = 0 places = dense<0> : tensor<1x2xi64> : tensor<4xi64> -> tensor<1xi64>
  %1 = nn.resample %i dim = 0 places = dense<0> : tensor<1x2xi64> : tensor<4xi64> -> tensor<1xi64>
  // CHECK: nn.resample %{{.*}} starts %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64> dim = 0 places = dense<0> : tensor<1x2xi64> : tensor<4xi64> -> tensor<2xi64>
  %2 = nn.resample %i starts %start, %start : tensor<i64>, tensor<i64> dim = 0 places = dense<0> : tensor<1x2xi64> : tensor<4xi64> -> tensor<2xi64>
  return
}

// CHECK-LABEL: @rows_by_number
func.func @rows_by_number(%table: tensor<5x3xf32>, %i: tensor<2x4xi64>, %scalar: tensor<i32>, %tables: tensor<2x5x3xf32>,
                          %row: tensor<5x1xf32>) {
  // CHECK: %[[Y:.*]] = nn.gather %{{.*}}, %{{.*}} : tensor<5x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>
  %0 = nn.gather %table, %i : tensor<5x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>
  // CHECK: nn.gather %{{.*}}, %{{.*}} : tensor<5x3xf32>, tensor<i32> -> tensor<3xf32>
  %1 = nn.gather %table, %scalar : tensor<5x3xf32>, tensor<i32> -> tensor<3xf32>
  // CHECK: nn.scatter_add %{{.*}}, %[[Y]] : tensor<2x4xi64>, tensor<2x4x3xf32> -> tensor<5x3xf32>
  %2 = nn.scatter_add %i, %0 : tensor<2x4xi64>, tensor<2x4x3xf32> -> tensor<5x3xf32>
  // CHECK: %[[Z:.*]] = nn.gather %{{.*}}, %{{.*}} batch_dims = 1 : tensor<2x5x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>
  %3 = nn.gather %tables, %i batch_dims = 1 : tensor<2x5x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>
  // CHECK: nn.scatter_add %{{.*}}, %[[Z]] batch_dims = 1 : tensor<2x4xi64>, tensor<2x4x3xf32> -> tensor<2x5x3xf32>
  %4 = nn.scatter_add %i, %3 batch_dims = 1 : tensor<2x4xi64>, tensor<2x4x3xf32> -> tensor<2x5x3xf32>
  // CHECK: nn.gather %{{.*}}, %{{.*}} : tensor<5x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>
  %5 = nn.gather %table, %i batch_dims = 0 : tensor<5x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>
  // CHECK: nn.insert %{{.*}} into %{{.*}} at %{{.*}} dim = 1 : tensor<5x1xf32>, tensor<5x3xf32>, tensor<i32> -> tensor<5x3xf32>
  %6 = nn.insert %row into %table at %scalar dim = 1 : tensor<5x1xf32>, tensor<5x3xf32>, tensor<i32> -> tensor<5x3xf32>
  return
}

// CHECK-LABEL: @contractions
func.func @contractions(%a: tensor<5x2x3xf32>, %b: tensor<5x4x3xf32>, %x: tensor<2x3xf32>, %l: tensor<2xi32>, %n: tensor<3x3xbf16>) {
  // CHECK: nn.reduce max %{{.*}} dims = [0, 2] : tensor<5x2x3xf32> -> tensor<2xf32>
  %0 = nn.reduce max %a dims = [0, 2] : tensor<5x2x3xf32> -> tensor<2xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_b : tensor<5x2x3xf32>, tensor<5x4x3xf32> -> tensor<5x2x4xf32>
  %1 = nn.matmul %a, %b transpose_b : tensor<5x2x3xf32>, tensor<5x4x3xf32> -> tensor<5x2x4xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} : tensor<3x3xbf16>, tensor<3x3xbf16> -> tensor<3x3xf32>
  %wide = nn.matmul %n, %n : tensor<3x3xbf16>, tensor<3x3xbf16> -> tensor<3x3xf32>
  // CHECK: nn.softmax_cross_entropy %{{.*}}, %{{.*}} : tensor<2x3xf32>, tensor<2xi32> -> tensor<2xf32>
  %2 = nn.softmax_cross_entropy %x, %l : tensor<2x3xf32>, tensor<2xi32> -> tensor<2xf32>
  return
}

// CHECK-LABEL: @attention
func.func @attention(%q: tensor<5x2x3xf32>, %k: tensor<5x4x3xf32>, %v: tensor<5x4x6xf32>, %bools: tensor<5x1x4xi1>,
                     %floats: tensor<1x2x4xf16>, %n: tensor<4x3xbf16>, %l: tensor<4xf32>,
                     %row: tensor<5x2xi64>, %column: tensor<1x4xi64>, %seed: tensor<i64>, %step: tensor<i64>, %stream: tensor<i32>) {
  // CHECK: %[[L:.*]] = nn.attention_log_sum %[[Q:.*]], %[[K:.*]] scale = 1.000000e+00 : (tensor<5x2x3xf32>, tensor<5x4x3xf32>) -> tensor<5x2xf32>
  %log_sum = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<5x2x3xf32>, tensor<5x4x3xf32>) -> tensor<5x2xf32>
  // CHECK: nn.attention_log_sum %[[Q]], %[[K]] mask = %[[BOOLS:.*]] scale = 5.000000e-01 causal :
  %0 = nn.attention_log_sum %q, %k mask = %bools scale = 0.5 causal : (tensor<5x2x3xf32>, tensor<5x4x3xf32>, tensor<5x1x4xi1>) -> tensor<5x2xf32>
  // CHECK: %[[Y:.*]] = nn.attention %[[Q]], %[[K]], %[[V:.*]], %[[L]] mask = %[[FLOATS:.*]] scale = 5.000000e-01 causal diagonal = -2 window = 3 softcap = 2.000000e+00 :
  %y = nn.attention %q, %k, %v, %log_sum mask = %floats scale = 0.5 causal diagonal = -2 window = 3 softcap = 2.0
     : (tensor<5x2x3xf32>, tensor<5x4x3xf32>, tensor<5x4x6xf32>, tensor<5x2xf32>, tensor<1x2x4xf16>) -> tensor<5x2x6xf32>
  // CHECK: nn.attention_log_sum %[[Q]], %[[K]] scale = 1.000000e+00 causal at %[[ROW:.*]], %[[COLUMN:.*]] diagonal = 2 :
  %at = nn.attention_log_sum %q, %k scale = 1.0 causal at %row, %column diagonal = 2
      : (tensor<5x2x3xf32>, tensor<5x4x3xf32>, tensor<5x2xi64>, tensor<1x4xi64>) -> tensor<5x2xf32>
  // CHECK: nn.attention %[[Q]], %[[K]], %[[V]], %[[L]] scale = 1.000000e+00 dropout = 2.500000e-01 by %[[ROW]], %[[COLUMN]], %[[SEED:.*]], %[[STEP:.*]], %[[STREAM:.*]] :
  %dropped = nn.attention %q, %k, %v, %log_sum scale = 1.0 dropout = 0.25 by %row, %column, %seed, %step, %stream
     : (tensor<5x2x3xf32>, tensor<5x4x3xf32>, tensor<5x4x6xf32>, tensor<5x2xf32>, tensor<5x2xi64>, tensor<1x4xi64>, tensor<i64>, tensor<i64>,
        tensor<i32>) -> tensor<5x2x6xf32>
  // CHECK: nn.attention_gradient key {{.*}} mask = %[[BOOLS]] scale = 1.000000e+00 dropout = 2.500000e-01 by %[[ROW]], %[[COLUMN]], %[[SEED]], %[[STEP]], %[[STREAM]] :
  %ddropped = nn.attention_gradient key %q, %k, %v, %log_sum, %y, %y mask = %bools scale = 1.0
      dropout = 0.25 by %row, %column, %seed, %step, %stream
      : (tensor<5x2x3xf32>, tensor<5x4x3xf32>, tensor<5x4x6xf32>, tensor<5x2xf32>, tensor<5x2x6xf32>, tensor<5x2x6xf32>, tensor<5x1x4xi1>,
         tensor<5x2xi64>, tensor<1x4xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<5x4x3xf32>
  // CHECK: nn.attention_gradient query %[[Q]], %[[K]], %[[V]], %[[L]], %[[Y]], %[[Y]] scale = 1.000000e+00 :
  %dq = nn.attention_gradient query %q, %k, %v, %log_sum, %y, %y scale = 1.0
      : (tensor<5x2x3xf32>, tensor<5x4x3xf32>, tensor<5x4x6xf32>, tensor<5x2xf32>, tensor<5x2x6xf32>, tensor<5x2x6xf32>) -> tensor<5x2x3xf32>
  // CHECK: nn.attention_gradient key
  %dk = nn.attention_gradient key %q, %k, %v, %log_sum, %y, %y scale = 1.0
      : (tensor<5x2x3xf32>, tensor<5x4x3xf32>, tensor<5x4x6xf32>, tensor<5x2xf32>, tensor<5x2x6xf32>, tensor<5x2x6xf32>) -> tensor<5x4x3xf32>
  // CHECK: nn.attention_gradient value %[[Q]], %[[K]], %[[V]], %[[L]], %[[Y]], %[[Y]] mask = %[[BOOLS]] scale = 1.000000e+00 causal :
  %dv = nn.attention_gradient value %q, %k, %v, %log_sum, %y, %y mask = %bools scale = 1.0 causal
      : (tensor<5x2x3xf32>, tensor<5x4x3xf32>, tensor<5x4x6xf32>, tensor<5x2xf32>, tensor<5x2x6xf32>, tensor<5x2x6xf32>, tensor<5x1x4xi1>)
      -> tensor<5x4x6xf32>
  // CHECK: nn.attention {{.*}} -> tensor<4x3xf32>
  %wide = nn.attention %n, %n, %n, %l scale = 1.0 : (tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<4xf32>) -> tensor<4x3xf32>
  // CHECK: nn.attention_gradient value {{.*}} -> tensor<4x3xf32>
  %dwide = nn.attention_gradient value %n, %n, %n, %l, %wide, %wide scale = 1.0
      : (tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<4xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// CHECK-LABEL: @convolutions
func.func @convolutions(%x: tensor<8x4x32xf32>, %w: tensor<6x4x3xf32>, %last: tensor<8x32x4xf32>, %narrow: tensor<2x3x5x7xbf16>,
                        %depthwise: tensor<6x1x3x3xbf16>) {
  // CHECK: %[[Y:.*]] = nn.conv %[[X:.*]], %[[W:.*]] windows = [#nn.window<3, stride = 2, low = 1, high = 1>] : tensor<8x4x32xf32>, tensor<6x4x3xf32> -> tensor<8x6x16xf32>
  %y = nn.conv %x, %w windows = [#nn.window<3, stride = 2, low = 1, high = 1>] : tensor<8x4x32xf32>, tensor<6x4x3xf32> -> tensor<8x6x16xf32>
  // CHECK: nn.conv %{{.*}}, %[[W]] channels_last windows = [#nn.window<3, dilation = 4, low = -1>] : tensor<8x32x4xf32>, tensor<6x4x3xf32> -> tensor<8x23x6xf32>
  %l = nn.conv %last, %w channels_last windows = [#nn.window<3, dilation = 4, low = -1>] : tensor<8x32x4xf32>, tensor<6x4x3xf32> -> tensor<8x23x6xf32>
  // CHECK: nn.conv {{.*}} windows = [#nn.window<3>, #nn.window<3>] : tensor<2x3x5x7xbf16>, tensor<6x1x3x3xbf16> -> tensor<2x6x3x5xf32>
  %d = nn.conv %narrow, %depthwise windows = [#nn.window<3>, #nn.window<3>] : tensor<2x3x5x7xbf16>, tensor<6x1x3x3xbf16> -> tensor<2x6x3x5xf32>
  // CHECK: nn.conv_data %[[Y]], %[[W]] windows = [#nn.window<3, stride = 2, low = 1, high = 1>] : tensor<8x6x16xf32>, tensor<6x4x3xf32> -> tensor<8x4x32xf32>
  %dx = nn.conv_data %y, %w windows = [#nn.window<3, stride = 2, low = 1, high = 1>] : tensor<8x6x16xf32>, tensor<6x4x3xf32> -> tensor<8x4x32xf32>
  // CHECK: nn.conv_weights %[[X]], %[[Y]] windows = [#nn.window<3, stride = 2, low = 1, high = 1>] : tensor<8x4x32xf32>, tensor<8x6x16xf32> -> tensor<6x4x3xf32>
  %dw = nn.conv_weights %x, %y windows = [#nn.window<3, stride = 2, low = 1, high = 1>] : tensor<8x4x32xf32>, tensor<8x6x16xf32> -> tensor<6x4x3xf32>
  return
}

// CHECK-LABEL: @normalizations
func.func @normalizations(%x: tensor<8x4x5xf32>, %s: tensor<4xf32>, %n: tensor<8x4xbf16>) {
  // CHECK: nn.moments %{{.*}} dims = [0, 2] : tensor<8x4x5xf32> -> tensor<2x4xf32>
  %0 = nn.moments %x dims = [0, 2] : tensor<8x4x5xf32> -> tensor<2x4xf32>
  // CHECK: nn.moments %{{.*}} dims = [0, 1] : tensor<8x4xbf16> -> tensor<2xf32>
  %1 = nn.moments %n dims = [0, 1] : tensor<8x4xbf16> -> tensor<2xf32>
  // CHECK: nn.normalize %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} dims = [1] epsilon = 1.000000e-05 : tensor<8x4x5xf32>, tensor<4xf32>
  %2 = nn.normalize %x, %s, %s, %s, %s dims = [1] epsilon = 1.0e-05 : tensor<8x4x5xf32>, tensor<4xf32>
  // CHECK: nn.normalize {{.*}} {momentum = 9.000000e-01 : f64, unbiased}
  %3 = nn.normalize %x, %s, %s, %s, %s dims = [1] epsilon = 1.0e-05 {momentum = 0.9 : f64, unbiased} : tensor<8x4x5xf32>, tensor<4xf32>
  return
}
