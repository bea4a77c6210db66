// SPDX-License-Identifier: Apache-2.0
//
// Colour refinement over forward and backward, then colours carried along the update.

#include "passes/search/colour_classes.h"

#include "dialects/nn/phases.h"

#include "llvm/ADT/Hashing.h"

using namespace mlir;

namespace ashlar::search {

namespace {

using layout::LayoutProblem;
using layout::ProblemOp;
using layout::ProblemTensor;

class Colours {
public:
  explicit Colours(const LayoutProblem &problem) : problem(problem), users(problem.values.size()) {
    for (const layout::ProblemProgram &program : problem.programs) {
      nn::Phases phases(func::FuncOp(program.function).front());
      for (unsigned op = program.firstOp; op < program.endOp; ++op) {
        isUpdate.push_back(phases.of(problem.ops[op].op) == nn::Phase::Update);
      }
    }
    for (auto [number, op] : llvm::enumerate(problem.ops)) {
      for (auto [index, value] : llvm::enumerate(op.operands)) {
        users[value].push_back({static_cast<unsigned>(number), static_cast<unsigned>(index)});
      }
    }
  }

  ColourClasses run() {
    start();
    for (int round = 0; round < kRounds; ++round) {
      refine();
    }
    followUpdates();
    ColourClasses classes;
    classes.ops = firstOfEach(ops);
    classes.tensors = firstOfEach(tensors);
    return classes;
  }

private:
  static constexpr int kRounds = 4;
  using Colour = size_t;

  static Colour mix(Colour a, Colour b) { return llvm::hash_combine(a, b); }

  Colour colourOf(const ProblemTensor &tensor) const {
    Colour colour = llvm::hash_value(tensor.type.getAsOpaquePointer());
    if (tensor.given) {
      auto attribute = dist::LayoutAttr::get(problem.mesh.getContext(), tensor.given->layout);
      colour = llvm::hash_combine(colour, attribute.getAsOpaquePointer(), llvm::hash_combine_range(tensor.given->open));
    }
    return colour;
  }

  void start() {
    for (const ProblemTensor &tensor : problem.tensors) {
      tensors.push_back(colourOf(tensor));
    }
    for (const layout::ProblemProgram &program : problem.programs) {
      for (BlockArgument argument : func::FuncOp(program.function).getArguments()) { // each input has a class of its own
        unsigned tensor = problem.values[problem.find(argument)].tensor;
        tensors[tensor] = mix(tensors[tensor], tensor + 1);
      }
    }
    for (const ProblemOp &op : problem.ops) {
      bool isNamed = isa<nn::ReadOp, nn::WriteOp, nn::GradientOp>(op.op); // by its variable
      Colour colour = llvm::hash_value(op.op->getName().getAsOpaquePointer());
      for (NamedAttribute attribute : isNamed ? DictionaryAttr::get(op.op->getContext()) : op.attributes) {
        if (attribute.getName() != nn::kOutputsAttr) { // names
          colour = llvm::hash_combine(colour, attribute.getName().getAsOpaquePointer(), attribute.getValue().getAsOpaquePointer());
        }
      }
      for (unsigned value : op.results) {
        colour = mix(colour, op.variable ? 0 : tensors[problem.values[value].tensor]);
      }
      for (std::optional<unsigned> taken : op.taken) {
        colour = mix(colour, taken && !isa<nn::WriteOp>(op.op) ? tensors[*taken] : 0);
      }
      ops.push_back(colour);
    }
  }

  // Returns the colour of what makes a value.
  Colour makerColour(unsigned value) const {
    const layout::ProblemValue &row = problem.values[value];
    return row.maker ? mix(ops[*row.maker], llvm::find(problem.ops[*row.maker].results, value) - problem.ops[*row.maker].results.begin())
                     : tensors[row.tensor];
  }

  // Returns the colours of what uses a value, but for updates: those of many values share what they use.
  Colour usersColour(unsigned value) const {
    SmallVector<Colour> colours;
    for (auto [op, index] : users[value]) {
      if (!isUpdate[op]) {
        colours.push_back(mix(ops[op], index));
      }
    }
    llvm::sort(colours);
    return llvm::hash_combine_range(colours);
  }

  void refine() {
    std::vector<Colour> nextOps = ops, nextTensors = tensors;
    for (auto [number, op] : llvm::enumerate(problem.ops)) {
      if (isUpdate[number] && !op.variable) {
        continue;
      }
      Colour colour = ops[number];
      for (unsigned value : op.operands) {
        colour = mix(colour, makerColour(value));
      }
      for (unsigned value : op.results) {
        colour = mix(colour, usersColour(value));
      }
      nextOps[number] = op.variable ? mix(colour, tensors[*op.variable]) : colour;
    }
    for (auto [number, op] : llvm::enumerate(problem.ops)) {
      if (op.variable && !isUpdate[number]) {
        nextTensors[*op.variable] = mix(nextTensors[*op.variable], usersColour(op.results.front()));
      }
    }
    ops = std::move(nextOps);
    tensors = std::move(nextTensors);
  }

  // Gives state the colour of its parameter, and update after update that of what it works on.
  void followUpdates() {
    llvm::StringMap<unsigned> byName;
    for (auto [variable, tensor] : problem.variables) {
      byName[nn::VariableOp(variable).getSymName()] = tensor;
    }
    for (auto [op, tensor] : problem.variables) {
      nn::VariableOp variable = op;
      if (std::optional<StringRef> of = variable.getStateOf()) {
        StringRef name = variable.getSymName();
        tensors[tensor] = llvm::hash_combine(tensors[byName.lookup(*of)], tensors[tensor], name.substr(std::min(name.size(), of->size())));
      }
    }
    for (auto [number, op] : llvm::enumerate(problem.ops)) {
      if (op.variable) {
        ops[number] = mix(ops[number], tensors[*op.variable]);
      }
      if (isUpdate[number]) {
        for (unsigned value : op.operands) {
          ops[number] = mix(ops[number], makerColour(value));
        }
      }
      if (!op.variable) { // a result has the class of its op
        for (unsigned value : op.results) {
          unsigned tensor = problem.values[value].tensor;
          tensors[tensor] = mix(tensors[tensor], makerColour(value));
        }
      }
    }
  }

  static std::vector<unsigned> firstOfEach(ArrayRef<Colour> colours) {
    std::vector<unsigned> firsts;
    llvm::DenseMap<Colour, unsigned> known;
    for (auto [number, colour] : llvm::enumerate(colours)) {
      firsts.push_back(known.try_emplace(colour & ~(Colour(3) << 62), number).first->second); // the top values are the map's own
    }
    return firsts;
  }

  const LayoutProblem &problem;
  std::vector<SmallVector<std::pair<unsigned, unsigned>, 2>> users; // by value: ops and operands
  std::vector<bool> isUpdate;                                       // by op
  std::vector<Colour> ops, tensors;
};

} // namespace

ColourClasses ColourClasses::allDifferent(const LayoutProblem &problem) {
  ColourClasses classes;
  llvm::append_range(classes.ops, llvm::seq<unsigned>(0, problem.ops.size()));
  llvm::append_range(classes.tensors, llvm::seq<unsigned>(0, problem.tensors.size()));
  return classes;
}

ColourClasses findColourClasses(const LayoutProblem &problem) {
  return Colours(problem).run();
}

} // namespace ashlar::search
