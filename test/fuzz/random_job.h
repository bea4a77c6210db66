// SPDX-License-Identifier: Apache-2.0
//
// Random job files: a small ONNX model, a job that trains it, and its data, with their descriptions for the reference.

#ifndef ASHLAR_TEST_FUZZ_RANDOM_JOB_H
#define ASHLAR_TEST_FUZZ_RANDOM_JOB_H

#include "test/fuzz/job_reference.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ashlar::fuzz {

// An .npy file, of elements f32, f64, i32, i64 or u8.
struct DataFile {
  std::string element;
  std::vector<int64_t> shape;
  std::vector<double> values;
};

struct RandomJob {
  TrainingJob training;
  std::string model, job;               // an ONNX file and a job file, as bytes
  std::map<std::string, DataFile> data; // by name, "x_train"
  int64_t ranks = 1;
  std::vector<bool> isTransposed; // of each layer: its weight is inputs x outputs
  double unit = 0;                // how far one rounding of the precision moves a number, relative to it
  bool isNarrow = false;          // bf16 or f16
};

// Returns the job of a seed: 1 to 3 layers, every loss, optimizer and precision, each mode but HYBRID on up to 4 ranks, pipelines of up to
// 8 layers on up to 8 ranks with optimizer levels, batches that the devices do not divide, fused collectives, owners of parameters,
// images and other samples with transforms, frozen parameters, and the knobs of epochs, passes, order, log and seed, each sometimes left
// out.
RandomJob randomJob(uint64_t seed);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_RANDOM_JOB_H
