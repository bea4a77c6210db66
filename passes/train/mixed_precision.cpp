// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-mixed-precision; see passes.td. Each op declares its type (ComputeOpInterface::getPrecision); the pass gives every operand the
// required type, with one conversion a value.

#include "passes/train/dead_ops.h"
#include "passes/train/narrow_constants.h"
#include "passes/train/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_MIXEDPRECISIONPASS
#include "passes/train/passes.h.inc"

namespace {

// Returns the type of the op's computation.
Precision precisionOf(Operation *op) {
  if (auto compute = dyn_cast<ComputeOpInterface>(op)) {
    return compute.getPrecision();
  }
  if (op->getNumOperands() == 0 && op->getNumResults() == 1) {
    return Precision::Source; // nn.read
  }
  bool isCopy = op->getNumOperands() == 1 && op->hasTrait<OpTrait::SameOperandsAndResultType>(); // dist.redistribute
  return isCopy ? Precision::Move : Precision::Wide;                                             // results of the function, too
}

// The new form of an f32 value of the model.
enum class Form {
  Outside,  // f32 from outside: input, parameter, table of constants; converted where it is used
  Constant, // f32 made of single constants only: exact, and cheap to compute again
  Narrow,   // of the narrow type now
  Wide      // f32, the result of an op that computes in it
};

// Rewrites one function, from its first op to its last.
//
// State: `forms` of all values that were f32; `narrowed` and `widened`, the conversions of values made so far. Linear in the number of ops.
class MixedPrecision {
public:
  // `narrowsTables`: whether a table from outside is converted before rows of it are taken.
  MixedPrecision(func::FuncOp function, FloatType narrowType, bool narrowsTables)
      : function(function), narrowType(narrowType), narrowsTables(narrowsTables) {}

