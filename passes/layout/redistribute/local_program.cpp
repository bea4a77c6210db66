// SPDX-License-Identifier: Apache-2.0
//
// Partitioning in numbers: a value of a device is identified by its op and operands, so values that partitioning merges are one number
// here. The redundant collectives (simplify_collectives.cpp) are the same two patterns. Longer than 500 lines: one class with one method a
// kind of op, over one table of values.

#include "passes/layout/redistribute/local_program.h"

#include "dialects/dist/owners.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/repeated_dims.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"
#include "passes/analysis/planner/single_step.h"

#include <unordered_map>

using namespace mlir;

namespace ashlar::layout {

namespace {

// Returns the program without ops that no output needs.
LocalProgram withoutUnused(LocalProgram program) {
  std::vector<bool> used(program.values.size(), false);
  std::vector<LocalOp> kept;
  for (LocalOp &op : llvm::reverse(program.ops)) {
    bool hasEffect = op.results.empty() || (op.op && mlir::hasEffect<MemoryEffects::Write>(op.op));
    if (hasEffect || llvm::any_of(op.results, [&](unsigned value) { return used[value]; })) {
      llvm::for_each(op.operands, [&](unsigned value) { used[value] = true; });
      kept.push_back(std::move(op));
    }
  }
  std::reverse(kept.begin(), kept.end());
  program.ops = std::move(kept);
  llvm::fill(program.makers, std::nullopt);
  for (auto [number, op] : llvm::enumerate(program.ops)) {
    llvm::for_each(op.results, [&, number = number](unsigned value) { program.makers[value] = number; });
  }
  return program;
}

// Builds the program of one device from an assignment.
class LocalBuilder {
public:
  LocalBuilder(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner)
      : problem(problem), mesh(problem.mesh), assignment(assignment), planner(planner) {}

  LocalProgram run(const ProblemProgram &program) {
    for (BlockArgument argument : func::FuncOp(program.function).getArguments()) {
      unsigned number = problem.find(argument);
      Layout layout = assignment.made(number).getLayout();
      held[{number, 0}] = addValue(dist::localType(mesh, problem.typeOf(number), layout), axesOf(layout));
      redistribute(number);
    }
    for (unsigned op : orderOf(program, assignment)) {
      addOp(op);
    }
    return withoutUnused(std::move(local));
  }

private:
  using AxisSet = uint64_t; // one bit an axis of the mesh; beyond 64 axes, mostly of one device, some share a bit

  // The identity of a value: its op, operands and results.
  struct Key {
    const void *name, *attributes;
    SmallVector<unsigned, 3> operands;
    SmallVector<const void *, 2> others;

    bool operator==(const Key &other) const {
      return name == other.name && attributes == other.attributes && operands == other.operands && others == other.others;
    }
  };
  struct HashKey {
    size_t operator()(const Key &key) const {
      return llvm::hash_combine(key.name, key.attributes, llvm::hash_combine_range(key.operands), llvm::hash_combine_range(key.others));
    }
  };

  AxisSet axesOf(ArrayRef<StringAttr> axes) const {
    AxisSet set = 0;
    for (StringAttr axis : axes) {
      set |= AxisSet(1) << *mesh.findAxis(axis) % 64;
    }
    return set;
  }
  AxisSet axesOf(const Layout &layout) const {
    AxisSet set = axesOf(layout.partial);
    llvm::for_each(layout.dims, [&](const AxisList &axes) { set |= axesOf(axes); });
    return set;
  }

  unsigned addValue(RankedTensorType type, AxisSet axes) {
    local.values.push_back(type);
    local.makers.emplace_back();
    varying.push_back(axes);
    return local.values.size() - 1;
  }

