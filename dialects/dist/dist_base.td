// SPDX-License-Identifier: Apache-2.0
//
// The dist dialect itself, its attributes and the base classes of its ops.

#ifndef ASHLAR_DIALECTS_DIST_DIST_BASE_TD
#define ASHLAR_DIALECTS_DIST_DIST_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/dist/dist_enums.td"
include "dialects/dist/dist_interfaces.td"
include "dialects/support/enums.td"
include "dialects/support/op_interfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::ashlar::dist";
  let summary = "Where values live: the mesh, layouts, and the collectives between devices";
  let description = [{
        nn --> [ nn + dist, global shapes ] --> [ nn + dist, local shapes ] --> exec
                layouts, dist.redistribute       collectives, dist.slice

    The mesh (`dist.mesh`, one a module) arranges n devices in a grid with named axes; device numbers count row-major, the first axis is
    major. A layout has for each dim of a tensor the axes that shard it, and the axes over which the value is partial.

    Layouts stand in attributes: `dist.layout` on variables, function arguments and results; `dist.layouts` (one a result) on ops while
    shapes are global. Partitioning keeps the first and adds `dist.global_type`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    // Registers the attributes; their storage is only known in attributes.cpp.
    void registerAttributes();
  }];
}

def Dist_ReductionAttr : EnumAttr<Dist_Dialect, Ashlar_Reduction, "reduction"> { let cppNamespace = "::ashlar::dist"; }

class Dist_Attr<string name, string attrMnemonic> : AttrDef<Dist_Dialect, name> { let mnemonic = attrMnemonic; }

def Dist_MeshAttr : Dist_Attr<"Mesh", "mesh"> {
  let summary = "The axes of a mesh and their sizes";
  let description = [{
        #dist.mesh<["dp" = 4, "tp" = 2]>   // 8 devices; device 5 is at dp = 2, tp = 1

    **Constraints:** (C1) sizes >= 1; (C2) no axis twice; (C3) fewer than 2^31 devices, so that ranks are 32-bit numbers.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$axes, ArrayRefParameter<"int64_t">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // Returns the position of an axis in the mesh; nothing when the mesh has no such axis.
    std::optional<unsigned> findAxis(::mlir::StringAttr axis) const;

    // Returns the size of an axis of this mesh.
    int64_t axisSize(::mlir::StringAttr axis) const;

    // Returns the product of the sizes of `axes`; 1 for none.
    int64_t groupSize(::llvm::ArrayRef<::mlir::StringAttr> axes) const;

    // Returns the number of devices.
    int64_t numDevices() const { return groupSize(getAxes()); }

    // Returns the coordinate of a device along `axes`, first axis major.
    // On ["dp" = 4, "tp" = 2] device 5 has 2 along {dp}, 1 along {tp}, 5 along {dp, tp} and 6 along {tp, dp}.
    int64_t axisIndex(int64_t device, ::llvm::ArrayRef<::mlir::StringAttr> axes) const;

    // Returns the groups of a collective over `axes`: each the devices that differ only along them, in the order of axisIndex.
    // On ["dp" = 2, "tp" = 2] the groups over {dp} are [0, 2], [1, 3].
    ::llvm::SmallVector<::llvm::SmallVector<int64_t>> groups(::llvm::ArrayRef<::mlir::StringAttr> axes) const;
  }];
}

