// SPDX-License-Identifier: Apache-2.0
//
// The log of protobuf, caught instead of printed on stderr so that an error stays one line of ours.

#ifndef ASHLAR_COMPILER_JOB_PROTOBUF_LOG_H
#define ASHLAR_COMPILER_JOB_PROTOBUF_LOG_H

#include <string>

namespace ashlar::job {

// While it lives, protobuf prints nothing. One at a time; the handler is global to the process.
class ProtobufLog {
public:
  ProtobufLog();
  ~ProtobufLog();
  ProtobufLog(const ProtobufLog &) = delete;
  ProtobufLog &operator=(const ProtobufLog &) = delete;

  // Returns protobuf's first message, as the end of an error: ": a message that is too big"; "" for nothing.
  std::string text() const;
};

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_PROTOBUF_LOG_H
