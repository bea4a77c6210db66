// SPDX-License-Identifier: Apache-2.0
//
// See sample_dependence.h. One walk in program order; repeat_dependence.cpp has the bodies of repeats. Rules of ops are those of the larger
// program, where no dim of samples has size 1.

#include "passes/train/loss/sample_dependence.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::train {
namespace {

using Kind = Dependence::Kind;

// Returns the value of all elements of a constant; nothing where they differ.
std::optional<double> splatOf(nn::ConstantOp constant) {
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense || !dense.isSplat()) {
    return std::nullopt;
  }
  if (isa<FloatType>(dense.getElementType())) {
    return dense.getSplatValue<APFloat>().convertToDouble();
  }
  auto type = cast<IntegerType>(dense.getElementType());
  APInt value = dense.getSplatValue<APInt>();
  return type.isUnsigned() || type.getWidth() == 1 ? static_cast<double>(value.getZExtValue()) : static_cast<double>(value.getSExtValue());
}

bool isFloat(Value value) {
  return isa<FloatType>(typeOf(value).getElementType());
}

bool addsOrSubtracts(Operation *op) {
  return isa<nn::AddOp, nn::SubOp>(op);
}

// Whether an op is linear in the operands of `mask`, together. A conversion to floats counts as linear: it rounds.
bool isLinear(Operation *op, llvm::SmallBitVector mask) {
  if (auto select = dyn_cast<nn::SelectOp>(op)) { // 0 is a sum of zeros
    for (unsigned i : {1u, 2u}) {
      mask[i] = mask[i] || nn::isZero(op->getOperand(i));
    }
  }
  if (isa<nn::CastOp>(op) && isFloat(op->getResult(0))) {
    return true;
  }
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return compute && compute.passesParts(Reduction::Sum, mask);
}

// Where the samples are among the factors of a dim: of `factor`, (offset, samples, inner). Offset 0: anywhere.
struct Place {
  int64_t factor, offset;
};

// Returns the place of samples in a dim of (outer, samples, inner); nothing where no factor has all of them.
std::optional<Place> findPlace(const ShardingRule &rule, ArrayRef<int64_t> factors, int64_t outer, int64_t samples) {
  int64_t before = 1;
  for (int64_t factor : factors) {
    const int64_t size = rule.factors[factor].size;
    if (outer == Dependence::kAnyOuter && size % samples == 0) {
      return Place{factor, Dependence::kAnyOuter};
    }
    if (outer > 0 && outer % before == 0 && size % (outer / before * samples) == 0) {
      return Place{factor, outer / before};
    }
    before *= size;
  }
  return std::nullopt;
}

} // namespace

Dependence Dependence::coupled(Operation *op, const Twine &why) {
  StringRef path = nn::getPath(op->getLoc());
  Dependence result = ofKind(Kind::Coupled);
  result.reason = ((path.empty() ? Twine("an op") : "\"" + path + "\"") + " (" + op->getName().getStringRef() + ") " + why).str();
  return result;
}

Dependence Dependence::ofKind(Kind kind, int64_t dim, int64_t outer) {
  Dependence result;
  result.kind = kind;
  result.dim = dim;
  result.outer = outer;
  return result;
}

SampleDependence::SampleDependence(func::FuncOp function, func::FuncOp larger, int64_t batch, int64_t growth, bool isStep)
    : function(function), batch(batch), growth(growth), isStep(isStep), symbols(function->getParentOfType<ModuleOp>()) {
  isPaired = larger && pair(larger);
  func::FuncOp other = isPaired ? larger : function;
  if (!isPaired) {
    pairs.clear();
    function.walk([&](Operation *op) { pairs[op->getBlock()].push_back({op, op}); });
  }
  largerArguments.assign(other.getArgumentTypes().begin(), other.getArgumentTypes().end());
}

// Pairs the ops of the two programs; returns false where they are not the same ones.
bool SampleDependence::pair(func::FuncOp larger) {
  SmallVector<std::pair<Block *, Block *>> pending = {{&function.front(), &larger.front()}};
  while (!pending.empty()) {
    auto [ours, theirs] = pending.pop_back_val();
    if (!pairBlocks(*ours, *theirs)) {
      return false;
    }
    for (const Pair &each : pairs[ours]) {
      auto a = dyn_cast<nn::RepeatOp>(each.op), b = dyn_cast<nn::RepeatOp>(each.larger);
      if (a && (a.getCount() != b.getCount() || a.getReversed() != b.getReversed() || a.getSliced().size() != b.getSliced().size() ||
                a.getCarried().size() != b.getCarried().size() || !a.getCondition() != !b.getCondition())) {
        return false;
      }
      if (a) {
        pending.push_back({&a.getBody().front(), &b.getBody().front()});
      }
    }
  }
  return true;
}

