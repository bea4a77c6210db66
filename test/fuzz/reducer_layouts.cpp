// SPDX-License-Identifier: Apache-2.0
//
// Steps that leave out layouts, axes of the mesh, and what else a program says about its distribution.

#include "test/fuzz/reducer_steps.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/nn.h"
#include "test/fuzz/random_pipeline.h"
#include "test/fuzz/random_program.h"

using namespace mlir;

namespace ashlar::fuzz {

namespace {

// Calls `visit` with each layout that is given, and a function that puts another one in its place (null: none).
void forEachLayout(ModuleOp module, function_ref<void(dist::LayoutAttr, std::function<void(Attribute)>)> visit) {
  auto visitOne = [&](Attribute layout, std::function<void(Attribute)> set) {
    if (auto attribute = dyn_cast_or_null<dist::LayoutAttr>(layout)) {
      visit(attribute, std::move(set));
    }
  };
  auto setOn = [](Operation *op, StringRef name) {
    return [=](Attribute layout) { layout ? op->setAttr(name, layout) : (void)op->removeAttr(name); };
  };
  for (auto variable : module.getOps<nn::VariableOp>()) {
    visitOne(variable->getAttr(dist::kLayoutAttr), setOn(variable, dist::kLayoutAttr));
  }
  for (func::FuncOp function : functionsOf(module)) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      visitOne(function.getArgAttr(i, dist::kLayoutAttr), [=](Attribute layout) mutable {
        layout ? function.setArgAttr(i, dist::kLayoutAttr, layout) : (void)function.removeArgAttr(i, dist::kLayoutAttr);
      });
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      visitOne(function.getResultAttr(i, dist::kLayoutAttr), [=](Attribute layout) mutable {
        auto name = StringAttr::get(function.getContext(), dist::kLayoutAttr);
        layout ? function.setResultAttr(i, name, layout) : (void)function.removeResultAttr(i, name);
      });
    }
    function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto layouts = op->getAttrOfType<ArrayAttr>(dist::kLayoutsAttr); layouts && layouts.size() == 1) {
        visitOne(layouts[0], [set = setOn(op, dist::kLayoutsAttr), op](Attribute layout) {
          set(layout ? ArrayAttr::get(op->getContext(), layout) : Attribute());
        });
      }
      auto layouts = op->getAttrOfType<ArrayAttr>(dist::kOperandLayoutsAttr);
      for (size_t i = 0; layouts && i < layouts.size(); ++i) {
        visitOne(layouts[i], [i, op](Attribute layout) { // the others may have changed since
          SmallVector<Attribute> changed(op->getAttrOfType<ArrayAttr>(dist::kOperandLayoutsAttr).getValue());
          changed[i] = layout ? layout : UnitAttr::get(op->getContext());
          op->setAttr(dist::kOperandLayoutsAttr, ArrayAttr::get(op->getContext(), changed));
        });
      }
    });
  }
}

// Gives the mesh other axes; layouts lose those that it does not have.
void setMesh(ModuleOp module, ArrayRef<StringAttr> axes, ArrayRef<int64_t> sizes) {
  MLIRContext *context = module.getContext();
  auto mesh = dist::MeshAttr::get(context, axes, sizes);
  dist::MeshOp op = dist::findMesh(module);
  op.setMeshAttr(mesh);
  op.removeCostsAttr(); // which have an entry an axis
  op.removeDeviceIdsAttr();
  forEachLayout(module, [&](dist::LayoutAttr attribute, std::function<void(Attribute)> set) {
    dist::Layout layout = attribute.getLayout();
    for (dist::AxisList &dim : layout.dims) {
      llvm::erase_if(dim, [&](StringAttr axis) { return !mesh.findAxis(axis); });
    }
    set(dist::LayoutAttr::get(context, layout));
  });
}

} // namespace

void leaveOutLayouts(ModuleOp module, Chances &chances) {
  forEachLayout(module, [&](dist::LayoutAttr, std::function<void(Attribute)> set) { chances.push_back([=] { set(Attribute()); }); });
  if (module->hasAttr(kSplitVariablesAttr)) {
    chances.push_back([=]() mutable { module->removeAttr(kSplitVariablesAttr); });
  }
}

