// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms, as products with tables of angles that are known at import, and what is made of spectra.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Returns a constant of these elements, which are rounded to the type.
Value tableConstant(const Node &node, RankedTensorType type, ArrayRef<double> values) {
  if (type.getElementType().isF64()) {
    return node.create<nn::ConstantOp>(type, DenseElementsAttr::get(type, values));
  }
  SmallVector<float> rounded(values.begin(), values.end());
  return node.create<nn::ConstantOp>(type, DenseElementsAttr::get(type, ArrayRef<float>(rounded)));
}

// A transform of `inputs` elements, which are real or complex, to `outputs`. Element t of one and k of the other meet in e^(-2 pi i t k /
// N), or its conjugate, over N.
struct Transform {
  int64_t length, inputs, outputs; // length: N
  bool isInverse, isReal, isResultReal;

  int64_t rows() const { return inputs * (isReal ? 1 : 2); }
  int64_t columns() const { return outputs * (isResultReal ? 1 : 2); }

  // Returns the table (inputs * parts of one, outputs * parts of one).
  SmallVector<double> table() const {
    SmallVector<double> values;
    for (int64_t t = 0; t < inputs; ++t) {
      for (int64_t part = 0; part < (isReal ? 1 : 2); ++part) {
        for (int64_t k = 0; k < outputs; ++k) {
          // The product of indices is far below 2^63; its rest keeps angles exact.
          double angle = 2 * M_PI * static_cast<double>(t * k % length) / static_cast<double>(length), scale = 1;
          if (isInverse) {
            // A real result comes from half of its spectrum: what stands for two elements counts twice.
            scale = (isResultReal && t > 0 && 2 * t != length ? 2.0 : 1.0) / static_cast<double>(length);
            angle = -angle;
          }
          // (re + i im) (cos - i sin)
          double cos = scale * std::cos(angle), sin = scale * std::sin(angle);
          values.push_back(part == 0 ? cos : sin);
          if (!isResultReal) {
            values.push_back(part == 0 ? -sin : cos);
          }
        }
      }
    }
    return values;
  }
};

// Fails when a table is too large to be made now.
void checkTable(const Node &node, int64_t length, int64_t rows, int64_t columns) {
  constexpr int64_t kMost = int64_t{1} << 24;
  int64_t elements = 0;
  if (llvm::MulOverflow(rows, columns, elements) || elements > kMost) {
    node.fail("a transform of length " + Twine(length) + " takes a table of " + Twine(rows) + " by " + Twine(columns) +
              " numbers; at most " + Twine(kMost) + " are supported");
  }
}

// Returns the integer of an input that has to be known.
int64_t readScalar(Node &node, size_t index, StringRef name) {
  SmallVector<int64_t> values = node.intsInput(index, name);
  if (values.size() != 1) {
    node.fail("input \"" + name + "\" has " + Twine(values.size()) + " elements, not 1");
  }
  return values.front();
}

