// SPDX-License-Identifier: Apache-2.0
//
// Two walks over the model: from its results to its tokens, which finds what has to be computed of each tensor, and back, which computes
// it.

#include "passes/decode/position_program.h"

#include "dialects/nn/programs.h"
#include "dialects/nn/result_names.h"
#include "dialects/nn/scratch_state.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"
#include "passes/decode/passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ashlar::decode {
namespace {

// What is computed of a tensor: the positions of the program, in this place, or with none the whole of it.
using Form = std::optional<Place>;

// How an op of the model is computed in the program.
struct Task {
  enum Kind { Copy, TakeRows, Keep } kind;
  OpPlaces places = {};   // Copy: the forms of its operands and results
  unsigned result = 0;    // TakeRows, Keep
  Place place = {-1, -1}; // TakeRows: of its result, whose whole is known
};

class PositionProgram {
public:
  PositionProgram(func::FuncOp model, const PositionPlaces &places, const ProgramOptions &options, Caches &caches)
      : model(model), places(places), options(options), caches(caches), b(model.getLoc(), model) {}

  func::FuncOp build(ArrayRef<OpOperand *> results) {
    for (OpOperand *result : results) {
      want(result->get(), places.find(result->get()));
    }
    for (auto &[tensor, variable] : caches) {
      want(tensor, std::nullopt);
    }
    for (Operation &op : llvm::reverse(model.front())) {
      plan(&op);
    }
    begin();
    for (Operation &op : model.front()) {
      for (Task::Kind kind : {Task::Copy, Task::TakeRows, Task::Keep}) { // the last ones are of results of copies
        for (const Task &task : tasks.lookup(&op)) {
          if (task.kind == kind) {
            run(&op, task);
          }
        }
      }
    }
    finish(results);
    return function;
  }

private:
  // Asks for a form of a tensor.
  void want(Value value, Form form) {
    SmallVector<Form, 2> &forms = wanted[value];
    if (!llvm::is_contained(forms, form)) {
      forms.push_back(form);
    }
  }

  // Returns the tensor to keep so that the whole of another one is known: of those that it is another order or repeat of, the smallest one.
  Value tensorToKeep(Value value) const {
    Value kept = value;
    while (Operation *maker = value.getDefiningOp()) {
      Value source;
      for (Value operand : maker->getOperands()) {
        source = places.depends(operand) ? operand : source;
      }
      const bool moves = maker->hasTrait<MovesElements>() && maker->getNumOperands() == 1;
      if (!moves || !source || !source.getDefiningOp()) {
        break;
      }
      value = source;
      kept = byteSize(typeOf(value)) < byteSize(typeOf(kept)) && holdsOneSequence(value) ? value : kept;
    }
    return kept;
  }

  // Returns how a form of a result is made.
  Task taskOf(OpResult result, Form form) const {
    Operation *op = result.getOwner();
    if (!form) {
      const bool isKept = places.depends(result) && tensorToKeep(result) == result;
      OpPlaces whole{SmallVector<Form>(op->getNumOperands()), SmallVector<Form>(op->getNumResults())};
      return isKept ? Task{Task::Keep, {}, result.getResultNumber()} : Task{Task::Copy, std::move(whole)};
    }
    if (places.depends(result)) {
      return {Task::Copy, places.placesOf(op)};
    }
    std::optional<OpPlaces> before = places.placesBefore(result, *form);
    return before ? Task{Task::Copy, std::move(*before)} : Task{Task::TakeRows, {}, result.getResultNumber(), *form};
  }

  // Lists the tasks of an op, whose readers have been planned, and asks for the operands.
  void plan(Operation *op) {
    SmallVector<Task> &list = tasks[op];
    auto add = [&](Task task) {
      auto isSame = [&](const Task &other) {
        return other.kind == task.kind && other.places == task.places && other.result == task.result && other.place == task.place;
      };
      if (llvm::none_of(list, isSame)) {
        list.push_back(std::move(task));
      }
    };
    for (OpResult result : op->getResults()) {
      for (const Form &form : wanted.lookup(result)) {
        Task task = taskOf(result, form);
        if (task.kind == Task::Keep) {
          add({Task::Copy, places.placesOf(op)});
        } else if (task.kind == Task::TakeRows && !splatOf(result)) {
          add(taskOf(result, std::nullopt));
        }
        add(std::move(task));
      }
    }
    for (const Task &task : list) {
      for (OpOperand &operand : op->getOpOperands()) {
        if (task.kind == Task::Copy) {
          want(operand.get(), task.places.operands[operand.getOperandNumber()]);
        }
      }
    }
  }