  void run() {
    for (Value argument : function.getArguments()) {
      track(argument, Form::Outside);
    }
    SmallVector<Operation *> ops;
    for (Operation &op : function.front()) {
      ops.push_back(&op);
    }
    for (Operation *op : ops) {
      visit(op);
    }
    eraseDeadViews();
    narrowStacks();
    eraseDeadOps(function);
  }

private:
  void track(Value value, Form form) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType()); type && (type.getElementType().isF32() || form == Form::Narrow)) {
      forms[value] = form;
    }
  }

  bool hasOperand(Operation *op, Form form) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      auto found = forms.find(operand);
      return found != forms.end() && found->second == form;
    });
  }

  void visit(Operation *op) {
    if (auto repeat = dyn_cast<nn::RepeatOp>(op)) {
      return visitRepeat(repeat);
    }
    Precision precision = precisionOf(op);
    switch (precision) {
    case Precision::Narrow:
      return computeNarrow(op);
    case Precision::Wide:
      return computeWide(op);
    case Precision::Source:
      return track(op->getResult(0), sourceForm(op));
    case Precision::Convert:
      return track(op->getResult(0), castForm(cast<nn::CastOp>(op)));
    case Precision::Follow:
      break;
    case Precision::Move:
      if (takesRows(op)) {
        return narrowsTables ? computeNarrow(op) : computeWideAndRound(op);
      }
      break;
    }
    bool hasNarrow = hasOperand(op, Form::Narrow), hasOutside = hasOperand(op, Form::Outside);
    bool staysOutside = precision == Precision::Move || !typeOf(op->getResult(0)).getElementType().isF32();
    if (hasOperand(op, Form::Wide)) {
      computeWide(op);
    } else if (!hasNarrow && (!hasOutside || staysOutside)) {
      track(op->getResult(0), hasOutside ? Form::Outside : Form::Constant);
    } else if (precision == Precision::Follow && hasInexactConstant(op)) {
      computeWideAndRound(op);
    } else {
      computeNarrow(op);
    }
  }

  // A body takes and yields values in their forms. Carried values stay f32: rounded in each iteration, small changes would be lost.
  void visitRepeat(nn::RepeatOp op) {
    using Kind = nn::RepeatArgument::Kind;
    for (BlockArgument argument : op.getBody().getArguments()) {
      const nn::RepeatArgument outside = *nn::argumentOfRepeat(argument);
      auto found = forms.find(outside.operand);
      if (found == forms.end()) {
        continue;
      }
      const Form form = found->second;
      if (outside.kind == Kind::Carried) {
        op->setOperand(argument.getArgNumber(), wide(outside.operand));
        track(argument, Form::Wide);
        continue;
      }
      if (form == Form::Narrow) {
        argument.setType(narrowTypeOf(argument));
      }
      track(argument, outside.kind == Kind::Sliced ? asRow(form) : form);
    }
    Block &body = op.getBody().front();
    for (Operation *each : llvm::map_to_vector(body.without_terminator(), [](Operation &inner) { return &inner; })) {
      visit(each);
    }
    for (OpOperand &yielded : body.getTerminator()->getOpOperands()) {
      auto found = forms.find(yielded.get());
      OpResult result = op->getResult(yielded.getOperandNumber());
      if (found == forms.end()) {
        continue;
      }
      if (result.getResultNumber() < op.getCarried().size()) {
        yielded.set(wide(yielded.get()));
        track(result, Form::Wide);
        continue;
      }
      const Form form = asRow(found->second);
      if (form == Form::Narrow) {
        result.setType(narrowTypeOf(result));
      }
      track(result, form);
    }
  }

  // The form of rows of a tensor, and of a stack of rows. A stack of constants is read like a table.
  static Form asRow(Form form) { return form == Form::Constant ? Form::Outside : form; }

  // Erases what nothing reads any more, such as the wide views of tensors that are converted before. Narrow values stay: others are made of
  // them yet.
  void eraseDeadViews() {
    SmallVector<Operation *> ops;
    function.walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : llvm::reverse(ops)) {
      const bool isNarrow = llvm::any_of(op->getResults(), [&](Value result) { return forms.lookup(result) == Form::Narrow; });
      if (!isNarrow && op->getNumRegions() == 0 && isOpTriviallyDead(op)) {
        llvm::for_each(op->getResults(), [&](Value result) { forms.erase(result); });
        op->erase();
      }
    }
  }

  // Has bodies yield rows in the narrow type that only conversions to it read: the stack is half as large.
  void narrowStacks() {
    SmallVector<nn::RepeatOp> repeats; // those around others first: an inner stack may be a row of theirs
    function.walk<WalkOrder::PreOrder>([&](nn::RepeatOp op) { repeats.push_back(op); });
    for (nn::RepeatOp op : repeats) {
      for (OpResult stack : op.getStackedResults()) {
        if (isOnlyNarrowed(stack)) {
          narrowStack(op, stack);
        }
      }
    }
  }

  bool isOnlyNarrowed(Value value) {
    return forms.contains(value) && forms.lookup(value) != Form::Narrow && !value.use_empty() &&
           llvm::all_of(value.getUsers(), [&](Operation *user) {
             auto conversion = dyn_cast<nn::CastOp>(user);
             return conversion && conversion.getType().getElementType() == narrowType;
           });
  }

  void narrowStack(nn::RepeatOp op, OpResult stack) {
    OpOperand &row = op.getBody().front().getTerminator()->getOpOperand(stack.getResultNumber());
    row.set(narrow(row.get()));
    stack.setType(narrowTypeOf(stack));
    forms[stack] = Form::Narrow;
    narrowed.erase(stack);
    for (Operation *conversion : llvm::make_early_inc_range(stack.getUsers())) {
      conversion->replaceAllUsesWith(ValueRange{stack});
      conversion->erase();
    }
  }

  Form sourceForm(Operation *op) {
    auto constant = dyn_cast<nn::ConstantOp>(op);
    if (!constant) {
      return Form::Outside;
    }
    if (overflows(constant.getValue(), narrowType)) {
      return Form::Wide;
    }
    return constant.getValue().isSplat() ? Form::Constant : Form::Outside;
  }

  // Whether an op takes rows of a trained table. They are rounded, as the table would be.
  bool takesRows(Operation *op) {
    auto indexing = dyn_cast<IndexingOpInterface>(op);
    auto read = indexing ? nn::resolveCaptured(indexing.getIndexed()).getDefiningOp<nn::ReadOp>() : nn::ReadOp();
    return read && forms.contains(read) &&
           SymbolTable::lookupNearestSymbolFrom<nn::VariableOp>(function, read.getVariableAttr()).getTrainable();
  }

  // A conversion to f32 stays f32, as in the model; only bools fit into less.
  Form castForm(nn::CastOp op) { return op.getInput().getType().getElementType().isInteger(1) ? Form::Outside : Form::Wide; }

  bool hasInexactConstant(Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      auto found = forms.find(operand);
      if (found == forms.end() || found->second != Form::Constant) {
        return false;
      }
      Value source = nn::resolveCaptured(operand);
      while (Operation *view = source.getDefiningOp()) {
        if (precisionOf(view) != Precision::Move) {
          break;
        }
        source = nn::resolveCaptured(view->getOperand(0));
      }
      auto constant = source.getDefiningOp<nn::ConstantOp>();
      return !constant || !isExact(constant.getValue(), narrowType);
    });
  }

  void computeNarrow(Operation *op) {
    convertOperands(op, [&](Value value) { return narrow(value); });
    for (Value result : op->getResults()) {
      if (typeOf(result).getElementType().isF32()) {
        result.setType(narrowTypeOf(result));
        track(result, Form::Narrow);
      }
    }
  }

  void computeWide(Operation *op) {
    convertOperands(op, [&](Value value) { return wide(value); });
    for (Value result : op->getResults()) {
      track(result, Form::Wide);
    }
  }

  // As for an op with a constant that the narrow type cannot hold: a rounded factor would be wrong in all elements alike.
  void computeWideAndRound(Operation *op) {
    computeWide(op);
    Value result = op->getResult(0);
    if (typeOf(result).getElementType().isF32()) {
      Value rounded = narrow(result);
      result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
    }
  }

  void convertOperands(Operation *op, llvm::function_ref<Value(Value)> convert) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (forms.contains(operand.get())) {
        operand.set(convert(operand.get()));
        placeConversion(operand);
      }
    }
  }

  // A model of mode HYBRID fixes the layouts of all its values: a conversion stands at its use.
  void placeConversion(OpOperand &operand) {
    auto layouts = operand.getOwner()->getAttrOfType<ArrayAttr>(dist::kOperandLayoutsAttr);
    auto conversion = operand.get().getDefiningOp<nn::CastOp>();
    if (layouts && conversion && operand.getOwner()->hasAttr(dist::kExplicitAttr)) {
      place(conversion, dyn_cast<dist::LayoutAttr>(layouts[operand.getOperandNumber()]));
    }
  }

  void place(nn::CastOp conversion, dist::LayoutAttr layout) {
    if (!layout || conversion->hasAttr(dist::kExplicitAttr)) {
      return;
    }
    Builder builder(conversion.getContext());
    conversion->setAttr(dist::kLayoutsAttr, builder.getArrayAttr({layout}));
    conversion->setAttr(dist::kOperandLayoutsAttr, builder.getArrayAttr({layout}));
    conversion->setAttr(dist::kExplicitAttr, builder.getUnitAttr());
  }

  // Gives `copy` all that `op` carries but its names.
  void copyAttributes(Operation *op, Operation *copy) {
    copy->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    for (StringRef name : {nn::kOutputsAttr, nn::kAliasesAttr}) {
      copy->removeDiscardableAttr(name);
    }
  }

  RankedTensorType narrowTypeOf(Value value) { return typeOf(value).clone(narrowType); }

  Value wide(Value value) {
    if (forms.lookup(value) != Form::Narrow) {
      return value;
    }
    Value &converted = widened[value];
    if (!converted) {
      converted = convertTo(typeOf(value).clone(Float32Type::get(value.getContext())), value);
    }
    return converted;
  }

  // Returns the value in the narrow type, when there is one.
  Value findNarrow(Value value) { return forms.lookup(value) == Form::Narrow ? value : narrowed.lookup(value); }

  // A tensor is converted before it is broadcast, sliced or sent: once for all views of it, so that their gradients add up, and travel, in
  // the narrow type. Named tensors of the model stay: rules may match them.
  bool isNarrowedBefore(Value value) {
    Operation *op = value.getDefiningOp();
    return op && precisionOf(op) == Precision::Move && op->getNumOperands() == 1 && !op->hasAttr(nn::kOutputsAttr);
  }

  Value narrow(Value value) {
    SmallVector<Value> views; // down to the converted value
    Value source = value;
    for (; !findNarrow(source) && isNarrowedBefore(source); source = source.getDefiningOp()->getOperand(0)) {
      views.push_back(source);
    }
    Value converted = findNarrow(source);
    if (!converted) {
      converted = noteNarrow(source, convertNarrow(source));
    }
    for (Value view : llvm::reverse(views)) {
      converted = noteNarrow(view, viewNarrow(view, converted));
    }
    return converted;
  }

  Value noteNarrow(Value value, Value converted) {
    track(converted, Form::Narrow);
    return narrowed[value] = converted;
  }

  // Returns a row or a captured value of a body in the narrow type: from outside, where it is converted once for all iterations. Null for a
  // value that differs between iterations.
  Value narrowOutside(Value value) {
    std::optional<nn::RepeatArgument> argument = nn::argumentOfRepeat(value);
    if (!argument || argument->kind == nn::RepeatArgument::Kind::Carried) {
      return {};
    }
    nn::RepeatOp op = argument->repeat;
    Block &body = op.getBody().front();
    Value outside = narrow(argument->operand);
    if (argument->kind == nn::RepeatArgument::Kind::Captured) {
      return nn::captureIn(outside, &body);
    }
    const unsigned place = op.getCarried().size() + op.getSliced().size();
    op.getSlicedMutable().append(outside);
    return body.insertArgument(place, narrowTypeOf(value), value.getLoc());
  }

  Value convertNarrow(Value value) {
    if (Value outside = narrowOutside(value)) {
      return outside;
    }
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast_or_null<nn::ConstantOp>(op)) {
      if (ElementsAttr elements = convertElements(constant.getValue(), narrowType)) {
        OpBuilder builder(op->getContext());
        builder.setInsertionPointAfter(op);
        auto copy = nn::ConstantOp::create(builder, op->getLoc(), elements);
        copyAttributes(op, copy);
        return copy;
      }
    }
    return convertTo(narrowTypeOf(value), value);
  }

  // Returns the view of a narrow source for `value`, a view of a wide one.
  Value viewNarrow(Value value, Value source) {
    Operation *op = value.getDefiningOp();
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    Operation *copy = builder.clone(*op);
    copyAttributes(op, copy);
    copy->setOperand(0, source);
    placeConversion(copy->getOpOperand(0));
    copy->getResult(0).setType(narrowTypeOf(value));
    return copy->getResult(0);
  }

  Value convertTo(RankedTensorType type, Value value) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    auto conversion = nn::CastOp::create(builder, value.getLoc(), type, value);
    if (Operation *op = value.getDefiningOp(); op && op->hasAttr(dist::kExplicitAttr)) {
      place(conversion, dist::findLayout(value));
    }
    return conversion;
  }

  func::FuncOp function;
  FloatType narrowType;
  bool narrowsTables;
  DenseMap<Value, Form> forms;
  DenseMap<Value, Value> narrowed, widened;
};

struct MixedPrecisionPass : public impl::MixedPrecisionPassBase<MixedPrecisionPass> {
  using MixedPrecisionPassBase::MixedPrecisionPassBase;

  void runOnOperation() override {
    func::FuncOp function = nn::findProgram(getOperation(), nn::ProgramRole::Run);
    if (!function) {
      getOperation().emitError("no function @forward to compute in mixed precision; run ashlar-mixed-precision before ashlar-loss");
      return signalPassFailure();
    }
    FloatType type =
        narrowType == NarrowType::BF16 ? FloatType(BFloat16Type::get(&getContext())) : FloatType(Float16Type::get(&getContext()));
    MixedPrecision(function, type, narrowTables).run();
    if (func::FuncOp larger = nn::findProgram(getOperation(), nn::ProgramRole::LargerRun)) {
      MixedPrecision(larger, type, narrowTables).run();
    }
  }
};

} // namespace

} // namespace ashlar::train
