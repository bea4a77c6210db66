// SPDX-License-Identifier: Apache-2.0
//
// Resolves features and cuts samples.

#include "runtime/data/feature.h"

#include "runtime/base/dtype.h"
#include "runtime/base/stages.h"

#include <cmath>
#include <cstring>

namespace ashlar::rt {

namespace {

// Finds the tensor of the feature among the variant's inputs; none when another stage has it.
Status findInput(const ashlar_rt_feature &description, const ashlar_rt_variant &variant, Feature &feature) {
  for (uint32_t i = 0; i < variant.num_tensors; ++i) {
    if (variant.tensors[i].role == ASHLAR_RT_INPUT && std::strcmp(variant.tensors[i].name, description.tensor) == 0) {
      feature.tensor = i;
      feature.info = &variant.tensors[i];
      return {};
    }
  }
  return Stages(variant).find(description.tensor) != nullptr
             ? Status()
             : internal("column \"{}\" goes to the input tensor \"{}\" but the program has no such input", description.column,
                        description.tensor);
}

// Finds the column among those of the data set.
Status findColumn(const ashlar_rt_feature &description, const Dataset &dataset, Feature &feature) {
  std::string known;
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    const Column &column = dataset.columns()[i];
    if (column.name == description.column) {
      feature.column = i;
      feature.from = column.element;
      return {};
    }
    known += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", column.name);
  }
  return invalid("input tensor \"{}\" wants the column \"{}\" but the data set has {}", description.tensor, description.column, known);
}

// Folds the transforms into one affine map.
Status foldTransforms(const ashlar_rt_feature &description, Feature &feature) {
  for (uint32_t i = 0; i < description.num_transforms; ++i) {
    const ashlar_rt_transform &transform = description.transforms[i];
    if (transform.kind == ASHLAR_RT_RESCALE) {
      feature.scale *= transform.a;
      feature.shift = feature.shift * transform.a + transform.b;
    } else if (transform.kind == ASHLAR_RT_NORMALIZE && transform.b != 0) {
      feature.scale /= transform.b;
      feature.shift = (feature.shift - transform.a) / transform.b;
    } else {
      return invalid(
          "transform {} of column \"{}\" is of kind {} with b = {}; rescale is 1, normalize is 2 and divides by b, which must not be 0", i,
          description.column, transform.kind, transform.b);
    }
  }
  return {};
}

} // namespace

Status resolveFeature(const ashlar_rt_feature &description, const ashlar_rt_variant &variant, uint64_t globalBatch, const Dataset &dataset,
                      Feature &feature) {
  feature = {};
  ASHLAR_RETURN_IF_ERROR(findInput(description, variant, feature));
  if (feature.info == nullptr) {
    return {};
  }
  ASHLAR_RETURN_IF_ERROR(findColumn(description, dataset, feature));
  ASHLAR_RETURN_IF_ERROR(foldTransforms(description, feature));
  const ashlar_rt_tensor &tensor = *feature.info;
  if (!elementOfDtype(tensor.buffer.dtype, feature.to)) {
    return invalid("input tensor \"{}\" is {}; column \"{}\" can be converted to f32, f64, i32, i64 and bool", tensor.name,
                   dtypeName(tensor.buffer.dtype), description.column);
  }
  if (tensor.rank < 1 || static_cast<uint64_t>(tensor.global_shape[0]) != globalBatch) {
    return internal("dim 0 of input tensor \"{}\" is {} but the global batch is {}", tensor.name,
                    tensor.rank < 1 ? 0 : tensor.global_shape[0], globalBatch);
  }
  // A sample may be flattened or reshaped on its way: only the number of elements counts.
  const std::vector<int64_t> wanted(tensor.global_shape + 1, tensor.global_shape + tensor.rank);
  const std::vector<int64_t> &found = dataset.columns()[feature.column].shape;
  if (numElements(wanted) != numElements(found)) {
    return invalid("column \"{}\" has {} elements a sample, shape {}, but input tensor \"{}\" takes {}, shape {}", description.column,
                   numElements(found), shapeText(found), tensor.name, numElements(wanted), shapeText(wanted));
  }
  feature.rowBytes = elementBytes(feature.to) * numElements({tensor.local_shape + 1, tensor.local_shape + tensor.rank});
  feature.pieceBytes = feature.rowBytes * tensor.local_shape[0];
  return {};
}

Status checkLabels(const ashlar_rt_feature &description, const Feature &feature, const char *split, Dataset &dataset) {
  if (description.classes == 0) {
    return {};
  }
  const double classes = static_cast<double>(description.classes), ignored = static_cast<double>(description.ignored_label);
  std::vector<double> labels(numElements(dataset.columns()[feature.column].shape));
  for (uint64_t sample = 0; sample < dataset.samples(); ++sample) {
    // As a double every label of a real data set is exact, and a fraction is still seen.
    convertElements(feature.from, dataset.read(feature.column, sample), Element::kF64, labels.data(), labels.size(), feature.scale,
                    feature.shift);
    for (double label : labels) {
      const bool known = label >= 0 && label < classes && label == std::floor(label);
      if (!known && label != ignored) {
        return invalid("label {} of sample {} in column \"{}\" of the {} split is not one of the {} classes 0 .. {}; correct the data set",
                       label, sample, description.column, split, description.classes, description.classes - 1);
      }
    }
  }
  return {};
}

void convertSample(const Feature &feature, const Piece &piece, const void *sample, void *to) {
  forEachRun(*feature.info, piece, /*firstDim=*/1, [&](int64_t global, int64_t local, int64_t count) {
    convertElements(feature.from, static_cast<const char *>(sample) + global * elementBytes(feature.from), feature.to,
                    static_cast<char *>(to) + local * elementBytes(feature.to), count, feature.scale, feature.shift);
  });
}

} // namespace ashlar::rt
