// SPDX-License-Identifier: Apache-2.0
//
// Kernels are compared as they were emitted, when each use of a number has a constant of its own: canonicalization makes one of all that
// are equal by chance. A number becomes an argument only where the code stays as good: the trip counts of short loops, what a loop steps
// through memory by, divisors, and what is compared with inside stay in the code.

#include "compiler/target/cpu/shared_kernels.h"

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;

namespace ashlar::cpu {
namespace {

// A kernel of at most as many iterations takes a microsecond, whatever its code looks like.
constexpr int64_t kFewIterations = 2048;
// The least trips of an innermost loop that need not be known. A rest of vectors costs a third of a row of 480 elements.
constexpr int64_t kLongLoop = 4096;
// The least trips of an innermost loop that stays one, so that those around it are not unrolled.
constexpr int64_t kKeptLoop = 32;
// Trips up to which a loop may be unrolled as a whole.
constexpr int64_t kShortLoop = 8;

std::optional<int64_t> numberOf(Value value) {
  auto constant = value.getDefiningOp<arith::ConstantIndexOp>();
  return constant ? std::optional<int64_t>(constant.value()) : std::nullopt;
}

// What is known of a kernel's loops, and which of its numbers may become arguments.
class Numbers {
public:
  explicit Numbers(func::FuncOp kernel) : kernel(kernel) {
    kernel.walk([&](scf::ForOp loop) {
      if (!loop.getBody()->walk([](scf::ForOp) { return WalkResult::interrupt(); }).wasInterrupted()) {
        innermost.insert(loop);
      }
    });
    findVarying();
    isSmall = countIterations() <= kFewIterations;
    isDelicate = !isSmall && (storesBesideLoads() || stridesInside());
  }

  bool isSmallKernel() const { return isSmall; }

  bool mayBeArgument(arith::ConstantOp constant) {
    if (constant->use_empty()) {
      return false;
    }
    if (auto number = dyn_cast<FloatAttr>(constant.getValue())) {
      return number.getType().isF32() && isCommon(number.getValue()) && llvm::all_of(constant->getUsers(), takesAnyFloat);
    }
    auto number = dyn_cast<IntegerAttr>(constant.getValue());
    return number && number.getType().isIndex() && (number.getInt() < -1 || number.getInt() > 1) &&
           llvm::all_of(constant->getUses(), [&](OpOperand &use) { return mayVary(use, number.getInt()); });
  }

private:
  // Whether arithmetic with this number has no simpler form.
  static bool isCommon(const APFloat &value) { return value.isFiniteNonZero() && !abs(value).isExactlyValue(1); }

  // Whether the op is one instruction whatever the number.
  static bool takesAnyFloat(Operation *op) { return isa<arith::AddFOp, arith::CmpFOp, arith::MulFOp, arith::SelectOp, arith::SubFOp>(op); }

  bool mayVary(OpOperand &use, int64_t value) {
    return llvm::TypeSwitch<Operation *, bool>(use.getOwner())
        .Case<scf::ForOp>([&](scf::ForOp loop) { return !isDelicate && use.getOperandNumber() == 1 && mayVaryTrips(loop, value); })
        .Case<arith::MulIOp>([&](arith::MulIOp op) { return !isDelicate && !variesInside(op->getOperand(1 - use.getOperandNumber())); })
        .Case<arith::AddIOp, arith::SubIOp>([&](Operation *) { return !isDelicate; })
        .Case<arith::CmpIOp, arith::MinSIOp, arith::MaxSIOp>(
            [&](Operation *op) { return isSmall || !variesInside(op->getOperand(1 - use.getOperandNumber())); })
        .Default(false);
  }

  bool mayVaryTrips(scf::ForOp loop, int64_t trips) {
    if (innermost.contains(loop)) {
      return loop.getInitArgs().empty() && trips >= (isSmall ? kShortLoop : kLongLoop);
    }
    bool keepsInner = true; // otherwise the loop may become the innermost one
    loop.getBody()->walk([&](scf::ForOp inner) {
      std::optional<int64_t> count = numberOf(inner.getUpperBound());
      keepsInner &= !innermost.contains(inner) || !count || *count >= kKeptLoop;
    });
    return loop.getInitArgs().empty() && (keepsInner || (isSmall && trips >= kShortLoop));
  }

