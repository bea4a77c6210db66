// SPDX-License-Identifier: Apache-2.0
//
// Module on global shapes -> ops and edges.

#include "compiler/report/page/model_graph.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/plain_text.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace mlir;

namespace ashlar::report {
namespace {

// Whether a value only counts: a scalar of integers.
bool counts(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 && tensor.getElementType().isInteger();
}

class GraphBuilder {
public:
  explicit GraphBuilder(func::FuncOp function) : function(function), phases(function.front()) {}

  ModelGraph build() {
    for (BlockArgument argument : function.getArguments()) {
      auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nn::kNameAttr);
      if (name && !counts(argument.getType())) {
        addOp(argument, name, "input", nn::Phase::Forward);
      }
    }
    for (Operation &op : function.front()) {
      if (isListed(op)) {
        auto read = dyn_cast<nn::ReadOp>(op);
        const unsigned number =
            addOp(op.getResult(0), read ? read.getVariable() : nn::getPath(op.getLoc()), op.getName().getStringRef(), phases.of(&op));
        for (Value result : op.getResults().drop_front()) {
          numbers[result] = number;
        }
        addEdges(op, number);
      }
    }
    return std::move(graph);
  }

private:
  bool isListed(Operation &op) const {
    const bool isPlumbing = isa<nn::ConstantOp, dist::RedistributeOp>(op) || op.hasTrait<OpTrait::IsTerminator>();
    return !isPlumbing && op.getNumResults() > 0 && phases.of(&op) != nn::Phase::Update && !llvm::all_of(op.getResultTypes(), counts);
  }

  unsigned layoutOf(Value value) {
    dist::LayoutAttr layout = dist::findLayout(value);
    return graph.layouts.add(layout ? dist::layoutText(layout.getLayout()) : "");
  }

  unsigned addOp(Value value, StringRef path, StringRef kind, nn::Phase phase) {
    const auto number = static_cast<unsigned>(graph.ops.size());
    graph.ops.push_back(
        {graph.modules.add(path), graph.kinds.add(kind), phase, graph.types.add(dist::typeText(value.getType())), layoutOf(value)});
    numbers[value] = number;
    return number;
  }

  void addEdges(Operation &op, unsigned number) {
    for (Value operand : op.getOperands()) {
      const unsigned wanted = layoutOf(operand);
      std::optional<unsigned> redistribution;
      while (auto moved = operand.getDefiningOp<dist::RedistributeOp>()) {
        redistribution = numberOf(moved);
        operand = moved.getInput();
      }
      if (auto found = numbers.find(operand); found != numbers.end()) {
        graph.edges.push_back({found->second, number, layoutOf(operand), wanted, redistribution});
      }
    }
  }

  unsigned numberOf(dist::RedistributeOp op) {
    auto [found, isNew] = redistributions.try_emplace(op, static_cast<unsigned>(graph.redistributions.size()));
    if (isNew) {
      const std::vector<dist::Reason> reasons = dist::getReasons(op.getLoc());
      graph.redistributions.push_back(reasons.empty() ? "" : reasonKey(reasons.front()));
    }
    return found->second;
  }

  func::FuncOp function;
  nn::Phases phases;
  ModelGraph graph;
  DenseMap<Value, unsigned> numbers;
  DenseMap<Operation *, unsigned> redistributions;
};

// The subtrees of modules as texts.
class Signatures {
public:
  explicit Signatures(const ModelGraph &graph) : graph(graph), texts(graph.modules.modules().size()), counts(texts.size()) {
    std::vector<std::vector<const GraphEdge *>> ending(graph.ops.size());
    for (const GraphEdge &edge : graph.edges) {
      ending[edge.to].push_back(&edge);
    }
    std::vector<std::map<unsigned, unsigned>> places(graph.ops.size()); // of an op: its place in each module around it
    for (unsigned number = 0; number < graph.ops.size(); ++number) {
      for (unsigned module = graph.ops[number].module; module != 0; module = parentOf(module)) {
        places[number][module] = counts[module]++;
        add(module, number, ending[number], places);
      }
    }
  }

  const std::string &of(unsigned module) const { return texts[module]; }

private:
  unsigned parentOf(unsigned module) const { return graph.modules.modules()[module].parent; }

  // Adds an op: its path below the module, its facts, and its edges, by the places of ops in the module.
  void add(unsigned module, unsigned number, ArrayRef<const GraphEdge *> edges, ArrayRef<std::map<unsigned, unsigned>> places) {
    const GraphOp &op = graph.ops[number];
    llvm::raw_string_ostream out(texts[module]);
    for (unsigned inner = op.module; inner != module; inner = parentOf(inner)) {
      out << graph.modules.modules()[inner].name << '\n';
    }
    out << op.kind << ' ' << static_cast<unsigned>(op.phase) << ' ' << op.type << ' ' << op.layout;
    for (const GraphEdge *edge : edges) {
      const auto inside = places[edge->from].find(module);
      out << " (";
      inside == places[edge->from].end() ? out << '-' : out << inside->second;
      out << ' ' << edge->made << ' ' << edge->wanted << (edge->redistribution ? " moved)" : ")");
    }
    out << ';';
  }

  const ModelGraph &graph;
  std::vector<std::string> texts;
  std::vector<unsigned> counts; // of ops
};

} // namespace

std::string reasonKey(const dist::Reason &reason) {
  std::string key;
  llvm::raw_string_ostream out(key);
  out << reason.producer << reason.from << reason.to << reason.type;
  for (dist::EndAttr consumer : reason.consumers) {
    out << consumer;
  }
  return key;
}

ModelGraph makeModelGraph(ModuleOp programs) {
  func::FuncOp main = nn::findMain(programs);
  return main && !main.isExternal() ? GraphBuilder(main).build() : ModelGraph();
}

std::vector<unsigned> findEqualModules(const ModelGraph &graph) {
  const Signatures signatures(graph);
  const std::vector<ModuleNode> &modules = graph.modules.modules();
  std::map<std::pair<unsigned, StringRef>, unsigned> first; // by parent and signature
  std::vector<unsigned> equal;
  for (unsigned module = 0; module < modules.size(); ++module) {
    const StringRef signature = signatures.of(module);
    const auto place = first.try_emplace({modules[module].parent, signature}, module);
    equal.push_back(module == 0 || signature.empty() ? module : place.first->second);
  }
  return equal;
}

} // namespace ashlar::report
