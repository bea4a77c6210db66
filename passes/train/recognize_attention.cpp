// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-recognize-attention; see passes.td and docs/attention.md.

#include "passes/train/attention_mask.h"
#include "passes/train/attention_matcher.h"
#include "passes/train/dead_ops.h"
#include "passes/train/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/nn/result_names.h"
#include "dialects/support/element_type.h"
#include "dialects/support/names.h"
#include "dialects/support/rule_set.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <vector>

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_RECOGNIZEATTENTIONPASS
#include "passes/train/passes.h.inc"

namespace {

// Returns the values that depend on a trainable variable.
DenseSet<Value> findTrained(func::FuncOp function) {
  SymbolTable symbols(function->getParentOfType<ModuleOp>());
  DenseSet<Value> trained;
  for (Operation &op : function.front()) {
    auto read = dyn_cast<nn::ReadOp>(op);
    auto variable = read ? symbols.lookup<nn::VariableOp>(read.getVariable()) : nn::VariableOp();
    if (variable && variable.getTrainable()) {
      trained.insert(read);
    }
    nn::markDependents(&op, trained, [](Value) { return true; });
  }
  return trained;
}

// Puts the attention ops into a function.
class Rewriter {
public:
  // `wholeOn`: a target that has to have a call or a kernel for them; none: it may write them out again.
  explicit Rewriter(std::optional<exec::Target> wholeOn) : wholeOn(wholeOn) {}

  // The operands of the ops besides query, key and value.
  struct Form {
    std::optional<int64_t> diagonal; // of a causal one
    int64_t window = 0;              // of that; 0: none
    Value mask;
  };

  // Rewrites one attention; leaves it where its masks are none of the ops', and where the target would write it out.
  void rewrite(const Attention &found) {
    nn::MatMulOp last = found.last;
    ImplicitLocOpBuilder b(last.getLoc(), last);
    Type element = typeOf(found.value).getElementType();
    Value query = as(b, element, found.query), key = as(b, element, found.isKeyTransposed ? swapLast(b, found.key) : found.key);
    Value value = found.value;
    if (found.isJoined) {
      query = nn::ReshapeOp::create(b, typeByHeads(found, typeOf(query)), query);
      key = repeatForHeads(b, found, key);
      value = repeatForHeads(b, found, value);
    }
    std::optional<Form> form = readMasks(b, found);
    if (!form || !staysWhole(found, *form, typeOf(query), typeOf(key), typeOf(value))) {
      return;
    }
    llvm::APFloat scale(found.scale), softcap(found.softcap);
    const bool isCausal = form->diagonal.has_value();
    const int64_t diagonal = form->diagonal.value_or(0);
    SmallVector<Value> positions;
    if (isCausal) {
      positions = {numberRows(b, typeOf(query)), numberRows(b, typeOf(key))};
    }
    Value logSum = nn::AttentionLogSumOp::create(b, query, key, form->mask, scale, isCausal, diagonal, form->window, softcap, positions);
    RankedTensorType type = found.isJoined ? typeByHeads(found, last.getType()) : last.getType();
    SmallVector<Value> draw = found.dropout ? readDraw(b, *found.dropout) : SmallVector<Value>();
    llvm::APFloat dropout(found.dropout ? found.dropout->ratio : 0.0);
    auto attention = nn::AttentionOp::create(b, type, query, key, value, logSum, form->mask, scale, isCausal, diagonal, form->window,
                                             softcap, positions, draw, dropout);
    Value result = attention;
    if (nn::BroadcastOp rows = found.zeroedRows) {
      result = zeroRows(b, result, rows.getInput(), rows.getDims());
    }
    if (found.zeroesNan) { // the weights of a row are NaN where its log-sum-exp is not finite
      Value zeroOrNan = nn::SubOp::create(b, logSum, logSum);
      Value isNan = nn::CompareOp::create(b, typeOf(logSum).clone(b.getI1Type()), nn::Predicate::Ne, zeroOrNan, zeroOrNan);
      result = zeroRows(b, result, isNan, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1)));
    }
    if (found.isJoined) {
      result = nn::ReshapeOp::create(b, last.getType(), result);
    }
    result.getDefiningOp()->setDiscardableAttrs(last->getDiscardableAttrDictionary());
    if (found.dropout && found.dropout->isTrainingOnly) {
      attention->setAttr(nn::kTrainingOnlyAttr, b.getUnitAttr());
    }
    last.replaceAllUsesWith(result);
    last.erase();
  }

