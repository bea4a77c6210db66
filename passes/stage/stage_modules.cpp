// SPDX-License-Identifier: Apache-2.0
//
// See stage_modules.h.

#include "passes/stage/stage_modules.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "passes/stage/folded_order.h"
#include "passes/stage/order_file.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::stage {
namespace {

// The names of values that cross, one for each value in all functions of a stage.
class PassedNames {
public:
  StringAttr operator()(Value value) {
    StringAttr &name = names[value];
    if (!name) {
      Operation *def = value.getDefiningOp();
      auto outputs = def->getAttrOfType<ArrayAttr>(nn::kOutputsAttr);
      StringRef path = nn::getPath(def->getLoc());
      std::string base = dist::kPassedPrefix.str() +
                         (outputs ? cast<StringAttr>(outputs[cast<OpResult>(value).getResultNumber()]).getValue() : path).str();
      std::string text = base;
      for (int64_t number = 1; !used.insert(text).second; ++number) {
        text = base + "#" + std::to_string(number);
      }
      name = StringAttr::get(value.getContext(), text);
    }
    return name;
  }

private:
  DenseMap<Value, StringAttr> names;
  llvm::StringSet<> used;
};

// Numbers what goes from one stage to another.
class Channels {
public:
  int64_t operator()(Value value, int64_t from, int64_t to) {
    auto [found, isNew] = numbers[{from, to}].try_emplace(value, numbers[{from, to}].size());
    return found->second;
  }

private:
  std::map<std::pair<int64_t, int64_t>, DenseMap<Value, int64_t>> numbers;
};

class Emission {
public:
  Emission(ModuleOp module, const ModelCut &model)
      : module(module), model(model), cut(model.getAssignment().getCut()), builder(module.getContext()) {}

  void run(const StageOrders &orders, ArrayRef<int64_t> slots) {
    SmallVector<Operation *> old;
    for (Operation &op : *module.getBody()) {
      old.push_back(&op);
    }
    for (int64_t stage = 0; stage < cut.stages; ++stage) {
      builder.setInsertionPointToEnd(module.getBody());
      emitStage(stage, orders[stage], slots[stage]);
    }
    for (Operation *op : old) {
      op->erase();
    }
    module->removeAttr(dist::kStageRulesAttr);
    module->removeAttr(dist::kOrderAttr);
  }

private:
  void emitStage(int64_t stage, ArrayRef<Action> order, int64_t slots) {
    auto made = ModuleOp::create(builder, module.getLoc(), "stage_" + std::to_string(stage));
    for (NamedAttribute attribute : module->getDiscardableAttrs()) {
      if (attribute.getName() != dist::kStageRulesAttr) {
        made->setAttr(attribute.getName(), attribute.getValue());
      }
    }
    made->setAttr(dist::kStageAttr, dist::StageAttr::get(builder.getContext(), stage, cut.stages, slots));
    builder.setInsertionPointToStart(made.getBody());
    auto name = [&](Value value) { return passedNames(value); };
    auto channel = [&](Value value, int64_t from, int64_t to) { return channels(value, from, to); };
    SmallVector<Attribute> preparations, updates; // in the places of the first and the last micro-batch
    std::map<Part, std::string> names;            // of the programs of a micro-batch
    int64_t last = 0;
    llvm::for_each(order, [&](const Action &action) { last = std::max(last, action.microBatch); });
    for (const std::unique_ptr<FunctionCut> &function : model.getFunctions()) {
      for (StageProgram *program : function->programsOf(stage)) {
        function->emit(builder, *program, {name, channel});
        auto run = [&](int64_t microBatch) {
          return dist::RunAttr::get(builder.getContext(), builder.getStringAttr(program->name), microBatch);
        };
        if (program->role.getRole() == nn::ProgramRole::Prepare) {
          preparations.push_back(run(0));
        } else if (program->role.getRole() == nn::ProgramRole::Update) {
          updates.push_back(run(last));
        } else if (std::optional<Part> part = partOf(program->role)) {
          names[*part] = program->name;
        }
      }
    }
    made->setAttr(dist::kOrderAttr, orderAttr(preparations, order, names, updates));
    emitVariables(made);
  }