  static SplatElementsAttr splatOf(Value value) {
    SplatElementsAttr splat;
    return matchPattern(value, m_Constant(&splat)) ? splat : SplatElementsAttr();
  }

  // Begins the function, with the numbers of its positions.
  void begin() {
    auto tokens = cast<BlockArgument>(findTokens());
    auto scalar = RankedTensorType::get({}, b.getI64Type());
    const Place place = *places.find(tokens);
    function = nn::createProgram(b, b.getLoc(), options.role,
                                 b.getFunctionType({places.typeOfPositions(tokens, place, options.positions), scalar}, {}));
    function.setArgAttr(0, nn::kNameAttr, b.getStringAttr(options.tokens));
    function.setArgAttr(1, nn::kNameAttr, b.getStringAttr(kPositionInput));
    function.setArgAttr(1, nn::kInternalAttr, b.getUnitAttr());
    b.setInsertionPointToStart(function.addEntryBlock());
    made[{tokens, place.dim, place.inner}] = function.getArgument(0);
    position = function.getArgument(1);
    auto numbers = RankedTensorType::get({options.positions}, b.getI64Type());
    rows = nn::AddOp::create(b, nn::IndexOp::create(b, numbers, ArrayRef<int64_t>{1}),
                             nn::BroadcastOp::create(b, numbers, position, ArrayRef<int64_t>()));
  }

  Value findTokens() {
    return *llvm::find_if(model.getArguments(), [&](Value argument) { return places.depends(argument); });
  }

  Value &formOf(Value value, Form form) { return made[{value, form ? form->dim : -1, form ? form->inner : -1}]; }

  void run(Operation *op, const Task &task) {
    ImplicitLocOpBuilder::InsertionGuard guard(b);
    b.setLoc(op->getLoc());
    switch (task.kind) {
    case Task::Copy:
      copy(op, task.places);
      break;
    case Task::TakeRows:
      formOf(op->getResult(task.result), task.place) = takeRows(op->getResult(task.result), task.place);
      break;
    case Task::Keep:
      keep(op->getResult(task.result));
    }
  }

  void copy(Operation *op, const OpPlaces &forms) {
    IRMapping mapping;
    for (OpOperand &operand : op->getOpOperands()) {
      mapping.map(operand.get(), formOf(operand.get(), forms.operands[operand.getOperandNumber()]));
    }
    Operation *copied = b.clone(*op, mapping);
    for (OpOperand &operand : op->getOpOperands()) { // one tensor may be two operands in different forms
      copied->setOperand(operand.getOperandNumber(), formOf(operand.get(), forms.operands[operand.getOperandNumber()]));
    }
    for (auto [result, type, place] : llvm::zip_equal(copied->getResults(), op->getResultTypes(), forms.results)) {
      Value original = op->getResult(cast<OpResult>(result).getResultNumber());
      formOf(original, place) = result;
      if (place) {
        result.setType(places.typeOfPositions(original, *place, options.positions));
      }
    }
    if (auto slice = dyn_cast<nn::SliceOp>(copied); slice && forms.results[0]) { // the whole dim
      SmallVector<int64_t> limits(slice.getLimits());
      limits[forms.results[0]->dim] = shapeOf(slice.getResult())[forms.results[0]->dim];
      slice.setLimits(limits);
    }
    if (!copies.insert(op).second) { // a tensor of a program has a name of its own
      copied->removeAttr(nn::kOutputsAttr);
      copied->removeAttr(nn::kAliasesAttr);
    }
  }

