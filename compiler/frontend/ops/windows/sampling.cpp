// SPDX-License-Identifier: Apache-2.0
//
// Images sampled at places that are computed: GridSample and RoiAlign, and AffineGrid, which computes such places. Elements are rows of a
// table, so that nn.gather finds them; a row that is none gives 0.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

enum class Padding { Zeros, Border, Reflection };

// One dim of the image as the places see it.
class Coordinate {
public:
  // `at` is from -1 to 1: from the centre of the first pixel to that of the last with `alignCorners`, else from edge to edge.
  Coordinate(const Node &node, Value at, int64_t size, Padding padding, bool alignCorners)
      : node(node), type(typeOf(at)), size(size), padding(padding), low(alignCorners ? 0 : -0.5), high(size - 1 - low) {
    x = times(plus(at, 1), (high - low) / 2);
    x = low == 0 ? x : plus(x, low);
  }

  void round() { x = node.create<nn::RoundOp>(x); }

  // Brings x inside, unless padding is zeros.
  void bringInside() {
    if (padding != Padding::Zeros) {
      Value isOutside = node.create<nn::OrOp>(compareWith(nn::Predicate::Lt, x, low), compareWith(nn::Predicate::Gt, x, high));
      x = node.create<nn::SelectOp>(type, isOutside, inside(x), x);
    }
  }

  // A pixel that counts, with its weight; null: 1.
  struct Tap {
    Value index, isThere, weight; // isThere: null for always
  };

  // Returns the pixels `first`, ..., `last` counted from that at or before x, by weights of the distance.
  SmallVector<Tap> taps(int64_t first, int64_t last, function_ref<Value(Value distance, int64_t tap)> weightOf) {
    Value before = node.create<nn::FloorOp>(x), distance = node.create<nn::SubOp>(x, before);
    SmallVector<Tap> result;
    for (int64_t tap = first; tap <= last; ++tap) {
      Tap &added = result.emplace_back();
      Value pixel = tap == 0 ? before : plus(before, static_cast<double>(tap));
      if (padding == Padding::Zeros) {
        added.isThere = node.create<nn::AndOp>(compareWith(nn::Predicate::Ge, pixel, 0),
                                               compareWith(nn::Predicate::Le, pixel, static_cast<double>(size - 1)));
        pixel = node.create<nn::SelectOp>(type, added.isThere, pixel, splatConstant(node, type, 0));
      } else {
        pixel = inside(pixel);
      }
      added.index = convertTo(node, pixel, node.builder().getI64Type());
      added.weight = weightOf ? weightOf(distance, tap) : Value();
    }
    return result;
  }

private:
  Value plus(Value value, double addend) const { return node.create<nn::AddOp>(value, splatConstant(node, type, addend)); }
  Value times(Value value, double factor) const { return node.create<nn::MulOp>(value, splatConstant(node, type, factor)); }
  Value compareWith(nn::Predicate predicate, Value value, double bound) const {
    return compare(node, predicate, value, splatConstant(node, type, bound));
  }

  // Returns the place inside the image that stands for one outside: the nearest pixel, or where reflections at the edges lead to.
  Value inside(Value place) const {
    const double range = high - low;
    if (padding == Padding::Border || range == 0) {
      return node.create<nn::MinOp>(node.create<nn::MaxOp>(place, splatConstant(node, type, 0)),
                                    splatConstant(node, type, static_cast<double>(size - 1)));
    }
    Value distance = node.create<nn::AbsOp>(plus(place, -low));
    Value rounds = node.create<nn::FloorOp>(times(distance, 0.5 / range)); // there and back again
    Value rest = node.create<nn::SubOp>(distance, times(rounds, 2 * range));
    Value back = node.create<nn::SubOp>(splatConstant(node, type, 2 * range), rest);
    return plus(node.create<nn::MinOp>(rest, back), low);
  }

  const Node &node;
  RankedTensorType type;
  int64_t size;
  Padding padding;
  double low, high; // the edges
  Value x;          // in pixels
};

// Weights of the pixels before and after a place.
Value linearWeight(const Node &node, Value distance, int64_t tap) {
  return tap == 1 ? distance : node.create<nn::SubOp>(splatConstant(node, typeOf(distance), 1), distance).getResult();
}

