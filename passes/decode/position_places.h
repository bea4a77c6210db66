// SPDX-License-Identifier: Apache-2.0
//
// Where the positions of a sequence lie in the tensors of a model, and which ops compute each position by itself.

#ifndef ASHLAR_PASSES_DECODE_POSITION_PLACES_H
#define ASHLAR_PASSES_DECODE_POSITION_PLACES_H

#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace ashlar::decode {

// Where positions lie in a tensor: element e of `dim` is of position e / inner % context.
//   (batch, positions, width)   dim 1, inner 1
//   (batch * positions, width)  dim 0, inner 1
struct Place {
  int64_t dim, inner;

  bool operator==(const Place &other) const { return dim == other.dim && inner == other.inner; }
};

// The places in the operands and results of an op that computes each position by itself. Nothing: the op takes the whole tensor for each
// position, and makes it of none.
struct OpPlaces {
  llvm::SmallVector<std::optional<Place>> operands, results;

  bool operator==(const OpPlaces &other) const { return operands == other.operands && results == other.results; }
};

class PositionPlaces {
public:
  // Finds the places in all tensors of a model that depend on the tokens, (batch, positions).
  PositionPlaces(mlir::func::FuncOp model, mlir::BlockArgument tokens);

  int64_t context() const { return positions; }

  // Whether a tensor depends on the tokens.
  bool depends(mlir::Value value) const { return dependent.contains(value); }

  // Returns the place in a tensor that depends on the tokens; nothing where it is not computed position by position.
  std::optional<Place> find(mlir::Value value) const;

  // Returns the op that computes from several positions, and does not hide the later ones, without which a tensor would have a place. Null
  // for one that has.
  mlir::Operation *findMixing(mlir::Value value) const { return mixing.lookup(value); }

  // Returns the places of an op of whose results one depends on the tokens and has a place.
  const OpPlaces &placesOf(mlir::Operation *op) const { return places.find(op)->second; }

  // Returns the places of an op with which its result has this one; nothing where the op does not compute it position by position.
  std::optional<OpPlaces> placesBefore(mlir::OpResult result, Place place) const;

  // Returns the type of `count` positions of a tensor.
  mlir::RankedTensorType typeOfPositions(mlir::Value value, Place place, int64_t count) const;

private:
  std::optional<OpPlaces> placesAround(mlir::Operation *op, bool isResult, unsigned number, Place place) const;
  void add(mlir::Operation *op);

  int64_t positions;
  llvm::DenseSet<mlir::Value> dependent;
  llvm::DenseMap<mlir::Value, mlir::Operation *> mixing;
  llvm::DenseMap<mlir::Value, Place> ofTokens; // the argument
  llvm::DenseMap<mlir::Operation *, OpPlaces> places;
};

} // namespace ashlar::decode

#endif // ASHLAR_PASSES_DECODE_POSITION_PLACES_H
