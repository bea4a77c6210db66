// SPDX-License-Identifier: Apache-2.0
//
// A value is one cell a thread, or `lanes` cells a thread for a vector; a region runs under a mask of threads.

#include "test/unit/lower/simulated_kernel.h"

#include "dialects/exec/exec.h"
#include "dialects/support/element_type.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <unordered_map>

using namespace mlir;

namespace ashlar::test {

namespace {

union Cell {
  int64_t i;
  double f;
};
using Cells = std::vector<Cell>;
using Mask = std::vector<char>;

[[noreturn]] void fail(Operation *op, const std::string &what) {
  std::string text;
  llvm::raw_string_ostream(text) << what << ": " << *op;
  throw std::runtime_error(text);
}

unsigned bitsOf(Type type) {
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

// An integer of `bits` bits as it stands in a cell: sign-extended, a bool 0 or 1.
int64_t wrap(int64_t value, unsigned bits) {
  return bits == 1 ? value & 1 : llvm::SignExtend64(static_cast<uint64_t>(value), bits);
}

uint64_t asUnsigned(int64_t value, Type type) {
  unsigned bits = bitsOf(type);
  return bits == 64 ? static_cast<uint64_t>(value) : static_cast<uint64_t>(value) & ((uint64_t(1) << bits) - 1);
}

// A number rounded to a type of floats, there and back.
llvm::APFloat toApFloat(double value, Type type) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(cast<FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number;
}

double roundTo(double value, Type type) {
  return type.isF64() ? value : type.isF32() ? static_cast<float>(value) : toApFloat(value, type).convertToDouble();
}

Cell fromBits(uint64_t bits, Type type) {
  Cell cell;
  if (auto isFloat = dyn_cast<FloatType>(type)) {
    cell.f = llvm::APFloat(isFloat.getFloatSemantics(), llvm::APInt(bitsOf(type), bits)).convertToDouble();
  } else {
    cell.i = wrap(static_cast<int64_t>(bits), bitsOf(type));
  }
  return cell;
}

uint64_t toBits(Cell cell, Type type) {
  return isa<FloatType>(type) ? toApFloat(cell.f, type).bitcastToAPInt().getZExtValue() : asUnsigned(cell.i, type);
}

double combineFloats(Operation *op, double a, double b) {
  return TypeSwitch<Operation *, double>(op)
      .Case([&](arith::AddFOp) { return a + b; })
      .Case([&](arith::SubFOp) { return a - b; })
      .Case([&](arith::MulFOp) { return a * b; })
      .Case([&](arith::DivFOp) { return a / b; })
      .Case([&](arith::MaximumFOp) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); })
      .Case([&](arith::MinimumFOp) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); })
      .Case([&](arith::RemFOp) { return std::fmod(a, b); })
      .Case([&](math::PowFOp) { return std::pow(a, b); })
      .Default([](Operation *other) -> double { fail(other, "unknown op on floats"); });
}

double mapFloat(Operation *op, double a) {
  return TypeSwitch<Operation *, double>(op)
      .Case([&](arith::NegFOp) { return -a; })
      .Case([&](arith::ExtFOp) { return a; })
      .Case([&](arith::TruncFOp) { return a; })
      .Case([&](math::AbsFOp) { return std::fabs(a); })
      .Case([&](math::CeilOp) { return std::ceil(a); })
      .Case([&](math::CosOp) { return std::cos(a); })
      .Case([&](math::ErfOp) { return std::erf(a); })
      .Case([&](math::TanOp) { return std::tan(a); })
      .Case([&](math::AsinOp) { return std::asin(a); })
      .Case([&](math::AcosOp) { return std::acos(a); })
      .Case([&](math::AtanOp) { return std::atan(a); })
      .Case([&](math::SinhOp) { return std::sinh(a); })
      .Case([&](math::CoshOp) { return std::cosh(a); })
      .Case([&](math::AsinhOp) { return std::asinh(a); })
      .Case([&](math::AcoshOp) { return std::acosh(a); })
      .Case([&](math::AtanhOp) { return std::atanh(a); })
      .Case([&](math::ExpOp) { return std::exp(a); })
      .Case([&](math::FloorOp) { return std::floor(a); })
      .Case([&](math::LogOp) { return std::log(a); })
      .Case([&](math::RoundEvenOp) { return std::nearbyint(a); })
      .Case([&](math::SinOp) { return std::sin(a); })
      .Case([&](math::SqrtOp) { return std::sqrt(a); })
      .Case([&](math::TanhOp) { return std::tanh(a); })
      .Default([](Operation *other) -> double { fail(other, "unknown op on a float"); });
}