// Keys' convolution with a = -0.75, of the four pixels around a place.
Value cubicWeight(const Node &node, Value distance, int64_t tap) {
  constexpr double a = -0.75;
  RankedTensorType type = typeOf(distance);
  auto plus = [&](Value x, double addend) { return node.create<nn::AddOp>(x, splatConstant(node, type, addend)).getResult(); };
  auto times = [&](Value x, Value y) { return node.create<nn::MulOp>(x, y).getResult(); };
  auto scaled = [&](Value x, double factor) { return times(x, splatConstant(node, type, factor)); };
  Value x = tap <= 0 ? plus(distance, static_cast<double>(-tap)) : plus(scaled(distance, -1), static_cast<double>(tap)); // how far away
  if (tap == 0 || tap == 1) {
    return plus(times(times(plus(scaled(x, a + 2), -(a + 3)), x), x), 1);
  }
  return plus(times(plus(times(plus(scaled(x, a), -5 * a), x), 8 * a), x), -4 * a);
}

std::string readChoice(Node &node, StringRef name, StringRef byDefault, ArrayRef<StringRef> choices) {
  std::string value = node.getString(name, byDefault);
  if (!llvm::is_contained(choices, value)) {
    node.fail("attribute \"" + name + "\" is \"" + value + "\"; one of " + llvm::join(choices, ", "));
  }
  return value;
}

// Element i of the last dim, without it.
Value lastAt(const Node &node, Value value, int64_t i) {
  int64_t last = typeOf(value).getRank() - 1;
  return reshape(node, sliceAlong(node, value, last, i, i + 1), shapeOf(value).drop_back());
}

class GridSample {
public:
  explicit GridSample(Node &node) : node(node), image(node.inputType(0)), spatial(image.getRank() - 2) {
    const bool isOld = node.getOpset() < 20;
    StringRef linear = isOld ? "bilinear" : "linear", cubic = isOld ? "bicubic" : "cubic";
    std::string mode = readChoice(node, "mode", linear, {linear, "nearest", cubic});
    isNearest = mode == "nearest";
    isCubic = mode == cubic;
    std::string paddingName = readChoice(node, "padding_mode", "zeros", {"zeros", "border", "reflection"});
    padding = paddingName == "zeros" ? Padding::Zeros : paddingName == "border" ? Padding::Border : Padding::Reflection;
    alignCorners = node.getInt("align_corners", 0) != 0;
    RankedTensorType grid = node.inputType(1);
    if (spatial < 1 || spatial > 3 || grid.getRank() != image.getRank() || grid.getDimSize(0) != image.getDimSize(0) ||
        grid.getShape().back() != spatial || !isa<FloatType>(grid.getElementType()) || image.getNumElements() == 0) {
      node.fail("X of " + describeTensor(image) + " and grid of " + describeTensor(grid) +
                " do not fit; X is (N, C, D1, ...), grid (N, E1, ..., r) with its r spatial dims, 1 to 3, none of them empty");
    }
  }

