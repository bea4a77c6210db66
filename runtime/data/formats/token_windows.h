// SPDX-License-Identifier: Apache-2.0
//
// Samples of tokens: windows one after the other over spans of tokens, of files or of a generator. A window of L tokens has L targets, each
// the token behind its own, so a span of n tokens has (n - 1) / L windows. No window lies over two spans.

#ifndef ASHLAR_RUNTIME_DATA_FORMATS_TOKEN_WINDOWS_H
#define ASHLAR_RUNTIME_DATA_FORMATS_TOKEN_WINDOWS_H

#include "runtime/base/mapped_file.h"
#include "runtime/data/dataset.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// The label of targets that do not count where the loss names none: torch's default.
inline constexpr int64_t kIgnoredTarget = -100;

// Tokens one after the other, aligned for their type.
struct TokenSpan {
  const char *data = nullptr;
  uint64_t count = 0;
};

// How windows are read; from the params of a data set.
struct WindowOptions {
  int64_t length = 1;
  int64_t boundary = -1; // the token between documents; -1: each span is one document
  bool boundaryBegins = false, predictsNext = true, restartsPositions = true;
  int64_t ignored = kIgnoredTarget; // of the targets that do not count

  static WindowOptions of(const ashlar_rt_dataset &description);
};

// The memory of spans: mapped files, or bytes.
struct TokenMemory {
  std::vector<MappedFile> files;
  std::vector<char> bytes;
};

// Makes a data set with the columns that the features of `description` name, out of "tokens", "targets", "positions", "segments" and
// "mask". Tokens have the type `element`: ASHLAR_RT_U8, ASHLAR_RT_U16 or ASHLAR_RT_U32. The spans point into `memory`.
std::unique_ptr<Dataset> makeTokenWindows(const ashlar_rt_dataset &description, uint32_t element, std::vector<TokenSpan> spans,
                                          TokenMemory memory);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_FORMATS_TOKEN_WINDOWS_H
