// SPDX-License-Identifier: Apache-2.0
//
// The ops of the dist dialect: mesh, redistribution, collectives, and the place of a device.

#ifndef ASHLAR_DIALECTS_DIST_DIST_OPS_TD
#define ASHLAR_DIALECTS_DIST_DIST_OPS_TD

include "dialects/dist/dist_base.td"

//===-- Global shapes -----------------------------------------------------------------------------------------------------------------===//

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "The devices of the program";
  let description = [{
        dist.mesh @mesh <["dp" = 4, "tp" = 2]>
        dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [5200, 200], bytes_per_us = [1200, 29000]>,
                                                device_ids = array<i64: 0, 2, 1, 3>}

    A device is a point of the mesh, everywhere in the compiler. `device_ids` is the rank of each point, row-major; without it rank r is
    point r. Without `costs` all links are equal and a message costs nothing but its bytes. `hosts` is where `costs` come from: where an axis is
    cut, the costs of its parts follow from it, and without it a part has the costs of its axis.

    **Constraints:** (C1) one mesh a module; (C2) `device_ids` holds every number from 0 to the number of devices - 1 once; (C3) `costs` has
    one entry an axis.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Dist_MeshAttr:$mesh, OptionalAttr<DenseI64ArrayAttr>:$device_ids,
                       OptionalAttr<Dist_CostsAttr>:$costs, OptionalAttr<Dist_HostsAttr>:$hosts);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::ashlar::dist::MeshAttr":$mesh), [{
    build($_builder, $_state, name, mesh, /*device_ids=*/nullptr, /*costs=*/nullptr, /*hosts=*/nullptr);
  }]>];
  let assemblyFormat = "$sym_name $mesh attr-dict";
  let hasVerifier = 1;
}

def Dist_RedistributeOp : Dist_Op<"redistribute", [Pure, SameOperandsAndResultType, DeclareOpInterfaceMethods<GradientOpInterface>,
                                                DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "The same global tensor under another layout";
  let description = [{
    On global tensors, where it is the identity. Partitioning turns it into collectives.

        %y = dist.redistribute %x from <[{} ], partial = sum {"dp"}> to <[{} ]> : tensor<512xf32>

    **Constraints:** (C1) both layouts have the rank of the tensor; (C2) their axes are in the mesh; (C3) `to` is partial only over axes
    over which `from` is, of the same kind.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dist_LayoutAttr:$from, Dist_LayoutAttr:$to, OptionalAttr<Dist_CauseAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input `from` $from `to` $to attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===-- Collectives, on local shapes --------------------------------------------------------------------------------------------------===//
// Below, the group of a device is the set of n devices that differ from it only along `axes`, numbered 0 .. n-1 by their coordinate along
// them; x_r is the operand on device r of the group. all_reduce, all_gather and reduce_scatter take a list of operands of one element type,
// each with a result of its own, as if it were alone; each description holds for every operand.

def Dist_AllReduceOp : Dist_CollectiveOp<"all_reduce", "AllReduce", [
    RangedTypesMatchWith<"results have the types of the operands", "outputs", "inputs", "$_self">, Dist_Reorderable]> {
  let summary = "Every device gets the combination of the operands of its group";
  let description = [{
    Result on each device: x_0 + ... + x_{n-1}, or the element-wise max or min.

        %y = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "fc1.weight">]} : tensor<512x784xf32>
        %y:2 = dist.all_reduce sum %a, %b over ["dp"] {fusion = #dist.fusion<mode = id, number = 1>} : tensor<512x784xf32>, tensor<512xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) at least one operand, all of one element type.
  }];
  let arguments = (ins Dist_ReductionAttr:$reduction, Variadic<AnyStaticShapeTensor>:$inputs, Dist_AxesAttr:$axes,
                       OptionalAttr<Dist_CauseAttr>:$cause, OptionalAttr<Dist_FusionAttr>:$fusion);
  let results = (outs Variadic<AnyStaticShapeTensor>:$outputs);
  let assemblyFormat = "`` $reduction $inputs `over` $axes attr-dict `:` type($outputs)";
  let extraClassDeclaration = collectiveDeclaration # [{
    std::optional<::ashlar::Reduction> getReductionKind() { return getReduction(); }
  }];
}

