// SPDX-License-Identifier: Apache-2.0
//
// The data set of a job, as an executable holds it.

#ifndef ASHLAR_COMPILER_DRIVER_DATASET_INFO_H
#define ASHLAR_COMPILER_DRIVER_DATASET_INFO_H

#include "compiler/job/job.pb.h"
#include "compiler/target/image_info.h"

namespace ashlar::driver {

// Returns the data set of a checked job, without the classes and tables that only the model knows.
target::DatasetInfo makeDatasetInfo(const job::Dataset &dataset);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_DATASET_INFO_H
