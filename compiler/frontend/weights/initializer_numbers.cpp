// SPDX-License-Identifier: Apache-2.0
//
// Patterns of numbers, each found in one walk that ends where the pattern does.

#include "compiler/frontend/weights/initializer_numbers.h"

#include "dialects/support/element_type.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace ashlar::frontend {

namespace {

template <typename T> T load(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// What a line of a table tells.
enum class Line { Nothing, Progression, Other };

// Looks at the line x[0], x[1], ... of at least 3 elements.
Line readLine(ArrayRef<double> x) {
  constexpr double kTolerance = 1e-3, kLeastChange = 1e-3;
  double low = x[0], high = x[0], largest = 0, products = 0, squares = 0;
  for (double value : x) {
    if (!std::isfinite(value)) {
      return Line::Other;
    }
    low = std::min(low, value);
    high = std::max(high, value);
    largest = std::max(largest, std::abs(value));
  }
  if (!(high - low > kLeastChange * largest)) {
    return Line::Nothing;
  }
  for (size_t i = 1; i + 1 < x.size(); ++i) {
    products += x[i] * (x[i + 1] + x[i - 1]);
    squares += x[i] * x[i];
  }
  const double c = squares > 0 ? products / squares : 0; // by least squares
  for (size_t i = 1; i + 1 < x.size(); ++i) {
    if (!(std::abs(x[i + 1] + x[i - 1] - c * x[i]) <= kTolerance * (high - low))) {
      return Line::Other;
    }
  }
  return Line::Progression;
}

} // namespace

double InitializerNumbers::operator[](int64_t position) const {
  Type element = type.getElementType();
  const char *at = bytes.data() + position * elementBytes(element);
  if (element.isF32()) {
    return load<float>(at);
  }
  if (element.isF64()) {
    return load<double>(at);
  }
  APFloat value(cast<FloatType>(element).getFloatSemantics(), APInt(16, load<uint16_t>(at)));
  bool losesInfo = false;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
  return value.convertToDouble();
}

bool InitializerNumbers::isUniform() const {
  const size_t one = elementBytes(type.getElementType());
  if (size() > 1 &&
      bytes.drop_front(one) == bytes.drop_back(one)) { // the walk takes a quarter of a second for the biases of 96 large layers
    return !std::isnan((*this)[0]);
  }
  for (int64_t i = 1; i < size(); ++i) {
    if ((*this)[i] != (*this)[0]) {
      return false;
    }
  }
  return size() > 0;
}

bool InitializerNumbers::isZeroOr(bool (*accepts)(double other)) const {
  std::optional<double> other;
  bool hasZero = false;
  for (int64_t i = 0; i < size(); ++i) {
    const double value = (*this)[i];
    if (value == 0) {
      hasZero = true;
    } else if (!other && accepts(value)) {
      other = value;
    } else if (value != other) {
      return false;
    }
  }
  return hasZero && other;
}

bool InitializerNumbers::isAdditiveMask() const {
  return isZeroOr([](double other) { return other <= -100; });
}

bool InitializerNumbers::isZeroOne() const {
  return isZeroOr([](double other) { return other == 1; });
}

std::optional<int64_t> InitializerNumbers::findProgression() const {
  constexpr int64_t kShortest = 6;      // fewer numbers say little
  constexpr int64_t kFewestTelling = 4; // one of so many lines has to tell: low frequencies hardly change over a short table
  ArrayRef<int64_t> shape = type.getShape();
  auto follows = [&](int64_t dim) {
    const int64_t length = shape[dim], inner = llvm::product_of(shape.drop_front(dim + 1)), lines = size() / std::max<int64_t>(length, 1);
    int64_t telling = 0;
    SmallVector<double> line(length);
    for (int64_t at = 0; at < lines; ++at) {
      for (int64_t i = 0; i < length; ++i) {
        line[i] = (*this)[(at / inner * length + i) * inner + at % inner];
      }
      Line kind = readLine(line);
      if (kind == Line::Other) {
        return false;
      }
      telling += kind == Line::Progression;
    }
    return telling > 0 && telling * kFewestTelling >= lines;
  };
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim) {
    if (shape[dim] >= kShortest && size() > 0 && follows(dim)) {
      return dim;
    }
  }
  return std::nullopt;
}

} // namespace ashlar::frontend
