// SPDX-License-Identifier: Apache-2.0
//
// One case for each constraint of an nn op that ODS does not check; named after its label in nn_ops.td.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{init has type 'tensor<3xf32>' but the variable has type 'tensor<2xf32>'}}
nn.variable @variable_c1 : tensor<2xf32> = dense<1.0> : tensor<3xf32>

// -----

func.func @read_c1() {
  // expected-error @+1 {{names @nothing, which is not an nn.variable}}
  %0 = nn.read @nothing : tensor<2xf32>
  return
}

// -----

// expected-note @+1 {{declared here}}
nn.variable @w : tensor<3xf32>
func.func @read_c2() {
  // expected-error @+1 {{has type 'tensor<2xf32>' but variable @w has type 'tensor<3xf32>'}}
  %0 = nn.read @w : tensor<2xf32>
  return
}

// -----

func.func @write_c1(%x: tensor<2xf32>) {
  // expected-error @+1 {{names @write_c1, which is not an nn.variable}}
  nn.write @write_c1, %x : tensor<2xf32>
  return
}

// -----

// expected-note @+1 {{declared here}}
nn.variable @w : tensor<2xf64>
func.func @write_c2(%x: tensor<2xf32>) {
  // expected-error @+1 {{has type 'tensor<2xf32>' but variable @w has type 'tensor<2xf64>'}}
  nn.write @w, %x : tensor<2xf32>
  return
}

// -----

nn.variable @w internal : tensor<2xf32>
// expected-error @+1 {{is a state of @w, which is not an nn.variable of the model}}
nn.variable @variable_c3 state_of @w : tensor<2xf32>

// -----

nn.variable @w : tensor<2xf32>
nn.variable @w.copy state_of @w : tensor<2xf32>
// expected-error @+1 {{is a state of @w.copy, which is not an nn.variable of the model}}
nn.variable @variable_c3 state_of @w.copy : tensor<2xf32>

// -----

// expected-error @+1 {{is a state of @nothing, which is not an nn.variable of the model}}
nn.variable @variable_c3 state_of @nothing : tensor<2xf32>

// -----

func.func @gradient_c1(%x: tensor<2xf32>) {
  // expected-error @+1 {{names @nothing, which is not an nn.variable}}
  %g = nn.gradient %x of @nothing : tensor<2xf32>
  return
}

// -----

// expected-note @+1 {{declared here}}
nn.variable @w : tensor<2x1xf32>
func.func @gradient_c2(%x: tensor<2xf32>) {
  // expected-error @+1 {{has type 'tensor<2xf32>' but variable @w has type 'tensor<2x1xf32>'}}
  %g = nn.gradient %x of @w : tensor<2xf32>
  return
}

// -----

func.func @index_c1() {
  // expected-error @+1 {{has 1 strides for a result of rank 2}}
  %0 = nn.index [1] : tensor<2x3xi64>
  return
}

// -----