  void build() {
    Value grid = widen(node, node.input(1));
    places.assign(shapeOf(grid).begin(), shapeOf(grid).end() - 1);
    std::vector<SmallVector<Coordinate::Tap>> dims;
    for (int64_t d = 0; d < spatial; ++d) {
      Coordinate x(node, lastAt(node, grid, spatial - 1 - d), image.getDimSize(2 + d), padding, alignCorners); // x before y
      if (isNearest) {
        x.round();
      }
      x.bringInside();
      auto weight = [&](Value distance, int64_t tap) { return (isCubic ? cubicWeight : linearWeight)(node, distance, tap); };
      dims.push_back(isNearest ? x.taps(0, 0, nullptr) : isCubic ? x.taps(-1, 2, weight) : x.taps(0, 1, weight));
    }
    SmallVector<int64_t> channelsLast = {0}, channelsSecond = {0, spatial + 1};
    for (int64_t d = 0; d < spatial; ++d) {
      channelsLast.push_back(2 + d);
      channelsSecond.push_back(1 + d);
    }
    channelsLast.push_back(1);
    const int64_t channels = image.getDimSize(1), pixels = llvm::product_of(image.getShape().drop_front(2));
    table = reshape(node, transpose(node, widen(node, node.input(0)), channelsLast), {image.getDimSize(0), pixels, channels});
    addTaps(dims, {});
    node.setResult(0, convertTo(node, transpose(node, sum, channelsSecond), image.getElementType()));
  }

private:
  // Adds up the pixels of all choices of a tap in each dim.
  void addTaps(ArrayRef<SmallVector<Coordinate::Tap>> dims, SmallVector<Coordinate::Tap> chosen) {
    if (chosen.size() < dims.size()) {
      for (const Coordinate::Tap &tap : dims[chosen.size()]) {
        chosen.push_back(tap);
        addTaps(dims, chosen);
        chosen.pop_back();
      }
      return;
    }
    auto type = RankedTensorType::get(places, node.builder().getI64Type());
    Value rows, isThere, weight;
    for (auto [tap, stride] : llvm::zip_equal(chosen, rowMajorStrides(image.getShape().drop_front(2)))) {
      Value part = node.create<nn::MulOp>(tap.index, splatConstant(node, type, static_cast<double>(stride)));
      rows = rows ? node.create<nn::AddOp>(rows, part).getResult() : part;
      isThere = isThere && tap.isThere ? node.create<nn::AndOp>(isThere, tap.isThere).getResult() : tap.isThere;
      weight = weight && tap.weight ? node.create<nn::MulOp>(weight, tap.weight).getResult() : tap.weight;
    }
    if (isThere) {
      rows = node.create<nn::SelectOp>(type, isThere, rows, splatConstant(node, type, -1));
    }
    Value pixels = node.create<nn::GatherOp>(table, rows, /*batch_dims=*/1);
    if (weight) {
      weight = convertTo(node, weight, typeOf(pixels).getElementType());
      Value repeated =
          node.create<nn::BroadcastOp>(typeOf(pixels), weight, llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(places.size()))));
      pixels = node.create<nn::MulOp>(pixels, repeated);
    }
    sum = sum ? node.create<nn::AddOp>(sum, pixels).getResult() : pixels;
  }

  Node &node;
  RankedTensorType image; // (N, C, D1, ...)
  int64_t spatial;
  bool isNearest, isCubic, alignCorners;
  Padding padding;
  SmallVector<int64_t> places; // (N, E1, ...)
  Value table;                 // (N, D1 * ..., C)
  Value sum;                   // (N, E1, ..., C)
};

void importGridSample(Node &node) {
  GridSample(node).build();
}

// theta (N, r, r + 1) times the places (x, y, 1) of all pixels, which are from -1 to 1 in each dim.
void importAffineGrid(Node &node) {
  RankedTensorType theta = node.inputType(0);
  SmallVector<int64_t> size = node.intsInput(1, "size");
  const bool alignCorners = node.getInt("align_corners", 0) != 0;
  const int64_t spatial = static_cast<int64_t>(size.size()) - 2;
  if ((spatial != 2 && spatial != 3) || theta.getShape() != ArrayRef<int64_t>({size[0], spatial, spatial + 1}) ||
      llvm::any_of(size, [](int64_t n) { return n < 1; })) {
    std::string sizes = llvm::join(llvm::map_range(size, [](int64_t n) { return std::to_string(n); }), ", ");
    node.fail("theta of " + describeTensor(theta) + " and size [" + sizes + "] do not fit; theta is (N, 2, 3) with size (N, C, H, W), or " +
              "(N, 3, 4) with (N, C, D, H, W)");
  }
  const ArrayRef<int64_t> dims = ArrayRef(size).drop_front(2);
  SmallVector<int64_t> shape(dims);
  shape.push_back(spatial);
  node.checkSize(shape, theta.getElementType());
  Value matrices = widen(node, node.input(0));
  RankedTensorType columnType = typeOf(matrices).clone(dims);
  SmallVector<int64_t> columnShape(dims);
  columnShape.push_back(1);
  SmallVector<Value> columns;
  for (int64_t d = spatial - 1; d >= 0; --d) {
    SmallVector<int64_t> strides(spatial, 0);
    strides[d] = 1;
    Value index = node.create<nn::IndexOp>(columnType.clone(node.builder().getI64Type()), strides);
    const double step = alignCorners ? (dims[d] > 1 ? 2.0 / static_cast<double>(dims[d] - 1) : 0) : 2.0 / static_cast<double>(dims[d]);
    const double first = alignCorners ? (dims[d] > 1 ? -1 : 0) : step / 2 - 1;
    Value at = node.create<nn::MulOp>(convertTo(node, index, columnType.getElementType()), splatConstant(node, columnType, step));
    at = node.create<nn::AddOp>(at, splatConstant(node, columnType, first));
    columns.push_back(reshape(node, at, columnShape));
  }
  columns.push_back(splatConstant(node, columnType.clone(columnShape), 1));
  const int64_t pixels = columnType.getNumElements();
  Value places = reshape(node, node.create<nn::ConcatOp>(columns, /*dim=*/spatial), {pixels, spatial + 1});
  Value rows = reshape(node, matrices, {size[0] * spatial, spatial + 1});
  Value moved = node.create<nn::MatMulOp>(rows, places, /*transpose_a=*/false, /*transpose_b=*/true); // (N * r, pixels)
  moved = transpose(node, reshape(node, moved, {size[0], spatial, pixels}), {0, 2, 1});
  shape.insert(shape.begin(), size[0]);
  node.setResult(0, convertTo(node, reshape(node, moved, shape), theta.getElementType()));
}

