// SPDX-License-Identifier: Apache-2.0
//
// Cuts of the axes that a redistribution moves.

#include "passes/analysis/planner/cut_axes.h"

#include "passes/analysis/planner/search_space.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace ashlar::analysis {

bool mayBeFasterCut(const Plan &plan) {
  auto sends = [](const Step &step) { return step.kind != CollectiveKind::Slice; };
  return llvm::count_if(plan.steps, sends) > 1 ||
         llvm::any_of(plan.steps, [](const Step &step) { return step.kind == CollectiveKind::Permute; });
}

void cutBehind(MeshRefinement &refinement, StringAttr axis, int64_t count) {
  const bool isPart = axis.getValue().contains(':');
  for (auto [begin, end] : refinement.pieces(axis)) {
    if (!isPart && begin < count && count < end && count % begin == 0 && end % count == 0) {
      auto refuse = []() -> InFlightDiagnostic { llvm_unreachable("a factor of the size of an axis"); };
      [[maybe_unused]] LogicalResult cut = refinement.cut({axis.str(), /*before=*/1, /*size=*/count}, refuse);
      assert(succeeded(cut) && "the axis is one of the mesh");
    }
  }
}

namespace {

// Returns the axes that split another dim, or another place of one, at the one end than at the other.
dist::AxisList movedAxes(const dist::Layout &from, const dist::Layout &to) {
  dist::AxisList moved;
  for (const auto &[first, second] : llvm::zip_equal(from.dims, to.dims)) {
    auto [end, other] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
    for (StringAttr axis : llvm::concat<const StringAttr>(ArrayRef(end, first.end()), ArrayRef(other, second.end()))) {
      if (!llvm::is_contained(moved, axis)) {
        moved.push_back(axis);
      }
    }
  }
  return moved;
}

// Returns the prime factors of a number, smallest first.
SmallVector<int64_t> primeFactors(int64_t number) {
  SmallVector<int64_t> factors;
  for (int64_t factor = 2; number > 1; ++factor) {
    for (; number % factor == 0; number /= factor) {
      factors.push_back(factor);
    }
  }
  return factors;
}

// Cuts each part of an axis between its prime factors.
void cutWholly(MeshRefinement &refinement, StringAttr axis) {
  for (auto [begin, end] : refinement.pieces(axis)) {
    int64_t before = begin;
    for (int64_t factor : primeFactors(end / begin)) {
      cutBehind(refinement, axis, before *= factor);
    }
  }
}

} // namespace

MeshRefinement cutMovedAxes(dist::MeshAttr mesh, const dist::Layout &from, const dist::Layout &to) {
  MeshRefinement refinement(mesh);
  const dist::AxisList moved = movedAxes(from, to);
  size_t parts = 0;
  for (StringAttr axis : mesh.getAxes()) {
    const bool isUsed = mesh.axisSize(axis) > 1 && (from.uses(axis) || to.uses(axis));
    parts += llvm::is_contained(moved, axis) ? primeFactors(mesh.axisSize(axis)).size() : isUsed ? 1 : 0;
  }
  for (StringAttr axis : moved) {
    for (StringAttr other : moved) {
      const int64_t size = mesh.axisSize(axis), common = std::gcd(size, mesh.axisSize(other));
      if (common > 1 && common < size) {
        cutBehind(refinement, axis, common);
      }
    }
    if (parts <= kExactAxes) {
      cutWholly(refinement, axis);
    }
  }
  return refinement;
}

bool keepsPieces(const MeshRefinement &refinement, RankedTensorType type, const dist::Layout &layout) {
  dist::MeshAttr mesh = refinement.getMesh();
  for (auto [size, axes] : llvm::zip_equal(type.getShape(), layout.dims)) {
    int64_t left = size;
    for (StringAttr axis : axes) {
      auto sizes = llvm::map_to_vector(refinement.pieces(axis), [](MeshRefinement::Piece piece) { return piece.second / piece.first; });
      if (!isOneCut(left, sizes)) {
        return false;
      }
      left = llvm::divideCeil(left, mesh.axisSize(axis));
    }
  }
  return true;
}

} // namespace ashlar::analysis