  // Adds an op with results of these types, or returns the results of the one that is equal.
  SmallVector<unsigned, 1> add(const Key &key, LocalOp op, ArrayRef<RankedTensorType> types, AxisSet axes) {
    auto [known, isNew] = equal.try_emplace(key);
    if (isNew) {
      for (RankedTensorType type : types) {
        known->second.push_back(addValue(type, axes));
        local.makers.back() = local.ops.size();
      }
      op.results = known->second;
      op.runs = runs;
      op.bytes = costOfRuns(op.bytes, runs);
      op.timePs = costOfRuns(op.timePs, runs);
      local.ops.push_back(std::move(op));
    }
    return known->second;
  }

  void addOp(unsigned number) {
    const ProblemOp &row = problem.ops[number];
    runs = row.runs;
    if (isa<dist::RedistributeOp>(row.op)) { // that the model places
      Layout from = assignment.taken(number, 0).getLayout(), to = assignment.made(row.results.front()).getLayout();
      std::optional<analysis::Step> step = analysis::findSingleStep(from, to);
      Place input = assignment.inputs[number].front();
      held[{row.results.front(), 0}] =
          addStep(*step, problem.typeOf(row.results.front()), from, held.at({input.value, input.holding}), /*placed=*/true);
    } else {
      addCompute(number);
    }
    llvm::for_each(row.results, [&](unsigned value) { redistribute(value); });
  }

  void addCompute(unsigned number) {
    const ProblemOp &row = problem.ops[number];
    if (row.isSource()) {
      held[{row.results.front(), 0}] = addSource(number, assignment.made(row.results.front()));
      return;
    }
    LocalOp op;
    op.op = row.op;
    AxisSet axes = 0;
    SmallVector<RankedTensorType> operandTypes, resultTypes;
    for (Place place : assignment.inputs[number]) {
      op.operands.push_back(held.at({place.value, place.holding}));
      axes |= varying[op.operands.back()];
      operandTypes.push_back(local.values[op.operands.back()]);
    }
    SmallVector<const void *, 2> types;
    SmallVector<dist::SplitWindow> windows = splitWindowsOf(number);
    for (const dist::SplitWindow &window : windows) {
      if (window.tensor < op.operands.size() && window.halo) {
        unsigned &operand = op.operands[window.tensor];
        runs = problem.values[assignment.inputs[number][window.tensor].value].runs; // once, for what is the same in all iterations
        operand = addRun(window, operand);
        runs = row.runs;
        axes |= varying[operand];
        operandTypes[window.tensor] = local.values[operand];
      }
    }
    for (unsigned value : row.results) {
      resultTypes.push_back(dist::localType(mesh, problem.typeOf(value), assignment.made(value).getLayout()));
      types.push_back(resultTypes.back().getAsOpaquePointer());
    }
    for (const dist::SplitWindow &window : windows) {
      if (window.tensor >= op.operands.size()) {
        RankedTensorType &type = resultTypes[window.tensor - op.operands.size()];
        type = dist::withLength(type, window.dim, window.length(mesh));
        types[window.tensor - op.operands.size()] = type.getAsOpaquePointer();
      }
    }
    if (isa<nn::ReshapeOp>(row.op)) { // folded on local shapes: one of a reshape, and one that changes nothing on a device
      std::optional<unsigned> maker = local.makers[op.operands.front()];
      if (maker && isa_and_nonnull<nn::ReshapeOp>(local.ops[*maker].op)) {
        op.operands = local.ops[*maker].operands;
      }
      if (local.values[op.operands.front()] == resultTypes.front()) {
        held[{row.results.front(), 0}] = op.operands.front();
        return;
      }
    }
    auto windowed = dyn_cast<WindowedOpInterface>(row.op);
    if (windowed && windowed.isIdentityOfEqualTypes() && op.operands.size() == 1 &&
        local.values[op.operands.front()] == resultTypes.front()) {
      held[{row.results.front(), 0}] = op.operands.front();
      return;
    }
    if (isa<nn::ReadOp>(row.op)) {
      axes = axesOf(assignment.made(row.results.front()).getLayout());
    }
    op.work = analysis::workOf(op.op, operandTypes, resultTypes);
    axes |= addPlace(number, types);
    bool isPure = !row.results.empty() && !isa<nn::GradientOp>(row.op);
    Key key{row.op->getName().getAsOpaquePointer(), isPure ? row.attributes.getAsOpaquePointer() : row.op, op.operands, types};
    const unsigned operands = row.operands.size();
    SmallVector<unsigned, 1> made = add(key, std::move(op), resultTypes, axes);
    for (const dist::SplitWindow &window : windows) {
      if (window.tensor >= operands && window.halo) {
        made[window.tensor - operands] = addHalo(window, made[window.tensor - operands], /*isKnown=*/false);
      }
    }
    for (auto [value, result] : llvm::zip(row.results, made)) {
      held[{value, 0}] = result;
    }
  }