private:
  // Whether lowering makes a call or a kernel of an attention, if that is asked for.
  bool staysWhole(const Attention &found, const Form &form, RankedTensorType query, RankedTensorType key, RankedTensorType value) const {
    const exec::AttentionForm asked = {form.mask ? typeOf(form.mask) : RankedTensorType(), form.diagonal, form.window, found.softcap,
                                       found.dropout.has_value()};
    nn::MatMulOp last = found.last;
    return !wholeOn || exec::generatesAttention(*wholeOn, query, key, value, asked) ||
           (last.getType().getElementType() == value.getElementType() && exec::takesAttention(*wholeOn, query, key, value, asked));
  }

  // Returns a result with zeros in the rows where bools are true; `dims`: those of the result that the bools have.
  static Value zeroRows(ImplicitLocOpBuilder &b, Value result, Value isZeroed, ArrayRef<int64_t> dims) {
    RankedTensorType type = typeOf(result);
    Value each = nn::BroadcastOp::create(b, type.clone(b.getI1Type()), isZeroed, dims);
    return nn::SelectOp::create(b, type, each, nn::ConstantOp::create(b, nn::splat(type, 0)), result);
  }

  // Returns the type of queries or results of groups, by heads: (batch..., heads, rows, columns).
  static RankedTensorType typeByHeads(const Attention &found, RankedTensorType type) {
    SmallVector<int64_t> shape = found.apart;
    shape.back() = type.getShape().back();
    return type.clone(shape);
  }

  // Returns keys or values of groups, for each head of them.
  static Value repeatForHeads(ImplicitLocOpBuilder &b, const Attention &found, Value value) {
    SmallVector<int64_t> shape(shapeOf(value)), heads = shape;
    const int64_t group = shape.size() - 3;
    shape.insert(shape.begin() + group + 1, found.apart[group] / found.joined[group]);
    heads[group] = found.apart[group];
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
    dims.erase(dims.begin() + group + 1);
    Value repeated = nn::BroadcastOp::create(b, typeOf(value).clone(shape), value, dims);
    return nn::ReshapeOp::create(b, typeOf(value).clone(heads), repeated);
  }

  // Returns the positions of the rows of a query or key, which are the same for all of the batch.
  static Value numberRows(ImplicitLocOpBuilder &b, RankedTensorType type) {
    SmallVector<int64_t> shape(type.getRank() - 1, 1), strides(shape.size(), 0);
    shape.back() = type.getShape().end()[-2];
    strides.back() = 1;
    return nn::IndexOp::create(b, RankedTensorType::get(shape, b.getI64Type()), strides);
  }

  // Returns what a dropout of weights draws from, the index of a weight as that of its row plus that of its key.
  static SmallVector<Value> readDraw(ImplicitLocOpBuilder &b, const AttentionDropout &dropout) {
    nn::RandomOp drawn = dropout.drawn;
    auto index = drawn.getIndex().getDefiningOp<nn::IndexOp>();
    RankedTensorType type = index.getType();
    SmallVector<int64_t> ofKeys(type.getRank() - 1, 0), keys(type.getRank() - 1, 1);
    ofKeys.back() = index.getStrides().back();
    keys.back() = type.getShape().back();
    Value row = nn::IndexOp::create(b, type.clone(type.getShape().drop_back()), index.getStrides().drop_back());
    return {row, nn::IndexOp::create(b, type.clone(keys), ofKeys), drawn.getSeed(), drawn.getCounter(), drawn.getStream()};
  }

  static Value as(ImplicitLocOpBuilder &b, Type element, Value value) {
    return typeOf(value).getElementType() == element ? value : nn::CastOp::create(b, typeOf(value).clone(element), value).getResult();
  }

  // Returns a value with its last two dims swapped, through the transpose that it is of.
  static Value swapLast(ImplicitLocOpBuilder &b, Value value) {
    auto reshape = value.getDefiningOp<nn::ReshapeOp>(); // of the batch: torch's exporter transposes matrices of one batch dim
    auto inside = reshape ? reshape.getInput().getDefiningOp<nn::TransposeOp>() : nn::TransposeOp();
    if (inside && swapsLastDims(inside) && shapeOf(reshape).take_back(2) == inside.getType().getShape().take_back(2)) {
      SmallVector<int64_t> shape(shapeOf(reshape));
      std::swap(shape.end()[-1], shape.end()[-2]);
      return nn::ReshapeOp::create(b, typeOf(value).clone(shape), inside.getInput());
    }
    auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()));
    auto transpose = value.getDefiningOp<nn::TransposeOp>();
    if (transpose) {
      if (swapsLastDims(transpose)) {
        return transpose.getInput();
      }
      permutation.assign(transpose.getPermutation().begin(), transpose.getPermutation().end());
      value = transpose.getInput();
    }
    std::swap(permutation.end()[-1], permutation.end()[-2]);
    return nn::TransposeOp::create(b, value, permutation);
  }

  // Takes causal masks as such, and one other as an operand. A key that a finite number hides is still seen where another mask hides all
  // others, so that such a causal mask is one only by itself.
  std::optional<Form> readMasks(ImplicitLocOpBuilder &b, const Attention &found) {
    Form form;
    bool isInfinite = true;
    for (const AttentionMask &mask : found.masks) {
      Value small = withoutRepeats(b, mask.value);
      std::optional<CausalMask> causal = isWhole(small, mask.value) ? causals.find(mask.value, mask.isInverted) : std::nullopt;
      if (causal) {
        isInfinite &= mask.isBool ? std::isinf(mask.hidden) : causal->isInfinite;
        if (causal->diagonal && !narrow(form, *causal)) {
          return std::nullopt;
        }
      } else if (form.mask) {
        return std::nullopt;
      } else {
        form.mask = mask.isBool ? maskOfBools(b, mask, small) : small;
      }
    }
    return form.mask && form.diagonal && !isInfinite ? std::nullopt : std::optional(form);
  }

  // Lets a form see only what a causal mask shows, too. Fails where nothing is left.
  static bool narrow(Form &form, const CausalMask &mask) {
    auto firstOf = [](int64_t diagonal, int64_t window) { return window == 0 ? INT64_MIN : diagonal - window; };
    const int64_t first = std::max(form.diagonal ? firstOf(*form.diagonal, form.window) : INT64_MIN, firstOf(*mask.diagonal, mask.window));
    form.diagonal = std::min(form.diagonal.value_or(INT64_MAX), *mask.diagonal);
    form.window = first == INT64_MIN ? 0 : *form.diagonal - first;
    return form.window >= 0 && (first == INT64_MIN || form.window > 0);
  }

  // Whether the small form of a mask has a row of keys for each query, of which causal masks consist.
  static bool isWhole(Value small, Value mask) { return shapeOf(small).take_back(2) == shapeOf(mask).take_back(2); }

  // Returns bools that are true for keys that are seen; or where a finite number hides the others, which may be all keys of a row, that
  // number for them.
  static Value maskOfBools(ImplicitLocOpBuilder &b, const AttentionMask &mask, Value small) {
    if (std::isinf(mask.hidden)) {
      return mask.isInverted ? nn::NotOp::create(b, small).getResult() : small;
    }
    RankedTensorType type = typeOf(small).clone(b.getF32Type());
    Value shown = nn::ConstantOp::create(b, nn::splat(type, 0)), hidden = nn::ConstantOp::create(b, nn::splat(type, mask.hidden));
    return nn::SelectOp::create(b, type, small, mask.isInverted ? hidden : shown, mask.isInverted ? shown : hidden);
  }

  std::optional<exec::Target> wholeOn;
  CausalMasks causals;
};

