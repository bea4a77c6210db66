// SPDX-License-Identifier: Apache-2.0
//
// See texts.h.

#include "runtime/run/generate/texts.h"

#include "runtime/base/dtype.h"
#include "runtime/data/formats/npy.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>

namespace ashlar::rt {
namespace {

constexpr int64_t kNoToken = -1; // behind the end of a text, in a .npy file

std::string sourceOf(const std::string &path) {
  return path == kStandard ? "standard input" : path;
}

Status readNpy(const std::string &path, std::vector<Text> &texts) {
  NpyFile file;
  ASHLAR_RETURN_IF_ERROR(NpyFile::open(path, file));
  const std::vector<int64_t> &shape = file.shape();
  const uint32_t element = file.element();
  if (shape.empty() || shape.size() > 2 || (element != ASHLAR_RT_I64 && element != ASHLAR_RT_I32)) {
    return invalid("{}: prompts are i64 or i32 of shape (texts, tokens) or (tokens), this is {} of {} dims", path, dtypeName(element),
                   shape.size());
  }
  const size_t tokens = static_cast<size_t>(shape.back()), rows = shape.size() == 2 ? static_cast<size_t>(shape[0]) : 1;
  for (size_t row = 0; row < rows; ++row) {
    Text &text = texts.emplace_back();
    for (size_t i = row * tokens; i < (row + 1) * tokens; ++i) {
      text.prompt.push_back(element == ASHLAR_RT_I64 ? static_cast<const int64_t *>(file.data())[i]
                                                     : static_cast<const int32_t *>(file.data())[i]);
    }
    while (!text.prompt.empty() && text.prompt.back() == kNoToken) {
      text.prompt.pop_back();
    }
  }
  return file.check();
}

// Reads the ids of one line. Empty lines are none.
Status readLine(const std::string &line, const std::string &source, size_t number, std::vector<Text> &texts) {
  constexpr char kBlanks[] = " \t\r,";
  Text text;
  for (size_t begin = line.find_first_not_of(kBlanks); begin != std::string::npos;) {
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    int64_t token = 0;
    std::from_chars_result result = std::from_chars(line.data() + begin, line.data() + end, token);
    if (result.ec != std::errc() || result.ptr != line.data() + end) {
      return invalid("{}, line {}: \"{}\" is no token id; a prompt is a line of numbers, as 15496 11 995", source, number,
                     line.substr(begin, std::min<size_t>(end - begin, 40)));
    }
    text.prompt.push_back(token);
    begin = line.find_first_not_of(kBlanks, end);
  }
  if (!text.prompt.empty()) {
    texts.push_back(std::move(text));
  }
  return Status();
}

Status readLines(std::istream &stream, const std::string &source, std::vector<Text> &texts) {
  std::string line;
  for (size_t number = 1; std::getline(stream, line); ++number) {
    ASHLAR_RETURN_IF_ERROR(readLine(line, source, number, texts));
  }
  return stream.bad() ? invalid("{}: cannot be read", source) : Status();
}

} // namespace

bool isNpy(const std::string &path) {
  return path.size() > 4 && path.compare(path.size() - 4, 4, ".npy") == 0;
}

Status readPrompts(const std::string &path, int64_t context, int64_t vocabulary, std::vector<Text> &texts) {
  const std::string source = sourceOf(path);
  if (path == kStandard) {
    ASHLAR_RETURN_IF_ERROR(readLines(std::cin, source, texts));
  } else if (isNpy(path)) {
    ASHLAR_RETURN_IF_ERROR(readNpy(path, texts));
  } else {
    std::ifstream stream(path);
    if (!stream) {
      return invalid("{}: cannot be opened; --prompt takes a file of token ids", path);
    }
    ASHLAR_RETURN_IF_ERROR(readLines(stream, source, texts));
  }
  if (texts.empty()) {
    return invalid("{} has no prompt; give a line of token ids for each text", source);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<int64_t> &prompt = texts[i].prompt;
    if (prompt.empty() || prompt.size() > static_cast<uint64_t>(context)) {
      return invalid("{}: prompt {} has {} tokens, but the model has {} positions; give at least one and at most so many", source, i + 1,
                     prompt.size(), context);
    }
    auto beyond = std::find_if(prompt.begin(), prompt.end(), [&](int64_t token) { return token < 0 || token >= vocabulary; });
    if (beyond != prompt.end()) {
      return invalid("{}: token {} of prompt {} is {}, but the vocabulary has {} tokens; is it of another tokenizer?", source,
                     beyond - prompt.begin() + 1, i + 1, *beyond, vocabulary);
    }
  }
  return Status();
}

Status TextWriter::open(const std::string &file, bool streamsTokens) {
  path = file;
  streams = streamsTokens && path == kStandard;
  return path == kStandard ? Status() : checkOutput(path);
}

void TextWriter::add(int64_t token) {
  if (streams) {
    fmt::print(stdout, "{}{}", isFirst ? "" : " ", token);
    std::fflush(stdout);
    isFirst = false;
  }
}

void TextWriter::end() {
  if (streams) {
    std::fputs("\n", stdout);
    isFirst = true;
  }
}

Status TextWriter::finish(const std::vector<Text> &texts) {
  if (streams) {
    return Status();
  }
  if (isNpy(path)) {
    size_t most = 0;
    for (const Text &text : texts) {
      most = std::max(most, text.generated.size());
    }
    std::vector<int64_t> tokens(texts.size() * most, kNoToken);
    for (size_t i = 0; i < texts.size(); ++i) {
      std::copy(texts[i].generated.begin(), texts[i].generated.end(), tokens.begin() + static_cast<std::ptrdiff_t>(i * most));
    }
    return writeNpy(path, ASHLAR_RT_I64, {static_cast<int64_t>(texts.size()), static_cast<int64_t>(most)}, tokens.data());
  }
  std::string lines;
  for (const Text &text : texts) {
    lines += fmt::format("{}\n", fmt::join(text.generated, " "));
  }
  if (path == kStandard) {
    std::fputs(lines.c_str(), stdout);
    return Status();
  }
  OutputFile file;
  ASHLAR_RETURN_IF_ERROR(file.create(path));
  ASHLAR_RETURN_IF_ERROR(file.write(lines.data(), lines.size()));
  ASHLAR_RETURN_IF_ERROR(file.close());
  return file.commit();
}

} // namespace ashlar::rt
