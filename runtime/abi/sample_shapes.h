// SPDX-License-Identifier: Apache-2.0
//
// The effect of transforms on the shape of a sample, and their valid order. The compiler checks where it knows the shape of a column, the
// runtime once the files are open, so both agree.

#ifndef ASHLAR_RUNTIME_ABI_SAMPLE_SHAPES_H
#define ASHLAR_RUNTIME_ABI_SAMPLE_SHAPES_H

#include "runtime/abi/ashlar_rt.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::rt {

// A sample on its way through the transforms of a feature.
struct SampleShape {
  std::vector<int64_t> dims;
  bool isKnown = true; // false: files that are not there yet decide; then only the order of transforms is checked
  std::string image;   // the last transform that only images have; "": none so far
  bool hasChannelsFirst = false;
  bool isOneHot = false;

  // Whether the sample has channels: (height, width, channels), or (channels, height, width) behind hwc2chw.
  bool hasChannels() const { return dims.size() == 3; }
  int64_t channels() const { return hasChannelsFirst ? dims[0] : dims[2]; }
};

// Returns a shape as errors print it: "(60000, 28, 28)", "(5,)", "()".
inline std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

// Returns the number of elements of a shape, 1 for rank 0.
inline int64_t numElements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

// Returns a shape without its dims of size 1, which order no elements.
inline std::vector<int64_t> withoutOnes(const std::vector<int64_t> &shape) {
  std::vector<int64_t> rest;
  for (int64_t dim : shape) {
    if (dim != 1) {
      rest.push_back(dim);
    }
  }
  return rest;
}

// Returns the fault of samples of shape `found` that go to a tensor of shape `wanted`; "" where elements of one are the other's in
// row-major order: both have the same dims, leaving out dims of size 1, or one of the two has a single dim. So (28, 28) fits (1, 28, 28)
// and (784,), and (32, 32, 3) does not fit (3, 32, 32), though it has as many elements.
inline std::string sampleFault(const std::string &column, uint32_t numTransforms, const std::vector<int64_t> &found,
                               const std::string &tensor, const std::vector<int64_t> &wanted) {
  const std::string behind = numTransforms != 0 ? " after its transforms" : "";
  if (numElements(found) != numElements(wanted)) {
    return "column \"" + column + "\" has " + std::to_string(numElements(found)) + " elements a sample" + behind + ", shape " +
           shapeText(found) + ", but input tensor \"" + tensor + "\" takes " + std::to_string(numElements(wanted)) + ", shape " +
           shapeText(wanted);
  }
  const std::vector<int64_t> has = withoutOnes(found), takes = withoutOnes(wanted);
  if (has == takes || has.size() <= 1 || takes.size() <= 1) {
    return "";
  }
  const auto isMoved = [](const std::vector<int64_t> &last, const std::vector<int64_t> &first) {
    return last.size() == 3 && first == std::vector<int64_t>{last[2], last[0], last[1]};
  };
  return "column \"" + column + "\" has samples of shape " + shapeText(found) + behind + " but input tensor \"" + tensor + "\" takes " +
         shapeText(wanted) + ", the same number of elements in another order; " +
         (isMoved(found, takes)  ? "add layout: NHWC to the feature if channels are last in the data"
          : isMoved(wanted, has) ? "move channels to the end, or leave out layout: NHWC and hwc2chw"
                                 : "give samples of this shape, or of a single dim");
}

// Returns the name that job and errors give a kind of transform; null when there is no such kind.
inline const char *transformName(uint32_t kind) {
  static const char *const names[] = {"rescale", "normalize", "resize", "random_crop", "random_horizontal_flip",
                                      "hwc2chw", "type_cast", "one_hot"};
  return kind >= ASHLAR_RT_RESCALE && kind <= ASHLAR_RT_ONE_HOT ? names[kind - 1] : nullptr;
}

