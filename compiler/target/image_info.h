// SPDX-License-Identifier: Apache-2.0
//
// The content of a program's image besides its variants: names, seed, training loop, data set. Field by field the structs of the same name
// in runtime/abi/ashlar_rt.h, which documents them; here the strings are owned.

#ifndef ASHLAR_COMPILER_TARGET_IMAGE_INFO_H
#define ASHLAR_COMPILER_TARGET_IMAGE_INFO_H

#include "compiler/target/included_file.h"

#include "mlir/IR/Types.h"

#include "runtime/abi/ashlar_rt.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::target {

// ashlar_rt_transform.
struct TransformInfo {
  uint32_t kind = 0; // ashlar_rt_transform_kind
  std::vector<double> numbers;
};

// ashlar_rt_feature. No classes: the column does not hold class labels. No ignored label: the loss ignores none. No table rows: the program
// looks nothing up by it.
struct FeatureInfo {
  std::string column, tensor;
  std::vector<TransformInfo> transforms;
  uint64_t classes = 0;
  std::optional<int64_t> ignoredLabel;
  uint64_t tableRows = 0;
};

// ashlar_rt_dataset. An empty directoryFormat: --data is refused. Empty files: the names of the format.
struct DatasetInfo {
  std::string format, directoryFormat, trainFiles, evalFiles, categories;
  uint64_t trainSamples = 0, evalSamples = 0;
  std::array<double, 8> params{};
  bool shuffle = true, dropRemainder = true;
  uint64_t repeat = 1;
  std::vector<FeatureInfo> features;
};

// ashlar_rt_training. Tensors that the evaluation does not have are empty.
struct TrainingInfo {
  DatasetInfo dataset;
  uint64_t globalBatch = 0, accumulate = 1, epochs = 1, logEvery = 1;
  std::string lossTensor, correctTensor, rowsTensor, samplesTensor, weightTensor;
  double leastWeight = 0;
  std::string checkpointPrefix = "ashlar";
  uint64_t checkpointEvery = 0, checkpointKeep = 0;
  bool savesCheckpoints = false, savesOnSignal = true;
  bool stopsOnNonfinite = false;
  std::string badNormsTensor, skippedStepsTensor;        // empty: the program has none
  std::string learningRateTensor, gradientNormTensor;    // the same
  double learningRate = 0;                               // of each step, without a tensor
  uint64_t peakFlopsPerUs = 0, narrowPeakFlopsPerUs = 0; // 0: nothing is known of the machine
};

// ashlar_rt_export_hole and ashlar_rt_export. An empty refusal: there is a template. An empty data file: numbers go into the text.
struct ExportHoleInfo {
  uint64_t offset = 0;
  std::string variable;
  mlir::Type type;
  uint64_t bytes = 0;
  bool isTransposed = false;
};
struct ExportInfo {
  std::string text; // in `file` when the image is emitted
  IncludedFile file;
  std::string dataFile, refusal;
  std::vector<ExportHoleInfo> holes;
};

// ashlar_rt_image, without the variants. An empty refusal: --deterministic is available. No training: a forward executable.
struct ImageInfo {
  std::string modelName, target;
  uint64_t seed = 1;
  std::string seedTensor; // empty: the program draws no random numbers
  std::string stepTensor; // empty: the program counts no steps
  std::optional<TrainingInfo> training;
  ExportInfo exported;                 // of a program that trains
  std::optional<int64_t> context = {}; // of a program that generates text: the positions of the model
  std::string deterministicRefusal;
  uint64_t memoryLimit = 0; // bytes that a process may hold; 0: any number
  std::string plan;
};

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_IMAGE_INFO_H
