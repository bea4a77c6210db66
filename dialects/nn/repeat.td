// SPDX-License-Identifier: Apache-2.0
//
// A loop as an op. Its classes are in repeat.h, apart from nn.h.

#ifndef ASHLAR_DIALECTS_NN_REPEAT_TD
#define ASHLAR_DIALECTS_NN_REPEAT_TD

include "dialects/nn/nn_base.td"

def Nn_RepeatOp : Nn_Op<"repeat", [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">, AttrSizedOperandSegments,
                                   Nn_Differentiable]> {
  let summary = "Runs a body a number of times that is known when compiling";
  let description = [{
    Iteration i of `count` reads the *carried* values of the iteration before, place i of each *sliced* tensor without dim 0, and the
    *captured* values, which are the same in all iterations. It yields the next carried values and a row of each *stacked* result, which is
    place i of the result. `reversed`: iteration i has place count - 1 - i, of sliced and stacked tensors alike. The results are the carried
    values after the last iteration, then the stacked tensors. Without iterations the carried values are the first ones, and the stacked
    tensors have no elements.

        %last, %rows = nn.repeat 3 reversed carried(%h = %first) sliced(%x = %xs) captured(%w = %weights)
            : (tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>) {
          %p = nn.matmul %h, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
          %next = nn.add %p, %x : tensor<2x4xf32>
          nn.yield %next, %next : tensor<2x4xf32>, tensor<2x4xf32>
        }

    The gradient is a reversed repeat; the values of the body that it needs are stacked by another repeat in the place of this one.

    **Constraints:** (C1) count >= 0; (C2) a carried value has one type: as operand, argument of the body, yielded value and result; (C3) a
    sliced tensor has count rows, and its argument the type of one; (C4) a captured value and its argument have one type; (C5) a stacked
    result has count rows of the type of the yielded value; (C6) the ops of the body have no effect.
  }];
  let arguments = (ins I64Attr:$count, UnitAttr:$reversed, Variadic<Nn_Tensor>:$carried, Variadic<Nn_Tensor>:$sliced,
                       Variadic<Nn_Tensor>:$captured);
  let results = (outs Variadic<Nn_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    // Returns the arguments of the body.
    ::mlir::MutableArrayRef<::mlir::BlockArgument> getCarriedArguments() {
      return getBody().getArguments().take_front(getCarried().size());
    }
    ::mlir::MutableArrayRef<::mlir::BlockArgument> getSlicedArguments() {
      return getBody().getArguments().slice(getCarried().size(), getSliced().size());
    }
    ::mlir::MutableArrayRef<::mlir::BlockArgument> getCapturedArguments() {
      return getBody().getArguments().take_back(getCaptured().size());
    }

    // Returns the yielded values, those of carried values first, and the results for them.
    ::mlir::OperandRange getYielded() { return getBody().front().getTerminator()->getOperands(); }
    ::mlir::OperandRange getYieldedStacked() { return getYielded().drop_front(getCarried().size()); }
    ::mlir::ResultRange getCarriedResults() { return getResults().take_front(getCarried().size()); }
    ::mlir::ResultRange getStackedResults() { return getResults().drop_front(getCarried().size()); }

    // Returns the place in sliced and stacked tensors that an iteration has.
    int64_t getPlace(int64_t iteration) { return getReversed() ? static_cast<int64_t>(getCount()) - 1 - iteration : iteration; }
  }];
}

def Nn_YieldOp : Nn_Op<"yield", [Pure, Terminator, HasParent<"RepeatOp">]> {
  let summary = "The results of an iteration of a repeat: its next carried values, then a row of each stacked result";
  let description = [{    nn.yield %next, %row : tensor<2x4xf32>, tensor<4xf32>}];
  let arguments = (ins Variadic<Nn_Tensor>:$values);
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // ASHLAR_DIALECTS_NN_REPEAT_TD