func.func @random_c1(%i: tensor<3xi64>, %s: tensor<i64>, %t: tensor<i32>) {
  // expected-error @+1 {{index has type 'tensor<3xi64>' but the result has type 'tensor<2xf32>'}}
  %0 = nn.random uniform %i, %s, %s, %t : (tensor<3xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2xf32>
  return
}

// -----

func.func @bitcast_c1(%x: tensor<2xf32>) {
  // expected-error @+1 {{takes the bits of 'f32' as 'i64', of another width}}
  %0 = nn.bitcast %x : tensor<2xf32> -> tensor<2xi64>
  return
}

// -----

func.func @broadcast_c1_count(%x: tensor<2xf32>) {
  // expected-error @+1 {{has 2 dims for an operand of rank 1}}
  %0 = nn.broadcast %x dims = [0, 1] : tensor<2xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_c1_order(%x: tensor<2x2xf32>) {
  // expected-error @+1 {{dims [1, 0] are not strictly increasing within rank 2}}
  %0 = nn.broadcast %x dims = [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @broadcast_c2(%x: tensor<2xf32>) {
  // expected-error @+1 {{operand dim 0 has size 2 but result dim 1 has size 3}}
  %0 = nn.broadcast %x dims = [1] : tensor<2xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_c3(%x: tensor<2xf32>) {
  // expected-error @+1 {{changes the element type from 'f32' to 'f64'}}
  %0 = nn.broadcast %x dims = [0] : tensor<2xf32> -> tensor<2x3xf64>
  return
}

// -----

func.func @reshape_c1(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{reshapes 6 elements into 5}}
  %0 = nn.reshape %x : tensor<2x3xf32> -> tensor<5xf32>
  return
}

// -----

func.func @reshape_c2(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{changes the element type from 'f32' to 'i32'}}
  %0 = nn.reshape %x : tensor<2x3xf32> -> tensor<6xi32>
  return
}

// -----

func.func @transpose_c1_range(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{permutation [0, 2] is not one of 2 dims}}
  %0 = nn.transpose %x [0, 2] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @transpose_c1_count(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{permutation [0] is not one of 2 dims}}
  %0 = nn.transpose %x [0] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @concat_c1() {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{concat needs at least one operand}}
  %0 = nn.concat dim = 0 : () -> tensor<2xf32>
  return
}

// -----

func.func @concat_c2(%x: tensor<2xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{concat dim 1 is not within rank 1}}
  %0 = nn.concat %x dim = 1 : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @concat_c3_type(%x: tensor<2xf32>, %y: tensor<2xf64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{concat joins 'tensor<2xf32>' with 'tensor<2xf64>'}}
  %0 = nn.concat %x, %y dim = 0 : (tensor<2xf32>, tensor<2xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @concat_c3_size(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{concat along dim 0 joins 'tensor<2x3xf32>' with 'tensor<2x4xf32>', which differ in dim 1}}
  %0 = nn.concat %x, %y dim = 0 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @slice_c1(%x: tensor<4x4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{slice of rank 2 has 1 starts, 2 limits and 2 steps}}
  %0 = nn.slice %x [0] to [4, 4] by [1, 1] : tensor<4x4xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @slice_c2(%x: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{slice [1, 5) of dim 0 is not within size 4}}
  %0 = nn.slice %x [1] to [5] by [1] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @slice_c3(%x: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{slice of dim 0 has step 0, which is not positive}}
  %0 = nn.slice %x [0] to [4] by [0] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @pad_c1_count(%x: tensor<4xf32>) {
  // expected-error @+1 {{has ranks 1 and 1 with 2 low and 1 interior entries}}
  %0 = nn.pad %x low = [0, 0] interior = [0] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @pad_c1_negative(%x: tensor<4xf32>) {
  // expected-error @+1 {{has low -1 and interior 0 in dim 0; neither may be negative}}
  %0 = nn.pad %x low = [-1] interior = [0] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @pad_c2(%x: tensor<4xf32>) {
  // expected-error @+1 {{needs size 8 in dim 0 but the result has 7}}
  %0 = nn.pad %x low = [1] interior = [1] : tensor<4xf32> -> tensor<7xf32>
  return
}

// -----

func.func @pad_c3(%x: tensor<4xf32>) {
  // expected-error @+1 {{changes the element type from 'f32' to 'f16'}}
  %0 = nn.pad %x low = [0] interior = [0] : tensor<4xf32> -> tensor<4xf16>
  return
}

// -----

func.func @windows_c1(%x: tensor<4x4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dims [1, 1] of windows are not strictly increasing within rank 2}}
  %0 = nn.windows %x dims = [1, 1] [#nn.window<2>, #nn.window<2>] : tensor<4x4xf32> -> tensor<4x3x2xf32>
  return
}

// -----

func.func @windows_c1_none(%x: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{has windows along no dim}}
  %0 = nn.windows %x dims = [] [] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @windows_c2(%x: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{has 2 windows along 1 dims}}
  %0 = nn.windows %x dims = [0] [#nn.window<2>, #nn.window<2>] : tensor<4xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @windows_c3(%x: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{window that spans 7 elements does not fit into dim 0 of size 4 with padding of 1 and 1}}
  %0 = nn.windows %x dims = [0] [#nn.window<4, dilation = 2, low = 1, high = 1>] : tensor<4xf32> -> tensor<1x4xf32>
  return
}

// -----

func.func @unwindows_c1(%x: tensor<3x2xf32>) {
  // expected-error @+1 {{dims [1] of windows leave no dims of the windows in rank 2}}
  %0 = nn.unwindows %x dims = [1] [#nn.window<2>] : tensor<3x2xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @unwindows_c2(%x: tensor<3x2xf32>) {
  // expected-error @+1 {{gives 'tensor<5x2xf32>' from 'tensor<3x2xf32>'; the windows of 'tensor<5xf32>' are 'tensor<4x2xf32>'}}
  %0 = nn.unwindows %x dims = [0] [#nn.window<2>] : tensor<3x2xf32> -> tensor<5x2xf32>
  return
}

// -----

func.func @max_pool_c4(%x: tensor<1x1xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{window has 2^31 elements or more}}
  %0 = nn.max_pool %x dims = [0, 1] [#nn.window<65536, low = 65535>, #nn.window<65536, low = 65535>] : tensor<1x1xf32> -> tensor<1x1xf32>
  return
}

// -----

func.func @max_pool_place_c5(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the largest elements have type 'tensor<4xf32>' but those of the windows have type 'tensor<2xf32>'}}
  %0 = nn.max_pool_place %x, %y dims = [0] [#nn.window<2, stride = 2>] : tensor<4xf32>, tensor<4xf32> -> tensor<2xi32>
  return
}

// -----

func.func @resample_c1(%x: tensor<4xf32>) {
  // expected-error @+1 {{dim 1 is not within rank 1}}
  %0 = nn.resample %x dim = 1 places = dense<0> : tensor<2x1xi64> : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @resample_c2(%x: tensor<4xf32>) {
  // expected-error @+1 {{places of 'tensor<2xi64>' are not a matrix with a column}}
  %0 = nn.resample %x dim = 0 places = dense<0> : tensor<2xi64> : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @resample_c2_weights(%x: tensor<4xf32>) {
  // expected-error @+1 {{places are 'tensor<2x1xi64>' but weights are 'tensor<1x2xf64>'}}
  %0 = nn.resample %x dim = 0 places = dense<0> : tensor<2x1xi64> weights = dense<0.0> : tensor<1x2xf64> : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @resample_c3(%x: tensor<4xi64>) {
  // expected-error @+1 {{has weights for elements of 'i64'}}
  %0 = nn.resample %x dim = 0 places = dense<0> : tensor<2x1xi64> weights = dense<0.0> : tensor<2x1xf64> : tensor<4xi64> -> tensor<2xi64>
  return
}

// -----

func.func @resample_c4(%x: tensor<4xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{has 1 starts; give those of its position and its element, or none}}
  %0 = nn.resample %x starts %i : tensor<i64> dim = 0 places = dense<0> : tensor<2x1xi64> : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @resample_c5(%x: tensor<4xf32>) {
  // expected-error @+1 {{gives 'tensor<3xf32>' from 'tensor<4xf32>' and 2 rows; its result is 'tensor<2xf32>'}}
  %0 = nn.resample %x dim = 0 places = dense<0> : tensor<2x1xi64> : tensor<4xf32> -> tensor<3xf32>
  return
}

// -----

func.func @resample_c5_starts(%x: tensor<4x2xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{gives 'tensor<3x1xf32>' from 'tensor<4x2xf32>' and 2 rows; its result is 'tensor<3x2xf32>'}}
  %0 = nn.resample %x starts %i, %i : tensor<i64>, tensor<i64> dim = 0 places = dense<0> : tensor<2x1xi64> : tensor<4x2xf32> -> tensor<3x1xf32>
  return
}

// -----

func.func @reduce_c1(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{reduce dims [1, 0] are not strictly increasing within rank 2}}
  %0 = nn.reduce sum %x dims = [1, 0] : tensor<2x3xf32> -> tensor<f32>
  return
}

// -----

func.func @matmul_c1(%x: tensor<3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{matmul needs equal ranks of at least 2, has 1 and 1}}
  %0 = nn.matmul %x, %x : tensor<3xf32>, tensor<3xf32> -> tensor<f32>
  return
}

// -----

func.func @matmul_c2(%x: tensor<2x3x4xf32>, %y: tensor<5x4x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{matmul batch dims of 'tensor<2x3x4xf32>' and 'tensor<5x4x3xf32>' differ}}
  %0 = nn.matmul %x, %y : tensor<2x3x4xf32>, tensor<5x4x3xf32> -> tensor<2x3x3xf32>
  return
}

// -----

func.func @matmul_c3(%x: tensor<3x4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{matmul contracts size 4 of 'tensor<3x4xf32>' with size 3 of 'tensor<3x4xf32>'}}
  %0 = nn.matmul %x, %x : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @matmul_c4_result(%x: tensor<3x3xbf16>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{inferred type(s) 'tensor<3x3xbf16>' are incompatible with return type(s) of operation 'tensor<3x3xf64>'}}
  %0 = nn.matmul %x, %x : tensor<3x3xbf16>, tensor<3x3xbf16> -> tensor<3x3xf64>
  return
}

// -----

func.func @matmul_c4(%x: tensor<3x4xf32>, %y: tensor<4x3xf64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{matmul of 'tensor<3x4xf32>' and 'tensor<4x3xf64>' mixes element types}}
  %0 = nn.matmul %x, %y : tensor<3x4xf32>, tensor<4x3xf64> -> tensor<3x3xf32>
  return
}

// -----

func.func @matmul_of_integers(%a: tensor<3x4xi8>, %b: tensor<4x3xi16>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{matmul of 'tensor<3x4xi8>' and 'tensor<4x3xi16>' mixes element types}}
  %0 = nn.matmul %a, %b : tensor<3x4xi8>, tensor<4x3xi16> -> tensor<3x3xi32>
  return
}

// -----

func.func @matmul_of_bytes(%a: tensor<3x4xi8>, %b: tensor<4x3xi8>) {
  // expected-error @+2 {{inferred type(s) 'tensor<3x3xi32>' are incompatible with return type(s) of operation 'tensor<3x3xi8>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.matmul %a, %b : tensor<3x4xi8>, tensor<4x3xi8> -> tensor<3x3xi8>
  return
}

// -----

func.func @softmax_c1(%x: tensor<f32>) {
  // expected-error @+1 {{needs rank >= 1, has rank 0}}
  %0 = nn.softmax %x : tensor<f32>
  return
}

// -----

func.func @log_softmax_c1(%x: tensor<f32>) {
  // expected-error @+1 {{needs rank >= 1, has rank 0}}
  %0 = nn.log_softmax %x : tensor<f32>
  return
}

// -----

func.func @softmax_cross_entropy_c1(%x: tensor<2x3xf32>, %l: tensor<3xi32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{labels have type 'tensor<3xi32>' but logits have type 'tensor<2x3xf32>'}}
  %0 = nn.softmax_cross_entropy %x, %l : tensor<2x3xf32>, tensor<3xi32> -> tensor<2xf32>
  return
}

// -----

func.func @attention_log_sum_c1(%q: tensor<4x3xf32>, %k: tensor<4x2xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{query of 'tensor<4x3xf32>' and key of 'tensor<4x2xf32>' differ in more than their rows}}
  %0 = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @attention_log_sum_c2(%q: tensor<4x3xf32>, %m: tensor<2x4xi1>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{mask of 'tensor<2x4xi1>' does not repeat to scores of 'tensor<4x4xf32>'}}
  %0 = nn.attention_log_sum %q, %q mask = %m scale = 1.0 : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<2x4xi1>) -> tensor<4xf32>
  return
}

