// SPDX-License-Identifier: Apache-2.0
//
// A data set in NumPy's archives: a member a column, whose first dim counts the samples. Stored members stay in place, deflated ones are
// inflated once at the start, when the checksums of both are checked.

#include "runtime/data/dataset.h"
#include "runtime/data/formats/npy.h"
#include "runtime/data/formats/zip.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {

namespace {

// The elements of a column.
struct NpzColumn {
  std::vector<char> inflated;
  const char *elements = nullptr; // in the archive, aligned for nothing, or inflated
  size_t sampleBytes = 0;
  bool isAligned = true;
};

class NpzDataset final : public Dataset {
public:
  NpzDataset(ZipFile archive, std::vector<Column> columns, std::vector<NpzColumn> data, uint64_t count)
      : archive(std::move(archive)), allColumns(std::move(columns)), data(std::move(data)), count(count) {}

  uint64_t samples() const override { return count; }
  const std::vector<Column> &columns() const override { return allColumns; }
  size_t scratchBytes(size_t column) const override { return data[column].isAligned ? 0 : data[column].sampleBytes; }

  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    const NpzColumn &from = data[column];
    const char *sample = from.elements + which.sample * from.sampleBytes;
    return from.isAligned ? sample : std::memcpy(scratch, sample, from.sampleBytes);
  }

  Status check() const override { return archive.check(); }

private:
  ZipFile archive;
  std::vector<Column> allColumns;
  std::vector<NpzColumn> data;
  uint64_t count;
};

// Returns the member of the first of these names that there is, with .npy behind it; null for none.
const ZipMember *findMember(const ZipFile &archive, const std::vector<std::string> &names) {
  for (const std::string &name : names) {
    for (const ZipMember &member : archive.members()) {
      if (member.name == name + ".npy") {
        return &member;
      }
    }
  }
  return nullptr;
}

// Reads the header of a member and finds its elements.
Status openColumn(const ZipFile &archive, const ZipMember &member, Column &column, NpzColumn &data, uint64_t &count) {
  const std::string name = archive.path() + ":" + member.name;
  const char *bytes = nullptr;
  ASHLAR_RETURN_IF_ERROR(archive.read(member, data.inflated, bytes));
  NpyHeader header;
  ASHLAR_RETURN_IF_ERROR(readNpyHeader(name, bytes, member.bytes, header));
  if (header.shape.empty()) {
    return invalid("\"{}\" has shape () but its first dim must count the samples", name);
  }
  count = header.shape[0];
  column.element = header.element;
  column.shape.assign(header.shape.begin() + 1, header.shape.end());
  data.elements = bytes + header.offset;
  data.sampleBytes = numElements(column.shape) * dtypeBytes(header.element);
  data.isAligned = reinterpret_cast<uintptr_t>(data.elements) % dtypeBytes(header.element) == 0;
  return {};
}

} // namespace

Status openNpz(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  const bool isOneFile = std::strcmp(description.train_files, description.eval_files) == 0;
  ZipFile archive;
  ASHLAR_RETURN_IF_ERROR(
      ZipFile::open(directory + "/" + (split == Split::kTrain ? description.train_files : description.eval_files), archive));
  std::vector<Column> columns;
  std::vector<NpzColumn> data;
  uint64_t samples = 0;
  for (uint32_t i = 0; i < description.num_features; ++i) {
    const std::string name = description.features[i].column;
    if (std::any_of(columns.begin(), columns.end(), [&](const Column &column) { return column.name == name; })) {
      continue;
    }
    std::vector<std::string> names = {name};
    if (isOneFile) {
      names = split == Split::kTrain ? std::vector<std::string>{name + "_train"} : std::vector<std::string>{name + "_eval", name + "_test"};
    }
    const ZipMember *member = findMember(archive, names);
    if (!member) {
      std::string known;
      for (const ZipMember &each : archive.members()) {
        known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", each.name);
      }
      return unavailable("\"{}\" has no member \"{}.npy\" for the column \"{}\"; it has {}", archive.path(), names[0], name,
                         known.empty() ? "none" : known);
    }
    Column column{name, ASHLAR_RT_F32, {}};
    NpzColumn elements;
    uint64_t count = 0;
    ASHLAR_RETURN_IF_ERROR(openColumn(archive, *member, column, elements, count));
    if (!columns.empty() && count != samples) {
      return invalid("\"{}\" holds {} samples in \"{}\" but {} in column \"{}\"", archive.path(), count, member->name, samples,
                     columns[0].name);
    }
    samples = count;
    columns.push_back(std::move(column));
    data.push_back(std::move(elements));
  }
  dataset = std::make_unique<NpzDataset>(std::move(archive), std::move(columns), std::move(data), samples);
  return {};
}

static std::vector<std::string> npzFiles(const ashlar_rt_dataset &description) {
  return {description.train_files, description.eval_files};
}

const DataFormat ASHLAR_RT_COMPONENT(data_npz) = {"npz", openNpz, /*isGenerated=*/false, npzFiles};

} // namespace ashlar::rt