  // Returns the windowed dims of an op that are split.
  SmallVector<dist::SplitWindow> splitWindowsOf(unsigned number) const {
    const ProblemOp &row = problem.ops[number];
    if (!row.rule || row.rule->windows.empty()) {
      return {};
    }
    SmallVector<RankedTensorType> types;
    SmallVector<Layout> layouts;
    for (unsigned operand = 0; operand < row.operands.size(); ++operand) {
      types.push_back(problem.typeOf(row.operands[operand]));
      layouts.push_back(assignment.taken(number, operand).getLayout());
    }
    for (unsigned value : row.results) {
      types.push_back(problem.typeOf(value));
      layouts.push_back(assignment.made(value).getLayout());
    }
    return dist::splitWindows(mesh, *row.rule, types, layouts);
  }

  // Adds the run that an op reads instead of a shard, as partitioning does: each device makes its own from values that all know, or that
  // are broadcast along the dim, and values that are broadcast along other dims are exchanged before that.
  unsigned addRun(const dist::SplitWindow &window, unsigned piece) {
    std::optional<unsigned> number = local.makers[piece];
    Operation *maker = number ? local.ops[*number].op : nullptr;
    auto repeated = dyn_cast_or_null<nn::BroadcastOp>(maker);
    std::optional<unsigned> dim = repeated ? nn::findDimBeforeBroadcast(repeated, window.dim) : std::nullopt;
    if (!dim) {
      return addHalo(window, piece, /*isKnown=*/repeated || isKnown(piece));
    }
    dist::SplitWindow before = window;
    before.dim = *dim;
    LocalOp op;
    op.op = maker;
    op.operands = {addRun(before, local.ops[*number].operands.front())};
    RankedTensorType type = dist::withLength(local.values[piece], window.dim, window.length(mesh));
    Key key{
        maker->getName().getAsOpaquePointer(), maker->getAttrDictionary().getAsOpaquePointer(), op.operands, {type.getAsOpaquePointer()}};
    AxisSet axes = varying[op.operands.front()];
    return add(key, std::move(op), type, axes).front();
  }

  // Returns true for a constant of equal elements, or segments of one.
  bool isKnown(unsigned value) const {
    std::optional<unsigned> maker = local.makers[value];
    auto isRun = [&](const LocalOp &op) { return !op.op && !op.kind && !paddedOf.contains(op.results.front()); };
    while (maker && isRun(local.ops[*maker])) {
      maker = local.makers[local.ops[*maker].operands.front()];
    }
    return maker && local.ops[*maker].op && splatOf(local.ops[*maker].op);
  }

