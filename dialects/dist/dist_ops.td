// SPDX-License-Identifier: Apache-2.0
//
// The ops of the dist dialect: mesh, redistribution, collectives, what a device knows of its own place.

#ifndef ASHLAR_DIALECTS_DIST_DIST_OPS_TD
#define ASHLAR_DIALECTS_DIST_DIST_OPS_TD

include "dialects/dist/dist_base.td"

//===-- Global shapes -----------------------------------------------------------------------------------------------------------------===//

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "The devices of the program";
  let description = [{
        dist.mesh @mesh <["dp" = 4, "tp" = 2]>

    **Constraints:** (C1) one mesh a module.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Dist_MeshAttr:$mesh);
  let assemblyFormat = "$sym_name $mesh attr-dict";
  let hasVerifier = 1;
}

def Dist_RedistributeOp : Dist_Op<"redistribute", [Pure, SameOperandsAndResultType]> {
  let summary = "The same global tensor under another layout";
  let description = [{
    On global tensors, where it is the identity. Partitioning turns it into collectives.

        %y = dist.redistribute %x from <[{} ], partial = sum {"dp"}> to <[{} ]> : tensor<512xf32>

    **Constraints:** (C1) both layouts have the rank of the tensor; (C2) their axes are in the mesh; (C3) `to` is partial only over axes
    over which `from` is, of the same kind.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Dist_LayoutAttr:$from, Dist_LayoutAttr:$to, OptionalAttr<StrAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input `from` $from `to` $to attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===-- Collectives, on local shapes --------------------------------------------------------------------------------------------------===//
// Below, the group of a device are the n devices that differ from it only along `axes`, numbered 0 .. n-1 by their coordinate along them;
// x_r is the operand on device r of the group.

def Dist_AllReduceOp : Dist_CollectiveOp<"all_reduce", "AllReduce", [SameOperandsAndResultType]> {
  let summary = "Every device gets the combination of the operands of its group";
  let description = [{
    Result on each device: x_0 + ... + x_{n-1}, or the element-wise max or min.

        %y = dist.all_reduce sum %x over ["dp"] {cause = "gradient of fc1.weight"} : tensor<512x784xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice.
  }];
  let arguments = (ins Dist_ReductionAttr:$reduction, AnyStaticShapeTensor:$input, Dist_AxesAttr:$axes,
                       OptionalAttr<StrAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "`` $reduction $input `over` $axes attr-dict `:` type($result)";
  let extraClassDeclaration = collectiveDeclaration # [{
    std::optional<::ashlar::dist::Reduction> getReductionKind() { return getReduction(); }
  }];
}

def Dist_AllGatherOp : Dist_CollectiveOp<"all_gather", "AllGather"> {
  let summary = "Every device gets the operands of its group, joined along a dim";
  let description = [{
    Result on each device: x_0, ..., x_{n-1} concatenated along `dim`.

        %y = dist.all_gather %x dim = 0 over ["dp"] : tensor<64x10xf32> -> tensor<256x10xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) `dim` within the rank; (C3) the result is n times the operand
    in `dim` and equal in the rest.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, I64Attr:$dim, Dist_AxesAttr:$axes,
                       OptionalAttr<StrAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input `dim` `=` $dim `over` $axes attr-dict `:` type($input) `->` type($result)";
}

def Dist_ReduceScatterOp : Dist_CollectiveOp<"reduce_scatter", "ReduceScatter"> {
  let summary = "Every device gets its piece of the combination of the operands of its group";
  let description = [{
    Result on device r of the group: piece r, along `dim`, of the combination of x_0, ..., x_{n-1}.

        %y = dist.reduce_scatter sum %x dim = 0 over ["dp"] : tensor<512x784xf32> -> tensor<128x784xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) `dim` within the rank; (C3) the operand is n times the result
    in `dim` and equal in the rest.
  }];
  let arguments = (ins Dist_ReductionAttr:$reduction, AnyStaticShapeTensor:$input, I64Attr:$dim, Dist_AxesAttr:$axes,
                       OptionalAttr<StrAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "`` $reduction $input `dim` `=` $dim `over` $axes attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = collectiveDeclaration # [{
    std::optional<::ashlar::dist::Reduction> getReductionKind() { return getReduction(); }
  }];
}

def Dist_AllToAllOp : Dist_CollectiveOp<"all_to_all", "AllToAll"> {
  let summary = "Moves a split from one dim to another";
  let description = [{
    Each device cuts its operand into n pieces along `split_dim` and sends piece r to device r of its group. Result on device r: piece r of
    x_0, ..., x_{n-1}, concatenated along `concat_dim`.

        %y = dist.all_to_all %x split_dim = 1 concat_dim = 0 over ["tp"] : tensor<2x8xf32> -> tensor<4x4xf32>

    **Constraints:** (C1) at least one axis, all in the mesh, none twice; (C2) both dims within the rank and different; (C3) the result is
    1/n of the operand in `split_dim`, n times in `concat_dim` and equal in the rest.
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, I64Attr:$split_dim, I64Attr:$concat_dim, Dist_AxesAttr:$axes,
                       OptionalAttr<StrAttr>:$cause);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $input `split_dim` `=` $split_dim `concat_dim` `=` $concat_dim `over` $axes attr-dict `:` type($input) `->` type($result)
  }];
}

//===-- No communication --------------------------------------------------------------------------------------------------------------===//

def Dist_SliceOp : Dist_Op<"slice", [Pure]> {
  let summary = "The device's own piece of a tensor; no communication";
  let description = [{
    Result on device r of the group: piece r of its own operand, cut into n pieces along `dim`.

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

#endif // ASHLAR_DIALECTS_DIST_DIST_OPS_TD