// -----

func.func @attention_log_sum_c3(%q: tensor<4x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{diagonal -1 is of no causal attention}}
  %0 = nn.attention_log_sum %q, %q scale = 1.0 diagonal = -1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @attention_log_sum_c3_window(%q: tensor<4x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{window 2 is of no causal attention}}
  %0 = nn.attention_log_sum %q, %q scale = 1.0 window = 2 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @attention_log_sum_c3_negative(%q: tensor<4x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{window -2 is negative}}
  %0 = nn.attention_log_sum %q, %q scale = 1.0 causal window = -2 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @attention_log_sum_c3_softcap(%q: tensor<4x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{is negative or not finite}}
  %0 = nn.attention_log_sum %q, %q scale = 1.0 softcap = -1.0 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @attention_log_sum_c3_softcap_infinite(%q: tensor<4x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{is negative or not finite}}
  %0 = nn.attention_log_sum %q, %q scale = 1.0 softcap = 0x7FF0000000000000 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @attention_log_sum_c9(%q: tensor<4x3xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{positions 'tensor<4xi64>', 'tensor<4xi64>' are not two of a causal attention with scores of 'tensor<4x4xf32>'}}
  %0 = nn.attention_log_sum %q, %q scale = 1.0 at %i, %i : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @attention_log_sum_c9_size(%q: tensor<4x3xf32>, %i: tensor<5xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{positions 'tensor<5xi64>', 'tensor<5xi64>' are not two of a causal attention with scores of 'tensor<4x4xf32>'}}
  %0 = nn.attention_log_sum %q, %q scale = 1.0 causal at %i, %i : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<5xi64>, tensor<5xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @attention_c1(%q: tensor<4x3xf32>, %k: tensor<4x3xf64>, %l: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{query of 'tensor<4x3xf32>' and key of 'tensor<4x3xf64>' differ in more than their rows}}
  %0 = nn.attention %q, %k, %k, %l scale = 1.0 : (tensor<4x3xf32>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<4xf32>) -> tensor<4x3xf64>
  return
}

