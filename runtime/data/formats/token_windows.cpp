// SPDX-License-Identifier: Apache-2.0
//
// Reads windows. Tokens, and targets that all count, lie in the spans as they are; the rest is computed for each window.

#include "runtime/data/formats/token_windows.h"

#include "runtime/base/dtype.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace ashlar::rt {

namespace {

enum class Kind { kTokens, kTargets, kPositions, kSegments, kMask };

constexpr const char *kNames[] = {"tokens", "targets", "positions", "segments", "mask"};

// Calls body with a pointer to the tokens at `data`, of their type.
template <typename Body> void withTokens(uint32_t element, const char *data, Body &&body) {
  if (element == ASHLAR_RT_U8) {
    body(reinterpret_cast<const uint8_t *>(data));
  } else if (element == ASHLAR_RT_U16) {
    body(reinterpret_cast<const uint16_t *>(data));
  } else {
    body(reinterpret_cast<const uint32_t *>(data));
  }
}

// Whether token `i` of a window is the first of a document. The first token of a window begins one: what is before it is not read.
template <typename T> bool beginsDocument(const WindowOptions &options, const T *tokens, int64_t i) {
  return i == 0 || (options.boundary >= 0 && static_cast<int64_t>(tokens[options.boundaryBegins ? i : i - 1]) == options.boundary);
}

// Writes the target of each token; one in another document is ignored.
template <typename T> void writeTargets(const WindowOptions &options, const T *tokens, int64_t *to) {
  for (int64_t i = 0; i < options.length; ++i) {
    to[i] = beginsDocument(options, tokens, i + 1) ? options.ignored : static_cast<int64_t>(tokens[i + 1]);
  }
}

// Writes the position of each token in its document.
template <typename T> void writePositions(const WindowOptions &options, const T *tokens, int32_t *to) {
  for (int64_t i = 0, first = 0; i < options.length; ++i) {
    first = options.restartsPositions && beginsDocument(options, tokens, i) ? i : first;
    to[i] = static_cast<int32_t>(i - first);
  }
}

// Writes the number of each token's document in the window.
template <typename T> void writeSegments(const WindowOptions &options, const T *tokens, int32_t *to) {
  for (int64_t i = 0, segment = 0; i < options.length; ++i) {
    segment += i > 0 && beginsDocument(options, tokens, i) ? 1 : 0;
    to[i] = static_cast<int32_t>(segment);
  }
}

// Writes for each token, a row, which tokens it may attend to: itself and those before it in its document.
template <typename T> void writeMask(const WindowOptions &options, const T *tokens, bool *to) {
  for (int64_t i = 0, first = 0; i < options.length; ++i, to += options.length) {
    first = beginsDocument(options, tokens, i) ? i : first;
    std::fill_n(to, first, false);
    std::fill(to + first, to + i + 1, true);
    std::fill(to + i + 1, to + options.length, false);
  }
}

class TokenWindows final : public Dataset {
public:
  TokenWindows(const ashlar_rt_dataset &description, uint32_t element, std::vector<TokenSpan> tokenSpans, TokenMemory tokenMemory)
      : options(WindowOptions::of(description)), element(element), spans(std::move(tokenSpans)), memory(std::move(tokenMemory)) {
    for (const TokenSpan &span : spans) {
      count += span.count == 0 ? 0 : (span.count - 1) / options.length;
      ends.push_back(count);
    }
    for (uint32_t i = 0; i < description.num_features; ++i) {
      addColumn(description.features[i].column);
    }
  }

  uint64_t samples() const override { return count; }
  const std::vector<Column> &columns() const override { return allColumns; }

  size_t scratchBytes(size_t column) const override {
    const bool isThere = kinds[column] == Kind::kTokens || (kinds[column] == Kind::kTargets && !ignoresTargets());
    return isThere ? 0 : numElements(allColumns[column].shape) * dtypeBytes(allColumns[column].element);
  }

  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    const char *window = windowAt(which.sample);
    if (scratchBytes(column) == 0) {
      return kinds[column] == Kind::kTokens ? window : window + dtypeBytes(element);
    }
    withTokens(element, window, [&](const auto *tokens) {
      switch (kinds[column]) {
      case Kind::kTargets:
        return writeTargets(options, tokens, static_cast<int64_t *>(scratch));
      case Kind::kPositions:
        return writePositions(options, tokens, static_cast<int32_t *>(scratch));
      case Kind::kSegments:
        return writeSegments(options, tokens, static_cast<int32_t *>(scratch));
      default:
        return writeMask(options, tokens, static_cast<bool *>(scratch));
      }
    });
    return scratch;
  }