def Dist_AllGatherOp : Dist_CollectiveOp<"all_gather", "AllGather", [Dist_Reorderable]> {
  let summary = "Every device gets the operands of its group, joined along a dim";
  let description = [{
    Result on each device: x_0, ..., x_{n-1} concatenated along `dim`.

        %y = dist.all_gather %x dim = 0 over ["dp"] : tensor<64x10xf32> -> tensor<256x10xf32>
        %y:2 = dist.all_gather %a, %b dim = 0, 1 over ["dp"] : tensor<2x4xf32>, tensor<4x2xf32> -> tensor<8x4xf32>, tensor<4x8xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) `dim` within the rank; (C3) the result is n times the operand
    in `dim` and equal in the rest; (C4) at least one operand, all of one element type, and one result and one dim for each.
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs, DenseI64ArrayAttr:$dims, Dist_AxesAttr:$axes,
                       OptionalAttr<Dist_CauseAttr>:$cause, OptionalAttr<Dist_FusionAttr>:$fusion);
  let results = (outs Variadic<AnyStaticShapeTensor>:$outputs);
  let assemblyFormat = "$inputs `dim` `=` custom<Numbers>($dims) `over` $axes attr-dict `:` type($inputs) `->` type($outputs)";
}

def Dist_ReduceScatterOp : Dist_CollectiveOp<"reduce_scatter", "ReduceScatter", [Dist_Reorderable]> {
  let summary = "Every device gets its shard of the combination of the operands of its group";
  let description = [{
    Result on device r of the group: shard r, along `dim`, of the combination of x_0, ..., x_{n-1}.

        %y = dist.reduce_scatter sum %x dim = 0 over ["dp"] : tensor<512x784xf32> -> tensor<128x784xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) `dim` within the rank; (C3) the operand is n times the result
    in `dim` and equal in the rest; (C4) at least one operand, all of one element type, and one result and one dim for each.
  }];
  let arguments = (ins Dist_ReductionAttr:$reduction, Variadic<AnyStaticShapeTensor>:$inputs, DenseI64ArrayAttr:$dims, Dist_AxesAttr:$axes,
                       OptionalAttr<Dist_CauseAttr>:$cause, OptionalAttr<Dist_FusionAttr>:$fusion);
  let results = (outs Variadic<AnyStaticShapeTensor>:$outputs);
  let assemblyFormat = [{
    `` $reduction $inputs `dim` `=` custom<Numbers>($dims) `over` $axes attr-dict `:` type($inputs) `->` type($outputs)
  }];
  let extraClassDeclaration = collectiveDeclaration # [{
    std::optional<::ashlar::Reduction> getReductionKind() { return getReduction(); }
  }];
}

def Dist_AllToAllOp : Dist_CollectiveOp<"all_to_all", "AllToAll", [Dist_Reorderable]> {
  let summary = "Moves a sharding from one dim to another";
  let description = [{
    Each device cuts its operand into n pieces along `split_dim` and sends piece r to device r of its group. Result on device r: piece r of
    x_0, ..., x_{n-1}, concatenated along `concat_dim`.

        %y = dist.all_to_all %x split_dim = 1 concat_dim = 0 over ["tp"] : tensor<2x8xf32> -> tensor<4x4xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) both dims within the rank and different; (C3) the result is
    1/n of the operand in `split_dim`, n times in `concat_dim` and equal in the rest.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, I64Attr:$split_dim, I64Attr:$concat_dim, Dist_AxesAttr:$axes,
                       OptionalAttr<Dist_CauseAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $input `split_dim` `=` $split_dim `concat_dim` `=` $concat_dim `over` $axes attr-dict `:` type($input) `->` type($result)
  }];
}