// -----

func.func @attention_c4(%q: tensor<4x3xf32>, %v: tensor<5x3xf32>, %l: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{value of 'tensor<5x3xf32>' and key of 'tensor<4x3xf32>' differ in more than their columns}}
  %0 = nn.attention %q, %q, %v, %l scale = 1.0 : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<5x3xf32>, tensor<4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @attention_c5(%q: tensor<4x3xbf16>, %l: tensor<4xbf16>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{log_sum of 'tensor<4xbf16>' is not of 'tensor<4xf32>'}}
  %0 = nn.attention %q, %q, %q, %l scale = 1.0 : (tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<4xbf16>) -> tensor<4x3xbf16>
  return
}

// -----

func.func @attention_c6(%q: tensor<4x3xf32>, %l: tensor<4xf32>, %n: tensor<i64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dropout 5.000000e-01 with 1 operands to draw from; one in (0, 1) has 5, 0 has none}}
  %0 = nn.attention %q, %q, %q, %l scale = 1.0 dropout = 0.5 by %n
     : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4xf32>, tensor<i64>) -> tensor<4x3xf32>
  return
}

// -----

func.func @attention_c6_size(%q: tensor<4x3xf32>, %l: tensor<4xf32>, %i: tensor<4xi64>, %n: tensor<i64>, %s: tensor<i32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dropout 1.000000e+00 with 5 operands to draw from; one in (0, 1) has 5, 0 has none}}
  %0 = nn.attention %q, %q, %q, %l scale = 1.0 dropout = 1.0 by %i, %i, %n, %n, %s
     : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4xf32>, tensor<4xi64>, tensor<4xi64>, tensor<i64>, tensor<i64>, tensor<i32>)
     -> tensor<4x3xf32>
  return
}