bool SampleDependence::pairBlocks(Block &ours, Block &theirs) {
  if (ours.getNumArguments() != theirs.getNumArguments() || ours.getOperations().size() != theirs.getOperations().size()) {
    return false;
  }
  DenseMap<Value, Value> values;
  for (auto [a, b] : llvm::zip_equal(ours.getArguments(), theirs.getArguments())) {
    values[a] = b;
  }
  for (auto [op, other] : llvm::zip_equal(ours, theirs)) {
    if (other.getName() != op.getName() || other.getNumOperands() != op.getNumOperands()) {
      return false;
    }
    for (auto [a, b] : llvm::zip_equal(op.getOperands(), other.getOperands())) {
      if (values.lookup(a) != b) {
        return false;
      }
    }
    for (auto [a, b] : llvm::zip_equal(op.getResults(), other.getResults())) {
      values[a] = b;
    }
    pairs[&ours].push_back({&op, &other});
  }
  return true;
}

void SampleDependence::run(Value assumed) {
  found.clear();
  cutChanges({});
  for (auto [argument, type] : llvm::zip_equal(function.getArguments(), largerArguments)) {
    found[argument] = argument == assumed ? Dependence::ofKind(Kind::Samples) : visitArgument(argument, type);
  }
  for (const Pair &pair : pairs[&function.front()]) {
    visit(pair);
    if (assumed && assumed.getDefiningOp() == pair.op) {
      const bool isTrained = found[assumed].isTrained;
      found[assumed] = Dependence::ofKind(Kind::Samples);
      found[assumed].isTrained = isTrained;
      cutChanges({}); // what comes before it stays as it is
    }
  }
}

// Returns the dim that has `growth` times the elements in the larger program; -1 where the types differ otherwise, nothing where they do
// not.
std::optional<int64_t> SampleDependence::grownDim(Type type, Type larger) const {
  if (type == larger) {
    return std::nullopt;
  }
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape(), other = cast<RankedTensorType>(larger).getShape();
  int64_t dim = -1;
  for (size_t d = 0; shape.size() == other.size() && d < shape.size(); ++d) {
    if (shape[d] != other[d]) {
      if (dim >= 0 || shape[d] * growth != other[d]) {
        return -1;
      }
      dim = static_cast<int64_t>(d);
    }
  }
  return dim;
}

Dependence SampleDependence::visitArgument(BlockArgument argument, Type larger) {
  auto type = cast<RankedTensorType>(argument.getType());
  const bool hasSamples = isPaired ? grownDim(type, larger) == 0 : type.getRank() > 0 && type.getDimSize(0) == batch;
  if (hasSamples) {
    return Dependence::ofKind(Kind::Samples);
  }
  auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nn::kNameAttr);
  Dependence result = Dependence::ofKind(Kind::Coupled);
  result.reason = "input \"" + (name ? name.str() : "") + "\" has no first dim of samples";
  return result;
}

Dependence SampleDependence::visitConstant(nn::ConstantOp constant, nn::ConstantOp larger) {
  auto power = constant->getAttrOfType<IntegerAttr>(nn::kSamplesPowerAttr);
  if (constant.getValue() == larger.getValue() && !power) {
    return {};
  }
  std::optional<double> value = splatOf(constant), other = splatOf(larger);
  std::optional<int64_t> dim = grownDim(constant.getType(), larger.getType());
  if (!value || !other) {
    return Dependence::coupled(constant, "holds other numbers for another number of samples");
  }
  if (dim) {
    return *dim >= 0 && *value == *other ? Dependence::ofKind(Kind::Samples, *dim, Dependence::kAnyOuter)
                                         : Dependence::coupled(constant, "holds other numbers for another number of samples");
  }
  const double exponent = power ? static_cast<double>(power.getInt()) : 0;
  if (isStep) {
    sized.push_back({constant, isPaired ? *other : *value * std::pow(static_cast<double>(growth), exponent)});
    return {};
  }
  auto isAbout = [](double x, double y) { return std::abs(x - y) <= 1e-5 * std::abs(y); }; // both were rounded to f32
  const double count = static_cast<double>(batch), grown = static_cast<double>(growth);
  if (power ? exponent == -1 : isAbout(*value, *other * grown)) {
    sized.push_back({constant, *value * count});
    Dependence result;
    result.divisor.kind = Divisor::Kind::Samples;
    return result;
  }
  if (power ? exponent == 1 : isAbout(*other, *value * grown)) {
    sized.push_back({constant, *value / count});
    return Dependence::ofKind(Kind::Count);
  }
  return Dependence::coupled(constant, "is a number that depends on how many samples there are");
}

