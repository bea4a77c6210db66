// SPDX-License-Identifier: Apache-2.0
//
// What ops say of themselves (op_interfaces.td) against what they compute, on the ops of random programs.

#include "dialects/nn/nn.h"
#include "dialects/support/aliases.h"
#include "dialects/support/tensor_values.h"
#include "test/fuzz/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <set>

namespace ashlar::fuzz::op_answers_test {

using namespace mlir;
using reference::Tensor;

namespace {

constexpr uint64_t kFirstSeed = 1, kLastSeed = 120;

// Powers of two between 1/4 and 8, of either sign: sums and products of a few of them are exact in every float type but the narrow ones.
Tensor drawTensor(RankedTensorType type, std::mt19937_64 &random) {
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    int64_t number = random() % 6;
    if (tensor.isFloat()) {
      tensor.setFloat(i, std::ldexp(random() % 2 ? 1 : -1, static_cast<int>(number) - 2));
    } else {
      tensor.setInt(i, type.getElementType().isInteger(1) ? number % 2 : number);
    }
  }
  return tensor;
}

Tensor combine(const Tensor &a, const Tensor &b, Reduction kind) {
  Tensor result(a.getType());
  for (int64_t i = 0; i < a.getNumElements(); ++i) {
    double x = a.getNumber(i), y = b.getNumber(i);
    if (a.isFloat()) {
      result.setFloat(i, kind == Reduction::Sum ? x + y : kind == Reduction::Max ? std::max(x, y) : std::min(x, y));
    } else if (kind == Reduction::Sum) { // wraps around
      result.setInt(i, static_cast<int64_t>(static_cast<uint64_t>(a.getInt(i)) + static_cast<uint64_t>(b.getInt(i))));
    } else {
      result.setInt(i, (kind == Reduction::Max) == (x > y) ? a.getInt(i) : b.getInt(i));
    }
  }
  return result;
}

bool isPrecise(RankedTensorType type) {
  return !type.getElementType().isInteger(1) && (!isa<FloatType>(type.getElementType()) || type.getElementTypeBitWidth() >= 32);
}

// Checks that the op gives the same whether parts of its operands are combined before it or after it, where it says so.
void checkParts(Operation *op, ComputeOpInterface compute, std::mt19937_64 &random, std::map<std::string, int> &passed) {
  auto semantics = dyn_cast<ReferenceOpInterface>(op);
  unsigned count = op->getNumOperands();
  bool allPrecise = isPrecise(typeOf(op->getResult(0))) && llvm::all_of(op->getOperands(), [](Value operand) {
                      return isPrecise(typeOf(operand)) || typeOf(operand).getElementType().isInteger(1);
                    });
  if (count == 0 || count > 3 || !semantics || !(allPrecise || isa<nn::CastOp>(op))) { // a sum of two such powers fits into 6 bits
    return;
  }
  for (unsigned bits = 1; bits < 1u << count; ++bits) {
    llvm::SmallBitVector partial(count);
    for (unsigned i = 0; i < count; ++i) {
      partial[i] = bits >> i & 1;
    }
    for (Reduction kind : {Reduction::Sum, Reduction::Max, Reduction::Min}) {
      if (!compute.passesParts(kind, partial)) {
        continue;
      }
      SmallVector<Tensor> first, second, whole;
      for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
        bool isKnown = !partial.test(i) && nn::isZero(operand); // an op may count on what a constant holds
        first.push_back(isKnown ? Tensor(typeOf(operand)) : drawTensor(typeOf(operand), random));
        second.push_back(partial.test(i) ? drawTensor(typeOf(operand), random) : first.back());
        whole.push_back(partial.test(i) ? combine(first.back(), second.back(), kind) : first.back());
      }
      Tensor before = semantics.evaluate(whole), after = combine(semantics.evaluate(first), semantics.evaluate(second), kind);
      for (int64_t i = 0; i < before.getNumElements(); ++i) {
        INFO(op->getName().getStringRef().str() << ", operands " << bits << ", " << stringifyReduction(kind).str());
        REQUIRE(after.getNumber(i) == Approx(before.getNumber(i)).epsilon(1e-6).margin(1e-9));
      }
      ++passed[op->getName().getStringRef().str()];
    }
  }
}

