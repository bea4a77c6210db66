// SPDX-License-Identifier: Apache-2.0
//
// A loop as an op, and the flat form that it has between layouts and partitioning. The classes are in repeat.h, apart from nn.h.

#ifndef ASHLAR_DIALECTS_NN_REPEAT_TD
#define ASHLAR_DIALECTS_NN_REPEAT_TD

include "dialects/nn/nn_base.td"

def Nn_RepeatOp : Nn_Op<"repeat", [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">, AttrSizedOperandSegments,
                                   RepeatsBody, Nn_Differentiable]> {
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

    A repeat `when` a condition runs its body only if that holds, else the results are the first values. The gradient has the same condition,
    and the values that it needs are carried.

        %result = nn.repeat 1 when %holds carried(%y = %x) captured(%w = %weights)
            : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<i1>) -> tensor<2x4xf32> {
          %p = nn.matmul %y, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
          nn.yield %p : tensor<2x4xf32>
        }

    **Constraints:** (C1) count >= 0; (C2) a carried value has one type: as operand, argument of the body, yielded value and result; (C3) a
    sliced tensor has count rows, and its argument the type of one; (C4) a captured value and its argument have one type; (C5) a stacked
    result has count rows of the type of the yielded value; (C6) the ops of the body have no effect; (C7) a condition is one bool, and with it
    count is 1 and nothing is sliced or stacked.
  }];
  let arguments = (ins I64Attr:$count, UnitAttr:$reversed, Variadic<Nn_Tensor>:$carried, Variadic<Nn_Tensor>:$sliced,
                       Variadic<Nn_Tensor>:$captured, Optional<Nn_BoolTensor>:$condition);
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

    // Returns the operands that the arguments of the body stand for, one for each: all but the condition.
    ::mlir::OperandRange getEntering() { return getOperands().take_front(getBody().getNumArguments()); }

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

//===-- The flat form -----------------------------------------------------------------------------------------------------------------===//

// A loop whose ops stand among those of the program, so that passes on layouts see one program. The loop is the ops that depend on its
// repeat_carry and repeat_row ops, up to its repeat_next and repeat_stack ops: what the data says, not places in the text. With a condition it
// is also what these ops alone need. `loop` is the number of the loop in its function; loops inside of another have larger numbers than it.
class Nn_FlatRepeatOp<string opMnemonic, list<Trait> traits, string parts = "moved">
    : Nn_Op<opMnemonic, !listconcat([DeclareOpInterfaceMethods<ShardingRuleOpInterface>, Nn_Computes<"Free", "Follow", parts>], traits)> {
  let hasVerifier = 1;
}

def Nn_RepeatCarryOp : Nn_FlatRepeatOp<"repeat_carry", [Pure, DelaysSums, AllTypesMatch<["first", "result"]>], "carried"> {
  let summary = "A carried value in an iteration of a flat loop";
  let description = [{
    The operand is the first value. The op is the whole form of a carried value together with its `nn.repeat_next`. `number` distinguishes
    carried values of one loop that begin alike. `when`: the condition of the loop, the same for all its carried values.

        %h = nn.repeat_carry %first loop 0 number 0 count 3 reversed : tensor<2x4xf32>
        %y = nn.repeat_carry %x when %holds : tensor<i1> loop 1 number 0 count 1 : tensor<2x4xf32>

    **Constraints:** (C1) count >= 0; (C2) a condition is one bool.
  }];
  let arguments = (ins Nn_Tensor:$first, Optional<Nn_BoolTensor>:$condition, I64Attr:$loop, I64Attr:$number, I64Attr:$count,
                       UnitAttr:$reversed);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $first (`when` $condition^ `:` type($condition))? `loop` $loop `number` $number `count` $count (`reversed` $reversed^)? attr-dict
    `:` type($result)
  }];
}

def Nn_RepeatRowOp : Nn_FlatRepeatOp<"repeat_row", [Pure, MovesElements, Nn_Reorderable]> {
  let summary = "The row of a sliced tensor in an iteration of a flat loop";
  let description = [{
        %x = nn.repeat_row %xs loop 0 count 3 reversed : tensor<3x2x4xf32> -> tensor<2x4xf32>

    **Constraints:** (C1) count >= 0; (C2) the operand has count rows of the type of the result.
  }];
  let arguments = (ins Nn_Tensor:$stack, I64Attr:$loop, I64Attr:$count, UnitAttr:$reversed);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$stack `loop` $loop `count` $count (`reversed` $reversed^)? attr-dict `:` type($stack) `->` type($result)";
}

def Nn_RepeatNextOp : Nn_FlatRepeatOp<"repeat_next", [DelaysSums, AliasesOperands, SameOperandsAndResultType]> {
  let summary = "The next carried value of an iteration of a flat loop, and behind the loop the last one";
  let description = [{
    `value` is the value that the next iteration has as `carried`, the result the one after the last iteration. The op has the effect of a
    write, so it stays where only iterations read the value.

        %last = nn.repeat_next %next of %h : tensor<2x4xf32>

    **Constraints:** (C1) `carried` is the result of an nn.repeat_carry.
  }];
  let arguments = (ins Nn_Tensor:$value, Arg<Nn_Tensor, "", [MemWrite]>:$carried);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$value `of` $carried attr-dict `:` type($result)";
}

def Nn_RepeatStackOp : Nn_FlatRepeatOp<"repeat_stack", [Pure, DelaysSums, Nn_Reorderable]> {
  let summary = "The rows that the iterations of a flat loop have of a value, as one tensor behind the loop";
  let description = [{
        %all = nn.repeat_stack %next loop 0 count 3 reversed : tensor<2x4xf32> -> tensor<3x2x4xf32>

    **Constraints:** (C1) count >= 0; (C2) the result has count rows of the type of the operand.
  }];
  let arguments = (ins Nn_Tensor:$row, I64Attr:$loop, I64Attr:$count, UnitAttr:$reversed);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$row `loop` $loop `count` $count (`reversed` $reversed^)? attr-dict `:` type($row) `->` type($result)";
}

#endif // ASHLAR_DIALECTS_NN_REPEAT_TD