def Dist_LayoutAttr : Dist_Attr<"Layout", "layout"> {
  let summary = "The sharding of a tensor over the mesh";
  let description = [{
    For each dim the axes that shard it, major to minor: dim d is cut into as many equal shards as the product of their sizes, and a device
    holds the shard numbered by its coordinate along them. A size that they do not divide is rounded up at each axis; the excess is padding,
    with meaningless elements (pieceSizes in layout.h). Over the axes in `partial` the devices hold terms that combine (sum, max, min) to
    the value; one kind a layout, because a sum of maxima is no maximum of sums. Over all other axes the tensor is replicated.

        #dist.layout<[{"dp"}, {} ]>                      // rows sharded over dp
        #dist.layout<[{}, {"tp", "dp"} ]>                // columns sharded over both, tp major
        #dist.layout<[{} ], partial = sum {"dp"}>        // each device along dp holds a term of the sum

    The axes of `partial` have no order; they are kept sorted by name.

    **Constraints:** (C1) no axis twice.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::ArrayAttr">:$dims, "::mlir::ArrayAttr":$partialAxes,
                        "::ashlar::Reduction":$reduction);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let skipDefaultBuilders = 1;
  let builders = [AttrBuilder<(ins "const ::ashlar::dist::Layout &":$layout)>];
  let extraClassDeclaration = [{
    // Returns the layout as a plain value.
    ::ashlar::dist::Layout getLayout() const;

    // Returns the rank of the tensors it describes.
    int64_t getRank() const { return getDims().size(); }
  }];
}

def Dist_RuleAttr : Dist_Attr<"Rule", "rule"> {
  let summary = "A user's rule on the layouts of matching tensors and ops";
  let description = [{
    An element of the module's `dist.rules`, which ashlar-apply-rules turns into layouts. `match` is a glob (`*`, `?`) over the names of
    parameters, inputs, outputs, intermediate tensors and the module paths of ops. `layout` has for each dim the axes that shard it, major
    to minor; `?` lets inference add axes, `tp:(1)2` is the part of size 2 of axis tp that has parts of number 1 before it. `in` and `out`
    are for ops and count slices instead of naming axes: one array an input or output, one number a dim. Lower priorities propagate first.
    `origin` is the place of the rule, for errors and reports.

        #dist.rule<match = "*.fc1.weight", layout = "[{tp}, {?} ]", priority = 1, origin = "job.txtpb:14">
        #dist.rule<match = "fc1", in = [array<i64: 2, 1>, array<i64: 4, 1>], out = [array<i64: 2, 4>]>
  }];
  let parameters = (ins "::mlir::StringAttr":$match, OptionalParameter<"::mlir::StringAttr">:$layout,
                        OptionalParameter<"::mlir::ArrayAttr">:$in, OptionalParameter<"::mlir::ArrayAttr">:$out,
                        DefaultValuedParameter<"int64_t", "0">:$priority, OptionalParameter<"::mlir::StringAttr">:$origin);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_SettingAttr : Dist_Attr<"Setting", "setting"> {
  let summary = "A user's rule on attributes of matching parameters, except their layouts";
  let description = [{
    An element of the module's `dist.settings`, which ashlar-apply-settings turns into attributes of the parameters (trainable variables)
    that match the glob `match`. `values` are these attributes. Where two settings match one parameter, the lower priority wins. `origin` is
    the place of the rule, for errors.

        #dist.setting<match = "*.bias", values = {nn.weight_decay = 0.0 : f64}, priority = 1, origin = "job.txtpb:14">
  }];
  let parameters = (ins "::mlir::StringAttr":$match, "::mlir::DictionaryAttr":$values, DefaultValuedParameter<"int64_t", "0">:$priority,
                        OptionalParameter<"::mlir::StringAttr">:$origin);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_OriginAttr : Dist_Attr<"Origin", "origin"> {
  let summary = "The origin of axes of a layout";
  let description = [{
    `source` gave the layout: a rule of the user. `axis`: the mesh axis in question; without it, all of the layout. `path` and `op`: the op
    along which the axis arrived, by its module path and kind; without them the source matches this very tensor. Reports make sentences of
    it, and a saved strategy keeps it in the same parts.

        #dist.origin<source = "rule \"fc1.weight\" (job.txtpb:14)", axis = "tp", path = "fc1", op = "nn.matmul">
  }];
  let parameters = (ins "::mlir::StringAttr":$source, OptionalParameter<"::mlir::StringAttr">:$axis,
                        OptionalParameter<"::mlir::StringAttr">:$path, OptionalParameter<"::mlir::StringAttr">:$op);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_EndAttr : Dist_Attr<"End", "end"> {
  let summary = "The producer or consumer of a tensor";
  let description = [{
    `name`: the module path of an op, else the name of the variable, input or output; absent when it has none. `op`: the kind of an op.
    `number`: of an input or output. Reports make sentences of it.

        #dist.end<kind = op, name = "fc1", op = "nn.matmul">
        #dist.end<kind = gradient, name = "fc1.weight">
        #dist.end<kind = output, number = 1>
  }];
  let parameters = (ins EnumParameter<Dist_EndKind>:$kind, OptionalParameter<"::mlir::StringAttr">:$name,
                        OptionalParameter<"::mlir::StringAttr">:$op, DefaultValuedParameter<"int64_t", "0">:$number);
  let builders = [AttrBuilder<(ins "::ashlar::dist::EndKind":$kind, "::llvm::StringRef":$name, CArg<"::llvm::StringRef", "{}">:$op,
                                   CArg<"int64_t", "0">:$number), [{
    auto optional = [&](::llvm::StringRef text) { return text.empty() ? ::mlir::StringAttr() : ::mlir::StringAttr::get($_ctxt, text); };
    return $_get($_ctxt, kind, optional(name), optional(op), number);
  }]>];
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_ReplicatedAttr : Dist_Attr<"Replicated", "replicated"> {
  let summary = "Why optimizer parallelism leaves a parameter replicated";
  let description = [{
    On trained variables that are not sharded further. `bytes`: bytes of the parameter on a device; `threshold`: number of bytes from which
    on a parameter is sharded.

        #dist.replicated<reason = below_threshold, bytes = 80, threshold = 65536>
  }];
  let parameters = (ins EnumParameter<Dist_ReplicatedReason>:$reason, "int64_t":$bytes, "int64_t":$threshold);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_StageAttr : Dist_Attr<"Stage", "stage"> {
  let summary = "The pipeline stage of a module, and its number of micro-batches in flight";
  let description = [{
    On the modules that ashlar-cut-stages makes. `slots`: places for the values that programs of a micro-batch leave for each other.

        module @stage_1 attributes {dist.stage = #dist.stage<index = 1, count = 4, slots = 3>}
  }];
  let parameters = (ins "int64_t":$index, "int64_t":$count, "int64_t":$slots);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_PeerAttr : Dist_Attr<"Peer", "peer"> {
  let summary = "The other side of a value sent between stages";
  let description = [{
    `channel`: its number among the values from the one stage to the other.

        #dist.peer<stage = 0, channel = 1>
  }];
  let parameters = (ins "int64_t":$stage, "int64_t":$channel);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_GradientSyncAttr : EnumAttr<Dist_Dialect, Dist_GradientSync, "gradient_sync">;

def Dist_RunAttr : Dist_Attr<"Run", "run"> {
  let summary = "A program that a stage runs for a micro-batch of a step";
  let description = [{    #dist.run<"forward", 0>}];
  let parameters = (ins "::mlir::StringAttr":$program, "int64_t":$micro_batch);
  let assemblyFormat = "`<` $program `,` $micro_batch `>`";
}

def Dist_RepeatAttr : Dist_Attr<"Repeat", "repeat"> {
  let summary = "A part of the order of a step: runs that repeat";
  let description = [{
    The micro-batches are larger by `stride` each time.

        #dist.repeat<runs = [#dist.run<"backward", 0>, #dist.run<"forward", 2>], count = 6, stride = 1>
  }];
  let parameters = (ins "::mlir::ArrayAttr":$runs, "int64_t":$count, "int64_t":$stride);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_RunsAttr : Dist_Attr<"Segments", "segments"> {
  let summary = "The elements of a dim on each device of a group";
  let description = [{
    The positions 0 .. positions - 1 are cut into shards like the elements of a sharded dim (`pieceSizes`). The device with the positions
    [a, b) has the elements [a * step + first, (b - 1) * step + last).

        #dist.segments<positions = 32>                                     // shards of 32 elements
        #dist.segments<positions = 16, step = 2, first = -1, last = 2>     // three elements at each of 16 positions, with stride 2

    **Constraints:** (C1) positions and step >= 1; (C2) first < last; (C3) all numbers below 2^46, as sizes of tensors are.
  }];
  let parameters = (ins "int64_t":$positions, DefaultValuedParameter<"int64_t", "1">:$step, DefaultValuedParameter<"int64_t", "0">:$first,
                        DefaultValuedParameter<"int64_t", "1">:$last);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // Returns the segments as a plain value.
    ::ashlar::dist::Segments getSegments() const { return {getPositions(), {getStep(), getFirst(), getLast()}}; }
  }];
}

// The cause of communication. Several ends where equal collectives became one.
def Dist_CauseAttr : TypedArrayAttrBase<Dist_EndAttr, "ends">;

def Dist_KindCostsAttr : Dist_Attr<"KindCosts", "kind_costs"> {
  let summary = "The costs of collectives of one kind along each axis of a mesh";
  let description = [{
    The time of one message and the rate of the link for this kind of collective, one of each an axis, as in `#dist.costs`, which holds it.

        #dist.kind_costs<kind = all_gather, latency_ns = [5200, 300], bytes_per_us = [1200, 14000]>

    **Constraints:** (C1) not of a slice, which needs no communication; (C2) as many latencies as rates; (C3) latencies >= 0, rates >= 1.
  }];
  let parameters = (ins EnumParameter<Ashlar_CollectiveKind>:$kind, ArrayRefParameter<"int64_t">:$latency_ns,
                        ArrayRefParameter<"int64_t">:$bytes_per_us);
  let assemblyFormat = [{
    `<` `kind` `=` $kind `,` `latency_ns` `=` `[` $latency_ns `]` `,` `bytes_per_us` `=` `[` $bytes_per_us `]` `>`
  }];
  let genVerifyDecl = 1;
}

def Dist_CostsAttr : Dist_Attr<"Costs", "costs"> {
  let summary = "The cost of communication along each axis of a mesh";
  let description = [{
    The time of one message and the rate of the link, one of each an axis, in the order of the mesh. A group over several axes takes the
    worst of them. Data for the planner of redistributions: the compiler fills it in from its machine model or from the job.

    `beside` are the numbers of the axes whose links move data while a device computes; communication along the others keeps it busy.
    `kinds` are the kinds of collectives with other numbers, on all axes.

        #dist.costs<latency_ns = [5200, 200], bytes_per_us = [1200, 29000], beside = [0],
                    kinds = [<kind = all_gather, latency_ns = [5200, 300], bytes_per_us = [1200, 14000]>]>

    **Constraints:** (C1) as many latencies as rates; (C2) latencies >= 0, rates >= 1; (C3) axes of `beside` in rising order, each one of these;
    (C4) no kind twice; (C5) each kind has as many latencies as there are axes.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$latency_ns, ArrayRefParameter<"int64_t">:$bytes_per_us,
                        OptionalArrayRefParameter<"int64_t">:$beside, OptionalArrayRefParameter<"KindCostsAttr">:$kinds);
  let assemblyFormat = [{
    `<` `latency_ns` `=` `[` $latency_ns `]` `,` `bytes_per_us` `=` `[` $bytes_per_us `]` `` custom<LinkLists>($beside, $kinds) `>`
  }];
  let genVerifyDecl = 1;
}

def Dist_HostsAttr : Dist_Attr<"Hosts", "hosts"> {
  let summary = "The hosts of the devices, from which the costs of any mesh of them follow";
  let description = [{
    Device p of a mesh, row-major, is in rank p / `devices_per_rank`, or in the rank that `device_ids` of `dist.mesh` says; rank r is on host
    r / `ranks_per_host`. `links` has an entry for the link within a host, and one for an adapter between hosts. A host has `adapters` of them,
    which its ranks share. With `hosts_per_pod` host h is in pod h / `hosts_per_pod`, and a third entry is an uplink between pods, of which a
    pod has `uplinks`; without it all hosts are one pod. With `rails` rank r of a host sends by adapter r * `adapters` / `ranks_per_host` of it
    alone. With `at_once` a host sends to all others at the same time, so that a reduction waits for one message between two hosts
    and for two between more; else messages follow each other, as in a tree over all ranks.

        #dist.hosts<ranks_per_host = 8, adapters = 8, devices_per_rank = 1,
                    links = <latency_ns = [15600, 12000], bytes_per_us = [214000, 48000], beside = [0, 1]>>

    **Constraints:** (C1) numbers >= 1; (C2) `links` has two entries, with pods three; (C3) `hosts_per_pod` and `uplinks` are both there, or
    none of them; (C4) with `rails`, `ranks_per_host` is divisible by `adapters`.
  }];
  let parameters = (ins "int64_t":$ranks_per_host, "int64_t":$adapters, DefaultValuedParameter<"int64_t", "0">:$hosts_per_pod,
                        DefaultValuedParameter<"int64_t", "0">:$uplinks, DefaultValuedParameter<"bool", "false">:$rails,
                        "int64_t":$devices_per_rank,
                        DefaultValuedParameter<"bool", "false">:$at_once, "CostsAttr":$links);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Dist_RateAttr : Dist_Attr<"Rate", "rate"> {
  let summary = "The rate of library calls from some size on, in operations a microsecond";
  let description = [{
    Operations on f32 and on bf16 and f16 of calls whose size is `from` or more; an entry of a table of `#dist.device`.

        #dist.rate<from = 64, flops_per_us = 90000, narrow_flops_per_us = 80000>

    **Constraints:** (C1) `from` and rates >= 1.
  }];
  let parameters = (ins "int64_t":$from, "int64_t":$flops_per_us, "int64_t":$narrow_flops_per_us);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Dist_DeviceAttr : Dist_Attr<"Device", "device"> {
  let summary = "The rates of a device, a microsecond";
  let description = [{
    Operations on f32, operations of products of bf16 and f16, and bytes of its memory; the launch overhead in nanoseconds of each kernel
    and library call; tables of the rates of matrix products, by the smallest of rows, columns and inner size, of convolutions, by the
    fewer of the channels in and out of a group, and of attentions, by the smallest of rows, keys and width. Without a table of attentions
    they have the rates of products. Data for predicted times: the compiler fills it in from its machine model or from the job, as
    `dist.device` of the module.

        #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000, launch_ns = 150,
                     products = [<from = 1, flops_per_us = 9000, narrow_flops_per_us = 9000>,
                                 <from = 64, flops_per_us = 90000, narrow_flops_per_us = 80000>]>

    **Constraints:** (C1) rates >= 1; (C2) launch_ns >= 0; (C3) `from` rises in each table.
  }];
  let parameters = (ins "int64_t":$flops_per_us, "int64_t":$narrow_flops_per_us, "int64_t":$bytes_per_us,
                        DefaultValuedParameter<"int64_t", "0">:$launch_ns, OptionalArrayRefParameter<"RateAttr">:$products,
                        OptionalArrayRefParameter<"RateAttr">:$convolutions, OptionalArrayRefParameter<"RateAttr">:$attentions);
  let assemblyFormat = [{
    `<` `flops_per_us` `=` $flops_per_us `,` `narrow_flops_per_us` `=` $narrow_flops_per_us `,` `bytes_per_us` `=` $bytes_per_us
    `` custom<RateTables>($launch_ns, $products, $convolutions, $attentions) `>`
  }];
  let genVerifyDecl = 1;
}

def Dist_FusionAttr : Dist_Attr<"Fusion", "fusion"> {
  let summary = "The fusion of collectives";
  let description = [{
    `number`: the id that the user gave, or the number of the bucket, from 1, in program order. `bytes`: the size from which on (auto), or
    up to which (size), a bucket is full.

        #dist.fusion<mode = id, number = 2>
        #dist.fusion<mode = auto, number = 1, bytes = 105000>
  }];
  let parameters = (ins EnumParameter<Dist_FusionMode>:$mode, "int64_t":$number, DefaultValuedParameter<"int64_t", "0">:$bytes);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_AxesAttr : TypedArrayAttrBase<StrAttr, "mesh axes, major to minor">;
def Dist_IndexScalar : 0DTensorOf<[I64]>;

class Dist_Op<string opMnemonic, list<Trait> traits = []> : Op<Dist_Dialect, opMnemonic, !listconcat([SizedTensors], traits)>;

// An op with numbers of dims in its attributes, which may become those of places in memory.
def Dist_Reorderable : DeclareOpInterfaceMethods<DimOrderOpInterface>;

// A collective: pure, because each device runs the same ops in the same order.
class Dist_CollectiveOp<string opMnemonic, string kind, list<Trait> traits = []>
    : Dist_Op<opMnemonic, !listconcat([Pure, CollectiveOpInterface, DeclareOpInterfaceMethods<ShardOpInterface>], traits)> {
  code collectiveDeclaration = [{
    ::ashlar::CollectiveKind getCollectiveKind() { return ::ashlar::CollectiveKind::}] # kind # [{; }
  }];
  let extraClassDeclaration = collectiveDeclaration;
  let hasVerifier = 1;
}

#endif // ASHLAR_DIALECTS_DIST_DIST_BASE_TD
