// SPDX-License-Identifier: Apache-2.0
//
// A job's fields about training, in the form of the image.

#ifndef ASHLAR_COMPILER_DRIVER_TRAINING_INFO_H
#define ASHLAR_COMPILER_DRIVER_TRAINING_INFO_H

#include "compiler/driver/class_labels.h"
#include "compiler/job/job.pb.h"
#include "compiler/target/image_info.h"
#include "dialects/exec/exec.h"

#include "llvm/Support/Error.h"

namespace ashlar::driver {

// Returns the training loop of a checked job; `labels` by findClassLabels(), `tableRows` by findTableRows(). Fails when the dataset does
// not feed exactly the inputs of the variant's training step.
llvm::Expected<target::TrainingInfo> makeTrainingInfo(const job::Job &job, exec::Target target, llvm::ArrayRef<exec::VariantOp> stages,
                                                      const llvm::StringMap<ClassLabels> &labels,
                                                      const llvm::StringMap<uint64_t> &tableRows);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_TRAINING_INFO_H