// A dim of the samples of regions: at each place the pixels before and after it, with their weights, which are 0 where the place is off the
// image by more than a pixel.
struct RegionTaps {
  RegionTaps(const Node &node, Value at, int64_t size) {
    RankedTensorType type = typeOf(at);
    auto constant = [&](double value) { return splatConstant(node, type, value); };
    Value last = constant(static_cast<double>(size - 1));
    Value isNear = node.create<nn::AndOp>(compare(node, nn::Predicate::Ge, at, constant(-1)),
                                          compare(node, nn::Predicate::Le, at, constant(static_cast<double>(size))));
    at = node.create<nn::MinOp>(node.create<nn::MaxOp>(at, constant(0)), last);
    Value before = node.create<nn::FloorOp>(at), distance = node.create<nn::SubOp>(at, before);
    Value after = node.create<nn::MinOp>(node.create<nn::AddOp>(before, constant(1)), last);
    for (auto [pixel, weight] : {std::pair(before, linearWeight(node, distance, 0)), std::pair(after, linearWeight(node, distance, 1))}) {
      indices.push_back(convertTo(node, pixel, node.builder().getI64Type()));
      weights.push_back(node.create<nn::SelectOp>(type, isNear, weight, constant(0)));
    }
  }

  SmallVector<Value> indices, weights;
};

// Regions (x1, y1, x2, y2) of images, each cut into bins; a bin is the mean, or the maximum, of samples inside it.
class RoiAlign {
public:
  explicit RoiAlign(Node &node) : node(node), image(node.inputType(0)), regions(node.inputType(1)) {
    RankedTensorType numbers = node.inputType(2);
    if (image.getRank() != 4 || image.getNumElements() == 0 || regions.getRank() != 2 || regions.getDimSize(1) != 4 ||
        regions.getElementType() != image.getElementType() || !numbers.getElementType().isInteger(64) ||
        numbers.getShape() != regions.getShape().take_front(1)) {
      node.fail("X of " + describeTensor(image) + ", rois of " + describeTensor(regions) + " and batch_indices of " +
                describeTensor(numbers) +
                " do not fit; X is (N, C, H, W), not empty, rois (regions, 4) of its type, batch_indices (regions) of int64");
    }
    isMax = readChoice(node, "mode", "avg", {"avg", "max"}) == "max";
    isHalfPixel = node.getOpset() >= 16 &&
                  readChoice(node, "coordinate_transformation_mode", "half_pixel", {"half_pixel", "output_half_pixel"}) == "half_pixel";
    scale = node.getFloat("spatial_scale", 1);
    samples = node.getInt("sampling_ratio", 0);
    bins[0] = node.getInt("output_height", 1);
    bins[1] = node.getInt("output_width", 1);
    constexpr int64_t kMost = 1 << 20;
    if (samples < 1 || samples > kMost) {
      node.fail("attribute \"sampling_ratio\" is " + Twine(samples) +
                "; a number of samples from 1 on is supported, not one that depends on " + "the region");
    }
    if (bins[0] < 1 || bins[1] < 1 || bins[0] > kMost || bins[1] > kMost) {
      node.fail("has " + Twine(bins[0]) + " by " + Twine(bins[1]) + " bins; from 1 to " + Twine(kMost) + " are supported");
    }
  }

