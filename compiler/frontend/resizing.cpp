// SPDX-License-Identifier: Apache-2.0
//
// Resize and Upsample: along each dim, every element of the result is a sum of a few elements of the input, at places and with weights that
// are known at import (nn.resample). What a mode means is only where a place lies, and the weights of its neighbours.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;

namespace ashlar::frontend {

namespace {

enum class Mode { Nearest, Linear, Cubic };
enum class Coordinates { HalfPixel, HalfPixelSymmetric, PytorchHalfPixel, AlignCorners, Asymmetric, TfHalfPixel };
enum class Rounding { PreferFloor, PreferCeil, Floor, Ceil };

struct Method {
  Mode mode = Mode::Nearest;
  Coordinates coordinates = Coordinates::Asymmetric;
  Rounding rounding = Rounding::Floor;
  double cubicA = -0.75;
  bool excludesOutside = false;
};

// One dim: its sizes, and the elements of the result for one of the input.
struct Scaling {
  int64_t from, to;
  double scale;
};

// Where element `i` of the result lies among the elements of the input.
double coordinateOf(Coordinates coordinates, const Scaling &scaling, int64_t i) {
  auto at = static_cast<double>(i), from = static_cast<double>(scaling.from), to = static_cast<double>(scaling.to);
  double halfPixel = (at + 0.5) / scaling.scale - 0.5;
  switch (coordinates) {
  case Coordinates::HalfPixel:
    return halfPixel;
  case Coordinates::HalfPixelSymmetric:
    return from / 2 * (1 - to / (scaling.scale * from)) + halfPixel;
  case Coordinates::PytorchHalfPixel:
    return scaling.to > 1 ? halfPixel : 0;
  case Coordinates::AlignCorners:
    return scaling.to > 1 ? at * (from - 1) / (to - 1) : 0;
  case Coordinates::Asymmetric:
    return at / scaling.scale;
  case Coordinates::TfHalfPixel:
    return (at + 0.5) / scaling.scale;
  }
  llvm_unreachable("unknown coordinates");
}

double roundTo(Rounding rounding, double at) {
  switch (rounding) {
  case Rounding::PreferFloor:
    return std::ceil(at - 0.5);
  case Rounding::PreferCeil:
    return std::floor(at + 0.5);
  case Rounding::Floor:
    return std::floor(at);
  case Rounding::Ceil:
    return std::ceil(at);
  }
  llvm_unreachable("unknown rounding");
}

// The weight of an element at a distance, by cubic convolution.
double cubicWeight(double a, double distance) {
  double d = std::abs(distance);
  if (d <= 1) {
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  }
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

struct Tap {
  int64_t place;
  double weight;
};

// The elements that make up what lies at `at`; those beyond the ends are the last ones again, or have no weight.
SmallVector<Tap, 4> tapsAt(const Method &method, double at, int64_t size) {
  SmallVector<Tap, 4> taps;
  double first = std::floor(at);
  auto add = [&](double place, double weight) {
    bool isInside = place >= 0 && place <= static_cast<double>(size - 1);
    if (weight != 0 && (isInside || !method.excludesOutside)) {
      taps.push_back({static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(size - 1))), weight});
    }
  };
  switch (method.mode) {
  case Mode::Nearest:
    return {{static_cast<int64_t>(std::clamp(roundTo(method.rounding, at), 0.0, static_cast<double>(size - 1))), 1}};
  case Mode::Linear:
    add(first, 1 - (at - first));
    add(first + 1, at - first);
    break;
  case Mode::Cubic:
    for (int64_t k = -1; k <= 2; ++k) {
      add(first + static_cast<double>(k), cubicWeight(method.cubicA, at - first - static_cast<double>(k)));
    }
    break;
  }
  double sum = 0;
  for (const Tap &tap : taps) {
    sum += tap.weight;
  }
  for (Tap &tap : taps) {
    tap.weight /= method.excludesOutside ? sum : 1;
  }
  return taps;
}

Value resizeDim(Node &node, Value value, int64_t dim, const Method &method, const Scaling &scaling) {
  std::vector<SmallVector<Tap, 4>> taps;
  size_t terms = 1;
  bool isIdentity = scaling.from == scaling.to, isPlain = true;
  node.spend(4 * scaling.to);
  for (int64_t i = 0; i < scaling.to; ++i) {
    taps.push_back(tapsAt(method, coordinateOf(method.coordinates, scaling, i), scaling.from));
    terms = std::max(terms, taps.back().size());
    isPlain = isPlain && taps.back().size() == 1 && taps.back().front().weight == 1;
    isIdentity = isIdentity && isPlain && taps.back().front().place == i;
  }
  if (isIdentity) {
    return value;
  }
  SmallVector<int64_t> places(terms * scaling.to, -1);
  SmallVector<double> weights(isPlain ? 0 : terms * scaling.to, 0);
  for (int64_t i = 0; i < scaling.to; ++i) {
    for (auto [k, tap] : llvm::enumerate(taps[i])) {
      places[i * terms + k] = tap.place;
      if (!isPlain) {
        weights[i * terms + k] = tap.weight;
      }
    }
  }
  return node.create<nn::ResampleOp>(value, dim, static_cast<int64_t>(terms), places, weights);
}

void resize(Node &node, const Method &method, ArrayRef<Scaling> scalings) {
  Value input = node.input(0), value = input;
  Type element = typeOf(input).getElementType();
  if (method.mode != Mode::Nearest && !isa<FloatType>(element)) {
    node.fail("input 0 is a tensor of " + elementName(element) + ", which can be resized by mode \"nearest\" only");
  }
  Shape shape;
  for (auto [dim, scaling] : llvm::enumerate(scalings)) {
    shape.push_back(scaling.to);
    if (scaling.to < 1 || scaling.from < 1) {
      node.fail("resizes dim " + Twine(dim) + " from size " + Twine(scaling.from) + " to size " + Twine(scaling.to) +
                "; both must be at least 1");
    }
  }
  node.checkSize(shape, element);
  for (auto [dim, scaling] : llvm::enumerate(scalings)) {
    value = resizeDim(node, value, dim, method, scaling);
  }
  value == input ? node.aliasResult(0, 0) : node.setResult(0, value);
}

//===-- Attributes and inputs ---------------------------------------------------------------------------------------------------------===//

SmallVector<double> floatsInput(Node &node, size_t index, StringRef name) {
  DenseElementsAttr known = node.constantInput(index);
  if (!known || !isa<FloatType>(known.getElementType()) || known.getType().getRank() > 1 || known.getNumElements() > 1024) {
    node.fail("input \"" + name + "\" has to be a list of floats known at compile time");
  }
  return SmallVector<double>(llvm::map_range(known.getValues<APFloat>(), [](const APFloat &value) {
    APFloat wide = value;
    bool losesInfo = false;
    wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
    return wide.convertToDouble();
  }));
}

// Exporters leave an input out by an empty name, or by an empty tensor.
bool isThere(Node &node, size_t index) {
  return node.hasInput(index) && node.inputType(index).getNumElements() > 0;
}

void checkCount(Node &node, StringRef name, size_t count, ArrayRef<int64_t> axes) {
  if (count != axes.size()) {
    node.fail("has " + Twine(count) + " " + name + " for " + Twine(axes.size()) + " dims");
  }
}

SmallVector<Scaling> identityOf(ArrayRef<int64_t> shape) {
  return llvm::map_to_vector(shape, [](int64_t size) { return Scaling{size, size, 1}; });
}

// Sizes are those of the input times the scale, rounded down.
SmallVector<Scaling> byScales(Node &node, ArrayRef<int64_t> shape, ArrayRef<int64_t> axes, ArrayRef<double> scales) {
  checkCount(node, "scales", scales.size(), axes);
  SmallVector<Scaling> scalings = identityOf(shape);
  for (auto [axis, scale] : llvm::zip_equal(axes, scales)) {
    double size = std::floor(static_cast<double>(shape[axis]) * scale);
    if (!(scale > 0) || !(size < 0x1p46)) {
      node.fail("scale of dim " + Twine(axis) + " is " + std::to_string(scale) + ", which gives no size from " + Twine(shape[axis]));
    }
    scalings[axis] = {shape[axis], static_cast<int64_t>(size), scale};
  }
  return scalings;
}

// `policy`: whether all dims keep one scale, the smallest or the largest that the sizes ask for.
SmallVector<Scaling> bySizes(Node &node, ArrayRef<int64_t> shape, ArrayRef<int64_t> axes, ArrayRef<int64_t> sizes, StringRef policy) {
  checkCount(node, "sizes", sizes.size(), axes);
  SmallVector<Scaling> scalings = identityOf(shape);
  double least = INFINITY, most = 0;
  for (auto [axis, size] : llvm::zip_equal(axes, sizes)) {
    if (size < 1 || shape[axis] < 1) {
      node.fail("resizes dim " + Twine(axis) + " from size " + Twine(shape[axis]) + " to size " + Twine(size) +
                "; both must be at least 1");
    }
    double scale = static_cast<double>(size) / static_cast<double>(shape[axis]);
    least = std::min(least, scale);
    most = std::max(most, scale);
    scalings[axis] = {shape[axis], size, scale};
  }
  if (policy == "stretch") {
    return scalings;
  }
  if (policy != "not_larger" && policy != "not_smaller") {
    node.fail("attribute \"keep_aspect_ratio_policy\" is \"" + policy + "\"; use stretch, not_larger or not_smaller");
  }
  double scale = policy == "not_larger" ? least : most;
  for (int64_t axis : axes) {
    auto from = static_cast<double>(shape[axis]);
    scalings[axis] = {shape[axis], static_cast<int64_t>(std::floor(from * scale + 0.5)), scale};
  }
  return scalings;
}

Mode readMode(Node &node, bool hasCubic) {
  std::string name = node.getString("mode", "nearest");
  if (name == "nearest") {
    return Mode::Nearest;
  }
  if (name == "linear" || (name == "bilinear" && node.opType() == "Upsample")) {
    return Mode::Linear;
  }
  if (name == "cubic" && hasCubic) {
    return Mode::Cubic;
  }
  node.fail("attribute \"mode\" is \"" + name + "\"; use nearest" + (hasCubic ? ", linear or cubic" : " or linear"));
}

template <typename T> T readChoice(Node &node, StringRef name, StringRef byDefault, ArrayRef<std::pair<StringRef, T>> choices) {
  std::string given = node.getString(name, byDefault), known;
  for (auto [choice, value] : choices) {
    if (given == choice) {
      return value;
    }
    known += (known.empty() ? "" : ", ") + choice.str();
  }
  node.fail("attribute \"" + name + "\" \"" + given + "\" is not supported; use one of " + known);
}

Method readMethod(Node &node) {
  Method method;
  method.mode = readMode(node, /*hasCubic=*/node.getOpset() >= 11);
  if (node.getOpset() < 11) {
    return method;
  }
  method.coordinates = readChoice<Coordinates>(node, "coordinate_transformation_mode", "half_pixel",
                                               {{"half_pixel", Coordinates::HalfPixel},
                                                {"half_pixel_symmetric", Coordinates::HalfPixelSymmetric},
                                                {"pytorch_half_pixel", Coordinates::PytorchHalfPixel},
                                                {"align_corners", Coordinates::AlignCorners},
                                                {"asymmetric", Coordinates::Asymmetric},
                                                {"tf_half_pixel_for_nn", Coordinates::TfHalfPixel}});
  method.rounding = readChoice<Rounding>(node, "nearest_mode", "round_prefer_floor",
                                         {{"round_prefer_floor", Rounding::PreferFloor},
                                          {"round_prefer_ceil", Rounding::PreferCeil},
                                          {"floor", Rounding::Floor},
                                          {"ceil", Rounding::Ceil}});
  method.cubicA = node.getFloat("cubic_coeff_a", -0.75);
  method.excludesOutside = node.getInt("exclude_outside", 0) != 0;
  if (method.excludesOutside && method.mode != Mode::Cubic) {
    node.fail("attribute \"exclude_outside\" is 1 with a mode other than cubic; leave it out");
  }
  node.getFloat("extrapolation_value", 0); // of tf_crop_and_resize only
  if (node.getInt("antialias", 0) != 0) {
    node.fail("attribute \"antialias\" 1 is not supported; use 0");
  }
  return method;
}

void importResize(Node &node) {
  Method method = readMethod(node);
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  Shape all = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  if (node.getOpset() < 11) {
    return resize(node, method, byScales(node, shape, all, floatsInput(node, 1, "scales")));
  }
  Shape axes;
  for (int64_t axis : node.getInts("axes")) {
    axes.push_back(node.normalizeAxis(axis, shape.size()));
  }
  axes = axes.empty() ? all : axes;
  std::string policy = node.getString("keep_aspect_ratio_policy", "stretch");
  node.hasInput(1); // the region of tf_crop_and_resize only
  bool hasScales = isThere(node, 2), hasSizes = isThere(node, 3);
  if (hasScales == hasSizes) {
    node.fail(hasScales ? "has scales and sizes; leave one of them out" : "has neither scales nor sizes");
  }
  resize(node, method,
         hasScales ? byScales(node, shape, axes, floatsInput(node, 2, "scales"))
                   : bySizes(node, shape, axes, node.intsInput(3, "sizes"), policy));
}

void importUpsample(Node &node) {
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  if (node.getOpset() > 9) {
    node.fail("is no op of this opset; use Resize");
  }
  Method method;
  method.mode = readMode(node, /*hasCubic=*/false);
  SmallVector<double> scales;
  if (node.getOpset() < 9) {
    llvm::append_range(scales, node.getFloats("scales"));
  } else {
    scales = floatsInput(node, 1, "scales");
  }
  resize(node, method, byScales(node, shape, llvm::to_vector(llvm::seq<int64_t>(0, shape.size())), scales));
}

constexpr RegistryRow kRows[] = {{"Resize", importResize, Accepts::Numbers, /*knownFloats=*/0b110},
                                 {"Upsample", importUpsample, Accepts::Numbers, /*knownFloats=*/0b10}};

} // namespace

ArrayRef<RegistryRow> resizingRows() {
  return kRows;
}

} // namespace ashlar::frontend
