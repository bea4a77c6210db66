// SPDX-License-Identifier: Apache-2.0
//
// Files of tokens, mapped. Three kinds are told apart by their first bytes: llm.c's with tokens of two bytes (GPT-2) and of four (Llama 3),
// each with a header of 256 i32 {magic, version, tokens, 0 ...}, and files of tokens alone, as nanoGPT writes them, whose type the job
// gives. Source: llm.c, dev/data/data_common.py and llmc/dataloader.h.

#include "runtime/data/formats/file_pattern.h"
#include "runtime/data/formats/token_windows.h"

#include <cstring>

namespace ashlar::rt {

namespace {

constexpr size_t kTokenHeaderBytes = 1024;

// The header of llm.c for one type of tokens.
struct TokenHeader {
  int32_t magic, version;
  uint32_t element;
};

constexpr TokenHeader kTokenHeaders[] = {{20240520, 1, ASHLAR_RT_U16}, {20240801, 7, ASHLAR_RT_U32}};

int32_t headerNumber(const MappedFile &file, size_t index) {
  int32_t number = 0;
  std::memcpy(&number, file.data() + index * sizeof(number), sizeof(number));
  return number;
}

// Finds the tokens of a file. `element`: of files without a header; becomes that of the header.
Status findTokens(const std::string &path, const MappedFile &file, uint32_t &element, TokenSpan &span) {
  for (const TokenHeader &header : kTokenHeaders) {
    if (file.size() < sizeof(int32_t) || headerNumber(file, 0) != header.magic) {
      continue;
    }
    if (file.size() < kTokenHeaderBytes) {
      return invalid("\"{}\" begins as a file of tokens of llm.c but has {} bytes, fewer than the {} of its header; copy it again", path,
                     file.size(), kTokenHeaderBytes);
    }
    if (headerNumber(file, 1) != header.version) {
      return invalid("\"{}\" is a file of tokens of llm.c of version {}; version {} can be read", path, headerNumber(file, 1),
                     header.version);
    }
    element = header.element;
    const uint64_t count = static_cast<uint32_t>(headerNumber(file, 2)), bytes = file.size() - kTokenHeaderBytes;
    if (bytes != count * dtypeBytes(element)) {
      return invalid("\"{}\" announces {} tokens of {} ({} bytes) but holds {} bytes; copy it again", path, count, dtypeName(element),
                     count * dtypeBytes(element), bytes);
    }
    span = {file.data() + kTokenHeaderBytes, count};
    return {};
  }
  if (file.size() % dtypeBytes(element) != 0) {
    return invalid("\"{}\" has {} bytes, which are no whole tokens of {}; give the job's tokens their type", path, file.size(),
                   dtypeName(element));
  }
  span = {file.data(), file.size() / dtypeBytes(element)};
  return {};
}

// Keeps the part of a file's tokens that belongs to the split: the last `share` is the eval split.
TokenSpan partOf(const TokenSpan &span, uint32_t element, double share, Split split) {
  const auto train = static_cast<uint64_t>(static_cast<double>(span.count) * (1 - share));
  return split == Split::kTrain ? TokenSpan{span.data, train} : TokenSpan{span.data + train * dtypeBytes(element), span.count - train};
}

} // namespace

Status openTokens(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  const double share = description.params[ASHLAR_RT_EVAL_SHARE];
  const std::string pattern = split == Split::kTrain || share > 0 ? description.train_files : description.eval_files;
  std::vector<std::string> paths;
  ASHLAR_RETURN_IF_ERROR(findFiles(directory, pattern, paths));
  const auto bytes = static_cast<int>(description.params[ASHLAR_RT_TOKEN_BYTES]);
  const uint32_t withoutHeader = bytes == 1 ? ASHLAR_RT_U8 : bytes == 2 ? ASHLAR_RT_U16 : ASHLAR_RT_U32;
  uint32_t element = withoutHeader;
  TokenMemory memory;
  std::vector<TokenSpan> spans;
  uint64_t windows = 0, tokens = 0;
  const int64_t length = WindowOptions::of(description).length;
  for (const std::string &path : paths) {
    MappedFile file;
    ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, file));
    uint32_t found = withoutHeader;
    TokenSpan span;
    ASHLAR_RETURN_IF_ERROR(findTokens(path, file, found, span));
    if (&path != &paths[0] && found != element) {
      return invalid("\"{}\" holds tokens of {} but \"{}\" holds {}; use files of one type", path, dtypeName(found), paths[0],
                     dtypeName(element));
    }
    element = found;
    span = share > 0 ? partOf(span, element, share, split) : span;
    tokens += span.count;
    if (span.count > static_cast<uint64_t>(length)) { // a shorter one has no window
      windows += (span.count - 1) / length;
      spans.push_back(span);
      memory.files.push_back(std::move(file));
    }
  }
  if (windows == 0) {
    return invalid(
        "the {} split has {} tokens in {} files \"{}/{}\" but a sample takes {} and the one behind; lower sequence_length or add "
        "tokens",
        splitName(split), tokens, paths.size(), directory, pattern, length);
  }
  dataset = makeTokenWindows(description, element, std::move(spans), std::move(memory));
  return {};
}

static std::vector<std::string> tokenFiles(const ashlar_rt_dataset &description) {
  const bool hasEval = description.params[ASHLAR_RT_EVAL_SHARE] == 0;
  return {description.train_files, hasEval ? description.eval_files : description.train_files};
}

const DataFormat ASHLAR_RT_COMPONENT(data_tokens) = {"tokens", openTokens, /*isGenerated=*/false, tokenFiles};

} // namespace ashlar::rt