int64_t combineInts(Operation *op, int64_t a, int64_t b, Type type) {
  uint64_t ua = asUnsigned(a, type), ub = asUnsigned(b, type);
  if (isa<arith::DivUIOp, arith::RemUIOp, arith::DivSIOp>(op) && b == 0) {
    fail(op, "division by zero");
  }
  return TypeSwitch<Operation *, int64_t>(op)
      .Case([&](arith::AddIOp) { return static_cast<int64_t>(ua + ub); })
      .Case([&](arith::SubIOp) { return static_cast<int64_t>(ua - ub); })
      .Case([&](arith::MulIOp) { return static_cast<int64_t>(ua * ub); })
      .Case([&](arith::DivSIOp) { return a / b; })
      .Case([&](arith::DivUIOp) { return static_cast<int64_t>(ua / ub); })
      .Case([&](arith::RemUIOp) { return static_cast<int64_t>(ua % ub); })
      .Case([&](arith::AndIOp) { return a & b; })
      .Case([&](arith::OrIOp) { return a | b; })
      .Case([&](arith::XOrIOp) { return a ^ b; })
      .Case([&](arith::ShLIOp) { return static_cast<int64_t>(ua << ub); })
      .Case([&](arith::ShRUIOp) { return static_cast<int64_t>(ua >> ub); })
      .Case([&](arith::MaxSIOp) { return std::max(a, b); })
      .Case([&](arith::MinSIOp) { return std::min(a, b); })
      .Case([&](arith::MaxUIOp) { return static_cast<int64_t>(std::max(ua, ub)); })
      .Case([&](arith::MinUIOp) { return static_cast<int64_t>(std::min(ua, ub)); })
      .Default([](Operation *other) -> int64_t { fail(other, "unknown op on integers"); });
}

Cell convert(Operation *op, Cell in, Type from, Type to) {
  Cell out;
  TypeSwitch<Operation *>(op)
      .Case<arith::IndexCastOp, arith::TruncIOp, arith::ExtSIOp>([&](auto) { out.i = wrap(in.i, bitsOf(to)); })
      .Case([&](arith::ExtUIOp) { out.i = static_cast<int64_t>(asUnsigned(in.i, from)); })
      .Case([&](arith::BitcastOp) { out = fromBits(toBits(in, from), to); })
      .Case([&](arith::SIToFPOp) { out.f = roundTo(static_cast<double>(in.i), to); })
      .Case([&](arith::UIToFPOp) { out.f = roundTo(static_cast<double>(asUnsigned(in.i, from)), to); })
      .Case([&](arith::FPToSIOp) { out.i = wrap(static_cast<int64_t>(in.f), bitsOf(to)); })
      .Case([&](arith::FPToUIOp) { out.i = wrap(static_cast<int64_t>(static_cast<uint64_t>(in.f)), bitsOf(to)); })
      .Case([&](math::AbsIOp) { out.i = wrap(std::abs(in.i), bitsOf(to)); })
      .Default([&](Operation *) { out.f = roundTo(mapFloat(op, in.f), to); });
  return out;
}