  // Adds the exchange of segments along a windowed dim; a device makes its own of what all know, and takes it out of its shard where it is
  // there.
  unsigned addHalo(const dist::SplitWindow &window, unsigned input, bool isKnown) {
    const dist::Halo &halo = *window.halo;
    SmallVector<int64_t> numbers = {window.dim, halo.size};
    for (const dist::Segments &segments : {halo.from, halo.to}) {
      numbers.append({segments.positions, segments.access.step, segments.access.first, segments.access.last});
    }
    MLIRContext *context = mesh.getContext();
    Key key{nullptr,
            DenseI64ArrayAttr::get(context, numbers).getAsOpaquePointer(),
            {input},
            {dist::toAttr(context, window.axes).getAsOpaquePointer()}};
    const SmallVector<int64_t> sizes = dist::axisSizes(mesh, window.axes);
    int64_t length = dist::segmentLength(sizes, halo.to);
    LocalOp op;
    op.operands = {input};
    if (!isKnown && !dist::offsetInPieces(sizes, halo)) {
      op.kind = CollectiveKind::Halo;
      op.axes = window.axes;
      op.dim = window.dim;
      analysis::Link link = planner.linkOf(window.axes);
      analysis::HaloCost cost = analysis::haloCost(mesh, window, local.values[input], link);
      op.bytes = cost.bytes;
      op.timePs = cost.timePs;
      op.movesBeside = link.movesBeside;
    }
    RankedTensorType type = dist::withLength(local.values[input], window.dim, length);
    return add(key, std::move(op), type, varying[input] | axesOf(window.axes)).front();
  }

  // Adds to a key the shard that an op computes, which distinguishes ops with equal operands and local types. Returns the axes along which
  // the result varies because of it.
  AxisSet addPlace(unsigned number, SmallVectorImpl<const void *> &key) {
    const ProblemOp &row = problem.ops[number];
    AxisSet axes = 0;
    // An op that counts depends on the whole layout; a mask depends on the padded dims alone.
    auto addLayout = [&](RankedTensorType type, dist::LayoutAttr layout, bool counts) {
      if (counts) {
        key.push_back(type.getAsOpaquePointer());
        key.push_back(layout.getAsOpaquePointer());
        axes |= axesOf(layout.getLayout());
        return;
      }
      for (auto [dim, size, list] : llvm::enumerate(type.getShape(), layout.getLayout().dims)) {
        if (!dist::isEven(mesh, size, list)) {
          Builder builder(mesh.getContext());
          SmallVector<Attribute> names(list.begin(), list.end());
          key.push_back(builder.getArrayAttr({builder.getIndexAttr(dim), builder.getIndexAttr(size), builder.getArrayAttr(names)})
                            .getAsOpaquePointer());
          axes |= axesOf(list);
        }
      }
    };
    bool isNumbered = isa<IndexingOpInterface, nn::SliceOp>(row.op);
    bool masks = row.rule && llvm::any_of(row.rule->factors, [](const Factor &factor) { return factor.kind == FactorKind::Reduction; });
    if (row.rule && (isNumbered || masks)) {
      for (unsigned operand = 0; operand < row.operands.size(); ++operand) {
        addLayout(problem.typeOf(row.operands[operand]), assignment.taken(number, operand), isNumbered);
      }
      for (unsigned value : row.results) {
        addLayout(problem.typeOf(value), assignment.made(value), isNumbered);
      }
    }
    return axes;
  }

  // Adds the redistributions of a value, step by step. Constants and indices are made again.
  void redistribute(unsigned number) {
    std::optional<unsigned> maker = problem.values[number].maker;
    runs = problem.values[number].runs;
    const Holdings &holdings = assignment.values[number];
    assignment.forEachRedistribution(number, [&](unsigned place) {
      const Holding &holding = holdings[place];
      if (maker && problem.ops[*maker].isSource()) {
        held[{number, place}] = addSource(*maker, holding.layout);
        return;
      }
      Layout layout = dist::withoutUnitAxes(mesh, holdings[holding.parent].layout.getLayout());
      unsigned value = held.at({number, holding.parent});
      const Type own = problem.typeOf(number).getElementType();
      RankedTensorType global = problem.typeOf(number).clone(holding.travels ? holding.travels : own);
      value = holding.travels ? convert(value, holding.travels) : value;
      for (const analysis::Step &step : planner.plan(global, layout, dist::withoutUnitAxes(mesh, holding.layout.getLayout())).steps) {
        value = addStep(step, global, layout, value, /*placed=*/false);
        layout = analysis::applyStep(layout, step);
      }
      held[{number, place}] = holding.travels ? convert(value, own) : value;
    });
  }

