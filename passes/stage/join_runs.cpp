// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-join-runs; see passes.td.

#include "passes/stage/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "passes/analysis/costs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::stage {

#define GEN_PASS_DEF_JOINRUNSPASS
#include "passes/stage/passes.h.inc"

namespace {

// Whether a program has communication that computation can hide.
bool hasHideable(func::FuncOp function) {
  return llvm::any_of(function.front().getOps<dist::CollectiveOpInterface>(), analysis::movesBeside);
}

// Whether a program sends to other stages or receives from them.
bool hasMessages(func::FuncOp function) {
  return !function.front().getOps<dist::TransferOpInterface>().empty();
}

// Builds a function that does what two do one after the other.
class Joining {
public:
  Joining(func::FuncOp first, func::FuncOp second) : first(first), second(second) {}

  // Adds the function behind another one.
  func::FuncOp run(StringRef name, nn::ProgramAttr role, func::FuncOp place) {
    OpBuilder builder(place);
    builder.setInsertionPointAfter(place);
    joined = func::FuncOp::create(builder, second.getLoc(), name, builder.getFunctionType({}, {}));
    joined->setAttr(nn::kProgramAttr, role);
    builder.setInsertionPointToStart(joined.addEntryBlock());
    for (auto write : second.front().getOps<nn::WriteOp>()) {
      writtenAgain.insert(write.getVariable());
    }
    copy(first, builder);
    copy(second, builder);
    func::ReturnOp::create(builder, second.getLoc(), results);
    SmallVector<Type> argumentTypes(joined.front().getArgumentTypes()), resultTypes(ValueRange(results).getTypes());
    joined.setFunctionType(builder.getFunctionType(argumentTypes, resultTypes));
    joined.setAllArgAttrs(argumentAttributes);
    joined.setAllResultAttrs(resultAttributes);
    return joined;
  }

private:
  // Copies the ops of a function. Reads of what the first one wrote take the value.
  void copy(func::FuncOp function, OpBuilder &builder) {
    IRMapping mapping;
    for (BlockArgument argument : function.getArguments()) {
      mapping.map(argument, takeArgument(function, argument));
    }
    for (Operation &op : function.front().without_terminator()) {
      auto read = dyn_cast<nn::ReadOp>(op);
      auto write = dyn_cast<nn::WriteOp>(op);
      Value known = read && function == second ? written.lookup(read.getVariable()) : Value();
      if (known) {
        mapping.map(read.getResult(), known);
        continue;
      }
      auto slot = dyn_cast<dist::SlotOpInterface>(op);
      if (Value there = slot && slot.isSource() ? inSlot.lookup(slot.getSlot()) : Value()) {
        mapping.map(slot.getSlotValue(), there);
        continue;
      }
      if (write && function == first) {
        written[write.getVariable()] = mapping.lookup(write.getValue());
      }
      if (!write || function == second || !writtenAgain.contains(write.getVariable())) {
        builder.clone(op, mapping);
      }
      if (slot) {
        inSlot[slot.getSlot()] = mapping.lookup(slot.getSlotValue());
      }
    }
    for (OpOperand &result : function.front().getTerminator()->getOpOperands()) {
      results.push_back(mapping.lookup(result.get()));
      resultAttributes.push_back(function.getResultAttrDict(result.getOperandNumber()));
    }
  }

  // Returns the argument of the joined function with the name of an argument of one of the two.
  Value takeArgument(func::FuncOp function, BlockArgument argument) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nn::kNameAttr);
    Value known = name ? arguments.lookup(name) : Value();
    if (!known) {
      known = joined.front().addArgument(argument.getType(), argument.getLoc());
      argumentAttributes.push_back(function.getArgAttrDict(argument.getArgNumber()));
    }
    if (name) {
      arguments[name] = known;
    }
    return known;
  }

  func::FuncOp first, second, joined;
  llvm::StringMap<Value> written; // by the first one
  llvm::StringSet<> writtenAgain; // by the second one
  llvm::StringMap<Value> inSlot;  // of what either takes or keeps
  DenseMap<Attribute, Value> arguments;
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> argumentAttributes, resultAttributes;
};

// Returns the runs of the round of a repetition.
SmallVector<Attribute> runsOf(dist::RepeatAttr part, int64_t round) {
  return llvm::map_to_vector(part.getRuns().getAsRange<dist::RunAttr>(), [&](dist::RunAttr run) -> Attribute {
    return dist::RunAttr::get(part.getContext(), run.getProgram(), run.getMicroBatch() + round * part.getStride());
  });
}