// The names that rules may match and that are gone once attentions are rewritten.
class InnerNames {
public:
  InnerNames(ModuleOp module, ArrayRef<Attention> attentions) {
    DenseSet<Operation *> inner;
    for (const Attention &attention : attentions) {
      inner.insert(attention.inner.begin(), attention.inner.end());
    }
    module.walk([&](Operation *op) {
      if (!inner.contains(op)) {
        forEachName(op, [&](StringRef name) { staying.insert(name); });
      }
      if (auto symbol = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName())) { // of parameters
        staying.insert(symbol.getValue());
      }
      if (auto function = dyn_cast<func::FuncOp>(op)) {
        addArguments(function);
      }
    });
  }

  // Whether a glob matches names of an attention, and none that stays.
  bool needs(StringRef glob, const Attention &attention) const {
    auto matches = [&](StringRef name) { return matchesGlob(glob, name) || matchModule(glob, name); };
    bool isOfInner = llvm::any_of(attention.inner, [&](Operation *op) {
      bool any = false;
      forEachName(op, [&](StringRef name) { any |= matches(name); });
      return any;
    });
    return isOfInner && llvm::none_of(staying, [&](const auto &entry) { return matches(entry.getKey()); });
  }

  // Whether a glob names an op of an attention whose operands become others.
  static bool namesProduct(StringRef glob, const Attention &attention) {
    nn::MatMulOp last = attention.last;
    return matchesGlob(glob, nn::getPath(last->getLoc())) ||
           llvm::any_of(attention.inner, [&](Operation *op) { return matchesGlob(glob, nn::getPath(op->getLoc())); });
  }