// The pipeline, else some of its stages, chunks, micro-batches and rules.
void leaveOutPipeline(ModuleOp module, Chances &chances) {
  std::optional<pipelines::Stages> pipeline = pipelineOf(module);
  if (!pipeline) {
    return;
  }
  chances.push_back([=] { dropPipeline(module); });
  auto change = [&](auto edit) {
    pipelines::Stages smaller = *pipeline;
    edit(smaller);
    chances.push_back([=] { setPipeline(module, smaller); });
  };
  if (pipeline->schedule != stage::Schedule::GPipe) {
    change([](pipelines::Stages &it) { it.chunks = 1, it.schedule = stage::Schedule::GPipe; });
  }
  if (pipeline->chunks > 2) {
    change([](pipelines::Stages &it) { --it.chunks; });
  }
  if (pipeline->stages > 2) {
    change([](pipelines::Stages &it) { --it.stages; });
  }
  if (pipeline->microBatches > pipeline->stages) {
    change([](pipelines::Stages &it) { --it.microBatches; });
  }
  auto rules = module->getAttrOfType<ArrayAttr>(dist::kStageRulesAttr);
  for (size_t i = 0; rules && i < rules.size(); ++i) {
    chances.push_back([=]() mutable {
      SmallVector<Attribute> fewer(rules.getValue());
      fewer.erase(fewer.begin() + i);
      module->setAttr(dist::kStageRulesAttr, ArrayAttr::get(module.getContext(), fewer));
    });
  }
}

// Collectives that are put together.
void leaveOutFusion(ModuleOp module, Chances &chances) {
  if (module->hasAttr(kCommFusionModesAttr)) {
    chances.push_back([=]() mutable { module->removeAttr(kCommFusionModesAttr); });
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable->hasAttr(dist::kCommFusionAttr)) {
      chances.push_back([=]() mutable { variable->removeAttr(dist::kCommFusionAttr); });
    }
  }
}

// What is computed again.
void leaveOutRecompute(ModuleOp module, Chances &chances) {
  if (module->hasAttr(kRecomputeMovesAttr)) {
    chances.push_back([=]() mutable { module->removeAttr(kRecomputeMovesAttr); });
  }
  auto rules = module->getAttrOfType<ArrayAttr>(dist::kRecomputeRulesAttr);
  for (size_t i = 0; rules && i < rules.size(); ++i) {
    chances.push_back([=]() mutable {
      SmallVector<Attribute> others(rules.getValue());
      others.erase(others.begin() + static_cast<ptrdiff_t>(i));
      module->setAttr(dist::kRecomputeRulesAttr, ArrayAttr::get(module.getContext(), others));
    });
  }
}

// What stands beside layouts: open dims, priorities, operands without a layout.
void leaveOutDetails(ModuleOp module, Chances &chances) {
  constexpr StringLiteral kNames[] = {dist::kOpenAttr,           dist::kOpensAttr,  dist::kPriorityAttr, dist::kPrioritiesAttr,
                                      dist::kOperandLayoutsAttr, dist::kOriginAttr, dist::kOriginsAttr,  dist::kSuggestedAttr};
  module.walk([&](Operation *op) {
    for (StringRef name : kNames) {
      if (op->hasAttr(name)) {
        chances.push_back([=] { op->removeAttr(name); });
      }
    }
  });
  for (func::FuncOp function : functionsOf(module)) {
    for (StringRef name : kNames) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        if (function.getArgAttr(i, name)) {
          chances.push_back([=]() mutable { (void)function.removeArgAttr(i, name); });
        }
      }
      for (unsigned i = 0; i < function.getNumResults(); ++i) {
        if (function.getResultAttr(i, name)) {
          chances.push_back([=]() mutable { (void)function.removeResultAttr(i, StringAttr::get(function.getContext(), name)); });
        }
      }
    }
  }
}

// One axis out of one dim.
void leaveOutAxes(ModuleOp module, Chances &chances) {
  forEachLayout(module, [&](dist::LayoutAttr attribute, std::function<void(Attribute)> set) {
    dist::Layout layout = attribute.getLayout();
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      for (size_t i = 0; i < layout.dims[d].size(); ++i) {
        dist::Layout smaller = layout;
        smaller.dims[d].erase(smaller.dims[d].begin() + i);
        chances.push_back([=, context = attribute.getContext()] { set(dist::LayoutAttr::get(context, smaller)); });
      }
    }
  });
}

void shrinkMesh(ModuleOp module, Chances &chances) {
  dist::MeshAttr mesh = dist::findMesh(module).getMesh();
  SmallVector<StringAttr> axes(mesh.getAxes());
  SmallVector<int64_t> sizes(mesh.getSizes());
  for (StringRef name : {"costs", "device_ids"}) {
    if (dist::findMesh(module)->hasAttr(name)) {
      chances.push_back([=] { dist::findMesh(module)->removeAttr(name); });
    }
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes.size() > 1) {
      chances.push_back([=]() mutable {
        axes.erase(axes.begin() + i);
        sizes.erase(sizes.begin() + i);
        setMesh(module, axes, sizes);
      });
    }
    for (int64_t size : {2, 3, 4}) {
      if (size < sizes[i]) {
        chances.push_back([=]() mutable {
          sizes[i] = size;
          setMesh(module, axes, sizes);
        });
      }
    }
  }
}

} // namespace ashlar::fuzz
