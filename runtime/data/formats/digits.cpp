// SPDX-License-Identifier: Apache-2.0
//
// The digits generator: glyphs of 5 x 7 cells, drawn 28 x 28 under a random affine map (scale, rotation, shear, shift), with random stroke
// width, brightness and noise. Sample i shows the digit i mod 10, so every ten samples in a row hold each digit once. All of it follows
// from the sample's index by Philox; a sample is drawn when it is first read and kept.

#include "runtime/base/philox.h"
#include "runtime/data/dataset.h"
#include "runtime/data/streams.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

namespace ashlar::rt {

namespace {

constexpr int kSize = 28, kPixels = kSize * kSize;
constexpr int kGlyphWidth = 5, kGlyphHeight = 7;

constexpr const char *kGlyphs[10] = {
    ".###."
    "#...#"
    "#...#"
    "#...#"
    "#...#"
    "#...#"
    ".###.", // 0
    "..#.."
    ".##.."
    "..#.."
    "..#.."
    "..#.."
    "..#.."
    ".###.", // 1
    ".###."
    "#...#"
    "....#"
    "...#."
    "..#.."
    ".#..."
    "#####", // 2
    ".###."
    "#...#"
    "....#"
    "..##."
    "....#"
    "#...#"
    ".###.", // 3
    "...#."
    "..##."
    ".#.#."
    "#..#."
    "#####"
    "...#."
    "...#.", // 4
    "#####"
    "#...."
    "####."
    "....#"
    "....#"
    "#...#"
    ".###.", // 5
    "..##."
    ".#..."
    "#...."
    "####."
    "#...#"
    "#...#"
    ".###.", // 6
    "#####"
    "....#"
    "...#."
    "..#.."
    "..#.."
    ".#..."
    ".#...", // 7
    ".###."
    "#...#"
    "#...#"
    ".###."
    "#...#"
    "#...#"
    ".###.", // 8
    ".###."
    "#...#"
    "#...#"
    ".####"
    "....#"
    "...#."
    ".##..", // 9
};

// The map from a pixel to the glyph's cells, and how a stroke looks.
struct Pose {
  float uX, uY, u0; // u = uX x + uY y + u0, the column of the glyph
  float vX, vY, v0; // likewise v, its row
  float threshold;  // coverage from which a pixel counts as stroke: small is thick
  float brightness, noise;
};

// Returns a number in [low, high) out of 16 bits.
float between(float low, float high, uint32_t bits) {
  return low + (high - low) * static_cast<float>(bits & 0xffff) * 0x1p-16f;
}

Pose poseOf(uint64_t index) {
  const PhiloxWords a = philoxWords(kGeneratorSeed, kDigitStream, 0, index), b = philoxWords(kGeneratorSeed, kDigitStream, 1, index);
  const float width = between(2.2f, 3.2f, a[0]), height = between(2.3f, 3.2f, a[0] >> 16); // pixels a cell
  const float angle = between(-0.25f, 0.25f, a[1]), shear = between(-0.25f, 0.25f, a[1] >> 16);
  const float x0 = 13.5f + between(-2.5f, 2.5f, a[2]), y0 = 13.5f + between(-2.5f, 2.5f, a[2] >> 16);
  Pose pose;
  const float cosine = std::cos(angle), sine = std::sin(angle);
  pose.vX = -sine / height;
  pose.vY = cosine / height;
  pose.uX = cosine / width + shear * pose.vX;
  pose.uY = sine / width + shear * pose.vY;
  pose.u0 = 0.5f * (kGlyphWidth - 1) - pose.uX * x0 - pose.uY * y0;
  pose.v0 = 0.5f * (kGlyphHeight - 1) - pose.vX * x0 - pose.vY * y0;
  pose.threshold = between(0.2f, 0.45f, a[3]);
  pose.brightness = between(110, 255, a[3] >> 16);
  pose.noise = between(10, 70, b[0]);
  return pose;
}

// Returns the coverage of cell (column, row), 0 outside of the glyph.
float cell(const char *glyph, int column, int row) {
  const bool inside = column >= 0 && column < kGlyphWidth && row >= 0 && row < kGlyphHeight;
  return inside && glyph[row * kGlyphWidth + column] == '#' ? 1.0f : 0.0f;
}

// Returns the coverage at a place between cells, bilinear.
float coverage(const char *glyph, float u, float v) {
  if (u <= -1 || u >= kGlyphWidth || v <= -1 || v >= kGlyphHeight) {
    return 0;
  }
  const float left = std::floor(u), top = std::floor(v);
  const int column = static_cast<int>(left), row = static_cast<int>(top);
  const float right = u - left, below = v - top;
  const float upper = cell(glyph, column, row) * (1 - right) + cell(glyph, column + 1, row) * right;
  const float lower = cell(glyph, column, row + 1) * (1 - right) + cell(glyph, column + 1, row + 1) * right;
  return upper * (1 - below) + lower * below;
}

void draw(int digit, uint64_t index, uint8_t *pixels) {
  const Pose pose = poseOf(index);
  PhiloxWords random = {};
  for (int i = 0; i < kPixels; ++i) {
    const float x = static_cast<float>(i % kSize), y = static_cast<float>(i / kSize);
    const float covered = coverage(kGlyphs[digit], pose.uX * x + pose.uY * y + pose.u0, pose.vX * x + pose.vY * y + pose.v0);
    const float stroke = std::clamp((covered - pose.threshold) * 4 + 0.5f, 0.0f, 1.0f);
    if (i % 8 == 0) {
      random = philoxWords(kGeneratorSeed, kDigitNoiseStream, static_cast<uint32_t>(i), index);
    }
    // The sum of two bytes: triangular, centred on 0, in [-1, 1].
    const uint32_t bits = random[i % 8 / 2] >> (i % 2 * 16);
    const float noise = (static_cast<float>((bits & 255) + (bits >> 8 & 255)) - 255) / 255;
    pixels[i] = static_cast<uint8_t>(std::clamp(pose.brightness * stroke + pose.noise * noise, 0.0f, 255.0f));
  }
}

class DigitsDataset final : public Dataset {
public:
  // The eval split continues the numbering of the train split, so the two share no sample.
  DigitsDataset(uint64_t count, uint64_t firstIndex)
      : allColumns({{"image", ASHLAR_RT_U8, {kSize, kSize}}, {"label", ASHLAR_RT_U8, {}}}), count(count), firstIndex(firstIndex),
        images(count * kPixels), labels(count), states(count) {
    for (uint64_t i = 0; i < count; ++i) {
      labels[i] = static_cast<uint8_t>(i % 10);
    }
  }

