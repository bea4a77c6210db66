// SPDX-License-Identifier: Apache-2.0
//
// The ops of a device's program that a single device computes, derived from the uses of their results. No attribute records the owner, so
// no pass can lose it: a pass without knowledge of owners that merges or rewrites an op at worst makes all devices compute it, which costs
// time only.

#ifndef ASHLAR_DIALECTS_DIST_OWNERS_H
#define ASHLAR_DIALECTS_DIST_OWNERS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace ashlar::dist {

// The owner of each op of a program on local shapes. An op with `dist.owner` needs its operands on that device only: a write of a variable
// that the device alone keeps, or a broadcast from it. An op with no other use has that owner too, except collectives, loops and ops
// without results. Valid as long as no op is added; linear in the program.
//   %m = nn.add %a, %b                                    device 2
//   %n = nn.sub %w, %m                                    device 2
//   nn.write @w.m, %m {dist.owner = 2 : i64}
//   %p = dist.broadcast %n root = 2 over ["dp"] {dist.owner = 2 : i64}
//   nn.write @w, %p                                       all devices
class Owners {
public:
  // `body`: the one block of the program.
  explicit Owners(mlir::Block &body);

  // Returns the only device that has to compute `op`; nothing when all do.
  std::optional<int64_t> of(mlir::Operation *op) const;

  // Returns the only device that takes the operands of `op`; nothing when all do.
  std::optional<int64_t> takerOf(mlir::Operation *op) const;

private:
  llvm::DenseMap<mlir::Operation *, int64_t> owners;
};

// Returns the device that `op`, a variable or an op of a program, names as its owner; nothing where it names none.
std::optional<int64_t> getOwner(mlir::Operation *op);

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_OWNERS_H
