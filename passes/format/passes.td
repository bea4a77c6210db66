// SPDX-License-Identifier: Apache-2.0
//
// The order in which the dims of tensors stand in memory.

#ifndef ASHLAR_PASSES_FORMAT_PASSES_TD
#define ASHLAR_PASSES_FORMAT_PASSES_TD

include "dialects/exec/target_option.td"

def AssignFormatsPass : Pass<"ashlar-assign-formats", "::mlir::ModuleOp"> {
  let summary = "Assigns every tensor the order of dims in memory that is fastest for the ops around it.";
  let description = [{
    Convolutions get their channels last, and so do their weights where the library of the target prefers that. Ops on their results, and
    the ops after them, keep the order; broadcasts, constants and random numbers are made in the order of their readers. A transpose remains
    only where an op needs the original order (a matrix product, a reshape of dims that are no longer adjacent, a result of the program) and
    at inputs. A value that a loop carries has its channels last in all iterations where a convolution reads it. docs/convolution.md.

        %y = nn.conv %x, %w windows = [...] : tensor<8x3x32x32xf32>, tensor<64x3x3x3xf32> -> tensor<8x64x32x32xf32>
        %h = nn.relu %y : tensor<8x64x32x32xf32>
    ==>
        %t = nn.transpose %x [0, 2, 3, 1] : tensor<8x3x32x32xf32> -> tensor<8x32x32x3xf32>
        %y = nn.conv %t, %w windows = [...] channels_last : tensor<8x32x32x3xf32>, tensor<64x3x3x3xf32> -> tensor<8x32x32x64xf32>
        %h = nn.relu %y : tensor<8x32x32x64xf32>

    Needs: local shapes (ashlar-partition), or a program for one device. Leaves all other ops as they are.
  }];
  let options = [TargetOption<"whose library computes the convolutions">];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

#endif // ASHLAR_PASSES_FORMAT_PASSES_TD