// -----

func.func @attention_c7(%q: tensor<2x4x3xf32>, %l: tensor<2x4xf32>, %i: tensor<3x4xi64>, %n: tensor<i64>, %s: tensor<i32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{indices of 'tensor<3x4xi64>' and 'tensor<3x4xi64>' do not number the weights of scores of 'tensor<2x4x4xf32>'}}
  %0 = nn.attention %q, %q, %q, %l scale = 1.0 dropout = 0.5 by %i, %i, %n, %n, %s
     : (tensor<2x4x3xf32>, tensor<2x4x3xf32>, tensor<2x4x3xf32>, tensor<2x4xf32>, tensor<3x4xi64>, tensor<3x4xi64>, tensor<i64>, tensor<i64>,
        tensor<i32>) -> tensor<2x4x3xf32>
  return
}

// -----

func.func @attention_c7_stream(%q: tensor<4x3xf32>, %l: tensor<4xf32>, %i: tensor<4xi64>, %n: tensor<i64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{draws from 'tensor<i64>', which is no scalar of i32}}
  %0 = nn.attention %q, %q, %q, %l scale = 1.0 dropout = 0.5 by %i, %i, %n, %n, %n
     : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4xf32>, tensor<4xi64>, tensor<4xi64>, tensor<i64>, tensor<i64>, tensor<i64>)
     -> tensor<4x3xf32>
  return
}

// -----

func.func @attention_gradient_c8(%q: tensor<4x3xf32>, %l: tensor<4xf32>, %g: tensor<4x2xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{out of 'tensor<4x2xf32>' is not of 'tensor<4x3xf32>'}}
  %0 = nn.attention_gradient key %q, %q, %q, %l, %g, %g scale = 1.0
     : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @gather_c1(%table: tensor<f32>, %i: tensor<2xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{gather needs a table of rank >= 1, has 'tensor<f32>'}}
  %0 = nn.gather %table, %i : tensor<f32>, tensor<2xi64> -> tensor<2xf32>
  return
}

// -----

func.func @gather_c2(%table: tensor<2x5xf32>, %i: tensor<3x4xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{1 batch dims are not those of a table of 'tensor<2x5xf32>' and indices of 'tensor<3x4xi64>'}}
  %0 = nn.gather %table, %i batch_dims = 1 : tensor<2x5xf32>, tensor<3x4xi64> -> tensor<3x4xf32>
  return
}

// -----

func.func @gather_c2_table(%table: tensor<2xf32>, %i: tensor<2x4xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{1 batch dims are not those of a table of 'tensor<2xf32>' and indices of 'tensor<2x4xi64>'}}
  %0 = nn.gather %table, %i batch_dims = 1 : tensor<2xf32>, tensor<2x4xi64> -> tensor<2x4xf32>
  return
}

// -----

func.func @gather_c2_indices(%table: tensor<2x5xf32>, %i: tensor<i64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{1 batch dims are not those of a table of 'tensor<2x5xf32>' and indices of 'tensor<i64>'}}
  %0 = nn.gather %table, %i batch_dims = 1 : tensor<2x5xf32>, tensor<i64> -> tensor<f32>
  return
}

// -----

func.func @gather_c2_negative(%table: tensor<2xf32>, %i: tensor<2xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{-1 batch dims are not those of a table of 'tensor<2xf32>' and indices of 'tensor<2xi64>'}}
  %0 = nn.gather %table, %i batch_dims = -1 : tensor<2xf32>, tensor<2xi64> -> tensor<2xf32>
  return
}

// -----

func.func @scatter_add_c1(%i: tensor<2xi64>, %u: tensor<2xf32>) {
  // expected-error @+1 {{needs a result of rank >= 1, has 'tensor<f32>'}}
  %0 = nn.scatter_add %i, %u : tensor<2xi64>, tensor<2xf32> -> tensor<f32>
  return
}

