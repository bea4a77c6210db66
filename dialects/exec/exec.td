// SPDX-License-Identifier: Apache-2.0
//
// The exec dialect: how a program runs. Fused kernels first on tensors (exec.fusion), then, after the memory plan, as tables of
// instructions on buffers at fixed offsets, which mirror runtime/abi/ashlar_rt.h one to one.

#ifndef ASHLAR_DIALECTS_EXEC_EXEC_TD
#define ASHLAR_DIALECTS_EXEC_EXEC_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/exec/exec_enums.td"
include "dialects/exec/exec_interfaces.td"
include "dialects/support/enums.td"
include "dialects/support/op_interfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::ashlar::exec";
  let summary = "How a program runs: kernels, library calls, collectives and copies on buffers of one arena, in one order";
  let description = [{
        nn + dist --> [ exec ] --> object file + runtime

    Two forms. Between `ashlar-fuse` and `ashlar-plan-memory`, `exec.fusion` groups nn ops for one kernel or one library call; values are
    still tensors. After `ashlar-plan-memory` no tensor is left: an `exec.variant` holds the named tensors and the programs; a program is a
    list of instructions whose operands are `#exec.buffer`s.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Exec_Attr<string name, string attrMnemonic> : AttrDef<Exec_Dialect, name> { let mnemonic = attrMnemonic; }
class Exec_Op<string opMnemonic, list<Trait> traits = []> : Op<Exec_Dialect, opMnemonic, traits>;

def Exec_FusionKindAttr : EnumAttr<Exec_Dialect, Exec_FusionKind, "fusion_kind">;
def Exec_RoleAttr : EnumAttr<Exec_Dialect, Exec_Role, "role">;
def Exec_EpilogueAttr : EnumAttr<Exec_Dialect, Exec_Epilogue, "epilogue">;
def Exec_AttentionTensorsAttr : EnumAttr<Exec_Dialect, Exec_AttentionTensors, "attention_tensors"> {
  let assemblyFormat = "`(` $value `)`";
}
def Exec_ConvKindAttr : EnumAttr<Exec_Dialect, Exec_ConvKind, "conv_kind">;
def Exec_OperandSumAttr : EnumAttr<Exec_Dialect, Exec_OperandSum, "operand_sum">;
def Exec_AuxiliaryAttr : EnumAttr<Exec_Dialect, Exec_Auxiliary, "auxiliary">;
def Exec_CollectiveKindAttr : EnumAttr<Exec_Dialect, Ashlar_CollectiveKind, "collective_kind"> { let cppNamespace = "::ashlar::exec"; }
def Exec_ReductionAttr : EnumAttr<Exec_Dialect, Ashlar_Reduction, "reduction"> { let cppNamespace = "::ashlar::exec"; }

def Exec_BufferAttr : Exec_Attr<"Buffer", "buffer"> {
  let summary = "a dense tensor at a fixed place: space, byte offset, shape and element type";
  let description = [{
    In an exec.repeat it may move: `strides` are the bytes from iteration to iteration of each repeat around it, outermost first. Without
    strides for all of them it stays in the inner ones.

        #exec.buffer<arena, 4096, memref<256x10xf32>>
        #exec.buffer<arena, 4096, memref<256x10xf32>, strides = [10240]>
  }];
  let parameters = (ins EnumParameter<Exec_Space>:$space, "uint64_t":$offset, "::mlir::MemRefType":$type,
                        OptionalArrayRefParameter<"int64_t">:$strides);
  let builders = [AttrBuilder<(ins "::ashlar::exec::Space":$space, "uint64_t":$offset, "::mlir::MemRefType":$type), [{
    return $_get($_ctxt, space, offset, type, ::llvm::ArrayRef<int64_t>());
  }]>];
  let assemblyFormat = "`<` $space `,` $offset `,` $type (`,` `strides` `=` `[` $strides^ `]`)? `>`";
  let extraClassDeclaration = [{
    // The bytes that an instruction uses in any iteration, as a buffer: from its lowest place to the end of its highest one. `counts`: of
    // the repeats around the instruction, outermost first; none is 0.
    BufferAttr getSwept(::llvm::ArrayRef<int64_t> counts) const;
  }];
}
def Exec_OverlapAttr : Exec_Attr<"Overlap", "overlap"> {
  let summary = "predicted overlap of a collective with computation";
  let description = [{
    Its duration, and the part of it in which the device computes.

        #exec.overlap<duration_ns = 52000, hidden_ns = 41000>
  }];
  let parameters = (ins "int64_t":$duration_ns, "int64_t":$hidden_ns);
  let assemblyFormat = "`<` `duration_ns` `=` $duration_ns `,` `hidden_ns` `=` $hidden_ns `>`";
}

def Exec_TransferAttr : Exec_Attr<"Transfer", "transfer"> {
  let summary = "A tensor sent between programs of two stages";
  let description = [{
    Semantics of ashlar_rt_transfer.

        #exec.transfer<@relu1, stage = 1, channel = 0>
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$tensor, "int64_t":$stage, "int64_t":$channel);
  let assemblyFormat = "`<` $tensor `,` struct($stage, $channel) `>`";
}
def Exec_TransferArrayAttr : TypedArrayAttrBase<Exec_TransferAttr, "transfers">;

def Exec_RunAttr : Exec_Attr<"Run", "run"> {
  let summary = "A program run for one micro-batch of a step";
  let description = [{
    Semantics of ashlar_rt_run.

        #exec.run<@forward, 0, takes_batch = true>
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$program, "int64_t":$micro_batch, "bool":$takes_batch);
  let assemblyFormat = "`<` $program `,` $micro_batch `,` struct($takes_batch) `>`";
}

def Exec_RepeatAttr : Exec_Attr<"Repeat", "repeat"> {
  let summary = "Runs that a step repeats, for micro-batches larger by `stride` each time";
  let parameters = (ins "::mlir::ArrayAttr":$runs, "int64_t":$count, "int64_t":$stride);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Exec_ConvDimAttr : Exec_Attr<"ConvDim", "conv_dim"> {
  let summary = "A spatial dim of a convolution";
  let description = [{
    Semantics of ashlar_rt_conv_dim.

        #exec.conv_dim<in = 32, out = 16, kernel = 3, stride = 2, dilation = 1, low = 1>
  }];
  let parameters = (ins "int64_t":$in, "int64_t":$out, "int64_t":$kernel, "int64_t":$stride, "int64_t":$dilation, "int64_t":$low);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Exec_BufferArrayAttr : TypedArrayAttrBase<Exec_BufferAttr, "buffers">;

//===-- Tensor form -------------------------------------------------------------------------------------------------------------------===//

def Exec_FusionOp : Exec_Op<"fusion", [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"::ashlar::exec::YieldOp">]> {
  let summary = "nn ops of one kernel or one library call";
  let description = [{
    The block arguments are the operands; the yielded values are the results. `gemm` holds one matrix product of the library with its
    epilogue, `conv` one convolution, `attention` an attention with its log-sum-exp or the gradients of one: the grammars are in
    passes/lower/calls. `attention_kernel` holds an attention with its log-sum-exp, the gradient of its query, or the ones of key and value; a
    generated kernel computes it (passes/lower/kernels/gpu). `scatter` holds exactly one nn.scatter_add and the views it reads,
    `insert` one nn.insert, which the runtime computes.

        %y = exec.fusion loop(%x, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
        ^bb0(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>):
          ...
          exec.yield %r : tensor<4x8xf32>
        }

    **Constraints:** (C1) block arguments have the types of the operands; (C2) yielded values have the types of the results.
  }];
  let arguments = (ins Exec_FusionKindAttr:$kind, Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`` $kind `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body";
  let hasVerifier = 1;
}

def Exec_ProductWithSumsOp : Exec_Op<"product_with_sums", [Pure]> {
  let summary = "A matrix product, and one operand summed along the contraction"
                ": the gradients of a weight and of its bias in one library call";
  let description = [{
    op(lhs) is (m, k) and op(rhs) (k, n), as for nn.matmul. `sum_of` is the operand that is summed over k: (m) or (n).

        %dw, %db = exec.product_with_sums lhs %dy, %x transpose_a : tensor<32x8xf32>, tensor<32x4xf32> -> tensor<8x4xf32>, tensor<8xf32>

    **Constraints:** (C1) sum_of is lhs or rhs; (C2) matrices whose contracted dims are equal, and results of the shapes that follow.
  }];
  let arguments = (ins Exec_OperandSumAttr:$sum_of, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, UnitAttr:$transpose_a,
                       UnitAttr:$transpose_b);
  let results = (outs AnyRankedTensor:$product, AnyRankedTensor:$sums);
  let assemblyFormat = [{
    `` $sum_of $lhs `,` $rhs (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? attr-dict `:` type($lhs) `,` type($rhs) `->`
    type($product) `,` type($sums)
  }];
  let hasVerifier = 1;
}

def Exec_ProductWithAuxiliaryOp : Exec_Op<"product_with_auxiliary", [Pure]> {
  let summary = "An activation of a matrix product with bias, and the tensor from which its gradient is computed: one library call";
  let description = [{
    product = activation(op(lhs) op(rhs) + bias), m x n. The auxiliary tensor of gelu_tanh is the value before the activation, of relu a mask
    with a bit for each element of the product, rows padded to 128 bits. The order of the bits is the library's; only product_with_slope reads
    them, in the same program.

        %y, %mask = exec.product_with_auxiliary relu %x, %w bias %b
            : (tensor<32x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> (tensor<32x16xf32>, tensor<32x16xi8>)

    **Constraints:** (C1) the activation is relu or gelu_tanh; (C2) matrices whose contracted dims are equal, and a product and a bias of the
    shapes that follow; (C3) the auxiliary tensor has the type that follows (`getAuxiliaryType`).
  }];
  let arguments = (ins Exec_EpilogueAttr:$activation, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, Optional<AnyRankedTensor>:$bias,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs AnyRankedTensor:$product, AnyRankedTensor:$auxiliary);
  let assemblyFormat = [{
    `` $activation $lhs `,` $rhs (`bias` $bias^)? (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Exec_ProductWithSlopeOp : Exec_Op<"product_with_slope", [Pure]> {
  let summary = "A matrix product times the slope of an activation: the gradient before the activation in one library call";
  let description = [{
    product = op(lhs) op(rhs) * activation'(x), where x is the value before the activation, element by element. `auxiliary` is the tensor that
    product_with_auxiliary returned for x.

        %dx = exec.product_with_slope relu %dy, %w, %mask transpose_b
            : (tensor<32x8xf32>, tensor<16x8xf32>, tensor<32x16xi8>) -> tensor<32x16xf32>

    **Constraints:** as of product_with_auxiliary.
  }];
  let arguments = (ins Exec_EpilogueAttr:$activation, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, AnyRankedTensor:$auxiliary,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs AnyRankedTensor:$product);
  let assemblyFormat = [{
    `` $activation $lhs `,` $rhs `,` $auxiliary (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Exec_AwaitOp : Exec_Op<"await", [NoMemoryEffect, AliasesOperands, AllTypesMatch<["started", "results"]>]> {
  let summary = "The results of a collective, once it is done";
  let description = [{
    A collective whose results only this op takes overlaps the ops between the two. The operands are all of its results.

        %g = dist.all_reduce sum %dw over ["dp"]
        ...
        %r = exec.await %g : tensor<512x784xf32>

    **Constraints:** (C1) the operands are the results of one collective, in order, and nothing else uses them.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$started);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "$started attr-dict `:` type($started)";
  let hasVerifier = 1;
}

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["::ashlar::exec::FusionOp"]>]> {
  let summary = "the results of a fusion";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

//===-- Buffer form -------------------------------------------------------------------------------------------------------------------===//

def Exec_VariantOp : Exec_Op<"variant", [Symbol, SymbolTable, NoTerminator, SingleBlock, IsolatedFromAbove]> {
  let summary = "The programs for one mesh, and the plan of their arena";
  let description = [{
    `axis_names` and `axis_sizes` are the mesh; a process simulates `devices_per_process` of its devices. `lower_bound_bytes` is the largest
    set of bytes alive at once: no plan can be smaller. The device's mesh coordinates lie at `coordinates_offset`, one i64 an axis.
    `device_ids` is the rank of each point of the mesh, row-major; without it rank r is point r.

    In a pipeline it holds the programs of one stage: `stage` of `num_stages`, `num_slots` slots of `slot_bytes` at `slots_offset` of the
    arena, and `order`, the runs of a step. `outside_name` is set when the variant's name is not the symbol: the stages of a pipeline share
    one.

        exec.variant @default arena 1048576 {axis_names = ["dp"], axis_sizes = array<i64: 4>, ...} { ... }
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$arena_bytes, I64Attr:$lower_bound_bytes, StrArrayAttr:$axis_names,
                       DenseI64ArrayAttr:$axis_sizes, I64Attr:$devices_per_process, I64Attr:$coordinates_offset,
                       OptionalAttr<DenseI64ArrayAttr>:$device_ids, OptionalAttr<StrAttr>:$outside_name,
                       DefaultValuedAttr<I64Attr, "0">:$stage, DefaultValuedAttr<I64Attr, "1">:$num_stages,
                       DefaultValuedAttr<I64Attr, "0">:$slots_offset, DefaultValuedAttr<I64Attr, "0">:$slot_bytes,
                       DefaultValuedAttr<I64Attr, "1">:$num_slots,
                       OptionalAttr<TypedArrayAttrBase<Exec_RepeatAttr, "repetitions">>:$order);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `arena` $arena_bytes attr-dict-with-keyword $body";
}

def Exec_TensorOp : Exec_Op<"tensor", [Symbol, HasParent<"::ashlar::exec::VariantOp">]> {
  let summary = "A named tensor: variable, state, input or output";
  let description = [{
    `splits` holds for each dim the indices of the mesh axes that shard it, major to minor. `persistent`: its value lasts from step to step;
    else it is scratch. `state_of` is the outside name of the parameter of an optimizer state. `internal`: the compiler added it for itself.
    `outside_name` is set when the tensor's outside name differs from the symbol, since a program or another tensor has that symbol.
    `counts`: one a dim, the outside name of the output that holds the number of elements of the dim, with the global size as an upper
    bound; "" for a dim of fixed size.

        exec.tensor @fc1.weight variable #exec.buffer<arena, 64, memref<512x784xf32>> global [512, 784] splits [[], []]

    **Constraints:** (C1) local size = global size divided by the size of each splitting axis in turn, rounded up, in each dim; (C2) `counts`
    has an entry for each dim.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Exec_RoleAttr:$role, Exec_BufferAttr:$buffer, DenseI64ArrayAttr:$global_shape,
                       TypedArrayAttrBase<DenseI64ArrayAttr, "axes of each dim">:$splits, OptionalAttr<StrAttr>:$outside_name,
                       UnitAttr:$persistent, OptionalAttr<StrAttr>:$state_of, UnitAttr:$internal,
                       OptionalAttr<StrArrayAttr>:$counts);
  let assemblyFormat = "$sym_name `` $role $buffer `global` $global_shape `splits` $splits attr-dict";
  let hasVerifier = 1;
}

def Exec_ConstantOp : Exec_Op<"constant"> {
  let summary = "Bytes of the image's constants, from an offset on";
  let description = [{    exec.constant at 64 = dense<[1.0, 2.0]> : tensor<2xf32>}];
  let arguments = (ins I64Attr:$offset, ElementsAttr:$value);
  let assemblyFormat = "`at` $offset `=` $value attr-dict";
}

def Exec_ProgramOp : Exec_Op<"program", [Symbol, NoTerminator, SingleBlock, HasParent<"::ashlar::exec::VariantOp">]> {
  let summary = "Instructions in the order in which every device runs them";
  let description = [{
    `predicted_ns` is the predicted time of one run on one device, `computing_ns` what it would be without collectives, `temporary_bytes`
    the part of the arena that its values without a name take; absent when unknown.

        exec.program @train_step inputs [@input, @labels] outputs [@loss]
            attributes {computing_ns = 4800 : i64, predicted_ns = 5400 : i64, temporary_bytes = 655424 : i64} { ... }
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypedArrayAttrBase<FlatSymbolRefAttr, "tensors">:$inputs,
                       TypedArrayAttrBase<FlatSymbolRefAttr, "tensors">:$outputs, OptionalAttr<Exec_TransferArrayAttr>:$receives,
                       OptionalAttr<Exec_TransferArrayAttr>:$sends, OptionalAttr<I64Attr>:$predicted_ns,
                       OptionalAttr<I64Attr>:$computing_ns, OptionalAttr<I64Attr>:$temporary_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `inputs` $inputs `outputs` $outputs (`receives` $receives^)? (`sends` $sends^)? attr-dict-with-keyword $body
  }];
}

class Exec_InstrOp<string opMnemonic, list<Trait> traits = []>
    : Exec_Op<opMnemonic, [ParentOneOf<["::ashlar::exec::ProgramOp", "::ashlar::exec::RepeatOp"]>,
                           DeclareOpInterfaceMethods<InstrOpInterface>] # traits>;

def Exec_RepeatOp : Exec_Op<"repeat", [ParentOneOf<["::ashlar::exec::ProgramOp", "::ashlar::exec::RepeatOp"]>, NoTerminator, SingleBlock]> {
  let summary = "Runs instructions a number of times";
  let description = [{
    Buffers with strides are at another place in each iteration. `when`: they run only if a bool is not 0 when the repeat begins, the same
    on all ranks.

        exec.repeat 512 {
          exec.copy #exec.buffer<arena, 64, memref<16xf32>> to #exec.buffer<arena, 4096, memref<16xf32>, strides = [64]>
        }

    **Constraints:** (C1) count >= 0; (C2) the condition is one bool.
  }];
  let arguments = (ins I64Attr:$count, OptionalAttr<Exec_BufferAttr>:$condition);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count (`when` $condition^)? attr-dict-with-keyword $body";
  let extraClassDeclaration = [{
    // Returns the uses of buffers when the repeat begins: of the condition.
    ::llvm::SmallVector<BufferUse> getUses();
  }];
  let hasVerifier = 1;
}

def Exec_KernelOp : Exec_InstrOp<"kernel"> {
  let summary = "Runs a generated kernel";
  let description = [{
    The kernel is a func.func at module level. On the cpu its arguments are the buffers (memrefs), then begin and end of the range of its
    parallel loop; `extent` is the length of that loop, `grain` the least part worth a thread. On a GPU its arguments are the buffers, it
    asks for its place in the grid (gpu.block_id, gpu.thread_id), and it runs in `extent` blocks of `grain` threads. `reads` and `writes` are
    indices of buffers; one that is updated in place is in both.

        exec.kernel @kernel_3 [#exec.buffer<arena, 0, memref<8xf32>>, #exec.buffer<arena, 64, memref<8xf32>>] reads [0, 1] writes [1]
                    extent 256 grain 8

    **Constraints:** (C1) reads and writes name every buffer and nothing else.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Exec_BufferArrayAttr:$buffers, DenseI64ArrayAttr:$reads, DenseI64ArrayAttr:$writes,
                       I64Attr:$extent, I64Attr:$grain);
  let assemblyFormat = "$callee $buffers `reads` $reads `writes` $writes `extent` $extent `grain` $grain attr-dict";
  let hasVerifier = 1;
}

def Exec_GemmOp : Exec_InstrOp<"gemm", [DeclareOpInterfaceMethods<FixedWeightsOpInterface, ["getWeights"]>]> {
  let summary = "out = epilogue(op(A) op(B) + bias), by the library";
  let description = [{
    buffers: {A, B, [bias,] [auxiliary read,] out, [sums,] [auxiliary written]}, dense. Types and shapes as in ashlar_rt_gemm_desc. B may be
    fixed or kept weights. `accumulate`: what `out` holds, of f32, is added instead of a bias. `auxiliary`: written beside the activation, or read, so
    that the product is multiplied by the slope of the epilogue's activation instead.

    **Constraints:** (C1) as many buffers as these; (C2) sums only of one batch, with neither bias nor epilogue; (C3) accumulate with neither
    bias nor sums; (C4) auxiliary only of one batch and with an epilogue, without accumulate, and read without bias.
  }];
  let arguments = (ins Exec_BufferArrayAttr:$buffers, I64Attr:$batch, I64Attr:$m, I64Attr:$n, I64Attr:$k, UnitAttr:$transpose_a,
                       UnitAttr:$transpose_b, UnitAttr:$has_bias, UnitAttr:$accumulate, Exec_EpilogueAttr:$epilogue,
                       DefaultValuedAttr<Exec_OperandSumAttr, "::ashlar::exec::OperandSum::None">:$operand_sum,
                       DefaultValuedAttr<Exec_AuxiliaryAttr, "::ashlar::exec::Auxiliary::None">:$auxiliary, UnitAttr:$allow_tf32,
                       UnitAttr:$fixed_weights, UnitAttr:$kept_weights);
  let assemblyFormat = [{
    $buffers `batch` $batch `m` $m `n` $n `k` $k (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? (`bias` $has_bias^)?
    (`accumulate` $accumulate^)? `epilogue` `` $epilogue (`sum_of` `` $operand_sum^)? (`auxiliary` `` $auxiliary^)? (`tf32` $allow_tf32^)?
    (`fixed_weights` $fixed_weights^)? (`kept_weights` $kept_weights^)? attr-dict
  }];
  let extraClassDeclaration = [{
    // The index among `buffers` of the product itself.
    unsigned getOutIndex() { return 2 + getHasBias() + (getAuxiliary() == Auxiliary::Read); }
  }];
  let hasVerifier = 1;
}

def Exec_ConvOp : Exec_InstrOp<"conv", [DeclareOpInterfaceMethods<FixedWeightsOpInterface, ["getWeights"]>]> {
  let summary = "A convolution or one of its gradients, with scale, bias, residual and activation, by the library";
  let description = [{
    buffers, types and shapes as in ashlar_rt_conv_desc; `channels` are the channels of one group. The kernel of forward and data may be
    fixed or kept weights.

        exec.conv forward [...] batch 8 groups 1 channels 64 to 128 dims [#exec.conv_dim<in = 32, out = 32, ...>] bias epilogue relu

    **Constraints:** (C1) as many buffers as these; (C2) weights come with none of them; (C3) 1 to 3 dims; (C4) operands of one
    element type, which the result has, too, or f32 of bf16 or f16, and scale, bias and residual of the result's; (C5) computed weights are
    neither fixed nor kept.
  }];
  let arguments = (ins Exec_ConvKindAttr:$kind, Exec_BufferArrayAttr:$buffers, I64Attr:$batch, I64Attr:$groups, I64Attr:$channels_in,
                       I64Attr:$channels_out, TypedArrayAttrBase<Exec_ConvDimAttr, "spatial dims">:$dims, UnitAttr:$has_scale,
                       UnitAttr:$has_bias, UnitAttr:$has_residual, Exec_EpilogueAttr:$epilogue, UnitAttr:$allow_tf32,
                       UnitAttr:$fixed_weights, UnitAttr:$kept_weights);
  let assemblyFormat = [{
    `` $kind $buffers `batch` $batch `groups` $groups `channels` $channels_in `to` $channels_out `dims` $dims (`scale` $has_scale^)?
    (`bias` $has_bias^)? (`residual` $has_residual^)? `epilogue` `` $epilogue (`tf32` $allow_tf32^)? (`fixed_weights` $fixed_weights^)?
    (`kept_weights` $kept_weights^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_AttentionOp : Exec_InstrOp<"attention"> {
  let summary = "An attention with its log-sum-exp, or the gradients of one, by the library";
  let description = [{
    buffers, types and sizes as in ashlar_rt_attention_desc, with as many key heads as heads. The tensors of `heads_inside` have their
    heads inside their rows: (batch, rows, heads, width).

        exec.attention [...] batch 8 heads 12 rows 128 keys 128 width 64 columns 64 scale 1.250000e-01 causal heads_inside(q, k, v, out)

    **Constraints:** (C1) as many buffers as these; (C2) mask strides are four, of a mask; (C3) heads are inside rows of tensors that
    it has.
  }];
  let arguments = (ins UnitAttr:$backward, Exec_BufferArrayAttr:$buffers, I64Attr:$batch, I64Attr:$heads, I64Attr:$rows, I64Attr:$keys,
                       I64Attr:$width, I64Attr:$columns, F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<I64Attr, "0">:$diagonal,
                       DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<F64Attr, "::llvm::APFloat(0.0)">:$softcap,
                       OptionalAttr<DenseI64ArrayAttr>:$mask_strides,
                       DefaultValuedAttr<Exec_AttentionTensorsAttr, "AttentionTensors::None">:$heads_inside,
                       DefaultValuedAttr<F64Attr, "::llvm::APFloat(0.0)">:$dropout, UnitAttr:$positions);
  let assemblyFormat = [{
    (`backward` $backward^)? $buffers `batch` $batch `heads` $heads `rows` $rows `keys` $keys `width` $width `columns` $columns `scale` $scale
    (`causal` $causal^)? (`diagonal` $diagonal^)? (`window` $window^)? (`softcap` $softcap^)? (`mask` $mask_strides^)? (`heads_inside` `` $heads_inside^)?
    (`dropout` $dropout^)? (`positions` $positions^)? attr-dict
  }];
  let extraClassDeclaration = [{
    // The number of results, which are the last buffers.
    unsigned countResults() { return getBackward() ? 3 : 2; }
  }];
  let hasVerifier = 1;
}

def Exec_InsertOp : Exec_InstrOp<"insert"> {
  let summary = "Writes rows into a tensor at an index that is known when it runs";
  let description = [{
    buffers: {rows, index, target}. Semantics of ashlar_rt_insert_desc: the other elements of the target stay as they are, so it is read, too.

        exec.insert [...] outer 24 rows 1 of 1024 row_bytes 256

    **Constraints:** (C1) three buffers; (C2) rows and target have as many bytes as these sizes; (C3) the index is one i32 or i64.
  }];
  let arguments = (ins Exec_BufferArrayAttr:$buffers, I64Attr:$outer, I64Attr:$rows, I64Attr:$places, I64Attr:$row_bytes);
  let assemblyFormat = "$buffers `outer` $outer `rows` $rows `of` $places `row_bytes` $row_bytes attr-dict";
  let hasVerifier = 1;
}

def Exec_CollectiveOp : Exec_InstrOp<"collective"> {
  let summary = "Communication over the groups of devices that differ only along `axes`";
  let description = [{
    Semantics of ashlar_rt_collective_desc. It takes each of the sources to the target of the same place in the list; `split` and `concat`
    have one dim for each. `axes` are indices into the variant's mesh, major to minor. `pairs` of a permute are {source, target, source,
    target, ...}: coordinates in the group. `root` of a broadcast is the coordinate in the group of the sending device. `segments` of a halo are
    the size of its dim, which is the split dim, and positions, step, first and last of the segments before and after. `cause`: the
    #dist.ends that made it necessary; without it, the op itself, by its path. With `token` it is only started: it reads its sources and
    writes its targets until the exec.wait with that token, in the same iteration of a repeat; `overlap` is its predicted overlap.

        exec.collective all_reduce #exec.buffer<arena, 0, memref<8xf32>>, #exec.buffer<arena, 64, memref<2xf32>>
                                to #exec.buffer<arena, 0, memref<8xf32>>, #exec.buffer<arena, 64, memref<2xf32>>
                                over [0] reduction sum split 0, 0 concat 0, 0

    **Constraints:** (C1) at least one source, and a target and both dims for each; (C2) buffers of one element type; (C3) a token is
    positive, and `overlap` goes with one; (C4) a halo, and nothing else, has 9 segments; (C5) no buffer has strides.
  }];
  let arguments = (ins Exec_CollectiveKindAttr:$kind, Exec_BufferArrayAttr:$sources, Exec_BufferArrayAttr:$targets, DenseI64ArrayAttr:$axes,
                       Exec_ReductionAttr:$reduction, DenseI64ArrayAttr:$split_dims, DenseI64ArrayAttr:$concat_dims,
                       OptionalAttr<ArrayAttr>:$cause, OptionalAttr<DenseI64ArrayAttr>:$pairs, OptionalAttr<DenseI64ArrayAttr>:$segments,
                       DefaultValuedAttr<I64Attr, "0">:$root,
                       OptionalAttr<I64Attr>:$token, OptionalAttr<Exec_OverlapAttr>:$overlap);
  let assemblyFormat = [{
    `` $kind custom<Buffers>($sources) `to` custom<Buffers>($targets) `over` $axes `reduction` `` $reduction
    `split` custom<Numbers>($split_dims) `concat` custom<Numbers>($concat_dims) (`cause` $cause^)? (`pairs` $pairs^)?
    (`segments` $segments^)? (`token` $token^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_WaitOp : Exec_InstrOp<"wait"> {
  let summary = "Waits for the collective that was started with the token";
  let description = [{    exec.wait 3}];
  let arguments = (ins I64Attr:$token);
  let assemblyFormat = "$token attr-dict";
}

def Exec_CopyOp : Exec_InstrOp<"copy"> {
  let summary = "Copies a buffer to another of the same bytes";
  let arguments = (ins Exec_BufferAttr:$source, Exec_BufferAttr:$target);
  let assemblyFormat = "$source `to` $target attr-dict";
}

#endif // ASHLAR_DIALECTS_EXEC_EXEC_TD