  // Whether a value changes from trip to trip of an innermost loop.
  bool variesInside(Value value) const { return varying.contains(value); }

  // Finds the values that change there. Operands are defined before their users, so one walk sees all.
  void findVarying() {
    kernel->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        varying.insert(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
        if (innermost.contains(loop)) {
          varying.insert(loop.getInductionVar());
        }
      }
      if (op->getNumRegions() > 0 || llvm::any_of(op->getOperands(), [&](Value operand) { return varying.contains(operand); })) {
        varying.insert(op->result_begin(), op->result_end());
      }
    });
  }

  int64_t countIterations() const {
    const int64_t extent = kernel->getAttrOfType<IntegerAttr>(exec::kExtentAttr).getInt();
    int64_t sum = 0;
    for (Operation *op : innermost) {
      int64_t product = 1;
      for (auto loop = cast<scf::ForOp>(op); loop; loop = loop->getParentOfType<scf::ForOp>()) {
        std::optional<int64_t> count = numberOf(loop.getUpperBound()), step = numberOf(loop.getStep());
        product *= count ? llvm::divideCeil(*count, step.value_or(1)) : extent;
      }
      sum += product;
    }
    return sum;
  }

  // Whether an innermost loop steps through memory by more than an element. LLVM makes other code of it where it knows the trips.
  bool stridesInside() {
    for (Operation *loop : innermost) {
      bool strides = loop->walk([&](arith::MulIOp op) {
                           bool steps = op.getType().isIndex() &&
                                        llvm::any_of(op->getOperands(), [&](Value operand) { return variesInside(operand); });
                           return steps ? WalkResult::interrupt() : WalkResult::advance();
                         })
                         .wasInterrupted();
      if (strides) {
        return true;
      }
    }
    return false;
  }

  // Whether a loop reads and writes one buffer at several places. How far apart these are decides whether it becomes one of vectors.
  bool storesBesideLoads() const {
    for (Operation *loop : innermost) {
      DenseMap<Value, std::pair<int64_t, int64_t>> accesses; // loads, stores
      loop->walk([&](Operation *op) {
        if (auto load = dyn_cast<memref::LoadOp>(op)) {
          ++accesses[load.getMemRef()].first;
        } else if (auto store = dyn_cast<memref::StoreOp>(op)) {
          ++accesses[store.getMemRef()].second;
        }
      });
      if (llvm::any_of(accesses, [](const auto &entry) {
            auto [loads, stores] = entry.second;
            return loads > 0 && stores > 0 && loads + stores > 2;
          })) {
        return true;
      }
    }
    return false;
  }

  func::FuncOp kernel;
  DenseSet<Operation *> innermost; // loops without loops in them
  DenseSet<Value> varying;
  bool isSmall = false, isDelicate = false;
};

// A kernel as a list of words: two with equal lists are equal but for the numbers that may be arguments and for the sizes of buffers.
struct Signature {
  std::vector<uintptr_t> words;
  SmallVector<arith::ConstantOp> arguments;
};

// The bits of a number, as the code loads them.
int64_t bitsOf(arith::ConstantOp constant) {
  auto number = dyn_cast<FloatAttr>(constant.getValue());
  return number ? number.getValue().bitcastToAPInt().getZExtValue() : cast<IntegerAttr>(constant.getValue()).getInt();
}

class SignatureWriter {
public:
  explicit SignatureWriter(func::FuncOp kernel) : numbers(kernel) {
    add(uintptr_t(numbers.isSmallKernel()));
    writeArguments(kernel.front());
    kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) { write(*op); });
  }

  Signature take() { return std::move(signature); }