// Returns the first run of a repetition, or the last one, and adds the others to `rest`.
dist::RunAttr takeEnd(dist::RepeatAttr part, bool isLast, SmallVectorImpl<Attribute> &rest) {
  MLIRContext *context = part.getContext();
  auto add = [&](ArrayRef<Attribute> runs, int64_t count, int64_t stride) {
    if (!runs.empty() && count > 0) {
      rest.push_back(dist::RepeatAttr::get(context, ArrayAttr::get(context, runs), count, stride));
    }
  };
  const int64_t others = part.getCount() - 1;
  SmallVector<Attribute> round = runsOf(part, isLast ? others : 0);
  auto run = cast<dist::RunAttr>(isLast ? round.pop_back_val() : round.front());
  if (isLast) {
    add(runsOf(part, 0), others, part.getStride());
    add(round, 1, 0);
  } else {
    add(ArrayRef(round).drop_front(), 1, 0);
    add(runsOf(part, 1), others, part.getStride());
  }
  return run;
}

struct JoinRunsPass : public impl::JoinRunsPassBase<JoinRunsPass> {
  using JoinRunsPassBase::JoinRunsPassBase;

  void runOnOperation() override {
    auto order = getOperation()->getAttrOfType<ArrayAttr>(dist::kOrderAttr);
    if (!order) {
      return;
    }
    SmallVector<Attribute> parts(order.begin(), order.end());
    llvm::StringSet<> before = programsIn(parts);
    joinNeighbours(parts, /*isLast=*/false);
    joinNeighbours(parts, /*isLast=*/true);
    llvm::StringSet<> after = programsIn(parts);
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (before.contains(function.getSymName()) && !after.contains(function.getSymName())) {
        function.erase();
      }
    }
    getOperation()->setAttr(dist::kOrderAttr, ArrayAttr::get(&getContext(), parts));
  }

private:
  static llvm::StringSet<> programsIn(ArrayRef<Attribute> parts) {
    llvm::StringSet<> names;
    for (Attribute part : parts) {
      for (auto run : cast<dist::RepeatAttr>(part).getRuns().getAsRange<dist::RunAttr>()) {
        names.insert(run.getProgram());
      }
    }
    return names;
  }

  func::FuncOp functionOf(dist::RunAttr run) { return getOperation().lookupSymbol<func::FuncOp>(run.getProgram()); }

  // Returns the role of a program of a micro-batch joined with the preparation before it, or with the update behind it.
  static nn::ProgramAttr joinedRole(nn::ProgramAttr role, bool isLast) {
    return nn::ProgramAttr::get(role.getContext(), role.getRole(), role.getChunk(), role.getRound(), role.getPrepares() || !isLast,
                                role.getUpdates() || isLast);
  }

  // Joins what prepares a step with its first run, or the last one with the update.
  void joinNeighbours(SmallVectorImpl<Attribute> &parts, bool isLast) {
    auto isOnce = [&](Attribute part) {
      func::FuncOp program = functionOf(cast<dist::RunAttr>(cast<dist::RepeatAttr>(part).getRuns()[0]));
      return nn::hasRole(program, isLast ? nn::ProgramRole::Update : nn::ProgramRole::Prepare);
    };
    Attribute *once = llvm::find_if(parts, isOnce);
    const bool isThere = once != parts.end() && (isLast ? once != parts.begin() : std::next(once) != parts.end());
    if (!isThere) {
      return;
    }
    SmallVector<Attribute> left, right;
    dist::RunAttr first = takeEnd(cast<dist::RepeatAttr>(isLast ? *std::prev(once) : *once), /*isLast=*/true, left);
    dist::RunAttr second = takeEnd(cast<dist::RepeatAttr>(isLast ? *once : *std::next(once)), /*isLast=*/false, right);
    func::FuncOp before = functionOf(first), behind = functionOf(second);
    // A channel belongs to one program. Messages come before its first op and go behind its last one, so they would wait for what is
    // joined.
    if (!hasHideable(isLast ? behind : before) || hasMessages(before) || hasMessages(behind)) {
      return;
    }
    std::string name = nn::freeSymbol(getOperation(), (before.getSymName() + "+" + behind.getSymName()).str());
    Joining(before, behind).run(name, joinedRole(nn::programOf(isLast ? before : behind), isLast), /*place=*/isLast ? behind : before);
    auto run =
        dist::RunAttr::get(&getContext(), StringAttr::get(&getContext(), name), isLast ? first.getMicroBatch() : second.getMicroBatch());
    left.push_back(dist::RepeatAttr::get(&getContext(), ArrayAttr::get(&getContext(), {run}), 1, 0));
    left.append(right);
    Attribute *begin = isLast ? std::prev(once) : once;
    const auto at = begin - parts.begin();
    parts.erase(begin, begin + 2);
    parts.insert(parts.begin() + at, left.begin(), left.end());
  }
};

} // namespace

} // namespace ashlar::stage