Dependence SampleDependence::visitIndex(const Pair &pair) const {
  auto index = cast<nn::IndexOp>(pair.op);
  ArrayRef<int64_t> strides = index.getStrides();
  std::optional<int64_t> dim = grownDim(index.getType(), pair.larger->getResult(0).getType());
  if (!dim && strides == cast<nn::IndexOp>(pair.larger).getStrides()) {
    return {};
  }
  return dim && *dim >= 0 && strides[*dim] == 0 ? Dependence::ofKind(Kind::Samples, *dim, Dependence::kAnyOuter)
                                                : Dependence::coupled(index, "numbers the samples of the batch");
}

// Random numbers of samples are drawn by their place in the step (ashlar-accumulate), as those of the whole batch are.
Dependence SampleDependence::visitDrawnIndex(const Pair &pair, OpOperand &index) const {
  auto type = cast<RankedTensorType>(index.get().getType());
  std::optional<int64_t> dim = grownDim(type, pair.larger->getOperand(index.getOperandNumber()).getType());
  if (!isPaired) {
    dim = type.getRank() > 0 && type.getDimSize(0) == batch ? std::optional<int64_t>(0) : std::nullopt;
  }
  return !dim        ? Dependence()
         : *dim >= 0 ? Dependence::ofKind(Kind::Samples, *dim)
                     : Dependence::coupled(pair.op, "draws random numbers for all samples at once");
}

// Of operands that are the same for every batch.
Dependence SampleDependence::visitIndependent(const Pair &pair, const Operands &operands) const {
  Operation *op = pair.op;
  std::optional<int64_t> dim;
  for (auto [ours, theirs] : llvm::zip_equal(op->getResultTypes(), pair.larger->getResultTypes())) {
    dim = dim ? dim : grownDim(ours, theirs);
  }
  const bool isPlain = llvm::all_of(operands, [](const Dependence *each) { return each->kind == Kind::None && !each->divisor; });
  if (dim) {
    auto broadcast = dyn_cast<nn::BroadcastOp>(op);
    const bool repeats = broadcast && *dim >= 0 && !llvm::is_contained(broadcast.getDims(), *dim);
    return isPlain && repeats ? Dependence::ofKind(Kind::Samples, *dim, Dependence::kAnyOuter)
                              : Dependence::coupled(op, "makes a tensor of all samples at once");
  }
  if (isPlain) {
    return {};
  }
  llvm::SmallBitVector counts(op->getNumOperands());
  for (auto [i, each] : llvm::enumerate(operands)) {
    counts[i] = each->kind == Kind::Count;
  }
  if (counts.none()) {
    return {};
  }
  const bool hasDivisor = llvm::any_of(operands, [](const Dependence *each) { return static_cast<bool>(each->divisor); });
  return !hasDivisor && isLinear(op, counts) ? Dependence::ofKind(Kind::Count)
                                             : Dependence::coupled(op, "is not linear in the number of samples");
}

// Returns what a value is as a divisor: a sum over samples, or their number, however it was repeated.
Divisor SampleDependence::divisorOf(Value value) const {
  if (of(value).kind == Kind::Count) {
    return {Divisor::Kind::Samples, {}, 0};
  }
  value = nn::resolveCaptured(value);
  while (isa_and_nonnull<nn::BroadcastOp, nn::ReshapeOp>(value.getDefiningOp())) {
    value = nn::resolveCaptured(value.getDefiningOp()->getOperand(0));
  }
  Divisor divisor;
  if (auto bounded = value.getDefiningOp<nn::MaxOp>()) {
    for (unsigned i : {0u, 1u}) {
      auto constant = bounded->getOperand(1 - i).getDefiningOp<nn::ConstantOp>();
      std::optional<double> least = constant ? splatOf(constant) : std::nullopt;
      if (least && *least > 0 && typeOf(bounded).getNumElements() == 1) {
        divisor.least = *least;
        value = nn::resolveCaptured(bounded->getOperand(i));
        break;
      }
    }
  }
  const Dependence &sum = of(value);
  const bool isKnown = sum.kind == Kind::Sum && !sum.divisor && typeOf(value).getNumElements() == 1 && isFloat(value);
  if (!isKnown || (isStep && sum.isTrained)) {
    return {};
  }
  divisor.kind = Divisor::Kind::Sum;
  divisor.sum = value;
  return divisor;
}