private:
  void addArguments(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      if (auto name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr)) {
        staying.insert(name.getValue());
      }
    }
  }

  // The names of the results of an op, and its path.
  static void forEachName(Operation *op, function_ref<void(StringRef)> visit) {
    for (OpResult result : op->getResults()) {
      llvm::for_each(nn::namesOf(result), visit);
    }
    if (StringRef path = nn::getPath(op->getLoc()); !path.empty()) {
      visit(path);
    }
  }

  llvm::StringSet<> staying;
};

struct RecognizeAttentionPass : public impl::RecognizeAttentionPassBase<RecognizeAttentionPass> {
  using RecognizeAttentionPassBase::RecognizeAttentionPassBase;

  void runOnOperation() override {
    std::vector<Attention> attentions;
    for (nn::ProgramRole role : {nn::ProgramRole::Run, nn::ProgramRole::LargerRun}) {
      if (func::FuncOp function = nn::findProgram(getOperation(), role)) {
        const DenseSet<Value> trained = trains ? findTrained(function) : DenseSet<Value>();
        function.walk([&](nn::MatMulOp op) {
          if (std::optional<Attention> found = matchAttention(op, trained)) {
            attentions.push_back(*found);
          }
        });
      }
    }
    InnerNames names(getOperation(), attentions);
    Rewriter rewriter(onlyWhole ? std::optional(target.getValue()) : std::nullopt);
    for (const Attention &attention : attentions) {
      if (!isNamed(names, attention) && !(trains && choosesZeroRows(attention))) {
        rewriter.rewrite(attention);
      }
    }
    for (nn::ProgramRole role : {nn::ProgramRole::Run, nn::ProgramRole::LargerRun}) {
      if (func::FuncOp function = nn::findProgram(getOperation(), role)) {
        eraseDeadOps(function);
      }
    }
  }

  // Whether rows that see no key are 0, by bools that choose which scores are seen: no gradient goes to the others, where the ops have NaN
  // for the weights of such a row. An added mask has that in any case.
  static bool choosesZeroRows(const Attention &attention) {
    return (attention.zeroesNan || attention.zeroedRows) &&
           llvm::any_of(attention.masks, [](const AttentionMask &mask) { return mask.isBool; });
  }

  // Whether a rule of the job or of the model would match nothing, or other operands, without the products of an attention.
  bool isNamed(const InnerNames &names, const Attention &attention) {
    auto needs = [&](StringRef glob) { return names.needs(glob, attention); };
    auto namesProduct = [&](StringRef glob) { return InnerNames::namesProduct(glob, attention); };
    if (llvm::any_of(rules, needs) || llvm::any_of(countedRules, namesProduct)) {
      return true;
    }
    auto ofModel = getOperation()->getAttrOfType<ArrayAttr>(dist::kRulesAttr);
    return ofModel && llvm::any_of(ofModel.getAsRange<dist::RuleAttr>(), [&](dist::RuleAttr rule) {
             return needs(rule.getMatch()) || (!rule.getLayout() && namesProduct(rule.getMatch()));
           });
  }
};

} // namespace

} // namespace ashlar::train