// Checks that every element of the result is one of an operand, or 0.
void checkMoves(Operation *op, std::mt19937_64 &random) {
  SmallVector<Tensor> operands;
  std::set<double> elements = {0};
  for (Value operand : op->getOperands()) {
    operands.push_back(drawTensor(typeOf(operand), random));
    for (int64_t i = 0; i < operands.back().getNumElements(); ++i) {
      elements.insert(operands.back().getNumber(i));
    }
  }
  Tensor result = cast<ReferenceOpInterface>(op).evaluate(operands);
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    REQUIRE(elements.count(result.getNumber(i)) == 1);
  }
}

// Checks that the elements of the result are those of the operand, in order.
void checkAlias(Operation *op, std::mt19937_64 &random) {
  Tensor operand = drawTensor(typeOf(op->getOperand(0)), random), result = cast<ReferenceOpInterface>(op).evaluate({operand});
  REQUIRE(result.getNumElements() == operand.getNumElements());
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    REQUIRE(result.getNumber(i) == operand.getNumber(i));
  }
}

} // namespace

TEST_CASE("ops: what they answer is what they compute", "[fuzz]") {
  std::mt19937_64 random(7);
  std::map<std::string, int> passed;
  int moved = 0, aliases = 0;
  for (uint64_t seed = kFirstSeed; seed <= kLastSeed; ++seed) {
    OwningOpRef<ModuleOp> program = randomProgram(test::context(), seed, {/*varied=*/true});
    program->walk([&](ComputeOpInterface compute) {
      Operation *op = compute;
      INFO("seed " << seed << ", " << op->getName().getStringRef().str());
      bool isSource = op->getNumOperands() == 0;
      const bool moves = op->hasTrait<MovesElements>() || isa<UpdatingOpInterface>(op);
      CHECK((compute.getPrecision() == ashlar::Precision::Move) == moves);
      CHECK((compute.getPrecision() == ashlar::Precision::Source) == isSource);
      CHECK((compute.getCost() == Cost::Free) == (op->hasTrait<MovesElements>() || isSource));
      if (op->hasTrait<MovesElements>()) {
        checkMoves(op, random);
        ++moved;
      }
      if (aliasesOperands(op)) {
        checkAlias(op, random);
        ++aliases;
      }
      checkParts(op, compute, random, passed);
    });
  }
  CHECK(moved > 500);
  CHECK(aliases > 50);
  for (const char *name : {"nn.add",    "nn.broadcast", "nn.cast", "nn.concat",    "nn.div",       "nn.matmul",   "nn.max",
                           "nn.min",    "nn.mul",       "nn.neg",  "nn.pad",       "nn.reduce",    "nn.resample", "nn.reshape",
                           "nn.select", "nn.slice",     "nn.sub",  "nn.transpose", "nn.unwindows", "nn.windows"}) {
    INFO(name);
    CHECK(passed[name] > 0);
  }
}

TEST_CASE("ops: every op answers every question", "[fuzz]") {
  const std::set<std::string> structure = {"nn.gradient",   "nn.read",         "nn.repeat",   "nn.repeat_carry", "nn.repeat_next",
                                           "nn.repeat_row", "nn.repeat_stack", "nn.variable", "nn.write",        "nn.yield"};
  const std::set<std::string> flat = {"nn.and",
                                      "nn.attention_gradient",
                                      "nn.attention_log_sum",
                                      "nn.bitcast",
                                      "nn.compare",
                                      "nn.constant",
                                      "nn.index",
                                      "nn.max_pool_place",
                                      "nn.not",
                                      "nn.or",
                                      "nn.random"}; // no gradient
  int found = 0;
  for (RegisteredOperationName name : test::context().getRegisteredOperationsByDialect("nn")) {
    std::string op = name.getStringRef().str();
    INFO(op);
    if (!structure.count(op)) {
      CHECK(name.hasInterface<ShardingRuleOpInterface>());
      CHECK(name.hasInterface<ComputeOpInterface>());
      CHECK(name.hasInterface<GradientOpInterface>() == !flat.count(op));
      CHECK(name.hasInterface<ReferenceOpInterface>());
      ++found;
    }
  }
  CHECK(found >= 35);
}

} // namespace ashlar::fuzz::op_answers_test