bool compareFloats(arith::CmpFPredicate predicate, double a, double b) {
  using P = arith::CmpFPredicate;
  switch (predicate) {
  case P::OEQ:
    return a == b;
  case P::UNE:
    return a != b;
  case P::OLT:
    return a < b;
  case P::OLE:
    return a <= b;
  case P::OGT:
    return a > b;
  case P::OGE:
    return a >= b;
  default:
    throw std::runtime_error("unknown predicate");
  }
}

class Simulator {
public:
  Simulator(func::FuncOp kernel, ArrayRef<char *> buffers) : kernel(kernel) {
    auto count = [&](StringRef name) { return kernel->getAttrOfType<IntegerAttr>(name).getInt(); };
    blocks = count(exec::kExtentAttr);
    threads = count(exec::kGrainAttr);
    for (auto [argument, buffer] : llvm::zip_equal(kernel.getArguments(), buffers)) {
      memory[argument] = buffer;
    }
  }

  void run() {
    if (threads < 1 || threads > 1024 || blocks < 1) {
      throw std::runtime_error("grid of " + std::to_string(blocks) + " blocks of " + std::to_string(threads) + " threads");
    }
    for (block = 0; block < blocks; ++block) {
      shared.clear();
      runRegion(kernel.getBody().front(), Mask(threads, 1));
    }
  }

private:
  func::FuncOp kernel;
  int64_t blocks, threads, block = 0;
  std::unordered_map<void *, Cells> values; // by value; entries stay where they are
  llvm::DenseMap<Value, char *> memory;
  std::vector<std::vector<char>> shared;

  static int64_t lanesOf(Value value) {
    auto vector = dyn_cast<VectorType>(value.getType());
    return vector ? vector.getNumElements() : 1;
  }

  Cells &at(Value value) { return values.at(value.getAsOpaquePointer()); }
  int64_t intAt(Value value, int64_t thread) { return at(value)[thread].i; }

  Cells &define(Value value) {
    Cells &cells = values[value.getAsOpaquePointer()];
    cells.assign(threads * lanesOf(value), Cell{0x5555555555555555});
    return cells;
  }

  // Calls `compute(thread)` for the threads of the mask.
  template <typename F> void forThreads(const Mask &mask, F compute) {
    for (int64_t t = 0; t < threads; ++t) {
      if (mask[t]) {
        compute(t);
      }
    }
  }

  // Returns what the terminator passes on.
  OperandRange runRegion(Block &body, const Mask &mask) {
    for (Operation &op : body.without_terminator()) {
      runOp(&op, mask);
    }
    return body.getTerminator()->getOperands();
  }

  void copy(ValueRange from, ValueRange to, const Mask &mask) {
    std::vector<Cells> taken; // all are read before the first is written
    for (Value value : from) {
      taken.push_back(at(value));
    }
    for (auto [value, cells] : llvm::zip_equal(to, taken)) {
      if (!values.count(value.getAsOpaquePointer())) {
        define(value);
      }
      int64_t lanes = lanesOf(value);
      forThreads(mask, [&, &value = value, &cells = cells](int64_t t) {
        std::copy_n(cells.begin() + t * lanes, lanes, at(value).begin() + t * lanes);
      });
    }
  }

  void runIf(scf::IfOp op, const Mask &mask) {
    Mask inside(threads, 0), outside(threads, 0);
    forThreads(mask, [&](int64_t t) { (intAt(op.getCondition(), t) & 1 ? inside : outside)[t] = 1; });
    for (Value result : op.getResults()) {
      define(result);
    }
    if (llvm::is_contained(inside, 1)) {
      copy(runRegion(*op.thenBlock(), inside), op.getResults(), inside);
    }
    if (op.elseBlock() && llvm::is_contained(outside, 1)) {
      copy(runRegion(*op.elseBlock(), outside), op.getResults(), outside);
    }
  }

