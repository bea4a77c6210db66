// SPDX-License-Identifier: Apache-2.0
//
// A file of events as TensorBoard reads it (tensorflow/core/util/event.proto, summary.proto): scalars by tag and step. The runtime has no
// protobuf; the few fields are written here.
//
//   file    = record*
//   record  = length: u64, masked crc32c of it: u32, event, masked crc32c of the event: u32          all little-endian
//   event   = wall_time (1): f64 seconds, step (2): int64, file_version (3): "brain.Event:2" of the first one,
//             summary (5) or session_log (7) of the others
//   summary = value (1)*;  value = tag (1): string, simple_value (2): f32
//   session_log = status (1): START, of a run that goes on: TensorBoard drops the numbers of its step and later ones of earlier files

#ifndef ASHLAR_RUNTIME_RUN_LOG_EVENT_FILE_H
#define ASHLAR_RUNTIME_RUN_LOG_EVENT_FILE_H

#include "runtime/base/output_file.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::rt {

// A number of a step, as it is shown: "loss", 0.5.
struct Measured {
  std::string_view tag;
  double value;
};

// Returns the CRC-32C (RFC 3720) of the bytes.
uint32_t crc32c(const void *data, size_t bytes);

// Returns the record of some bytes.
std::string eventRecord(std::string_view event);

// Returns the event with the version of the format, one that drops the numbers of other files of the folder from step `first` on, and one
// with the numbers of a step. `time`: seconds since 1970.
std::string versionEvent(double time);
std::string restartEvent(double time, int64_t first);
std::string summaryEvent(double time, int64_t step, const std::vector<Measured> &values);

// A file of events that grows with each step.
class EventFile {
public:
  // Begins DIRECTORY/events.out.tfevents.<seconds since 1970>.<host>.<process>.0; makes the folder. `restart`: the first step of a run that
  // goes on from an earlier one.
  Status open(const std::string &directory, std::optional<uint64_t> restart = {});

  bool isOpen() const { return file.isOpen(); }

  // Appends the numbers of a step, from 1 on. After an error nothing more is written.
  void add(uint64_t step, const std::vector<Measured> &values);

  // Ends the file; fails if not all of it was written.
  Status close() { return file.close(); }

private:
  OutputFile file;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_LOG_EVENT_FILE_H