// -----

func.func @scatter_add_c2(%i: tensor<2x4xi64>, %u: tensor<2x4xf32>) {
  // expected-error @+1 {{1 batch dims are not those of indices of 'tensor<2x4xi64>' and a result of 'tensor<3x5xf32>'}}
  %0 = nn.scatter_add %i, %u batch_dims = 1 : tensor<2x4xi64>, tensor<2x4xf32> -> tensor<3x5xf32>
  return
}

// -----

func.func @scatter_add_c3(%i: tensor<2xi64>, %u: tensor<2x4xf32>) {
  // expected-error @+1 {{has updates of 'tensor<2x4xf32>' but indices of 'tensor<2xi64>' and a result of 'tensor<5x3xf32>' need 'tensor<2x3xf32>'}}
  %0 = nn.scatter_add %i, %u : tensor<2xi64>, tensor<2x4xf32> -> tensor<5x3xf32>
  return
}

// -----

func.func @scatter_add_c4(%i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  // expected-error @+1 {{changes the element type from 'f32' to 'f64'}}
  %0 = nn.scatter_add %i, %u : tensor<2xi64>, tensor<2x3xf32> -> tensor<5x3xf64>
  return
}

// -----

func.func @insert_c1(%r: tensor<2x3xf32>, %x: tensor<5x3xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{dim 2 is not within rank 2}}
  %0 = nn.insert %r into %x at %i dim = 2 : tensor<2x3xf32>, tensor<5x3xf32>, tensor<i64> -> tensor<5x3xf32>
  return
}

// -----

func.func @insert_c1(%r: tensor<f32>, %x: tensor<f32>, %i: tensor<i64>) {
  // expected-error @+1 {{dim 0 is not within rank 0}}
  %0 = nn.insert %r into %x at %i dim = 0 : tensor<f32>, tensor<f32>, tensor<i64> -> tensor<f32>
  return
}

// -----

func.func @insert_c2(%r: tensor<2x4xf32>, %x: tensor<5x3xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{has rows of 'tensor<2x4xf32>' for a base of 'tensor<5x3xf32>'; they may differ in the size of dim 0 alone}}
  %0 = nn.insert %r into %x at %i dim = 0 : tensor<2x4xf32>, tensor<5x3xf32>, tensor<i64> -> tensor<5x3xf32>
  return
}

// -----

func.func @insert_c2(%r: tensor<3xf32>, %x: tensor<5x3xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{has rows of 'tensor<3xf32>' for a base of 'tensor<5x3xf32>'; they may differ in the size of dim 0 alone}}
  %0 = nn.insert %r into %x at %i dim = 0 : tensor<3xf32>, tensor<5x3xf32>, tensor<i64> -> tensor<5x3xf32>
  return
}

// -----

func.func @insert_c3(%r: tensor<2x3xf64>, %x: tensor<5x3xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{changes the element type from 'f64' to 'f32'}}
  %0 = nn.insert %r into %x at %i dim = 0 : tensor<2x3xf64>, tensor<5x3xf32>, tensor<i64> -> tensor<5x3xf32>
  return
}

// -----

// expected-error @+1 {{[65536, 65536, 65536] of f32 has more than 70368744177664 bytes, the most that a tensor may have}}
nn.variable @variable_c2 : tensor<65536x65536x65536xf32>

// -----

func.func @concat_sized(%x: tensor<35184372088832xi1>) {
  // expected-error @+1 {{[105553116266496] of i1 has more than 70368744177664 bytes, the most that a tensor may have}}
  %0 = nn.concat %x, %x, %x dim = 0 : (tensor<35184372088832xi1>, tensor<35184372088832xi1>, tensor<35184372088832xi1>) -> tensor<105553116266496xi1>
  return
}

// -----

func.func @broadcast_sized(%x: tensor<65536xf32>) {
  // expected-error @+1 {{[65536, 65536, 65536] of f32 has more than 70368744177664 bytes, the most that a tensor may have}}
  %0 = nn.broadcast %x dims = [0] : tensor<65536xf32> -> tensor<65536x65536x65536xf32>
  return
}

// -----

// A dim of size 0 leaves no elements, but the strides of the others would not fit into 64 bits.
func.func @broadcast_sized_empty(%x: tensor<0xf32>) {
  // expected-error @+1 {{[0, 4611686018427387904, 4] of f32 has more than 70368744177664 bytes, the most that a tensor may have}}
  %0 = nn.broadcast %x dims = [0] : tensor<0xf32> -> tensor<0x4611686018427387904x4xf32>
  return
}

// -----

