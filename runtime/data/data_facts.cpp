// SPDX-License-Identifier: Apache-2.0
//
// Looks at samples that are spread evenly.

#include "runtime/data/data_facts.h"

#include "runtime/base/host.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

constexpr uint64_t kProbes = 64;
constexpr size_t kProbedBytes = 4096;

// Calls look(i) for the first, the last, and others of `count` things.
template <typename Look> void probe(uint64_t count, Look &&look) {
  const uint64_t step = std::max<uint64_t>(count / kProbes, 1);
  for (uint64_t i = 0; i + 1 < count; i += step) {
    look(i);
  }
  if (count > 0) {
    look(count - 1);
  }
}

// Takes bytes into a hash.
void mix(uint64_t &hash, const void *data, size_t bytes) {
  hash = hash * 0x9e3779b97f4a7c15 + hashText({static_cast<const char *>(data), std::min(bytes, kProbedBytes)});
}

} // namespace

DataFacts factsOf(Dataset &dataset, Split split) {
  DataFacts facts;
  facts.what = fmt::format("the {} split", splitName(split));
  facts.text = fmt::format("{} samples", dataset.samples());
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    const Column &column = dataset.columns()[i];
    const size_t bytes = static_cast<size_t>(numElements(column.shape)) * dtypeBytes(column.element);
    facts.text += fmt::format(", {} {} {}", column.name, dtypeName(column.element), shapeText(column.shape));
    std::vector<char> scratch(dataset.scratchBytes(i));
    probe(dataset.samples(),
          [&](uint64_t sample) { mix(facts.contents, dataset.read(i, SampleRandom::evaluated(sample), scratch.data()), bytes); });
  }
  return facts;
}

DataFacts factsOf(const NpyFile &file, const std::string &name) {
  DataFacts facts;
  facts.what = "the input " + name;
  facts.text = fmt::format("{} {}", dtypeName(file.element()), shapeText(file.shape()));
  const size_t bytes = static_cast<size_t>(numElements(file.shape())) * dtypeBytes(file.element());
  mixContents(facts.contents, static_cast<const char *>(file.data()), bytes);
  return facts;
}

void mixContents(uint64_t &hash, const char *data, size_t bytes) {
  probe((bytes + kProbedBytes - 1) / kProbedBytes,
        [&](uint64_t block) { mix(hash, data + block * kProbedBytes, bytes - block * kProbedBytes); });
}

} // namespace ashlar::rt