  // Converts a value to another element type.
  unsigned convert(unsigned value, Type type) {
    OperationName name(nn::CastOp::getOperationName(), mesh.getContext());
    RankedTensorType to = local.values[value].clone(type);
    LocalOp op;
    op.operands = {value};
    return add({name.getAsOpaquePointer(), DictionaryAttr::get(mesh.getContext()).getAsOpaquePointer(), {value}, {to.getAsOpaquePointer()}},
               std::move(op), to, varying[value])
        .front();
  }

  // Returns the element of a constant, if all are equal.
  static DenseElementsAttr splatOf(Operation *op) {
    auto constant = dyn_cast<nn::ConstantOp>(op);
    auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    return dense && dense.isSplat() ? dense : DenseElementsAttr();
  }

  // Adds a constant or an index in a layout.
  unsigned addSource(unsigned number, dist::LayoutAttr layout) {
    const ProblemOp &row = problem.ops[number];
    RankedTensorType global = problem.typeOf(row.results.front());
    DenseElementsAttr splat = splatOf(row.op);
    // Of other constants each device takes its piece.
    Layout at = isa<nn::ConstantOp>(row.op) && !splat ? Layout::replicated(global.getRank()) : layout.getLayout();
    RankedTensorType type = dist::localType(mesh, global, at);
    LocalOp op;
    op.op = row.op;
    SmallVector<const void *, 2> key = {type.getAsOpaquePointer()};
    if (isa<nn::IndexOp>(row.op)) {
      key.push_back(layout.getAsOpaquePointer());
    }
    Attribute content = splat ? Attribute(splat.resizeSplat(type)) : Attribute(row.attributes);
    AxisSet varies = isa<nn::IndexOp>(row.op) ? axesOf(at) : 0;
    unsigned value =
        add({row.op->getName().getAsOpaquePointer(), content.getAsOpaquePointer(), {}, key}, std::move(op), type, varies).front();
    for (auto [dim, axes] : llvm::enumerate(layout.getLayout().dims)) {
      if (at.dims[dim].empty() && !axes.empty()) {
        analysis::Step step;
        step.axes = axes;
        step.dim = dim;
        value = addStep(step, global, at, value, /*placed=*/false);
        at = analysis::applyStep(at, step);
      }
    }
    return value;
  }

  // Adds a step on a local value and returns its result; the inverse of a collective gives the value before it. `placed`: by the model
  // itself.
  unsigned addStep(const analysis::Step &step, RankedTensorType global, const Layout &from, unsigned input, bool placed) {
    Layout to = analysis::applyStep(from, step);
    RankedTensorType type = dist::localType(mesh, global, to);
    AxisSet axes = axesOf(step.axes);
    int64_t group = mesh.groupSize(step.axes);
    // Whether pieces are cut, or joined, without padding in between.
    auto isExact = [&](RankedTensorType whole, RankedTensorType piece) {
      return whole.getDimSize(step.dim) == piece.getDimSize(step.dim) * group;
    };
    std::optional<unsigned> maker = local.makers[input];
    const LocalOp *before = maker && local.ops[*maker].kind ? &local.ops[*maker] : nullptr;
    bool undoes = before && !placed && before->dim == step.dim && before->axes == step.axes;
    if (undoes && step.kind == CollectiveKind::Slice && before->kind == CollectiveKind::AllGather && !before->isPlaced) {
      unsigned whole = before->operands.front();
      if (isExact(local.values[input], local.values[whole]) && isExact(local.values[input], type)) {
        return whole;
      }
    }
    if (undoes && step.kind == CollectiveKind::AllGather && before->kind == CollectiveKind::Slice) {
      unsigned whole = before->operands.front();
      whole = local.values[whole] == type ? whole : unpadded(whole);
      if ((varying[whole] & axes) == 0) {
        // The padding that was put on before and taken off behind makes it another value to partitioning.
        return isExact(local.values[whole], local.values[input]) ? whole : addAlias(whole);
      }
    }
    if (step.kind == CollectiveKind::Slice || step.kind == CollectiveKind::ReduceScatter || step.kind == CollectiveKind::AllToAll) {
      input = addPadding(input, step);
    }
    LocalOp op;
    op.kind = step.kind;
    op.axes = step.axes;
    op.dim = step.dim;
    op.isPlaced = placed;
    op.operands = {input};
    setCost(op, step, local.values[input], type);
    bool isJoined = step.kind == CollectiveKind::AllReduce || step.kind == CollectiveKind::AllGather;
    AxisSet varies = isJoined ? varying[input] & ~axes : varying[input] | axes;
    const RankedTensorType joined = joinedType(step, local.values[input], type);
    SmallVector<const void *, 2> key = {joined.getAsOpaquePointer(), placed ? mesh.getAsOpaquePointer() : nullptr};
    const unsigned whole = add({nullptr, describe(step, from).getAsOpaquePointer(), {input}, key}, std::move(op), joined, varies).front();
    return joined == type ? whole : addTrim(whole, type);
  }

