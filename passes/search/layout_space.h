// SPDX-License-Identifier: Apache-2.0
//
// The choices of a search of layouts: the splits of ops, and the layouts in which tensors are held.

#ifndef ASHLAR_PASSES_SEARCH_LAYOUT_SPACE_H
#define ASHLAR_PASSES_SEARCH_LAYOUT_SPACE_H

#include "passes/layout/redistribute/estimate.h"
#include "passes/search/colour_classes.h"
#include "passes/search/op_choices.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>

namespace ashlar::search {

// A program of the problem whose ops are decided on, and how often a step runs it.
struct WeightedProgram {
  unsigned program;
  int64_t runs = 1;
};

// A layout in which a tensor is held, and maybe a second one that it is brought to once for several users.
struct Holding {
  dist::LayoutAttr home, second;
};

// Returns the layout without the axes over which it holds terms of a sum.
dist::LayoutAttr withoutTerms(dist::LayoutAttr layout);

// Returns whether a value with one layout can be brought to the other: the terms of a sum are not made from the sum.
bool canBecome(dist::LayoutAttr from, dist::LayoutAttr to);

// The choices of a problem. Variables, inputs, outputs and tensors with several users have choices of their own; a tensor with one user
// goes straight to it. Built once, and then read.
class LayoutSpace {
public:
  struct Use {
    unsigned op, operand;
  };

  LayoutSpace(const layout::LayoutProblem &problem, llvm::ArrayRef<WeightedProgram> programs, ColourClasses classes,
              analysis::Planner &planner, const analysis::DeviceRates &rates);

  // Calls `visit` for each op of the programs, with the runs of its program.
  void forEachOp(llvm::function_ref<void(unsigned op, int64_t runs)> visit) const;

  // Whether a value can be had in any layout.
  bool isFree(unsigned value) const;

  // Whether the tensor of a value has choices of its own.
  bool isHeld(unsigned value) const;

  // Whether a value lies in memory.
  bool isStored(unsigned value) const;

  // Returns the bytes that the kernel of a value reads again where a collective stands behind the value (layout::OpTraffic).
  int64_t bytesAgain(unsigned value) const;

  // Returns the bytes of a tensor on a device.
  int64_t localBytes(mlir::RankedTensorType type, dist::LayoutAttr layout) const;

  const layout::LayoutProblem &problem;
  const llvm::SmallVector<WeightedProgram> programs;
  const ColourClasses classes;
  const analysis::DeviceRates rates;
  std::vector<llvm::SmallVector<Use, 2>> uses; // by value
  llvm::DenseMap<mlir::Operation *, layout::OpTraffic> traffic;
  std::map<unsigned, std::vector<OpChoice>> opChoices; // by class, as all below
  llvm::DenseSet<unsigned> held, variables;
  llvm::MapVector<unsigned, llvm::SmallVector<Holding>> holdings;

private:
  void findUses();
  void findTraffic();
  // Whether the only user of a value can get it as terms of a sum over the axis.
  bool mayBeSum(unsigned value, mlir::StringAttr axis) const;
  void listOpChoices(analysis::Planner &planner);
  void findHeldTensors();
  void listHoldings();
  bool isAllowed(unsigned tensor, dist::LayoutAttr home) const;
  void addSecondHoldings(unsigned tensor, llvm::SmallVector<Holding> &choices);

  llvm::MapVector<unsigned, llvm::SetVector<dist::LayoutAttr>> around;                // the layouts that ops have for a held tensor
  mutable llvm::DenseMap<std::pair<mlir::Type, mlir::Attribute>, int64_t> knownBytes; // of localBytes()
};

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_LAYOUT_SPACE_H