  // Returns the positions of the program of a tensor that does not depend on the tokens.
  Value takeRows(Value value, Place place) {
    RankedTensorType type = places.typeOfPositions(value, place, options.positions);
    if (SplatElementsAttr splat = splatOf(value)) {
      return nn::ConstantOp::create(b, splat.resizeSplat(type));
    }
    Value whole = formOf(value, std::nullopt);
    const bool isBool = type.getElementType().isInteger(1);
    if (isBool) {
      whole = nn::CastOp::create(b, typeOf(whole).clone(b.getI32Type()), whole);
    }
    RankedTensorType wide = typeOf(whole);
    int64_t before = 1, behind = place.inner; // elements in front of the positions, and of one position
    for (int64_t dim = 0; dim < wide.getRank(); ++dim) {
      before *= dim < place.dim ? wide.getDimSize(dim) : 1;
      behind *= dim > place.dim ? wide.getDimSize(dim) : 1;
    }
    before *= wide.getDimSize(place.dim) / (places.context() * place.inner);
    SmallVector<int64_t> shape{before, places.context(), behind};
    Value table = nn::ReshapeOp::create(b, wide.clone(shape), whole);
    Value numbers =
        nn::BroadcastOp::create(b, RankedTensorType::get({before, options.positions}, b.getI64Type()), rows, ArrayRef<int64_t>{1});
    Value taken = nn::GatherOp::create(b, table, numbers, /*batch_dims=*/1);
    taken = nn::ReshapeOp::create(b, wide.clone(type.getShape()), taken);
    return isBool ? nn::CastOp::create(b, type, taken).getResult() : taken;
  }

  // Inserts the positions of the program into the variable with all of them, and takes the whole tensor from there.
  void keep(OpResult value) {
    const Place place = *places.find(value);
    assert(holdsOneSequence(value) && "hidesLater() lets no other tensors be kept");
    nn::VariableOp &variable = caches[value];
    if (!variable) {
      variable = createVariable(value);
    }
    Value at = position;
    if (place.inner != 1) {
      at = nn::MulOp::create(b, at, nn::ConstantOp::create(b, nn::splat(typeOf(at), static_cast<double>(place.inner))));
    }
    Value old = nn::ReadOp::create(b, variable.getTensorType(), variable.getSymName());
    Value all = nn::InsertOp::create(b, formOf(value, place), old, at, place.dim);
    formOf(value, std::nullopt) = all;
    writes.emplace_back(variable, all);
  }

  // Whether the dim with the positions has those of one sequence alone.
  bool holdsOneSequence(Value value) const {
    const Place place = *places.find(value);
    return place.inner * places.context() == shapeOf(value)[place.dim];
  }

  nn::VariableOp createVariable(OpResult value) {
    auto module = model->getParentOfType<ModuleOp>();
    SmallVector<StringRef> names = nn::namesOf(value);
    const std::string name = "cache." + (names.empty() ? std::to_string(caches.size()) : names.front().str());
    OpBuilder outside = OpBuilder::atBlockBegin(module.getBody());
    RankedTensorType type = typeOf(value);
    auto variable = nn::VariableOp::create(outside, value.getLoc(), nn::freeSymbol(module, name), type,
                                           nn::FillAttr::get(b.getContext(), b.getF64FloatAttr(0)), /*trainable=*/false,
                                           /*state_of=*/FlatSymbolRefAttr(), /*internal=*/true);
    variable->setAttr(nn::kScratchAttr, b.getUnitAttr());
    return variable;
  }

  void finish(ArrayRef<OpOperand *> results) {
    b.setLoc(model.getLoc());
    for (auto [variable, value] : writes) {
      nn::WriteOp::create(b, variable.getSymName(), value);
    }
    SmallVector<Value> returned;
    for (OpOperand *result : results) {
      returned.push_back(formOf(result->get(), places.find(result->get())));
    }
    func::ReturnOp::create(b, returned);
    function.setType(b.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(returned))));
    for (auto [number, result] : llvm::enumerate(results)) {
      function.setResultAttrs(number, model.getResultAttrDict(result->getOperandNumber()));
    }
  }

  func::FuncOp model, function;
  const PositionPlaces &places;
  const ProgramOptions &options;
  Caches &caches;
  ImplicitLocOpBuilder b;
  Value position, rows; // the number of the first position, and of all
  DenseMap<Value, SmallVector<Form, 2>> wanted;
  DenseMap<Operation *, SmallVector<Task>> tasks;
  DenseMap<std::tuple<Value, int64_t, int64_t>, Value> made; // by tensor and form
  DenseSet<Operation *> copies;
  SmallVector<std::pair<nn::VariableOp, Value>> writes;
};

} // namespace

func::FuncOp addPositionProgram(func::FuncOp model, const PositionPlaces &places, ArrayRef<OpOperand *> results,
                                const ProgramOptions &options, Caches &caches) {
  return PositionProgram(model, places, options, caches).build(results);
}

} // namespace ashlar::decode
