// SPDX-License-Identifier: Apache-2.0
//
// Which ops of a device's program a single device computes, read off what becomes of their results: no attribute says it of them, so no
// pass can lose it. Merged or rewritten by a pass that knows nothing of owners, an op is one of all devices at worst, which costs time
// only.

#ifndef ASHLAR_DIALECTS_DIST_OWNERS_H
#define ASHLAR_DIALECTS_DIST_OWNERS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace ashlar::dist {

// The owner of each op of a program on local shapes. An op with `dist.owner` needs its operands on that device only: a write of a variable
// that the device keeps alone, or a broadcast from it. What nothing else uses has that owner too, but for ops in which devices meet, and
// those without results. Valid as long as no op is added; linear in the program.
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
