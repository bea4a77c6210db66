// SPDX-License-Identifier: Apache-2.0
//
// ashlar-insert-redistributions: decides on the layout problem of a module and writes the decision into the IR.

#include "dialects/nn/nn.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/passes.h"
#include "passes/layout/redistribute/decide.h"
#include "passes/layout/redistribute/record_reasons.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_INSERTREDISTRIBUTIONSPASS
#include "passes/layout/passes.h.inc"

namespace {

// Writes an assignment into the programs of its problem.
class AssignmentWriter {
public:
  AssignmentWriter(const LayoutProblem &problem, const Assignment &assignment)
      : problem(problem), assignment(assignment), builder(problem.mesh.getContext()) {}

  void run(const ProblemProgram &program) {
    for (unsigned anchor = program.firstOp; anchor < program.endOp; ++anchor) {
      for (unsigned moved : assignment.movedBefore.lookup(anchor)) {
        problem.ops[moved].op->moveBefore(problem.ops[anchor].op);
      }
    }
    for (BlockArgument argument : llvm::reverse(func::FuncOp(program.function).getArguments())) { // each to the front
      redistribute(problem.find(argument));
    }
    for (unsigned op : orderOf(program, assignment)) {
      write(op);
    }
  }

private:
  void write(unsigned number) {
    const ProblemOp &row = problem.ops[number];
    row.op->removeAttr(dist::kOperandLayoutsAttr);
    for (auto [operand, place] : llvm::zip_equal(row.op->getOpOperands(), assignment.inputs[number])) {
      operand.set(held.at({place.value, place.holding}));
    }
    if (!row.results.empty()) {
      auto made = [&](unsigned value) -> Attribute { return assignment.made(value); };
      row.op->setAttr(dist::kLayoutsAttr, builder.getArrayAttr(llvm::map_to_vector(row.results, made)));
    }
    llvm::for_each(llvm::reverse(row.results), [&](unsigned value) { redistribute(value); }); // each right behind the op
  }

  // Writes the redistributions of a value behind what makes it. Constants and indices are made again in the other layout: nothing is sent
  // for what every device knows.
  void redistribute(unsigned number) {
    Value value = problem.values[number].value;
    std::optional<unsigned> maker = problem.values[number].maker;
    Operation *source = maker && problem.ops[*maker].isSource() ? problem.ops[*maker].op : nullptr;
    const Holdings &holdings = assignment.values[number];
    held[{number, 0}] = value;
    bool isUnused = holdings.front().uses.empty(); // a source that nobody takes as it is
    builder.setInsertionPointAfterValue(value);
    assignment.forEachRedistribution(number, [&](unsigned place) {
      const Holding &holding = holdings[place];
      Operation *made;
      if (source) {
        made = isUnused ? source : builder.clone(*source);
        isUnused = false;
      } else {
        const dist::LayoutAttr from = holdings[holding.parent].layout;
        Value sent = held.at({number, holding.parent});
        sent = holding.travels ? convert(sent, holding.travels, from) : sent;
        made = dist::RedistributeOp::create(builder, value.getLoc(), sent.getType(), sent, from, holding.layout,
                                            builder.getArrayAttr(holding.cause));
        if (holding.travels) {
          made->setAttr(dist::kLayoutsAttr, builder.getArrayAttr(holding.layout));
          made = convert(made->getResult(0), problem.typeOf(number).getElementType(), holding.layout).getDefiningOp();
        }
      }
      made->setAttr(dist::kLayoutsAttr, builder.getArrayAttr(holding.layout));
      held[{number, place}] = made->getResult(0);
    });
  }

  // Converts a value that is held in a layout to another element type.
  Value convert(Value value, Type type, dist::LayoutAttr layout) {
    auto op = nn::CastOp::create(builder, value.getLoc(), cast<RankedTensorType>(value.getType()).clone(type), value);
    op->setAttr(dist::kLayoutsAttr, builder.getArrayAttr(layout));
    if (layout.getLayout().isPartial()) {
      op->setAttr(dist::kOnTermsAttr, builder.getUnitAttr());
    }
    return op;
  }

  const LayoutProblem &problem;
  const Assignment &assignment;
  OpBuilder builder;
  DenseMap<std::pair<unsigned, unsigned>, Value> held; // by value and holding
};

struct InsertRedistributions : impl::InsertRedistributionsPassBase<InsertRedistributions> {
  using InsertRedistributionsPassBase::InsertRedistributionsPassBase;

  void runOnOperation() override {
    MeshAttr mesh = requirePrograms(getOperation());
    if (!mesh) {
      return signalPassFailure();
    }
    FailureOr<LayoutProblem> problem = LayoutProblem::create(getOperation(), mesh);
    if (failed(problem)) {
      return signalPassFailure();
    }
    analysis::Planner planner(dist::findMesh(getOperation()), analysis::Cuts::Allowed);
    FailureOr<Assignment> assignment = decide(*problem, planner);
    if (failed(assignment)) {
      return signalPassFailure();
    }
    for (const ProblemProgram &program : problem->programs) {
      AssignmentWriter(*problem, *assignment).run(program);
    }
    for (auto [variable, layout] : assignment->partialVariables) {
      nn::VariableOp(variable)->setAttr(dist::kLayoutAttr, layout);
    }
    if (assignment->cuts) {
      assignment->cuts->apply(getOperation());
    }
    for (const ProblemProgram &program : problem->programs) { // on the mesh that the plans are for
      recordReasons(program.function);
    }
  }
};

} // namespace

} // namespace ashlar::layout