namespace shapes {

// The rules of the transforms; each returns the fault, "" for none, and changes the shape.

inline std::string normalize(const ashlar_rt_transform &transform, SampleShape &shape) {
  const uint32_t channels = transform.num_numbers / 2;
  for (uint32_t i = channels; i < transform.num_numbers; ++i) {
    if (transform.numbers[i] == 0) {
      return "normalize divides by std 0, which must not be 0";
    }
  }
  if (channels == 1 || !shape.isKnown) {
    return "";
  }
  const std::string has =
      "normalize has the numbers of " + std::to_string(channels) + " channels but samples are " + shapeText(shape.dims) + " here";
  if (!shape.hasChannels()) {
    return has + ", without channels; give it one mean and one std";
  }
  return shape.channels() == channels ? "" : has + ", with " + std::to_string(shape.channels()) + " channels";
}

// Resize and random crop; `padding` on each side.
inline std::string image(const std::string &name, SampleShape &shape) {
  if (shape.hasChannelsFirst) {
    return name + " stands after hwc2chw; move it before it";
  }
  if (shape.isOneHot) {
    return name + " stands after one_hot, which makes no image; leave out one of the two";
  }
  shape.image = name;
  if (shape.isKnown && ((shape.dims.size() != 2 && shape.dims.size() != 3) || shape.dims[0] < 1 || shape.dims[1] < 1)) {
    return name + " takes images, (height, width) or (height, width, channels), but samples are " + shapeText(shape.dims) + " here";
  }
  return "";
}

inline std::string crop(const ashlar_rt_transform &transform, SampleShape &shape) {
  const auto padding = static_cast<int64_t>(transform.numbers[2]);
  for (int side = 0; side < 2 && shape.isKnown; ++side) {
    const auto asked = static_cast<int64_t>(transform.numbers[side]);
    const int64_t wanted = asked == 0 ? shape.dims[side] : asked, most = shape.dims[side] + 2 * padding;
    if (wanted > most) {
      return std::string("random_crop takes a ") + (side == 0 ? "height" : "width") + " of " + std::to_string(wanted) + " out of " +
             std::to_string(most) + ", those of the image and " + std::to_string(padding) +
             " of padding on each side; lower it or raise the padding";
    }
    shape.dims[side] = wanted;
  }
  return "";
}

inline std::string channelsFirst(SampleShape &shape) {
  if (shape.hasChannelsFirst || shape.isOneHot) {
    return std::string("hwc2chw stands after ") + (shape.isOneHot ? "one_hot" : "another one") + "; leave out one of the two";
  }
  shape.image = "hwc2chw";
  shape.hasChannelsFirst = true;
  if (!shape.isKnown) {
    return "";
  }
  if (shape.dims.size() != 3) {
    return "hwc2chw takes images (height, width, channels) but samples are " + shapeText(shape.dims) +
           " here; leave out hwc2chw, or layout: NHWC";
  }
  shape.dims = {shape.dims[2], shape.dims[0], shape.dims[1]};
  return "";
}

inline std::string oneHot(const ashlar_rt_transform &transform, SampleShape &shape) {
  if (shape.isOneHot || !shape.image.empty()) {
    return "one_hot stands after " + (shape.isOneHot ? "another one" : shape.image) + " but takes class labels; leave out one of the two";
  }
  shape.isOneHot = true;
  shape.dims.push_back(static_cast<int64_t>(transform.numbers[0]));
  return "";
}

} // namespace shapes

// Checks one transform and changes `shape` to its result. Returns the fault, in one line that begins with the transform's name; "" for
// none.
inline std::string applyToShape(const ashlar_rt_transform &transform, SampleShape &shape) {
  constexpr uint32_t kNumbers[] = {2, 2, 2, 3, 1, 0, 1, 1}; // normalize: at least
  const char *name = transformName(transform.kind);
  const uint32_t count = transform.num_numbers;
  const bool isNormalize = transform.kind == ASHLAR_RT_NORMALIZE;
  if (name == nullptr || (isNormalize ? count < 2 || count % 2 != 0 : count != kNumbers[transform.kind - 1])) {
    return "kind " + std::to_string(transform.kind) + " with " + std::to_string(count) + " numbers is not known";
  }
  if (isNormalize) {
    return shapes::normalize(transform, shape);
  }
  if (transform.kind == ASHLAR_RT_HWC_TO_CHW) {
    return shapes::channelsFirst(shape);
  }
  if (transform.kind == ASHLAR_RT_ONE_HOT) {
    return shapes::oneHot(transform, shape);
  }
  if (transform.kind == ASHLAR_RT_RESCALE || transform.kind == ASHLAR_RT_TYPE_CAST) {
    return "";
  }
  if (std::string fault = shapes::image(name, shape); !fault.empty()) {
    return fault;
  }
  if (transform.kind == ASHLAR_RT_RANDOM_CROP) {
    return shapes::crop(transform, shape);
  }
  for (int side = 0; side < 2 && transform.kind == ASHLAR_RT_RESIZE && shape.isKnown; ++side) {
    shape.dims[side] = static_cast<int64_t>(transform.numbers[side]);
  }
  return "";
}

// Applies all transforms of a feature; a fault names the number of the transform, from 1 on, and the column.
inline std::string applyToShape(const char *column, const ashlar_rt_transform *transforms, uint32_t count, SampleShape &shape) {
  for (uint32_t i = 0; i < count; ++i) {
    if (std::string fault = applyToShape(transforms[i], shape); !fault.empty()) {
      return "transform " + std::to_string(i + 1) + " of column \"" + column + "\": " + fault;
    }
  }
  return count <= ASHLAR_RT_MAX_TRANSFORMS ? ""
                                           : "column \"" + std::string(column) + "\" has " + std::to_string(count) + " transforms; " +
                                                 std::to_string(ASHLAR_RT_MAX_TRANSFORMS) + " are possible";
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_ABI_SAMPLE_SHAPES_H