  void runFor(scf::ForOp op, const Mask &mask) {
    for (Value result : op.getResults()) {
      values.erase(result.getAsOpaquePointer());
    }
    Cells counter = at(op.getLowerBound());
    copy(op.getInitArgs(), op.getResults(), mask);
    Mask inside = mask;
    while (true) {
      forThreads(mask, [&](int64_t t) { inside[t] = counter[t].i < intAt(op.getUpperBound(), t); });
      if (!llvm::is_contained(inside, 1)) {
        return;
      }
      define(op.getInductionVar()) = counter;
      for (Value argument : op.getRegionIterArgs()) {
        values.erase(argument.getAsOpaquePointer());
      }
      copy(op.getResults(), op.getRegionIterArgs(), inside);
      copy(runRegion(*op.getBody(), inside), op.getResults(), inside);
      forThreads(inside, [&](int64_t t) { counter[t].i += intAt(op.getStep(), t); });
    }
  }

  // The address of `count` elements of a memref at the thread's index.
  char *address(Operation *op, Value memref, Value index, int64_t thread, int64_t count) {
    auto type = cast<MemRefType>(memref.getType());
    int64_t at = intAt(index, thread);
    if (at < 0 || at + count > type.getNumElements() || at % count != 0) {
      fail(op, "thread " + std::to_string(thread) + " of block " + std::to_string(block) + " accesses " + std::to_string(count) +
                   " elements at " + std::to_string(at));
    }
    return memory.lookup(memref) + at * elementBytes(type.getElementType());
  }