func.func @pad_sized(%x: tensor<2xf64>) {
  // expected-error @+1 {{[8796093022209] of f64 has more than 70368744177664 bytes, the most that a tensor may have}}
  %0 = nn.pad %x low = [0] interior = [0] : tensor<2xf64> -> tensor<8796093022209xf64>
  return
}

// -----

func.func @matmul_sized(%x: tensor<4294967296x1xf32>, %y: tensor<1x4294967296xf32>) {
  // expected-error @+1 {{[4294967296, 4294967296] of f32 has more than 70368744177664 bytes, the most that a tensor may have}}
  %0 = nn.matmul %x, %y : tensor<4294967296x1xf32>, tensor<1x4294967296xf32> -> tensor<4294967296x4294967296xf32>
  return
}

// -----

func.func @gather_sized(%table: tensor<2x4294967296xf32>, %i: tensor<4294967296xi64>) {
  // expected-error @+1 {{[4294967296, 4294967296] of f32 has more than 70368744177664 bytes, the most that a tensor may have}}
  %0 = nn.gather %table, %i : tensor<2x4294967296xf32>, tensor<4294967296xi64> -> tensor<4294967296x4294967296xf32>
  return
}

// -----

func.func @index_sized() {
  // expected-error @+1 {{[4294967296, 4294967296] of i64 has more than 70368744177664 bytes, the most that a tensor may have}}
  %0 = nn.index [1, 0] : tensor<4294967296x4294967296xi64>
  return
}

// -----