// Returns what is left of a quotient by a sum over samples, or by their number; nothing where an op is none.
std::optional<Dependence> SampleDependence::visitQuotient(Operation *op, const Operands &operands) {
  auto quotient = dyn_cast<nn::DivOp>(op);
  if (!quotient || !isFloat(op->getResult(0)) || operands[0]->divisor || operands[0]->kind == Kind::Count ||
      operands[0]->kind == Kind::Coupled) {
    return std::nullopt;
  }
  Divisor divisor = divisorOf(quotient.getRhs());
  if (!divisor) {
    return std::nullopt;
  }
  if (divisor.kind == Divisor::Kind::Sum) {
    quotients.push_back(op);
  }
  Dependence result = *operands[0];
  result.divisor = divisor;
  return result;
}

// Finds the divisor of what an op makes; returns why there is none.
std::optional<std::string> SampleDependence::findDivisor(Operation *op, const Operands &operands, Divisor &divisor) const {
  llvm::SmallBitVector divided(op->getNumOperands());
  for (auto [i, each] : llvm::enumerate(operands)) {
    if (!each->divisor) {
      continue;
    }
    if (divided.any() && each->divisor != divisor) {
      return "takes quotients by different sums over samples";
    }
    divided.set(i);
    divisor = each->divisor;
  }
  if (divided.none() || isLinear(op, divided)) {
    return std::nullopt;
  }
  // The one addend without a divisor is multiplied by it.
  const bool isAddend =
      addsOrSubtracts(op) && operands[divided.find_first()]->kind == Kind::Sum && operands[divided.find_first_unset()]->kind == Kind::None;
  return isAddend ? std::nullopt : std::optional<std::string>("is not linear in a quotient by a sum over samples");
}

// Of sums over samples, and of what is the same for every batch.
Dependence SampleDependence::visitSums(Operation *op, const Operands &operands) {
  llvm::SmallBitVector sums(op->getNumOperands());
  for (auto [i, each] : llvm::enumerate(operands)) {
    sums[i] = each->kind == Kind::Sum;
  }
  if (isLinear(op, sums)) {
    return Dependence::ofKind(Kind::Sum);
  }
  if (!addsOrSubtracts(op) || sums.count() != 1) {
    return Dependence::coupled(op, "is not linear in a sum over samples");
  }
  const unsigned other = sums.find_first_unset();
  const Divisor &divisor = operands[1 - other]->divisor;
  if (operands[other]->divisor || (!isStep && !divisor)) {
    return Dependence::coupled(op, "adds a number to a sum over samples, once for all of them");
  }
  addends.push_back({op, other, divisor});
  return Dependence::ofKind(Kind::Sum);
}

