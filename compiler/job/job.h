// SPDX-License-Identifier: Apache-2.0
//
// The job file, read and checked. Every error is one line that opens with the file's name.

#ifndef ASHLAR_COMPILER_JOB_JOB_H
#define ASHLAR_COMPILER_JOB_JOB_H

#include "compiler/job/job.pb.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::job {

// Reads a job file (protobuf text format). Errors carry line and column: syntax, unknown fields and values, and fields that this version
// does not implement ("train.txtpb:3:5: field pipeline.micro_batches is not implemented yet"). Values are checkJob's business, so that the
// command line can override them first. Paths in the job begin at its folder; they are returned as paths from here.
llvm::Expected<Job> parseJob(llvm::StringRef path);

// The same for the text of a job; `name` stands for the file in errors.
llvm::Expected<Job> parseJobText(llvm::StringRef text, llvm::StringRef name);

// Checks that a job uses nothing unimplemented and that its values make sense, each alone and together. `name` stands for the file.
llvm::Error checkJob(const Job &job, llvm::StringRef name = "job");

// Returns the mesh that the command line writes as "dp=4" or "dp=4,tp=2", or as "8": devices whose axes are to be searched.
llvm::Expected<Mesh> parseMesh(llvm::StringRef text);

// Returns the job's mode: the one it states, or the default that follows from its mesh. Assumes a checked job.
Mode effectiveMode(const Job &job);

// Returns the number of devices of the mesh, 1 without one.
int64_t numDevices(const Job &job);

// Returns the mesh axes that split the batch, major first: in DATA_PARALLEL mode all of them, otherwise none.
std::vector<std::string> batchAxes(const Job &job);

// Returns into how many parts the mesh splits the batch: the devices along batchAxes.
int64_t batchReplicas(const Job &job);

// Returns the samples that a program is for: of the global batch, or of a micro-batch of it. Assumes a checked job with a global batch.
int64_t programBatch(const Job &job);

// Returns in how many micro-batches a step is computed.
int64_t microBatches(const Job &job);

// Returns whether the job trains with layouts that inference finds from rules, where sequence_parallel decides.
bool infersSequences(const Job &job);

// Returns whether a rule keeps the results of collectives where ops around them are computed again.
bool keepsCollectives(const Job &job);

// Returns the name of the input that holds the labels or targets of the job's loss; "" when the model computes its own loss or there is
// none.
std::string labelsName(const Job &job);

// Returns the label of the rows that the job's loss leaves out; nothing without one.
std::optional<int64_t> ignoredLabel(const Job &job);

// Returns whether the loss of a step of several micro-batches is the mean of their losses, whatever it is of all their samples.
bool takesMeanOfMicroBatches(const Job &job);

// Makes the loss of a step the loss of all its samples, however many micro-batches it is split into.
void takeExactLoss(Job &job);

// Leaves what is about training out of a job: it keeps the mesh, layouts, precision and machine, and generates text.
void takeGeneration(Job &job);

// Returns whether the job makes the programs of text generation.
bool generatesText(const Job &job);

// Returns the name of the tensor of the job's loss, the logits or the prediction; "" without a loss.
std::string lossName(const Job &job);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_JOB_H