  // The order of the micro-batches, folded, and once what is ahead of them and behind them.
  ArrayAttr orderAttr(ArrayRef<Attribute> preparations, ArrayRef<Action> order, const std::map<Part, std::string> &names,
                      ArrayRef<Attribute> updates) {
    FoldedOrder folded = fold(order);
    SmallVector<Attribute> parts;
    if (!preparations.empty()) {
      parts.push_back(dist::RepeatAttr::get(builder.getContext(), builder.getArrayAttr(preparations), 1, 0));
    }
    for (const Repetition &block : folded.blocks) {
      SmallVector<Attribute> runs;
      for (int64_t at = block.begin; at < block.end; ++at) {
        const Action &action = folded.actions[at];
        runs.push_back(dist::RunAttr::get(builder.getContext(), builder.getStringAttr(names.at(action.part())), action.microBatch));
      }
      parts.push_back(dist::RepeatAttr::get(builder.getContext(), builder.getArrayAttr(runs), block.count, block.stride));
    }
    parts.push_back(dist::RepeatAttr::get(builder.getContext(), builder.getArrayAttr(updates), 1, 0));
    return builder.getArrayAttr(parts);
  }

  // Adds the mesh, the variables that the stage's functions use, and their initial values.
  void emitVariables(ModuleOp stage) {
    llvm::StringSet<> used;
    stage.walk([&](Operation *op) {
      if (auto read = dyn_cast<nn::ReadOp>(op)) {
        used.insert(read.getVariable());
      } else if (auto write = dyn_cast<nn::WriteOp>(op)) {
        used.insert(write.getVariable());
      }
    });
    builder.setInsertionPointToStart(stage.getBody());
    for (Operation &op : *module.getBody()) {
      auto variable = dyn_cast<nn::VariableOp>(op);
      if (isa<dist::MeshOp>(op) || (variable && (used.contains(variable.getSymName()) || isHeld(variable, stage)))) {
        builder.clone(op);
      }
    }
    func::FuncOp init = nn::findProgram(module, nn::ProgramRole::Init);
    if (!init) {
      return;
    }
    auto own = cast<func::FuncOp>(builder.clone(*init));
    SymbolTable held(stage); // a look-up in the module itself is linear
    for (auto write : llvm::make_early_inc_range(own.front().getOps<nn::WriteOp>())) {
      if (!held.lookup(write.getVariable())) {
        write.erase();
      }
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(own.front()))) {
      bool isRead = isa<nn::ReadOp>(op);
      if (isOpTriviallyDead(&op) || (isRead && op.use_empty())) {
        op.erase();
      }
    }
    for (auto read : own.front().getOps<nn::ReadOp>()) { // the seed
      if (!stage.lookupSymbol(read.getVariable())) {
        builder.setInsertionPointToStart(stage.getBody());
        builder.clone(*module.lookupSymbol(read.getVariable()));
      }
    }
  }

  // Whether a variable that nothing uses is kept by the stage: each is by one.
  bool isHeld(nn::VariableOp variable, ModuleOp stage) {
    std::optional<int64_t> home = model.getAssignment().homeOf(variable.getSymName());
    return home == stage->getAttrOfType<dist::StageAttr>(dist::kStageAttr).getIndex();
  }

  ModuleOp module;
  const ModelCut &model;
  Cut cut;
  OpBuilder builder;
  PassedNames passedNames;
  Channels channels;
};

} // namespace

void emitStages(ModuleOp module, const ModelCut &model, const StageOrders &orders, ArrayRef<int64_t> slots) {
  Emission(module, model).run(orders, slots);
}

std::string printOrders(ModuleOp module) {
  StageOrders orders;
  Cut cut{0, 1};
  for (auto stage : module.getOps<ModuleOp>()) {
    std::vector<Action> &order = orders.emplace_back();
    ++cut.stages;
    for (auto part : stage->getAttrOfType<ArrayAttr>(dist::kOrderAttr).getAsRange<dist::RepeatAttr>()) {
      for (int64_t time = 0; time < part.getCount(); ++time) {
        for (auto run : part.getRuns().getAsRange<dist::RunAttr>()) {
          auto program = stage.lookupSymbol<func::FuncOp>(run.getProgram());
          if (std::optional<Part> found = partOf(nn::programOf(program))) { // alone, or joined with what a step does once
            order.push_back({found->phase, run.getMicroBatch() + time * part.getStride(), found->chunk});
            cut.chunks = std::max(cut.chunks, found->chunk + 1);
          }
        }
      }
    }
  }
  return printOrders(orders, cut);
}

} // namespace ashlar::stage