// Of parts, one a sample: the op computes its share of each sample, or adds up over them.
Dependence SampleDependence::visitSamples(const Pair &pair, const Operands &operands, unsigned result) {
  Operation *op = pair.op;
  auto sharded = dyn_cast<ShardingRuleOpInterface>(pair.larger);
  if (!sharded || llvm::any_of(operands, [](const Dependence *each) { return each->kind == Kind::Sum || each->kind == Kind::Count; })) {
    return Dependence::coupled(op, sharded ? "combines values of single samples with a sum over all samples" : "has no sharding rule");
  }
  const ShardingRule rule = sharded.getShardingRule();
  const int64_t samples = isPaired ? batch * growth : batch;
  std::optional<Place> place;
  for (auto [i, each] : llvm::enumerate(operands)) {
    if (each->kind != Kind::Samples) {
      continue;
    }
    std::optional<Place> own = findPlace(rule, rule.operands[i][each->dim], each->outer, samples);
    const bool agrees =
        own && (!place || (own->factor == place->factor && (own->offset == place->offset || !own->offset || !place->offset)));
    if (!agrees) {
      return Dependence::coupled(op, own ? "takes samples along two dims" : "moves elements between samples");
    }
    place = place && place->offset ? place : own;
  }
  for (auto [i, each] : llvm::enumerate(operands)) { // without a larger program
    for (auto [d, factors] : llvm::enumerate(rule.operands[i])) {
      if (each->kind == Kind::None && llvm::is_contained(factors, place->factor) && !isUniform(op->getOperand(i), d)) {
        return Dependence::coupled(op, "takes a tensor with other numbers for each sample of the batch");
      }
    }
  }
  const bool isWindowed = llvm::any_of(rule.windows, [&](const WindowedDim &window) { return rule.factorOf(window) == place->factor; });
  const Factor &factor = rule.factors[place->factor];
  if (isWindowed || !mayBeSplit(factor.kind) || (factor.kind == FactorKind::Reduction && factor.reduction != Reduction::Sum)) {
    return Dependence::coupled(op, "needs all samples at once");
  }
  if (factor.kind == FactorKind::Reduction) {
    // Sums have one size for every batch, and a row that is picked by its number is another one in each part of the batch.
    auto indexing = dyn_cast<IndexingOpInterface>(op);
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (indexing && operand == indexing.getIndexed() && llvm::is_contained(rule.operands[i][indexing.getIndexedDim()], place->factor)) {
        return Dependence::coupled(op, "picks samples by their number in the batch");
      }
    }
    if (grownDim(op->getResult(result).getType(), pair.larger->getResult(result).getType())) {
      return Dependence::coupled(op, "makes a tensor of all samples at once");
    }
    for (auto [i, each] : llvm::enumerate(operands)) {
      if (each->kind == Kind::Samples && result == 0) {
        summed.push_back({&op->getOpOperand(i), each->dim, each->outer});
      }
    }
    return Dependence::ofKind(Kind::Sum);
  }
  for (auto [d, factors] : llvm::enumerate(rule.results[result])) {
    int64_t before = 1;
    for (int64_t each : factors) {
      if (each == place->factor) {
        return Dependence::ofKind(Kind::Samples, static_cast<int64_t>(d), before * place->offset);
      }
      before *= rule.factors[each].size;
    }
  }
  return Dependence::coupled(op, "makes one tensor of all samples");
}

void SampleDependence::visit(const Pair &pair) {
  Operation *op = pair.op;
  if (auto repeat = dyn_cast<nn::RepeatOp>(op)) {
    return visitRepeat(repeat);
  }
  if (op->hasTrait<OpTrait::IsTerminator>()) {
    return;
  }
  Operands operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(&of(operand));
  }
  Dependence drawn;
  auto drawing = dyn_cast<DrawingOpInterface>(op);
  if (OpOperand *index = drawing ? drawing.getDrawnIndex() : nullptr) {
    drawn = visitDrawnIndex(pair, *index);
    operands[index->getOperandNumber()] = &drawn;
  }
  auto isKind = [&](Kind kind) { return llvm::any_of(operands, [&](const Dependence *each) { return each->kind == kind; }); };
  SmallVector<Dependence> results;
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    Dependence result;
    if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      result = visitConstant(constant, cast<nn::ConstantOp>(pair.larger));
    } else if (isa<nn::IndexOp>(op)) {
      result = visitIndex(pair);
    } else if (auto read = dyn_cast<nn::ReadOp>(op)) {
      auto variable = symbols.lookup<nn::VariableOp>(read.getVariable());
      result.isTrained = variable && variable.getTrainable();
    } else if (std::optional<Dependence> quotient = visitQuotient(op, operands)) { // a divisor may be bounded, which is not linear
      result = *quotient;
    } else if (isKind(Kind::Coupled)) {
      result = **llvm::find_if(operands, [](const Dependence *each) { return each->kind == Kind::Coupled; });
    } else {
      Divisor divisor;
      if (std::optional<std::string> why = findDivisor(op, operands, divisor)) {
        result = Dependence::coupled(op, *why);
      } else {
        result = isKind(Kind::Samples) ? visitSamples(pair, operands, i)
                 : isKind(Kind::Sum)   ? visitSums(op, operands)
                                       : visitIndependent(pair, operands);
        result.divisor = result.kind == Kind::Coupled ? Divisor() : divisor;
      }
    }
    result.isTrained |= llvm::any_of(operands, [](const Dependence *each) { return each->isTrained; });
    results.push_back(std::move(result));
  }
  for (auto [value, result] : llvm::zip_equal(op->getResults(), results)) { // behind all: operands point into the map
    found[value] = std::move(result);
  }
}

} // namespace ashlar::train
