// SPDX-License-Identifier: Apache-2.0
//
// From times to a machine: the measurements of ashlar-calibrate, as the fields of a job's `machine`.

#ifndef ASHLAR_COMPILER_COST_CALIBRATION_H
#define ASHLAR_COMPILER_COST_CALIBRATION_H

#include "compiler/job/job.pb.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <string>
#include <vector>

namespace ashlar::cost {

// A collective that was measured: its messages and bytes by the formulas of dialects/dist, and the time that it took.
struct MessageSample {
  double messages, bytes, seconds;
};

// The formula of the samples of a kind: seconds = messages * perMessage + bytes * perByte.
struct MessageFit {
  double perMessage = 0, perByte = 0; // seconds; neither is negative
  double deviation = 0;               // median of |predicted - measured| / measured

  double predict(const MessageSample &sample) const { return sample.messages * perMessage + sample.bytes * perByte; }
};

// Returns the fit with the least sum of squares of relative deviations, so that a message of 64 bytes has the same weight as one of 16 MB.
// Assumes samples with messages, bytes and times above 0.
MessageFit fitMessages(llvm::ArrayRef<MessageSample> samples);

// Operations and the time that they took, of calls of one size and type.
struct CallSum {
  double flops = 0, seconds = 0;

  double gflopPerSecond() const { return flops / seconds * 1e-9; }
};

// All that was measured. State: sums by size and type, samples by kind of collective.
class Measurements {
public:
  using Kind = job::Machine::CollectiveRate::Kind;

  // Adds the output of ashlar-calibrate (tools/ashlar_calibrate/measured_program.h). Skips lines of others, such as warnings of mpirun.
  // Fails where a line of its own cannot be read, or has a time of 0.
  llvm::Error add(llvm::StringRef text);

  // Returns the machine. Fails where the device was not measured.
  llvm::Expected<job::Machine> machine() const;

  // Returns, by kind, the number of times and the fit of the formula.
  std::map<Kind, std::pair<size_t, MessageFit>> fits() const;

private:
  using Table = std::map<int64_t, CallSum>; // by size
  llvm::Error addLine(llvm::StringRef line);
  void fillTable(llvm::StringRef kind, google::protobuf::RepeatedPtrField<job::Machine::ShapeRate> &rates) const;

  std::map<std::string, Table, std::less<>> tables; // "product f32", "attention bf16": by kind of call and type
  CallSum memory;                                   // its flops are bytes
  double launch = -1;
  std::map<Kind, std::vector<MessageSample>> samples;
};

// Writes a machine as a file for --machine, or for a job. `ranks`: that were measured at once.
void writeMachine(llvm::raw_ostream &out, const Measurements &measurements, const job::Machine &machine, int ranks);

} // namespace ashlar::cost

#endif // ASHLAR_COMPILER_COST_CALIBRATION_H
