// SPDX-License-Identifier: Apache-2.0
//
// exp and log are ours: those of MLIR end where results or operands become subnormal. tanh and erf are MLIR's rational functions. The
// polynomials are minimax ones (Remez), rounded to f32; fused multiply-adds are written as such, since their error terms rely on them.

#include "compiler/target/cpu/functions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <limits>

using namespace mlir;

namespace ashlar::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kMantissaBits = 23;

// Short names for scalar arithmetic on f32 and i32.
class FunctionBuilder : public ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value number(float value) { return arith::ConstantOp::create(*this, getF32FloatAttr(value)); }
  Value integer(int32_t value) { return arith::ConstantOp::create(*this, getI32IntegerAttr(value)); }
  Value add(Value x, Value y) { return arith::AddFOp::create(*this, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(*this, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(*this, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(*this, x, y, z); }
  Value bits(Value x) { return arith::BitcastOp::create(*this, getI32Type(), x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(*this, getF32Type(), x); }

  Value select(arith::CmpFPredicate predicate, Value x, Value y, Value onTrue, Value onFalse) {
    return arith::SelectOp::create(*this, arith::CmpFOp::create(*this, predicate, x, y), onTrue, onFalse);
  }

  // Returns c[0] + c[1] x + c[2] x^2 + ...
  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value sum = number(coefficients.back());
    for (float coefficient : llvm::reverse(coefficients.drop_back())) {
      sum = fma(sum, x, number(coefficient));
    }
    return sum;
  }

  // Returns 2^k x, rounded once where it is subnormal.
  Value scale(Value x, Value k) { return LLVM::LoadExpOp::create(*this, x.getType(), x, k); }
};

// e^x = 2^k e^r with |r| <= ln 2 / 2, e^r = 1 + r + r^2 p(r). Below -104 the result is 0, above 89 infinite, so x is cut to that; a NaN
// passes.
Value buildExp(FunctionBuilder &b, Value x) {
  using Is = arith::CmpFPredicate;
  Value low = b.number(-104), high = b.number(89);
  x = b.select(Is::OLT, x, low, low, x);
  x = b.select(Is::OGT, x, high, high, x);
  Value shift = b.number(0x1.8p23f); // x + shift has no place for a fraction: it is rounded to an integer, which its lowest bits hold
  Value shifted = b.fma(x, b.number(0x1.715476p0f), shift);
  Value count = b.sub(shifted, shift);
  Value k = arith::SubIOp::create(b, b.bits(shifted), b.bits(shift));
  Value r = b.fma(count, b.number(-0x1.62e4p-1f), x); // ln 2 in two parts; the product with the first one is exact
  r = b.fma(count, b.number(-0x1.7f7d1cp-20f), r);
  Value p = b.polynomial(r, {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.1239e2p-7f, 0x1.6a2434p-10f});
  Value power = b.add(b.fma(p, b.mul(r, r), r), b.number(1));
  return b.scale(power, k);
}

// log x = k ln 2 + log(1 + f) with 1 + f in [sqrt(1/2), sqrt 2), log(1 + f) = f - f^2 / 2 + f^3 p(f). A subnormal x is scaled first.
Value buildLog(FunctionBuilder &b, Value x) {
  using Is = arith::CmpFPredicate;
  Value zero = b.number(0), smallest = b.number(0x1p-126f);
  Value scaled = b.select(Is::OLT, x, smallest, b.mul(x, b.number(0x1p23f)), x);
  Value scale = b.select(Is::OLT, x, smallest, b.number(kMantissaBits), zero);
  Value bits = b.bits(scaled);
  Value above = arith::SubIOp::create(b, bits, b.integer(0x3f3504f3)); // the bits of sqrt(1/2)
  Value k = arith::ShRSIOp::create(b, above, b.integer(kMantissaBits));
  Value f = b.sub(b.fromBits(arith::SubIOp::create(b, bits, arith::ShLIOp::create(b, k, b.integer(kMantissaBits)))), b.number(1));
  Value count = b.sub(arith::SIToFPOp::create(b, b.getF32Type(), k), scale);
  Value square = b.mul(f, f);
  Value p = b.polynomial(f, {0x1.555554p-2f, -0x1.000226p-2f, 0x1.99a008p-3f, -0x1.547244p-3f, 0x1.22da1ep-3f, -0x1.0d8542p-3f,
                             0x1.055b68p-3f, -0x1.38b578p-4f});
  Value rest = b.fma(count, b.number(-0x1.bd0106p-13f), b.mul(b.mul(p, f), square)); // ln 2 in two parts
  Value logarithm = b.add(b.fma(square, b.number(-0.5), rest), f);
  logarithm = b.fma(count, b.number(0x1.63p-1f), logarithm);
  logarithm = b.select(Is::OLT, x, b.number(kInfinity), logarithm, x); // infinity and NaN
  logarithm = b.select(Is::OLT, x, zero, b.number(std::numeric_limits<float>::quiet_NaN()), logarithm);
  return b.select(Is::OEQ, x, zero, b.number(-kInfinity), logarithm);
}

template <typename Op, Value (*build)(FunctionBuilder &, Value)> struct Expand : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32()) {
      return rewriter.notifyMatchFailure(op, "not f32");
    }
    FunctionBuilder builder(op.getLoc(), rewriter);
    rewriter.replaceOp(op, build(builder, op.getOperand()));
    return success();
  }
};

} // namespace

LogicalResult expandFunctions(func::FuncOp kernel) {
  kernel.walk([](math::ErfOp erf) { // MLIR's forgets the sign of -0
    OpBuilder builder(erf->getContext());
    builder.setInsertionPointAfter(erf);
    auto odd = math::CopySignOp::create(builder, erf.getLoc(), erf.getResult(), erf.getOperand());
    erf.getResult().replaceAllUsesExcept(odd, odd);
  });
  RewritePatternSet patterns(kernel.getContext());
  patterns.add<Expand<math::ExpOp, buildExp>, Expand<math::LogOp, buildLog>>(kernel.getContext());
  populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) { return name == "math.tanh" || name == "math.erf"; });
  if (failed(applyPatternsGreedily(kernel, std::move(patterns)))) {
    return kernel.emitError("functions were not expanded");
  }
  return success();
}

} // namespace ashlar::cpu