  uint64_t samples() const override { return count; }
  const std::vector<Column> &columns() const override { return allColumns; }
  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    const uint64_t sample = which.sample;
    if (column == 1) {
      return &labels[sample];
    }
    uint8_t *image = &images[sample * kPixels];
    std::atomic<State> &state = states[sample];
    State found = State::kBlank;
    if (state.load(std::memory_order_acquire) == State::kDrawn) {
      return image;
    }
    if (state.compare_exchange_strong(found, State::kBegun, std::memory_order_acquire)) {
      draw(labels[sample], firstIndex + sample, image);
      state.store(State::kDrawn, std::memory_order_release);
    }
    while (state.load(std::memory_order_acquire) != State::kDrawn) { // by another thread
      std::this_thread::yield();
    }
    return image;
  }

private:
  enum class State : uint8_t { kBlank, kBegun, kDrawn }; // of an image

  std::vector<Column> allColumns;
  uint64_t count, firstIndex;
  std::vector<uint8_t> images, labels;
  std::vector<std::atomic<State>> states;
};

} // namespace

Status openDigits(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  // An index of its own for every sample of both splits, whatever their sizes are.
  constexpr uint64_t evalIndex = uint64_t{1} << 40;
  if (split == Split::kTrain) {
    dataset = std::make_unique<DigitsDataset>(description.train_samples, 0);
  } else {
    dataset = std::make_unique<DigitsDataset>(description.eval_samples, evalIndex);
  }
  return {};
}

const DataFormat ASHLAR_RT_COMPONENT(data_digits) = {"digits", openDigits, /*isGenerated=*/true};

} // namespace ashlar::rt