  // Returns the type of what a step makes on a device, with the padding of the shards that it joins; `type` is the one without.
  RankedTensorType joinedType(const analysis::Step &step, RankedTensorType input, RankedTensorType type) const {
    if (step.kind != CollectiveKind::AllGather && step.kind != CollectiveKind::AllToAll) {
      return type;
    }
    const int64_t dim = step.kind == CollectiveKind::AllGather ? step.dim : step.concatDim;
    return dist::withLength(type, dim, input.getDimSize(dim) * mesh.groupSize(step.axes));
  }

  // Returns a value without the padding behind joined shards. Gathers of one value to dims of unequal sizes are one.
  unsigned addTrim(unsigned value, RankedTensorType type) {
    LocalOp op;
    op.operands = {value};
    return add({nullptr, nullptr, {value}, {type.getAsOpaquePointer()}}, std::move(op), type, varying[value]).front();
  }

  // Returns a value whose dim a step can cut into equal shards: with zeros behind, maybe the model's own. Over several axes no pad of a
  // model is like partitioning's.
  unsigned addPadding(unsigned input, const analysis::Step &step) {
    RankedTensorType type = local.values[input];
    if (step.axes.size() != 1 || dist::isEven(mesh, type.getDimSize(step.dim), step.axes)) {
      return input;
    }
    const int64_t group = mesh.groupSize(step.axes);
    RankedTensorType padded = dist::withLength(type, step.dim, llvm::divideCeil(type.getDimSize(step.dim), group) * group);
    MLIRContext *context = mesh.getContext();
    auto zeros = DenseI64ArrayAttr::get(context, SmallVector<int64_t>(type.getRank(), 0));
    OperationName name(nn::PadOp::getOperationName(), context);
    NamedAttrList attributes;
    attributes.set(nn::PadOp::getLowAttrName(name), zeros);
    attributes.set(nn::PadOp::getInteriorAttrName(name), zeros);
    LocalOp op;
    op.operands = {input};
    Key key{name.getAsOpaquePointer(), attributes.getDictionary(context).getAsOpaquePointer(), {input}, {padded.getAsOpaquePointer()}};
    unsigned result = add(key, std::move(op), padded, varying[input]).front();
    paddedOf[result] = input;
    return result;
  }

  // Returns the value that padding was put behind, if it was.
  unsigned unpadded(unsigned value) const {
    auto found = paddedOf.find(value);
    return found == paddedOf.end() ? value : found->second;
  }

  // Returns the attributes of a step's op besides operand and result: equal ones are one op, whatever the names of their layouts.
  Attribute describe(const analysis::Step &step, const Layout &from) const {
    const bool reduces = step.kind == CollectiveKind::AllReduce || step.kind == CollectiveKind::ReduceScatter;
    SmallVector<int64_t> numbers = {static_cast<int64_t>(step.kind), reduces ? static_cast<int64_t>(from.reduction) : -1, step.dim,
                                    step.concatDim};
    if (step.kind == CollectiveKind::Permute) {
      llvm::append_range(numbers, analysis::permuteSources(mesh, from, step));
    }
    MLIRContext *context = mesh.getContext();
    return ArrayAttr::get(context, {DenseI64ArrayAttr::get(context, numbers), dist::toAttr(context, step.axes)});
  }

