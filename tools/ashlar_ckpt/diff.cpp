// SPDX-License-Identifier: Apache-2.0
//
// diff: compares tensors part by part, so that each is read once and it does not matter how either was cut.

#include "runtime/base/dtype.h"
#include "tools/ashlar_ckpt/commands.h"

#include <cmath>
#include <cstring>

namespace ashlar::ckpt {

using namespace ashlar::rt;

namespace {

// A number as errors and distances see it: every integer, and every float, is one exactly.
using Number = long double;

// What was found of a tensor.
struct Difference {
  uint64_t elements = 0; // whose bits differ
  Number largest = -1, first = 0, second = 0;
  std::vector<int64_t> at; // of the largest
};

// The index of an element of a part in the global tensor.
std::vector<int64_t> globalIndex(const std::vector<int64_t> &start, const std::vector<int64_t> &size, uint64_t element) {
  std::vector<int64_t> at = start;
  for (size_t dim = size.size(); dim-- > 0;) {
    at[dim] += static_cast<int64_t>(element % static_cast<uint64_t>(size[dim]));
    element /= static_cast<uint64_t>(size[dim]);
  }
  return at;
}

template <typename T> Number numberOf(T element) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, Bf16>) {
    return static_cast<float>(element);
  } else {
    return element;
  }
}

// How far two numbers are apart: a NaN and a number infinitely, two NaNs not at all.
Number distance(Number a, Number b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) ? 0 : INFINITY;
  }
  return a == b ? 0 : std::fabs(a - b); // infinity minus itself is none
}

// Compares a part.
template <typename T>
void compare(const std::vector<char> &a, const std::vector<char> &b, const std::vector<int64_t> &start, const std::vector<int64_t> &size,
             Difference &difference) {
  for (uint64_t i = 0; i < a.size() / sizeof(T); ++i) {
    if (std::memcmp(&a[i * sizeof(T)], &b[i * sizeof(T)], sizeof(T)) == 0) {
      continue;
    }
    T x, y;
    std::memcpy(&x, &a[i * sizeof(T)], sizeof(T));
    std::memcpy(&y, &b[i * sizeof(T)], sizeof(T));
    ++difference.elements;
    if (const Number apart = distance(numberOf(x), numberOf(y)); apart > difference.largest) {
      difference.largest = apart;
      difference.first = numberOf(x);
      difference.second = numberOf(y);
      difference.at = globalIndex(start, size, i);
    }
  }
}

// Returns a number with as many digits as tell it from others of its type; a difference with those that say how large it is.
std::string differenceText(Number number, uint32_t dtype) {
  bool isFloat = false;
  withDtype(dtype, [&](auto element) { isFloat = isFloatElement<decltype(element)>(); });
  return isFloat ? fmt::format("{:.6g}", number) : fmt::format("{:.0f}", number);
}

std::string numberText(Number number, uint32_t dtype) {
  std::string text;
  withDtype(dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_same_v<T, double>) {
      text = fmt::format("{}", static_cast<double>(number));
    } else if constexpr (std::is_integral_v<T>) {
      text = fmt::format("{:.0f}", number);
    } else {
      text = fmt::format("{}", static_cast<float>(number));
    }
  });
  return text;
}

std::string indexText(const std::vector<int64_t> &at) {
  std::string text;
  for (int64_t position : at) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", position);
  }
  return "[" + text + "]";
}

Status compareTensors(CheckpointReader &a, const CheckpointTensor &first, CheckpointReader &b, const CheckpointTensor &second,
                      bool &differ) {
  if (first.shape != second.shape || first.dtype != second.dtype || first.stateOf != second.stateOf) {
    auto text = [](const CheckpointTensor &tensor) {
      return fmt::format("{} {}{}{}", dtypeName(tensor.dtype), shapeText(tensor.shape), tensor.stateOf.empty() ? "" : ", state of ",
                         tensor.stateOf);
    };
    printLine(fmt::format("{}: {} in {}, {} in {}", first.name, text(first), a.folder(), text(second), b.folder()));
    differ = true;
    return Status();
  }
  Difference difference;
  std::vector<char> mine, theirs;
  ASHLAR_RETURN_IF_ERROR(forEachPart(first.shape, kPartElements, [&](const std::vector<int64_t> &start, const std::vector<int64_t> &size) {
    ASHLAR_RETURN_IF_ERROR(readPart(a, first, start, size, mine));
    ASHLAR_RETURN_IF_ERROR(readPart(b, second, start, size, theirs));
    withDtype(first.dtype, [&](auto element) { compare<StoredElement<decltype(element)>>(mine, theirs, start, size, difference); });
    return Status();
  }));
  if (difference.elements != 0) {
    printLine(fmt::format("{}: {} of {} elements differ, most by {} at {}: {} and {}", first.name, difference.elements,
                          countElements(first.shape), differenceText(difference.largest, first.dtype), indexText(difference.at),
                          numberText(difference.first, first.dtype), numberText(difference.second, first.dtype)));
    differ = true;
  }
  return Status();
}

// Prints where the two are in their data, as far as that differs.
void comparePositions(const CheckpointReader &a, const CheckpointReader &b, bool &differ) {
  const CheckpointIndex &first = a.index(), &second = b.index();
  auto compareOne = [&](const char *what, uint64_t mine, uint64_t theirs) {
    if (mine != theirs) {
      printLine(fmt::format("{}: {} in {}, {} in {}", what, mine, a.folder(), theirs, b.folder()));
      differ = true;
    }
  };
  compareOne("steps done", first.stepsDone, second.stepsDone);
  compareOne("samples a step", first.samplesAStep, second.samplesAStep);
  compareOne("samples", first.samples, second.samples);
  compareOne("seed", first.seed, second.seed);
}

} // namespace

Status readPart(CheckpointReader &reader, const CheckpointTensor &tensor, const std::vector<int64_t> &start,
                const std::vector<int64_t> &size, std::vector<char> &array) {
  array.resize(countElements(size) * dtypeBytes(tensor.dtype));
  return reader.read(tensor, {tensor.shape.size(), start.data(), size.data(), size.data()}, array.data());
}

Status diff(const std::string &first, const std::string &second, bool &differ) {
  CheckpointReader a, b;
  ASHLAR_RETURN_IF_ERROR(a.open(first));
  ASHLAR_RETURN_IF_ERROR(b.open(second));
  comparePositions(a, b, differ);
  size_t equal = 0, common = 0;
  for (const CheckpointTensor &tensor : a.index().tensors) {
    const CheckpointTensor *other = b.index().find(tensor.name);
    if (other == nullptr) {
      printLine(fmt::format("{}: only in {}", tensor.name, a.folder()));
      differ = true;
      continue;
    }
    bool isOther = false;
    ASHLAR_RETURN_IF_ERROR(compareTensors(a, tensor, b, *other, isOther));
    differ = differ || isOther;
    ++common;
    equal += isOther ? 0 : 1;
  }
  for (const CheckpointTensor &tensor : b.index().tensors) {
    if (a.index().find(tensor.name) == nullptr) {
      printLine(fmt::format("{}: only in {}", tensor.name, b.folder()));
      differ = true;
    }
  }
  ASHLAR_RETURN_IF_ERROR(a.check());
  ASHLAR_RETURN_IF_ERROR(b.check());
  printLine(fmt::format("{} of {} common tensors are equal, bit by bit", equal, common));
  return Status();
}

} // namespace ashlar::ckpt