  void build() {
    const int64_t count = regions.getDimSize(0), channels = image.getDimSize(1), height = image.getDimSize(2), width = image.getDimSize(3);
    const SmallVector<int64_t> places = {count, bins[0] * samples, bins[1] * samples};
    node.checkSize({count, bins[0] * samples, bins[1] * samples, channels}, node.builder().getF32Type());
    RegionTaps rows(node, placesAlong(1), height), columns(node, placesAlong(0), width);
    Value table = reshape(node, transpose(node, widen(node, node.input(0)), {0, 2, 3, 1}), {image.getNumElements() / channels, channels});
    auto indexType = RankedTensorType::get(places, node.builder().getI64Type());
    auto scaled = [&](Value index, int64_t factor, ArrayRef<int64_t> dims) {
      Value repeated = node.create<nn::BroadcastOp>(indexType, index, dims);
      return node.create<nn::MulOp>(repeated, splatConstant(node, indexType, static_cast<double>(factor))).getResult();
    };
    Value image = scaled(node.input(2), height * width, {0}), all;
    for (auto [row, rowWeight] : llvm::zip_equal(rows.indices, rows.weights)) {
      for (auto [column, columnWeight] : llvm::zip_equal(columns.indices, columns.weights)) {
        Value index = node.create<nn::AddOp>(node.create<nn::AddOp>(image, scaled(row, width, {0, 1})), scaled(column, 1, {0, 2}));
        Value pixels = node.create<nn::GatherOp>(table, index);
        auto repeated = [&](Value weight, ArrayRef<int64_t> dims) {
          return node.create<nn::BroadcastOp>(typeOf(pixels), convertTo(node, weight, typeOf(pixels).getElementType()), dims).getResult();
        };
        Value weight = node.create<nn::MulOp>(repeated(rowWeight, {0, 1}), repeated(columnWeight, {0, 2}));
        pixels = node.create<nn::MulOp>(pixels, weight);
        all = !all ? pixels : isMax ? node.create<nn::MaxOp>(all, pixels).getResult() : node.create<nn::AddOp>(all, pixels).getResult();
      }
    }
    Value byBin = reshape(node, all, {count, bins[0], samples, bins[1], samples, channels});
    Value result = reduce(node, isMax ? Reduction::Max : Reduction::Sum, byBin, {2, 4});
    if (!isMax) {
      result = node.create<nn::MulOp>(result, splatConstant(node, typeOf(result), 1.0 / static_cast<double>(samples * samples)));
    }
    node.setResult(0, convertTo(node, transpose(node, result, {0, 3, 1, 2}), this->image.getElementType()));
  }

private:
  // Returns the places of all samples along x (0) or y (1), (regions, bins * samples).
  Value placesAlong(int64_t axis) {
    Value corners = widen(node, node.input(1));
    RankedTensorType type = typeOf(corners).clone({regions.getDimSize(0)});
    auto constant = [&](double value) { return splatConstant(node, type, value); };
    auto corner = [&](int64_t i) {
      Value at = node.create<nn::MulOp>(lastAt(node, corners, i), constant(scale));
      return isHalfPixel ? node.create<nn::SubOp>(at, constant(0.5)).getResult() : at;
    };
    Value begin = corner(axis), size = node.create<nn::SubOp>(corner(axis + 2), begin);
    size = isHalfPixel ? size : node.create<nn::MaxOp>(size, constant(1)).getResult();
    const int64_t count = bins[1 - axis] * samples;
    RankedTensorType places = type.clone({type.getDimSize(0), count});
    Value index = node.create<nn::IndexOp>(places.clone(node.builder().getI64Type()), ArrayRef<int64_t>{0, 1});
    Value at = node.create<nn::AddOp>(convertTo(node, index, type.getElementType()), splatConstant(node, places, 0.5));
    at = node.create<nn::MulOp>(at, splatConstant(node, places, 1.0 / static_cast<double>(count)));
    at = node.create<nn::MulOp>(at, node.create<nn::BroadcastOp>(places, size, ArrayRef<int64_t>{0}));
    return node.create<nn::AddOp>(at, node.create<nn::BroadcastOp>(places, begin, ArrayRef<int64_t>{0}));
  }

  Node &node;
  RankedTensorType image, regions;
  bool isMax, isHalfPixel;
  double scale;
  int64_t samples, bins[2]; // along y and x
};

void importRoiAlign(Node &node) {
  RoiAlign(node).build();
}

constexpr RegistryRow kSamplingRows[] = {{"AffineGrid", importAffineGrid, Accepts::Floats},
                                         {"GridSample", importGridSample, Accepts::Floats},
                                         {"RoiAlign", importRoiAlign, Accepts::Floats}};

} // namespace

ArrayRef<RegistryRow> samplingRows() {
  return kSamplingRows;
}

} // namespace ashlar::frontend
