// SPDX-License-Identifier: Apache-2.0
//
// Blocks of paths, compared with the block before, op by op.

#include "compiler/planning/equal_layers.h"

#include "dialects/nn/nn.h"
#include "passes/search/name_globs.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::planning {
namespace {

using Ops = std::vector<Operation *>;

// Returns the variable that an op reads or writes; "" for others.
StringRef variableOf(Operation *op) {
  if (auto read = dyn_cast<nn::ReadOp>(op)) {
    return read.getVariable();
  }
  auto write = dyn_cast<nn::WriteOp>(op);
  return write ? write.getVariable() : StringRef();
}

// The ops of a program by block.
class Blocks {
public:
  explicit Blocks(Block &body) {
    // From the last op on, so that the users of an op have their blocks.
    for (Operation &op : llvm::reverse(body.without_terminator())) {
      if (StringRef block = nameOf(op); !block.empty()) {
        blockOf[&op] = block;
      }
    }
    for (Operation &op : body.without_terminator()) {
      if (StringRef block = blockOf.lookup(&op); !block.empty()) {
        Ops &ops = blocks[block];
        placeOf[&op] = ops.size();
        ops.push_back(&op);
      }
    }
  }

  // Returns the longest row of blocks that are equal each to the one before.
  std::vector<Ops> longestRow() const {
    std::vector<Ops> longest, row;
    StringRef before, last; // the last two blocks of the row
    for (const auto &[name, ops] : blocks) {
      if (!row.empty() && follows(name, last, before)) {
        before = last;
      } else {
        row.clear();
        before = "";
      }
      if (!row.empty() && !isReadBy(row.back(), name)) {
        row.clear();
        before = "";
      }
      last = name;
      row.push_back(ops);
      if (row.size() > longest.size()) {
        longest = row;
      }
    }
    return longest.size() > 1 ? longest : std::vector<Ops>();
  }

private:
  // Returns the block of an op: of its path; of one without operands, which may stand for several, that of its users.
  StringRef nameOf(Operation &op) const {
    if (op.getNumOperands() > 0) {
      return search::blockOf(nn::getPath(op.getLoc()));
    }
    StringRef block;
    for (Operation *user : op.getUsers()) {
      StringRef other = blockOf.lookup(user);
      if (other.empty() || (!block.empty() && other != block)) {
        return "";
      }
      block = other;
    }
    return block;
  }

  // Returns the place of the op of a block that makes a value; nothing for a value from elsewhere.
  std::optional<size_t> placeIn(StringRef block, Value value) const {
    Operation *op = value.getDefiningOp();
    return op && blockOf.lookup(op) == block ? std::optional(placeOf.lookup(op)) : std::nullopt;
  }

  static bool haveEqualKinds(Operation *one, Operation *other) {
    auto attributesOf = [](Operation *op) {
      NamedAttrList attributes(op->getAttrDictionary());
      attributes.erase(nn::kOutputsAttr); // names
      if (!variableOf(op).empty()) {
        attributes.erase("variable");
      }
      return attributes.getDictionary(op->getContext());
    };
    return one->getName() == other->getName() && one->getNumRegions() == 0 && other->getNumRegions() == 0 &&
           one->getResultTypes() == other->getResultTypes() && one->getNumOperands() == other->getNumOperands() &&
           attributesOf(one) == attributesOf(other);
  }

  // Whether a block computes what `last` does, from its results where that reads those of `before`; "": from elsewhere.
  bool follows(StringRef block, StringRef last, StringRef before) const {
    const Ops &ops = blocks.find(block)->second, &lastOps = blocks.find(last)->second;
    return ops.size() == lastOps.size() && llvm::all_of(llvm::zip_equal(ops, lastOps), [&](auto pair) {
             auto [op, lastOp] = pair;
             return haveEqualKinds(op, lastOp) && llvm::all_of(llvm::zip_equal(op->getOperands(), lastOp->getOperands()), [&](auto both) {
                      return areEqual(std::get<0>(both), block, std::get<1>(both), last, before);
                    });
           });
  }

  bool areEqual(Value value, StringRef block, Value lastValue, StringRef last, StringRef before) const {
    auto number = [](Value each) { return cast<OpResult>(each).getResultNumber(); };
    if (std::optional<size_t> place = placeIn(last, lastValue)) {
      return placeIn(block, value) == place && number(value) == number(lastValue);
    }
    if (value == lastValue) {
      return true; // from outside of all layers
    }
    std::optional<size_t> place = placeIn(last, value);
    return place && (before.empty() || (placeIn(before, lastValue) == place && number(value) == number(lastValue)));
  }

  // Whether a block and the next one alone read the results of the block's ops.
  bool isReadBy(const Ops &ops, StringRef next) const {
    return llvm::all_of(ops, [&](Operation *op) {
      return llvm::all_of(op->getUsers(), [&](Operation *user) {
        StringRef reader = blockOf.lookup(user);
        return reader == blockOf.lookup(op) || reader == next;
      });
    });
  }

  DenseMap<Operation *, StringRef> blockOf;
  DenseMap<Operation *, size_t> placeOf;
  llvm::MapVector<StringRef, Ops> blocks; // by their first ops
};

} // namespace

EqualLayers findEqualLayers(func::FuncOp program) {
  return {Blocks(program.front()).longestRow()};
}

// Erases the layers of a program, and adds the variables that they use to `gone`.
static void eraseLayers(const EqualLayers &layers, int64_t kept, llvm::StringSet<> &gone) {
  for (auto [last, other] : llvm::zip_equal(layers.ops.back(), layers.ops[kept - 1])) {
    last->replaceUsesWithIf(other, [&, ops = llvm::DenseSet<Operation *>(llvm::from_range, layers.ops.back())](OpOperand &use) {
      return !ops.contains(use.getOwner());
    });
  }
  for (const Ops &ops : llvm::reverse(ArrayRef(layers.ops).drop_front(kept))) {
    for (Operation *op : llvm::reverse(ops)) {
      gone.insert(variableOf(op));
      op->erase();
    }
  }
}

bool keepLayers(ModuleOp model, int64_t kept) {
  llvm::StringSet<> gone;
  for (auto program : model.getOps<func::FuncOp>()) {
    const EqualLayers layers = findEqualLayers(program);
    if (layers.count() < kept) {
      return false;
    }
    eraseLayers(layers, kept, gone);
  }
  model.walk([&](Operation *op) { gone.erase(variableOf(op)); });
  for (auto variable : llvm::make_early_inc_range(model.getOps<nn::VariableOp>())) {
    if (gone.contains(variable.getSymName())) {
      variable.erase();
    }
  }
  return true;
}

LayerNames::LayerNames(const EqualLayers &layers) {
  for (const Ops &ops : layers.ops) {
    std::vector<std::string> &own = names.emplace_back();
    auto add = [&](StringRef name) {
      places.try_emplace(name, names.size() - 1, own.size());
      own.push_back(name.str());
    };
    for (Operation *op : ops) {
      add(nn::getPath(op->getLoc()));
      add(variableOf(op));
    }
  }
}

std::string LayerNames::counterpart(StringRef name, int64_t from, int64_t to) const {
  auto found = places.find(name);
  if (found == places.end()) {
    return name.str();
  }
  auto [layer, place] = found->second;
  const int64_t middle = std::min(layer, std::max<int64_t>(to - 2, 1));
  return names[layer == 0 ? 0 : layer == from - 1 ? to - 1 : middle][place];
}

} // namespace ashlar::planning
