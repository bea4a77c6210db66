// SPDX-License-Identifier: Apache-2.0
//
// Generated sentences, a token a byte. The parts of a sentence are chosen by 15 random bits, so no model can predict a text with less than
// 15 ln 2 a sentence on average. A verb has an s where the subject is one.

#include "runtime/base/philox.h"
#include "runtime/data/formats/token_windows.h"
#include "runtime/data/streams.h"

namespace ashlar::rt {

namespace {

constexpr const char *kSubjects[2][8] = {
    {"the dog", "a cat", "the girl", "the old man", "my friend", "a small bird", "the queen", "the fox"},
    {"two dogs", "the cats", "three girls", "old men", "my friends", "small birds", "the queens", "foxes"}};
constexpr const char *kVerbs[8] = {"see", "find", "like", "follow", "hear", "paint", "draw", "need"};
constexpr const char *kColors[4] = {"red", "green", "blue", "white"};
constexpr const char *kObjects[8] = {"ball", "tree", "boat", "door", "book", "house", "horse", "tower"};
constexpr const char *kPlaces[8] = {"",       " at night",   " in the garden", " near the river", " on the hill", " after lunch",
                                    " again", " in the rain"};

// Appends sentence `index` of a split: subject, verb, "the" color object, place.
void appendSentence(std::vector<char> &text, Split split, uint64_t index) {
  const uint32_t bits = philoxWords(kGeneratorSeed, kTextStream, split == Split::kTrain ? 0 : 1, index)[0];
  const uint32_t isMany = bits & 1;
  std::string sentence = kSubjects[isMany][bits >> 1 & 7];
  sentence += std::string(" ") + kVerbs[bits >> 4 & 7] + (isMany != 0 ? "" : "s");
  sentence += std::string(" the ") + kColors[bits >> 7 & 3] + " " + kObjects[bits >> 9 & 7] + kPlaces[bits >> 12 & 7] + ".\n";
  text.insert(text.end(), sentence.begin(), sentence.end());
}

} // namespace

Status openText(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  const uint64_t samples = split == Split::kTrain ? description.train_samples : description.eval_samples;
  const uint64_t length = samples * static_cast<uint64_t>(WindowOptions::of(description).length) + 1;
  TokenMemory memory;
  memory.bytes.reserve(length + 128);
  for (uint64_t index = 0; memory.bytes.size() < length; ++index) {
    appendSentence(memory.bytes, split, index);
  }
  memory.bytes.resize(length);
  std::vector<TokenSpan> spans = {{memory.bytes.data(), length}};
  dataset = makeTokenWindows(description, ASHLAR_RT_U8, std::move(spans), std::move(memory));
  return {};
}

const DataFormat ASHLAR_RT_COMPONENT(data_text) = {"text", openText, /*isGenerated=*/true};

} // namespace ashlar::rt
