// SPDX-License-Identifier: Apache-2.0
//
// Resolves features and cuts samples.

#include "runtime/data/feature.h"

#include "runtime/base/dtype.h"
#include "runtime/base/stages.h"

#include <algorithm>
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

// Whether each device holds whole samples.
bool holdsWholeSamples(const ashlar_rt_tensor &tensor) {
  return std::equal(tensor.local_shape + 1, tensor.local_shape + tensor.rank, tensor.global_shape + 1);
}

// Whole numbers that are looked at: those that come out of some transforms.
struct NumberCheck {
  std::vector<ashlar_rt_transform> transforms;
  double first = 0, end = 0; // first .. end - 1 are allowed
  double ignored = 0;        // besides; one of these, where no other number is allowed
  const char *number = "label", *kind = "classes", *user = "";

  bool allows(double number) const { return (number >= first && number < end && number == std::floor(number)) || number == ignored; }

  // Whether all numbers of a range are allowed. Assumes whole numbers and no transforms.
  bool allowsAll(const ElementRange &range) const { return range.least >= first && range.greatest < end; }
};

// Returns which numbers of a feature are to be looked at. Transforms that only move elements are left out.
std::vector<NumberCheck> numberChecks(const ashlar_rt_feature &description) {
  std::vector<NumberCheck> checks;
  NumberCheck label;
  for (uint32_t i = 0; i < description.num_transforms; ++i) {
    const ashlar_rt_transform &transform = description.transforms[i];
    if (transform.kind == ASHLAR_RT_ONE_HOT) {
      checks.push_back(label);
      checks.back().end = transform.numbers[0];
      checks.back().user = " of one_hot";
    }
    if (transform.kind == ASHLAR_RT_RESCALE || transform.kind == ASHLAR_RT_NORMALIZE || transform.kind == ASHLAR_RT_TYPE_CAST) {
      label.transforms.push_back(transform);
    }
  }
  if (description.table_rows != 0) { // an index below 0 counts from the end
    checks.push_back(label);
    checks.back().first = -static_cast<double>(description.table_rows);
    checks.back().end = static_cast<double>(description.table_rows);
    checks.back().number = "index";
    checks.back().kind = "rows";
    checks.back().user = " of the model's table";
  }
  if (description.classes != 0) {
    label.end = static_cast<double>(description.classes);
    label.ignored = static_cast<double>(description.ignored_label);
    checks.push_back(label);
  }
  return checks;
}

// Makes the numbers of one sample, in f64: exact for every label of a real data set, and a fraction is still seen.
class SampleNumbers {
public:
  Status prepare(const Column &column, const std::vector<ashlar_rt_transform> &transforms) {
    from = column.element;
    numbers.resize(numElements(column.shape));
    return TransformChain::create(column, transforms.data(), static_cast<uint32_t>(transforms.size()), ASHLAR_RT_F64, chain);
  }

  const std::vector<double> &of(const void *sample) {
    if (chain.isPlain()) {
      convertElements(from, sample, ASHLAR_RT_F64, numbers.data(), numbers.size(), chain.scale(), chain.shift());
    } else {
      chain.run(sample, SampleRandom(), numbers.data()); // computes in f64, as what it goes to
    }
    return numbers;
  }

private:
  uint32_t from = ASHLAR_RT_F64;
  TransformChain chain;
  std::vector<double> numbers;
};

} // namespace

Status resolveFeature(const ashlar_rt_feature &description, const ashlar_rt_variant &variant, uint64_t globalBatch, const Dataset &dataset,
                      Feature &feature) {
  feature = {};
  ASHLAR_RETURN_IF_ERROR(findInput(description, variant, feature));
  if (feature.info == nullptr) {
    return {};
  }
  ASHLAR_RETURN_IF_ERROR(findColumn(description, dataset, feature));
  const Column &column = dataset.columns()[feature.column];
  const ashlar_rt_tensor &tensor = *feature.info;
  feature.to = tensor.buffer.dtype;
  if (tensor.rank < 1 || static_cast<uint64_t>(tensor.global_shape[0]) != globalBatch) {
    return internal("dim 0 of input tensor \"{}\" is {} but the global batch is {}", tensor.name,
                    tensor.rank < 1 ? 0 : tensor.global_shape[0], globalBatch);
  }
  ASHLAR_RETURN_IF_ERROR(TransformChain::create(column, description.transforms, description.num_transforms, feature.to, feature.chain));
  const std::vector<int64_t> wanted(tensor.global_shape + 1, tensor.global_shape + tensor.rank);
  const std::vector<int64_t> &found = feature.chain.shape();
  if (std::string fault = sampleFault(description.column, description.num_transforms, found, tensor.name, wanted); !fault.empty()) {
    return invalid("{}", fault);
  }
  feature.scratch.resize(dataset.scratchBytes(feature.column));
  feature.rowBytes = dtypeBytes(feature.to) * numElements({tensor.local_shape + 1, tensor.local_shape + tensor.rank});
  feature.pieceBytes = feature.rowBytes * tensor.local_shape[0];
  feature.isDirect = feature.chain.computed() == feature.to && holdsWholeSamples(tensor);
  if (!feature.chain.isPlain() && !feature.isDirect) {
    feature.result.resize(dtypeBytes(feature.chain.computed()) * numElements(found));
  }
  return {};
}

Status checkLabels(const ashlar_rt_feature &description, const Feature &feature, const char *split, Dataset &dataset) {
  std::vector<char> scratch(dataset.scratchBytes(feature.column));
  for (const NumberCheck &check : numberChecks(description)) {
    const std::optional<ElementRange> range = check.transforms.empty() ? dataset.range(feature.column) : std::nullopt;
    if (range && check.allowsAll(*range)) {
      continue;
    }
    SampleNumbers numbers;
    ASHLAR_RETURN_IF_ERROR(numbers.prepare(dataset.columns()[feature.column], check.transforms));
    for (uint64_t sample = 0; sample < dataset.samples(); ++sample) {
      for (double number : numbers.of(dataset.read(feature.column, SampleRandom::evaluated(sample), scratch.data()))) {
        if (!check.allows(number)) {
          return invalid("{} {} of sample {} in column \"{}\" of the {} split is not one of the {} {} 0 .. {}{}; correct the data set",
                         check.number, number, sample, description.column, split, check.end, check.kind, check.end - 1, check.user);
        }
      }
    }
  }
  return {};
}

void convertSample(Feature &feature, const Piece &piece, const void *sample, const SampleRandom &random, void *to) {
  const TransformChain &chain = feature.chain;
  if (!chain.isPlain() && feature.isDirect) {
    chain.run(sample, random, to);
    return;
  }
  uint32_t from = feature.from;
  if (!chain.isPlain()) {
    chain.run(sample, random, feature.result.data());
    sample = feature.result.data();
    from = chain.computed();
  }
  const double scale = chain.isPlain() ? chain.scale() : 1, shift = chain.isPlain() ? chain.shift() : 0;
  forEachRun(*feature.info, piece, /*firstDim=*/1, [&](int64_t global, int64_t local, int64_t count) {
    convertElements(from, static_cast<const char *>(sample) + global * dtypeBytes(from), feature.to,
                    static_cast<char *>(to) + local * dtypeBytes(feature.to), count, scale, shift);
  });
}

} // namespace ashlar::rt