void importDft(Node &node) {
  RankedTensorType type = node.inputType(0);
  const int64_t rank = type.getRank(), parts = rank > 0 ? type.getShape().back() : 0;
  const bool isInverse = node.getInt("inverse", 0) != 0, isOnesided = node.getInt("onesided", 0) != 0;
  if (rank < 2 || (parts != 1 && parts != 2) || (isOnesided && parts != (isInverse ? 2 : 1))) {
    node.fail("input of " + describeTensor(type) + " with \"inverse\" " + Twine(isInverse ? 1 : 0) + " and \"onesided\" " +
              Twine(isOnesided ? 1 : 0) +
              "; its last dim is 1, real, or 2, complex; a onesided transform takes real numbers, its inverse " + "complex ones");
  }
  // Since opset 20 an input.
  int64_t axis = node.getOpset() < 20 ? node.getInt("axis", 1) : node.hasInput(2) ? readScalar(node, 2, "axis") : -2;
  axis = node.normalizeAxis(axis, rank);
  if (axis == rank - 1) {
    node.fail("axis " + Twine(axis) + " is that of the real and imaginary parts");
  }
  const int64_t given = type.getDimSize(axis);
  const int64_t length = node.hasInput(1) ? readScalar(node, 1, "dft_length") : isOnesided && isInverse ? 2 * (given - 1) : given;
  constexpr int64_t kMostLength = int64_t{1} << 30;
  if (length < 1 || length > kMostLength) {
    node.fail("dft_length is " + Twine(length) + ", not from 1 to " + Twine(kMostLength));
  }
  const bool isHalf = isOnesided && !isInverse, fromHalf = isOnesided && isInverse;
  Transform transform{length,  std::min(given, fromHalf ? length / 2 + 1 : length), isHalf ? length / 2 + 1 : length, isInverse, parts == 1,
                      fromHalf};
  checkTable(node, length, transform.rows(), transform.columns());
  // The axis beside the parts: one product.
  Value x = sliceAlong(node, widen(node, node.input(0)), axis, 0, transform.inputs);
  SmallVector<int64_t> axisLast = llvm::to_vector(llvm::seq<int64_t>(0, rank)), axisBack = axisLast;
  std::rotate(axisLast.begin() + axis, axisLast.begin() + axis + 1, axisLast.end() - 1);
  std::rotate(axisBack.begin() + axis, axisBack.end() - 2, axisBack.end() - 1);
  x = transpose(node, x, axisLast);
  SmallVector<int64_t> shape(shapeOf(x));
  const int64_t rows = llvm::product_of(ArrayRef(shape).drop_back(2));
  RankedTensorType tableType = typeOf(x).clone({transform.rows(), transform.columns()});
  Value table = tableConstant(node, tableType, transform.table());
  Value y = node.create<nn::MatMulOp>(reshape(node, x, {rows, transform.rows()}), table, /*transpose_a=*/false, /*transpose_b=*/false);
  shape[rank - 2] = transform.outputs;
  shape[rank - 1] = fromHalf ? 1 : 2;
  node.setResult(0, convertTo(node, transpose(node, reshape(node, y, shape), axisBack), type.getElementType()));
}

// A convolution of each signal with the waves of all frequencies, under the window.
void importStft(Node &node) {
  RankedTensorType signal = node.inputType(0);
  const bool isOnesided = node.getInt("onesided", 1) != 0;
  const int64_t parts = signal.getRank() == 3 ? signal.getDimSize(2) : 0;
  if (parts != 1 && (parts != 2 || isOnesided)) {
    node.fail("signal of " + describeTensor(signal) + " with \"onesided\" " + Twine(isOnesided ? 1 : 0) +
              "; it is (batch, length, 1), real, or, not onesided, (batch, length, 2), complex");
  }
  const int64_t step = readScalar(node, 1, "frame_step"), batch = signal.getDimSize(0), length = signal.getDimSize(1);
  const bool hasWindow = node.hasInput(2);
  RankedTensorType window = hasWindow ? node.inputType(2) : RankedTensorType();
  const int64_t frame = node.hasInput(3)                     ? readScalar(node, 3, "frame_length")
                        : hasWindow && window.getRank() == 1 ? window.getDimSize(0)
                                                             : length;
  if (hasWindow && window != signal.clone({frame})) {
    node.fail("window of " + describeTensor(window) + " for frames of " + Twine(frame) + " and a signal of " + describeTensor(signal));
  }
  if (frame < 1 || frame > length || step < 1 || step > std::numeric_limits<int32_t>::max()) {
    node.fail("frames of " + Twine(frame) + ", one each " + Twine(step) + ", do not fit into a signal of " + describeTensor(signal));
  }
  const int64_t frequencies = isOnesided ? frame / 2 + 1 : frame;
  Transform transform{frame, frame, frequencies, /*isInverse=*/false, /*isReal=*/parts == 1, /*isResultReal=*/false};
  checkTable(node, frame, transform.rows(), transform.columns());
  // (batch, parts, length) by (frequencies * 2, parts, frame)
  Value x = widen(node, node.input(0));
  RankedTensorType type = typeOf(x);
  Value table = tableConstant(node, type.clone({transform.rows(), transform.columns()}), transform.table());
  Value waves = transpose(node, reshape(node, table, {frame, parts, frequencies * 2}), {2, 1, 0});
  if (hasWindow) {
    Value repeated = node.create<nn::BroadcastOp>(typeOf(waves), widen(node, node.input(2)), ArrayRef<int64_t>{2});
    waves = node.create<nn::MulOp>(waves, repeated);
  }
  const int64_t frames = (length - frame) / step + 1, covered = (frames - 1) * step + frame;
  x = transpose(node, sliceAlong(node, x, 1, 0, covered), {0, 2, 1});
  auto along = nn::WindowAttr::get(node.builder().getContext(), frame, step, /*dilation=*/1, /*low=*/0, /*high=*/0);
  Value y = node.create<nn::ConvOp>(type.clone({batch, frequencies * 2, frames}), x, waves, node.builder().getArrayAttr({along}),
                                    /*channels_last=*/false, /*weights_last=*/false);
  y = reshape(node, transpose(node, y, {0, 2, 1}), {batch, frames, frequencies, 2});
  node.setResult(0, convertTo(node, y, signal.getElementType()));
}