func.func @pad_c2_wrapped(%x: tensor<3xf32>) {
  // expected-error @+1 {{needs more rows in dim 0 than can be counted}}
  %0 = nn.pad %x low = [0] interior = [9223372036854775806] : tensor<3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @window_c1(%x: tensor<1x1x4xf32>, %w: tensor<1x1x2xf32>) {
  // expected-error @+1 {{window of size 2, stride 0 and dilation 1; all three must be at least 1}}
  %0 = nn.conv %x, %w windows = [#nn.window<2, stride = 0>] : tensor<1x1x4xf32>, tensor<1x1x2xf32> -> tensor<1x1x3xf32>
  return
}

// -----

func.func @window_c2(%x: tensor<1x1x4xf32>, %w: tensor<1x1x2xf32>) {
  // expected-error @+1 {{window of size 2, stride 1, dilation 1, padding -2147483648 and 0: numbers must be below 2147483648}}
  %0 = nn.conv %x, %w windows = [#nn.window<2, low = -2147483648>] : tensor<1x1x4xf32>, tensor<1x1x2xf32> -> tensor<1x1x3xf32>
  return
}

// -----

func.func @conv_c1(%x: tensor<1x1x4xf32>, %w: tensor<1x1x2x2xf32>) {
  // expected-error @+1 {{has 1 windows, which are 1 to 3, for x of 'tensor<1x1x4xf32>' and weights of 'tensor<1x1x2x2xf32>', which have two more dims than there are windows}}
  %0 = nn.conv %x, %w windows = [#nn.window<2>] : tensor<1x1x4xf32>, tensor<1x1x2x2xf32> -> tensor<1x1x3xf32>
  return
}

// -----

func.func @conv_c1_no_window(%x: tensor<1x1xf32>, %w: tensor<1x1xf32>) {
  // expected-error @+1 {{has 0 windows, which are 1 to 3}}
  %0 = nn.conv %x, %w windows = [] : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  return
}

// -----

func.func @conv_c2(%x: tensor<1x1x4xf32>, %w: tensor<1x1x2xf32>) {
  // expected-error @+1 {{has a window of size 3 in spatial dim 0 but weights of 'tensor<1x1x2xf32>'}}
  %0 = nn.conv %x, %w windows = [#nn.window<3>] : tensor<1x1x4xf32>, tensor<1x1x2xf32> -> tensor<1x1x2xf32>
  return
}

// -----

func.func @conv_c3(%x: tensor<1x3x4xf32>, %w: tensor<2x2x1xf32>) {
  // expected-error @+1 {{has 3 channels in x, 2 channels of a group in weights of 'tensor<2x2x1xf32>', and 2 channels in y: the groups are not equal}}
  %0 = nn.conv %x, %w windows = [#nn.window<1>] : tensor<1x3x4xf32>, tensor<2x2x1xf32> -> tensor<1x2x4xf32>
  return
}

// -----

func.func @conv_c3_outputs(%x: tensor<1x4x4xf32>, %w: tensor<3x2x1xf32>) {
  // expected-error @+1 {{and 3 channels in y: the groups are not equal}}
  %0 = nn.conv %x, %w windows = [#nn.window<1>] : tensor<1x4x4xf32>, tensor<3x2x1xf32> -> tensor<1x3x4xf32>
  return
}

// -----

func.func @conv_c4(%x: tensor<1x1x4xf32>, %w: tensor<1x1x3xf32>) {
  // expected-error @+1 {{has a window that spans 7 elements in spatial dim 0, where x has 4 and padding 1 and 1}}
  %0 = nn.conv %x, %w windows = [#nn.window<3, dilation = 3, low = 1, high = 1>] : tensor<1x1x4xf32>, tensor<1x1x3xf32> -> tensor<1x1x1xf32>
  return
}

// -----

func.func @conv_c5(%x: tensor<2x1x4xf32>, %w: tensor<3x1x2xf32>) {
  // expected-error @+1 {{has y of 'tensor<2x3x4xf32>', but x of 'tensor<2x1x4xf32>' and weights of 'tensor<3x1x2xf32>' need shape [2, 3, 3]}}
  %0 = nn.conv %x, %w windows = [#nn.window<2>] : tensor<2x1x4xf32>, tensor<3x1x2xf32> -> tensor<2x3x4xf32>
  return
}

// -----

func.func @conv_c6(%x: tensor<2x1x4xf32>, %w: tensor<3x1x2xf64>) {
  // expected-error @+1 {{mixes element types: 'tensor<2x1x4xf32>', 'tensor<3x1x2xf64>' and 'tensor<2x3x3xf32>'}}
  %0 = nn.conv %x, %w windows = [#nn.window<2>] : tensor<2x1x4xf32>, tensor<3x1x2xf64> -> tensor<2x3x3xf32>
  return
}

// -----

func.func @conv_data_c5(%y: tensor<2x3x3xf32>, %w: tensor<3x1x2xf32>) {
  // expected-error @+1 {{has y of 'tensor<2x3x3xf32>', but x of 'tensor<2x1x5xf32>' and weights of 'tensor<3x1x2xf32>' need shape [2, 3, 4]}}
  %0 = nn.conv_data %y, %w windows = [#nn.window<2>] : tensor<2x3x3xf32>, tensor<3x1x2xf32> -> tensor<2x1x5xf32>
  return
}

// -----

func.func @conv_weights_c2(%x: tensor<2x1x4xf32>, %y: tensor<2x3x3xf32>) {
  // expected-error @+1 {{has a window of size 2 in spatial dim 0 but weights of 'tensor<3x1x3xf32>'}}
  %0 = nn.conv_weights %x, %y windows = [#nn.window<2>] : tensor<2x1x4xf32>, tensor<2x3x3xf32> -> tensor<3x1x3xf32>
  return
}

// -----

func.func @conv_weights_c6(%x: tensor<2x1x4xf64>, %y: tensor<2x3x3xf64>) {
  // expected-error @+1 {{mixes element types: 'tensor<2x1x4xf64>', 'tensor<2x3x3xf64>' and 'tensor<3x1x2xf32>'}}
  %0 = nn.conv_weights %x, %y windows = [#nn.window<2>] : tensor<2x1x4xf64>, tensor<2x3x3xf64> -> tensor<3x1x2xf32>
  return
}

// -----

func.func @moments_c1(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{moments dims [1, 0] are not strictly increasing within rank 2}}
  %0 = nn.moments %x dims = [1, 0] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @moments_c2(%x: tensor<0x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{moments of 'tensor<0x3xf32>' along dims [0] are of no elements}}
  %0 = nn.moments %x dims = [0] : tensor<0x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @normalize_c1(%x: tensor<2x3xf32>, %s: tensor<3xf32>) {
  // expected-error @+1 {{dims [2] are not strictly increasing within rank 2}}
  %0 = nn.normalize %x, %s, %s, %s, %s dims = [2] epsilon = 1.0e-05 : tensor<2x3xf32>, tensor<3xf32>
  return
}

// -----

func.func @normalize_c2(%x: tensor<2x3xf32>, %s: tensor<2xf32>) {
  // expected-error @+1 {{has scale of 'tensor<2xf32>' but dims [1] of 'tensor<2x3xf32>' need 'tensor<3xf32>'}}
  %0 = nn.normalize %x, %s, %s, %s, %s dims = [1] epsilon = 1.0e-05 : tensor<2x3xf32>, tensor<2xf32>
  return
}

// -----

func.func @normalize_c3(%x: tensor<2x3xbf16>, %s: tensor<3xf32>) {
  // expected-error @+1 {{normalizes 'tensor<2x3xbf16>' by 'tensor<3xf32>'; element types differ}}
  %0 = nn.normalize %x, %s, %s, %s, %s dims = [1] epsilon = 1.0e-05 : tensor<2x3xbf16>, tensor<3xf32>
  return
}
