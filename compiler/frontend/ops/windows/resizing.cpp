// SPDX-License-Identifier: Apache-2.0
//
// Resize and Upsample: along each dim, every element of the result is a sum of a few elements of the input, at places and with weights that
// are known at import (nn.resample). What a mode means is only where a place lies, and the weights of the elements around it.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;

namespace ashlar::frontend {

namespace {

enum class Mode { Nearest, Linear, Cubic };
enum class Coordinates { HalfPixel, HalfPixelSymmetric, PytorchHalfPixel, AlignCorners, Asymmetric, TfHalfPixel, TfCropAndResize };
enum class Rounding { PreferFloor, PreferCeil, Floor, Ceil };

struct Method {
  Mode mode = Mode::Nearest;
  Coordinates coordinates = Coordinates::Asymmetric;
  Rounding rounding = Rounding::Floor;
  double cubicA = -0.75;
  bool excludesOutside = false;
  bool antialiases = false;
  double extrapolation = 0; // what lies outside of the input, of TfCropAndResize
};

// One dim: its sizes, the elements of the result for one of the input, and the part of the input that TfCropAndResize takes, as shares of
// the way from its first element to its last.
struct Scaling {
  int64_t from, to;
  double scale;
  double start = 0, end = 1;
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
  case Coordinates::TfCropAndResize: {
    double length = scaling.end - scaling.start; // of two f32, so that with sizes as tensors have them nothing is rounded where it counts
    return scaling.to > 1 ? scaling.start * (from - 1) + at * length * (from - 1) / (to - 1)
                          : (scaling.start + scaling.end) / 2 * (from - 1);
  }
  }
  llvm_unreachable("unknown coordinates");
}

// Whether there is an element at `at`, or one on both sides of it; other modes take the first or the last element again.
bool isInside(const Method &method, const Scaling &scaling, double at) {
  return method.coordinates != Coordinates::TfCropAndResize || (at >= 0 && at <= static_cast<double>(scaling.from - 1));
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

// Up to which distance elements have weights.
double reachOf(Mode mode) {
  return mode == Mode::Linear ? 1 : 2;
}

// The weight of an element at a distance: linear, or by cubic convolution.
double weightAt(const Method &method, double distance) {
  double a = method.cubicA, d = std::abs(distance);
  if (d >= reachOf(method.mode)) {
    return 0;
  }
  if (method.mode == Mode::Linear) {
    return 1 - d;
  }
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

struct Tap {
  int64_t place;
  double weight;
};

// The elements that make up what lies at `at`; those beyond the ends are the last ones again, or have no weight. Against aliasing the
// weights of an input that shrinks reach as much further.
SmallVector<Tap, 4> tapsAt(const Method &method, const Scaling &scaling, double at) {
  auto last = static_cast<double>(scaling.from - 1);
  if (method.mode == Mode::Nearest) {
    return {{static_cast<int64_t>(std::clamp(roundTo(method.rounding, at), 0.0, last)), 1}};
  }
  double stretch = method.antialiases ? std::max(1.0, 1 / scaling.scale) : 1, reach = stretch * reachOf(method.mode), sum = 0;
  SmallVector<Tap, 4> taps;
  for (double place = std::ceil(at - reach); place <= at + reach; ++place) {
    double weight = weightAt(method, (place - at) / stretch), inside = std::clamp(place, 0.0, last);
    if (weight == 0 || (method.excludesOutside && inside != place)) {
      continue;
    }
    sum += weight;
    if (!taps.empty() && taps.back().place == static_cast<int64_t>(inside)) {
      taps.back().weight += weight;
    } else {
      taps.push_back({static_cast<int64_t>(inside), weight});
    }
  }
  if ((method.antialiases || method.excludesOutside) && sum != 0) {
    for (Tap &tap : taps) {
      tap.weight /= sum;
    }
  }
  return taps;
}

// Pays for the elements that tapsAt() looks at.
void payForTaps(const Node &node, const Method &method, const Scaling &scaling) {
  double each = 2 * reachOf(method.mode) * (method.antialiases ? std::max(1.0, 1 / scaling.scale) : 1) + 1;
  node.spend(static_cast<int64_t>(std::min(each * static_cast<double>(scaling.to), 0x1p62)));
}

Value resizeDim(Node &node, Value value, int64_t dim, const Method &method, const Scaling &scaling) {
  std::vector<SmallVector<Tap, 4>> taps;
  size_t terms = 1;
  bool isIdentity = scaling.from == scaling.to, isPlain = true;
  payForTaps(node, method, scaling);
  for (int64_t i = 0; i < scaling.to; ++i) {
    double at = coordinateOf(method.coordinates, scaling, i);
    taps.push_back(isInside(method, scaling, at) ? tapsAt(method, scaling, at) : SmallVector<Tap, 4>());
    terms = std::max(terms, taps.back().size());
    isPlain = isPlain && (taps.back().empty() || (taps.back().size() == 1 && taps.back().front().weight == 1));
    isIdentity = isIdentity && isPlain && !taps.back().empty() && taps.back().front().place == i;
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

// Puts `method.extrapolation` where an element lies outside of the input along a dim: there is 0, for want of taps.
Value extrapolate(Node &node, Value value, const Method &method, ArrayRef<Scaling> scalings) {
  if (method.extrapolation == 0) {
    return value;
  }
  RankedTensorType type = typeOf(value), boolType = type.clone(node.builder().getI1Type());
  for (auto [dim, scaling] : llvm::enumerate(scalings)) {
    SmallVector<bool> inside;
    for (int64_t i = 0; i < scaling.to; ++i) {
      inside.push_back(isInside(method, scaling, coordinateOf(method.coordinates, scaling, i)));
    }
    if (!llvm::is_contained(inside, false)) {
      continue;
    }
    RankedTensorType alongType = boolType.clone({scaling.to});
    Value along = node.create<nn::ConstantOp>(alongType, DenseElementsAttr::get(alongType, inside));
    Value mask = node.create<nn::BroadcastOp>(boolType, along, ArrayRef<int64_t>{static_cast<int64_t>(dim)});
    value = node.create<nn::SelectOp>(type, mask, value, splatConstant(node, type, method.extrapolation));
  }
  return value;
}

void resize(Node &node, const Method &method, ArrayRef<Scaling> scalings) {
  Value input = node.input(0);
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
  Value numbers = element.isInteger(1) ? convertTo(node, input, node.builder().getI32Type()) : input, value = numbers;
  for (auto [dim, scaling] : llvm::enumerate(scalings)) {
    value = resizeDim(node, value, dim, method, scaling);
  }
  value = extrapolate(node, value, method, scalings);
  value == numbers ? node.aliasResult(0, 0) : node.setResult(0, convertTo(node, value, element));
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
                                                {"tf_half_pixel_for_nn", Coordinates::TfHalfPixel},
                                                {"tf_crop_and_resize", Coordinates::TfCropAndResize}});
  method.rounding = readChoice<Rounding>(node, "nearest_mode", "round_prefer_floor",
                                         {{"round_prefer_floor", Rounding::PreferFloor},
                                          {"round_prefer_ceil", Rounding::PreferCeil},
                                          {"floor", Rounding::Floor},
                                          {"ceil", Rounding::Ceil}});
  method.cubicA = node.getFloat("cubic_coeff_a", -0.75);
  method.excludesOutside = node.getInt("exclude_outside", 0) != 0;
  method.antialiases = node.getInt("antialias", 0) != 0;
  if (method.mode == Mode::Nearest && (method.excludesOutside || method.antialiases)) {
    node.fail("attribute \"" + Twine(method.antialiases ? "antialias" : "exclude_outside") +
              "\" is 1 with mode \"nearest\", which has no weights; leave it out, or use linear or cubic");
  }
  method.extrapolation = node.getFloat("extrapolation_value", 0);
  bool isWhole = std::abs(method.extrapolation) < 0x1p31 && std::trunc(method.extrapolation) == method.extrapolation;
  if (Type element = node.inputType(0).getElementType(); !isa<FloatType>(element) && !isWhole) {
    node.fail("attribute \"extrapolation_value\" is " + std::to_string(method.extrapolation) + ", no " + elementName(element));
  }
  return method;
}

// The part of each dim that tf_crop_and_resize takes: starts, then ends.
void readRegion(Node &node, ArrayRef<int64_t> axes, MutableArrayRef<Scaling> scalings) {
  if (!isThere(node, 1)) {
    node.fail("has no input \"roi\", which coordinate_transformation_mode \"tf_crop_and_resize\" needs");
  }
  SmallVector<double> region = floatsInput(node, 1, "roi");
  if (region.size() != 2 * axes.size()) {
    node.fail("input \"roi\" has " + Twine(region.size()) + " numbers for " + Twine(axes.size()) + " dims, which need " +
              Twine(2 * axes.size()));
  }
  for (auto [i, axis] : llvm::enumerate(axes)) {
    scalings[axis].start = region[i];
    scalings[axis].end = region[i + axes.size()];
  }
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
    if (llvm::is_contained(ArrayRef(axes).drop_back(), axes.back())) {
      node.fail("attribute \"axes\" names dim " + Twine(axes.back()) + " twice");
    }
  }
  axes = axes.empty() ? all : axes;
  std::string policy = node.getString("keep_aspect_ratio_policy", "stretch");
  node.hasInput(1); // other modes do not look at the region
  bool hasScales = isThere(node, 2), hasSizes = isThere(node, 3);
  if (hasScales == hasSizes) {
    node.fail(hasScales ? "has scales and sizes; leave one of them out" : "has neither scales nor sizes");
  }
  SmallVector<Scaling> scalings = hasScales ? byScales(node, shape, axes, floatsInput(node, 2, "scales"))
                                            : bySizes(node, shape, axes, node.intsInput(3, "sizes"), policy);
  if (method.coordinates == Coordinates::TfCropAndResize) {
    readRegion(node, axes, scalings);
  }
  resize(node, method, scalings);
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

constexpr RegistryRow kResizingRows[] = {{"Resize", importResize, Accepts::Any, /*knownFloats=*/0b110},
                                         {"Upsample", importUpsample, Accepts::Any, /*knownFloats=*/0b10}};

} // namespace

ArrayRef<RegistryRow> resizingRows() {
  return kResizingRows;
}

} // namespace ashlar::frontend