// Triangles between neighbours of bins that are equally far apart on the mel scale, mel(f) = 2595 log10(1 + f / 700).
void importMelWeightMatrix(Node &node) {
  const int64_t bands = readScalar(node, 0, "num_mel_bins"), length = readScalar(node, 1, "dft_length"),
                rate = readScalar(node, 2, "sample_rate");
  std::optional<double> low = splatInput(node, 3), high = splatInput(node, 4);
  if (!low || !high) {
    node.fail("inputs \"lower_edge_hertz\" and \"upper_edge_hertz\" have to be scalars known at compile time");
  }
  constexpr int64_t kMost = int64_t{1} << 24;
  if (bands < 1 || length < 1 || rate < 1 || bands > kMost || length > kMost || bands * (length / 2 + 1) > kMost || !(*low >= 0) ||
      !(*high >= *low) || !(*high <= static_cast<double>(rate) / 2)) {
    node.fail("no matrix of " + Twine(bands) + " bands from " + std::to_string(*low) + " to " + std::to_string(*high) +
              " hertz for a transform of length " + Twine(length) + " at " + Twine(rate) +
              " samples a second; bands and length are positive " + "and the edges in order, from 0 to half the rate");
  }
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  SmallVector<int64_t> bins;
  for (int64_t i = 0; i < bands + 2; ++i) {
    double at = mel(*low) + (mel(*high) - mel(*low)) / static_cast<double>(bands + 2) * static_cast<double>(i);
    double hertz = 700 * (std::pow(10, at / 2595) - 1);
    bins.push_back(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  const int64_t rows = length / 2 + 1;
  SmallVector<double> values(rows * bands, 0);
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t left = bins[band], centre = bins[band + 1], right = bins[band + 2];
    for (int64_t row = left; row < right; ++row) {
      values[row * bands + band] = row < centre ? static_cast<double>(row - left) / static_cast<double>(centre - left)
                                                : static_cast<double>(right - row) / static_cast<double>(right - centre);
    }
    values[std::min(centre, rows - 1) * bands + band] = 1;
  }
  Type element = node.getElementType("output_datatype", node.builder().getF32Type());
  Value matrix = tableConstant(node, RankedTensorType::get({rows, bands}, node.builder().getF64Type()), values);
  node.setResult(0, convertTo(node, matrix, element));
}

constexpr RegistryRow kSpectrumRows[] = {{"DFT", importDft, Accepts::Floats},
                                         {"MelWeightMatrix", importMelWeightMatrix},
                                         {"STFT", importStft, Accepts::Floats, /*knownFloats=*/1 << 2}};

} // namespace

ArrayRef<RegistryRow> spectrumRows() {
  return kSpectrumRows;
}

} // namespace ashlar::frontend