  // Looks at all tokens, once, in a loop that costs as much as reading the memory.
  std::optional<ElementRange> range(size_t column) override {
    if (kinds[column] == Kind::kMask) {
      return std::nullopt;
    }
    if (kinds[column] == Kind::kPositions || kinds[column] == Kind::kSegments) {
      return ElementRange{0, static_cast<double>(options.length - 1)};
    }
    std::call_once(ranged, [this] { findRange(); });
    return tokenRange;
  }

  Status check() const override {
    Status status;
    for (const MappedFile &file : memory.files) {
      status.update(file.check());
    }
    return status;
  }

private:
  // Whether targets are computed: some of them do not count.
  bool ignoresTargets() const { return options.boundary >= 0 && !options.predictsNext; }

  void addColumn(const std::string &name) {
    const auto *found = std::find(std::begin(kNames), std::end(kNames), name);
    const bool isNew = std::none_of(allColumns.begin(), allColumns.end(), [&](const Column &column) { return column.name == name; });
    if (found == std::end(kNames) || !isNew) {
      return;
    }
    const Kind kind = static_cast<Kind>(found - std::begin(kNames));
    uint32_t type = ASHLAR_RT_I32;
    if (kind == Kind::kTokens || kind == Kind::kTargets) {
      type = kind == Kind::kTargets && ignoresTargets() ? static_cast<uint32_t>(ASHLAR_RT_I64) : element;
    } else if (kind == Kind::kMask) {
      type = ASHLAR_RT_BOOL;
    }
    allColumns.push_back({name, type, std::vector<int64_t>(kind == Kind::kMask ? 2 : 1, options.length)});
    kinds.push_back(kind);
  }

  const char *windowAt(uint64_t sample) const {
    const size_t span = std::upper_bound(ends.begin(), ends.end(), sample) - ends.begin();
    const uint64_t first = span == 0 ? 0 : ends[span - 1];
    return spans[span].data + (sample - first) * options.length * dtypeBytes(element);
  }

  void findRange() {
    uint32_t least = UINT32_MAX, greatest = 0;
    for (const TokenSpan &span : spans) {
      withTokens(element, span.data, [&](const auto *tokens) {
        auto low = *tokens, high = *tokens;
        for (uint64_t i = 1; i < span.count; ++i) {
          low = std::min(low, tokens[i]);
          high = std::max(high, tokens[i]);
        }
        least = std::min<uint32_t>(least, low);
        greatest = std::max<uint32_t>(greatest, high);
      });
    }
    tokenRange = {static_cast<double>(least), static_cast<double>(greatest)};
  }

  WindowOptions options;
  uint32_t element;
  std::vector<TokenSpan> spans; // none is empty
  TokenMemory memory;
  std::vector<uint64_t> ends; // windows up to the end of each span
  uint64_t count = 0;
  std::vector<Column> allColumns;
  std::vector<Kind> kinds; // of the columns
  std::once_flag ranged;
  ElementRange tokenRange;
};

} // namespace

WindowOptions WindowOptions::of(const ashlar_rt_dataset &description) {
  const double *params = description.params;
  WindowOptions options;
  options.length = static_cast<int64_t>(params[ASHLAR_RT_WINDOW]);
  options.boundary = static_cast<int64_t>(params[ASHLAR_RT_BOUNDARY]);
  options.boundaryBegins = params[ASHLAR_RT_BOUNDARY_BEGINS] != 0;
  options.predictsNext = params[ASHLAR_RT_PREDICTS_NEXT] != 0;
  options.restartsPositions = params[ASHLAR_RT_RESTARTS_POSITIONS] != 0;
  for (uint32_t i = 0; i < description.num_features; ++i) {
    const ashlar_rt_feature &feature = description.features[i];
    options.ignored = std::strcmp(feature.column, "targets") == 0 && feature.classes != 0 ? feature.ignored_label : options.ignored;
  }
  return options;
}

std::unique_ptr<Dataset> makeTokenWindows(const ashlar_rt_dataset &description, uint32_t element, std::vector<TokenSpan> spans,
                                          TokenMemory memory) {
  return std::make_unique<TokenWindows>(description, element, std::move(spans), std::move(memory));
}

} // namespace ashlar::rt