private:
  void add(uintptr_t word) { signature.words.push_back(word); }
  void add(const void *pointer) { add(reinterpret_cast<uintptr_t>(pointer)); }

  void addType(Type type) {
    auto memref = dyn_cast<MemRefType>(type);
    add((memref ? memref.getElementType() : type).getAsOpaquePointer());
  }

  void writeArguments(Block &block) {
    add(block.getNumArguments());
    for (BlockArgument argument : block.getArguments()) {
      number[argument] = number.size();
      addType(argument.getType());
    }
  }

  // What is inside the op follows; a terminator ends each block.
  void write(Operation &op) {
    add(op.getName().getAsOpaquePointer());
    for (Value operand : op.getOperands()) {
      add(uintptr_t(number.lookup(operand)));
    }
    for (OpResult result : op.getResults()) {
      number[result] = number.size();
    }
    auto constant = dyn_cast<arith::ConstantOp>(&op);
    if (constant && numbers.mayBeArgument(constant)) {
      signature.arguments.push_back(constant);
      add(constant.getType().getAsOpaquePointer());
      return;
    }
    add(op.getAttrDictionary().getAsOpaquePointer());
    for (Type type : op.getResultTypes()) {
      add(type.getAsOpaquePointer());
    }
    for (Region &region : op.getRegions()) {
      add(uintptr_t(region.getBlocks().size()));
      for (Block &block : region) {
        writeArguments(block);
      }
    }
  }

  Numbers numbers;
  DenseMap<Value, unsigned> number;
  Signature signature;
};

// Kernels with equal signatures.
struct Group {
  std::vector<func::FuncOp> kernels;
  std::vector<SmallVector<arith::ConstantOp>> numbers; // of each
};

// Gives the first kernel of a group an argument for each list of numbers that differ, and drops the others.
void merge(Group &group, std::vector<SharingKernel> &sharing) {
  const size_t count = group.kernels.size();
  func::FuncOp first = group.kernels.front();
  std::vector<std::vector<int64_t>> columns;                                // an argument each: its number in each kernel
  std::map<std::pair<bool, std::vector<int64_t>>, BlockArgument> arguments; // by whether they are floats
  for (size_t i = 0; i < group.numbers.front().size(); ++i) {
    std::vector<int64_t> column;
    for (size_t k = 0; k < count; ++k) {
      column.push_back(bitsOf(group.numbers[k][i]));
    }
    if (llvm::all_equal(column)) {
      continue;
    }
    Type type = group.numbers.front()[i].getType();
    auto [argument, isNew] = arguments.try_emplace({type.isF32(), column});
    if (isNew) {
      argument->second = first.front().addArgument(type, first.getLoc());
      columns.push_back(column);
    }
    group.numbers.front()[i].getResult().replaceAllUsesWith(argument->second);
  }
  std::string name = first.getName().str(), code = columns.empty() ? name : name + ".any";
  if (!columns.empty()) {
    first.setName(code);
    first.setFunctionType(FunctionType::get(first.getContext(), first.front().getArgumentTypes(), {}));
  }
  for (size_t k = 0; k < count; ++k) {
    SharingKernel kernel{group.kernels[k] == first ? name : group.kernels[k].getName().str(), code, {}};
    for (const std::vector<int64_t> &column : columns) {
      kernel.numbers.push_back(column[k]);
    }
    if (k > 0) {
      group.kernels[k].erase();
    }
    if (k > 0 || !columns.empty()) {
      sharing.push_back(std::move(kernel));
    }
  }
}

} // namespace

std::vector<SharingKernel> shareCode(ModuleOp kernels) {
  std::map<std::vector<uintptr_t>, size_t> known; // place in `groups`
  std::vector<Group> groups;
  for (auto kernel : kernels.getOps<func::FuncOp>()) {
    Signature signature = SignatureWriter(kernel).take();
    auto [found, isNew] = known.try_emplace(std::move(signature.words), groups.size());
    if (isNew) {
      groups.emplace_back();
    }
    groups[found->second].kernels.push_back(kernel);
    groups[found->second].numbers.push_back(std::move(signature.arguments));
  }
  std::vector<SharingKernel> sharing;
  for (Group &group : groups) {
    if (group.kernels.size() > 1) {
      merge(group, sharing);
    }
  }
  return sharing;
}

} // namespace ashlar::cpu