  unsigned addAlias(unsigned value) {
    LocalOp op;
    op.operands = {value};
    return add({nullptr, nullptr, {value}, {}}, std::move(op), local.values[value], varying[value]).front();
  }

  // Enters the traffic of a collective. A dim that is cut is padded first.
  void setCost(LocalOp &op, const analysis::Step &step, RankedTensorType operand, RankedTensorType result) const {
    if (step.kind == CollectiveKind::Slice) {
      return;
    }
    int64_t group = mesh.groupSize(step.axes);
    SmallVector<int64_t> shape(operand.getShape());
    if (step.kind == CollectiveKind::ReduceScatter || step.kind == CollectiveKind::AllToAll) {
      shape[step.dim] = result.getDimSize(step.dim) * group;
    }
    int64_t bytes = byteSize(operand.clone(shape));
    op.bytes = dist::collectiveBytes(step.kind, bytes, group);
    analysis::Link link = planner.linkOf(step.axes);
    op.timePs = analysis::collectiveTimePs(step.kind, bytes, group, link);
    op.movesBeside = link.movesBeside;
  }

  const LayoutProblem &problem;
  MeshAttr mesh;
  const Assignment &assignment;
  analysis::Planner &planner;
  LocalProgram local;
  int64_t runs = 1;             // of what is added
  std::vector<AxisSet> varying; // the axes along which devices may hold different elements of each value
  std::unordered_map<Key, SmallVector<unsigned, 1>, HashKey> equal; // results, by their keys
  llvm::DenseMap<std::pair<unsigned, unsigned>, unsigned> held;     // values, by value of the problem and holding
  llvm::DenseMap<unsigned, unsigned> paddedOf;                      // of a value with padding that a step put there: the one before
};

} // namespace

LocalProgram localProgram(const LayoutProblem &problem, const ProblemProgram &program, const Assignment &assignment,
                          analysis::Planner &planner) {
  return LocalBuilder(problem, assignment, planner).run(program);
}

LocalProgram localProgram(func::FuncOp function) {
  LocalProgram local;
  if (!function.front().getOps<nn::RepeatOp>().empty()) {
    local.flat = std::make_shared<OwningOpRef<ModuleOp>>(function->getParentOfType<ModuleOp>().clone());
    function = local.flat->get().lookupSymbol<func::FuncOp>(function.getSymName());
    nn::flattenRepeats(function.front());
  }
  const nn::LoopNest nest(function.front());
  DenseMap<Value, unsigned> numbers;
  auto add = [&](Value value, std::optional<unsigned> maker) {
    local.values.push_back(typeOf(value));
    local.makers.push_back(maker);
    return numbers[value] = local.values.size() - 1;
  };
  dist::Owners owners(function.front());
  llvm::for_each(function.getArguments(), [&](BlockArgument argument) { add(argument, std::nullopt); });
  for (Operation &op : function.front()) {
    LocalOp &row = local.ops.emplace_back();
    row.op = &op;
    row.owner = owners.of(&op);
    row.runs = nest.countRuns(nest.of(&op));
    SmallVector<RankedTensorType> operands, results;
    for (Value operand : op.getOperands()) {
      row.operands.push_back(numbers.at(operand));
      operands.push_back(typeOf(operand));
    }
    for (Value result : op.getResults()) {
      row.results.push_back(add(result, local.ops.size() - 1));
      results.push_back(typeOf(result));
    }
    if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op)) {
      row.kind = collective.getCollectiveKind();
      row.bytes = costOfRuns(dist::collectiveBytes(collective), row.runs);
      row.timePs = costOfRuns(analysis::collectiveTimePs(collective), row.runs);
      row.movesBeside = analysis::movesBeside(collective);
    }
    row.work = analysis::workOf(row.op, operands, results);
  }
  return withoutUnused(std::move(local));
}

} // namespace ashlar::layout
