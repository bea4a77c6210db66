// SPDX-License-Identifier: Apache-2.0
//
// Texts as token ids: prompts that are read, and tokens that follow them and are written.

#ifndef ASHLAR_RUNTIME_RUN_GENERATE_TEXTS_H
#define ASHLAR_RUNTIME_RUN_GENERATE_TEXTS_H

#include "runtime/base/output_file.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::rt {

// Standard input or output, in place of a file.
inline constexpr char kStandard[] = "-";

// A prompt and what follows it.
struct Text {
  std::vector<int64_t> prompt, generated;
  std::vector<float> logits; // of each generated token, where they are to be kept
};

// Whether a path names a .npy file.
bool isNpy(const std::string &path);

// Reads prompts: of a .npy file of integers the rows, else of a text the lines, ids with blanks between them. Fails where there is none,
// one is empty or longer than `context`, and where an id is not in [0, vocabulary).
Status readPrompts(const std::string &path, int64_t context, int64_t vocabulary, std::vector<Text> &texts);

// Writes the generated tokens: lines of ids to standard output and to files, or a .npy file of i64, (texts, most tokens), with -1 behind
// the end of a text.
class TextWriter {
public:
  // Begins the output. `streams`: tokens appear as they are made, on standard output.
  Status open(const std::string &path, bool streams);

  // A text got one more token, or is at its end.
  void add(int64_t token);
  void end();

  // Writes all texts, where they did not appear already.
  Status finish(const std::vector<Text> &texts);

private:
  std::string path;
  bool streams = false, isFirst = true;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_GENERATE_TEXTS_H
