// SPDX-License-Identifier: Apache-2.0
//
// The handler, and where it puts the first message.

#include "compiler/job/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>

namespace ashlar::job {

namespace {

std::string first;                                // of the one log that lives
google::protobuf::LogHandler *previous = nullptr; // the handler it stands in for

void keepFirst(google::protobuf::LogLevel, const char *, int, const std::string &message) {
  if (first.empty()) {
    first = message;
  }
}

} // namespace

ProtobufLog::ProtobufLog() {
  first.clear();
  previous = google::protobuf::SetLogHandler(keepFirst);
}

ProtobufLog::~ProtobufLog() {
  google::protobuf::SetLogHandler(previous);
}

std::string ProtobufLog::text() const {
  return first.empty() ? "" : ": " + first;
}

} // namespace ashlar::job