  void load(Operation *op, Value memref, Value index, const Mask &mask) {
    Value result = op->getResult(0);
    Type element = getElementTypeOrSelf(result.getType());
    int64_t lanes = lanesOf(result), bytes = elementBytes(element);
    Cells &cells = define(result);
    forThreads(mask, [&](int64_t t) {
      const char *base = address(op, memref, index, t, lanes);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        uint64_t bits = 0;
        std::memcpy(&bits, base + lane * bytes, bytes);
        cells[t * lanes + lane] = fromBits(bits, element);
      }
    });
  }

  void store(Operation *op, Value stored, Value memref, Value index, const Mask &mask) {
    Type element = getElementTypeOrSelf(stored.getType());
    int64_t lanes = lanesOf(stored), bytes = elementBytes(element);
    forThreads(mask, [&](int64_t t) {
      char *base = address(op, memref, index, t, lanes);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        uint64_t bits = toBits(at(stored)[t * lanes + lane], element);
        std::memcpy(base + lane * bytes, &bits, bytes);
      }
    });
  }

  void allocate(memref::AllocaOp op) {
    shared.emplace_back(byteSize(op.getType()), 0x55);
    memory[op.getResult()] = shared.back().data();
  }

  void shuffle(gpu::ShuffleOp op, const Mask &mask) {
    Cells &cells = define(op.getShuffleResult());
    Cells &valid = define(op.getValid());
    forThreads(mask, [&](int64_t t) {
      int64_t other = t ^ intAt(op.getOffset(), t);
      for (int64_t w = t - t % 32; w < std::min(threads, t - t % 32 + 32); ++w) {
        if (!mask[w]) {
          fail(op, "thread " + std::to_string(w) + " is missing");
        }
      }
      if (bitsOf(op.getValue().getType()) != 32 || other >= threads) {
        fail(op, "cannot shuffle");
      }
      cells[t] = at(op.getValue())[other];
      valid[t].i = 1;
    });
  }

  void runElementwise(Operation *op, const Mask &mask) {
    SmallVector<Cells> in;
    for (Value operand : op->getOperands()) {
      in.push_back(at(operand));
    }
    Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
    Cells &out = define(op->getResult(0));
    forThreads(mask, [&](int64_t t) {
      if (auto cmp = dyn_cast<arith::CmpIOp>(op)) {
        out[t].i = arith::applyCmpPredicate(cmp.getPredicate(), llvm::APInt(64, in[0][t].i, true), llvm::APInt(64, in[1][t].i, true));
      } else if (auto cmpf = dyn_cast<arith::CmpFOp>(op)) {
        out[t].i = compareFloats(cmpf.getPredicate(), in[0][t].f, in[1][t].f);
      } else if (isa<arith::SelectOp>(op)) {
        out[t] = in[0][t].i & 1 ? in[1][t] : in[2][t];
      } else if (in.size() == 1) {
        out[t] = convert(op, in[0][t], from, to);
      } else if (isa<FloatType>(to)) {
        out[t].f = roundTo(combineFloats(op, in[0][t].f, in[1][t].f), to);
      } else {
        out[t].i = wrap(combineInts(op, in[0][t].i, in[1][t].i, from), bitsOf(to));
      }
    });
  }

  void runConstant(arith::ConstantOp op) {
    Cell cell;
    if (auto elements = dyn_cast<DenseElementsAttr>(op.getValue())) { // zeros
      cell.i = 0;
    } else if (auto number = dyn_cast<FloatAttr>(op.getValue())) {
      cell.f = number.getValueAsDouble();
    } else {
      cell.i = wrap(cast<IntegerAttr>(op.getValue()).getValue().getSExtValue(), bitsOf(op.getType()));
    }
    define(op.getResult()).assign(threads * lanesOf(op), cell);
  }

  void runOp(Operation *op, const Mask &mask) {
    auto number = [&](Value result, std::function<int64_t(int64_t)> compute) {
      Cells &cells = define(result);
      forThreads(mask, [&](int64_t t) { cells[t].i = compute(t); });
    };
    TypeSwitch<Operation *>(op)
        .Case([&](arith::ConstantOp constant) { runConstant(constant); })
        .Case([&](gpu::BlockIdOp id) { number(id, [&](int64_t) { return block; }); })
        .Case([&](gpu::ThreadIdOp id) { number(id, [&](int64_t t) { return t; }); })
        .Case([&](gpu::BarrierOp) {
          if (llvm::is_contained(mask, 0)) {
            fail(op, "not all threads reach the barrier");
          }
        })
        .Case([&](gpu::ShuffleOp shuffled) { shuffle(shuffled, mask); })
        .Case([&](memref::AllocaOp alloca) { allocate(alloca); })
        .Case([&](memref::LoadOp loaded) { load(op, loaded.getMemRef(), loaded.getIndices().front(), mask); })
        .Case([&](memref::StoreOp stored) { store(op, stored.getValue(), stored.getMemRef(), stored.getIndices().front(), mask); })
        .Case([&](vector::LoadOp loaded) { load(op, loaded.getBase(), loaded.getIndices().front(), mask); })
        .Case([&](vector::StoreOp stored) { store(op, stored.getValueToStore(), stored.getBase(), stored.getIndices().front(), mask); })
        .Case([&](vector::ExtractOp extract) {
          int64_t lanes = lanesOf(extract.getSource()), lane = extract.getStaticPosition().front();
          Cells &cells = define(extract);
          forThreads(mask, [&](int64_t t) { cells[t] = at(extract.getSource())[t * lanes + lane]; });
        })
        .Case([&](vector::FromElementsOp from) {
          int64_t lanes = lanesOf(from);
          Cells &cells = define(from);
          forThreads(mask, [&](int64_t t) {
            for (auto [lane, element] : llvm::enumerate(from.getElements())) {
              cells[t * lanes + lane] = at(element)[t];
            }
          });
        })
        .Case([&](scf::IfOp branch) { runIf(branch, mask); })
        .Case([&](scf::ForOp loop) { runFor(loop, mask); })
        .Default([&](Operation *) { runElementwise(op, mask); });
  }
};

} // namespace

void simulateKernel(func::FuncOp kernel, ArrayRef<char *> buffers) {
  Simulator(kernel, buffers).run();
}

} // namespace ashlar::test