def Dist_PermuteOp : Dist_CollectiveOp<"permute", "Permute", [SameOperandsAndResultType, Dist_Reorderable]> {
  let summary = "Devices of a group change places";
  let description = [{
    Result on device r of the group: x_s with s = `sources[r]`. It takes a tensor to a layout with the same shards on other devices: on a 2
    x 2 mesh, rows sharded over dp, then tp, to rows sharded over tp, then dp.

        %y = dist.permute %x sources = [0, 2, 1, 3] over ["dp", "tp"] : tensor<64x10xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) `sources` holds every number from 0 to n - 1 once.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, DenseI64ArrayAttr:$sources, Dist_AxesAttr:$axes, OptionalAttr<Dist_CauseAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input `sources` `=` $sources `over` $axes attr-dict `:` type($result)";
}

def Dist_BroadcastOp : Dist_CollectiveOp<"broadcast", "Broadcast", [SameOperandsAndResultType, Dist_Reorderable,
                                                                    DeclareOpInterfaceMethods<ShardingRuleOpInterface>,
                                                                    DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Every device gets the operand of one device of its group";
  let description = [{
    Result on each device: x_root. Models place it (hybrid mode), on values that are replicated over `axes` and so equal on the devices of a
    group: there it is the identity, which makes copies that drifted apart equal again, bit by bit. So it may stand on global tensors too,
    and its gradient is the gradient of its result. Parameter ownership places it, with `dist.owner`, after an update that only the root
    computes.

        %y = dist.broadcast %x root = 0 over ["dp"] : tensor<512xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) 0 <= `root` < n.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, I64Attr:$root, Dist_AxesAttr:$axes, OptionalAttr<Dist_CauseAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input `root` `=` $root `over` $axes attr-dict `:` type($result)";
}

def Dist_HaloOp : Dist_CollectiveOp<"halo", "Halo", [Dist_Reorderable]> {
  let summary = "Every device gets the run of elements that it needs, from their devices";
  let description = [{
    Dim `dim` has `size` elements. Each device of the group has the elements of its segment of `from` and gets the elements of its segment of `to`;
    the segments of `from` do not overlap. Elements outside of the tensor are 0, as are elements that only padding of the positions would need.
    A device receives only the elements that it lacks, straight from their device. Example: 8 rows over 2 devices, which each need one more
    at either side.

        %y = dist.halo %x dim = 0 size = 8 from <positions = 8> to <positions = 8, first = -1, last = 2> over ["sp"]
           : tensor<4x3xf32> -> tensor<6x3xf32>   // rows - 0 1 2 3 4 | 3 4 5 6 7 -

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) `dim` within the rank; (C3) the segments of `from` are blocks
    (first 0, last = step) and hold all elements; (C4) operand and result have the lengths of their segments in `dim` and are equal in the rest.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, I64Attr:$dim, I64Attr:$size, Dist_RunsAttr:$from, Dist_RunsAttr:$to, Dist_AxesAttr:$axes,
                       OptionalAttr<Dist_CauseAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $input `dim` `=` $dim `size` `=` $size `from` $from `to` $to `over` $axes attr-dict `:` type($input) `->` type($result)
  }];
}

//===-- No communication --------------------------------------------------------------------------------------------------------------===//

def Dist_SliceOp : Dist_Op<"slice", [Pure, Dist_Reorderable, DeclareOpInterfaceMethods<ShardOpInterface>]> {
  let summary = "The device's own shard of a tensor; no communication";
  let description = [{
    Result on device r of the group: shard r of its own operand, cut into n shards along `dim`.

        %y = dist.slice %x dim = 0 over ["dp"] : tensor<256x10xf32> -> tensor<64x10xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) `dim` within the rank; (C3) the operand is n times the result
    in `dim` and equal in the rest.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, I64Attr:$dim, Dist_AxesAttr:$axes);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input `dim` `=` $dim `over` $axes attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Dist_AxisIndexOp : Dist_Op<"axis_index", [Pure]> {
  let summary = "The coordinate of the device along mesh axes, major to minor";
  let description = [{
        %i = dist.axis_index over ["dp", "tp"] : tensor<i64>   // dp coordinate * size of tp + tp coordinate

    **Constraints:** (C1) at least one axis, all in the mesh, none twice.
  }];
  let arguments = (ins Dist_AxesAttr:$axes);
  let results = (outs Dist_IndexScalar:$result);
  let assemblyFormat = "`over` $axes attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dist_AfterOp : Dist_Op<"after", [Pure, AliasesOperands, AllTypesMatch<["input", "result"]>, Dist_Reorderable,
                                     DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "A value, not before another one exists";
  let description = [{
    Result: the operand. Ops on the result cannot be scheduled before `event`, nor be merged with ops on the operand: so the copies of
    rematerialized ops stay in the backward pass (docs/recompute.md). It makes no instruction.

        %y = dist.after %x, %g : tensor<64x784xf32>, tensor<64x10xf32>
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, AnyStaticShapeTensor:$event);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input `,` $event attr-dict `:` type($input) `,` type($event)";
}

#endif // ASHLAR_DIALECTS_DIST_DIST_OPS_TD
