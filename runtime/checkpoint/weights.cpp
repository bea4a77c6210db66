// SPDX-License-Identifier: Apache-2.0

#include "runtime/checkpoint/weights.h"

#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace ashlar::rt {

namespace {

using Json = nlohmann::json;

// Lists the tensors of one more file, which has the name `name` in the folder of `path`.
Status addSafetensors(const std::string &path, const std::string &name, CheckpointIndex &index) {
  MappedFile mapped;
  ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, mapped));
  SafetensorsHeader header;
  ASHLAR_RETURN_IF_ERROR(readSafetensorsHeader({mapped.data(), mapped.size()}, mapped.size(), path, header));
  const auto file = static_cast<uint32_t>(index.files.size());
  index.files.push_back({name, mapped.size()});
  for (StoredTensor &stored : header.tensors) {
    CheckpointTensor tensor;
    tensor.name = std::move(stored.name);
    tensor.dtype = stored.dtype;
    tensor.shape = std::move(stored.shape);
    tensor.pieces.push_back(wholePiece(file, header.bytes + stored.begin, tensor.shape));
    index.tensors.push_back(std::move(tensor));
  }
  return mapped.check();
}

// Lists the files that the weight_map of an index names. A tensor that it names is to be in the file that it says.
Status addMappedFiles(const std::string &path, CheckpointIndex &index) {
  MappedFile mapped;
  ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, mapped));
  const Json json = Json::parse(mapped.data(), mapped.data() + mapped.size(), nullptr, /*allow_exceptions=*/false);
  ASHLAR_RETURN_IF_ERROR(mapped.check());
  const Json map = json.is_object() ? json.value("weight_map", Json()) : Json();
  std::map<std::string, std::vector<std::string>> files; // tensors of each
  for (const auto &[tensor, file] : map.items()) {
    const std::string name = map.is_object() && file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos) {
      return invalid("{}: its weight_map has {} for {}, which is no name of a file next to it", path, file.dump(), tensor);
    }
    files[name].push_back(tensor);
  }
  if (files.empty()) {
    return invalid("{} is no index of safetensors files: it has no weight_map, which names the file of each tensor", path);
  }
  const std::string folder = path.substr(0, path.rfind('/') + 1); // npos + 1 == 0
  for (const auto &[file, tensors] : files) {
    const size_t first = index.tensors.size();
    ASHLAR_RETURN_IF_ERROR(addSafetensors(folder + file, file, index));
    for (const std::string &name : tensors) {
      if (std::none_of(index.tensors.begin() + static_cast<std::ptrdiff_t>(first), index.tensors.end(),
                       [&](const CheckpointTensor &tensor) { return tensor.name == name; })) {
        return invalid("{} has no {}, which {} looks for there", folder + file, name, path);
      }
    }
  }
  return Status();
}

bool isWildcard(char letter) {
  return letter == '*' || letter == '?';
}

} // namespace

Status listWeights(const std::string &path, CheckpointIndex &index) {
  index = CheckpointIndex();
  if (std::filesystem::path(path).extension() == ".json") {
    ASHLAR_RETURN_IF_ERROR(addMappedFiles(path, index));
  } else if (std::filesystem::path(path).extension() == ".onnx") {
    MappedFile mapped;
    ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, mapped));
    ASHLAR_RETURN_IF_ERROR(listInitializers({mapped.data(), mapped.size()}, path, index));
    ASHLAR_RETURN_IF_ERROR(mapped.check());
  } else {
    ASHLAR_RETURN_IF_ERROR(addSafetensors(path, path.substr(path.rfind('/') + 1), index));
  }
  return sortTensors(index, path);
}

Status sortTensors(CheckpointIndex &index, const std::string &path) {
  std::sort(index.tensors.begin(), index.tensors.end(),
            [](const CheckpointTensor &a, const CheckpointTensor &b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(index.tensors.begin(), index.tensors.end(),
                                        [](const CheckpointTensor &a, const CheckpointTensor &b) { return a.name == b.name; });
  return twice == index.tensors.end() ? Status() : invalid("{} has two tensors {}", path, twice->name);
}

size_t countWildcards(std::string_view glob) {
  return static_cast<size_t>(std::count_if(glob.begin(), glob.end(), isWildcard));
}

// What a `*` before the last one stands for never has to grow again: who matches what is between the two as early as possible leaves most
// to the rest. So only the last one is tried with more and more.
bool matchGlob(std::string_view glob, std::string_view text, std::vector<std::string_view> &parts) {
  size_t at = 0, inText = 0, star = std::string_view::npos, starPart = 0;
  parts.clear();
  while (inText < text.size()) {
    if (at < glob.size() && glob[at] == '*') {
      star = at++;
      starPart = parts.size();
      parts.push_back(text.substr(inText, 0));
    } else if (at < glob.size() && (glob[at] == '?' || glob[at] == text[inText])) {
      if (glob[at++] == '?') {
        parts.push_back(text.substr(inText, 1));
      }
      ++inText;
    } else if (star != std::string_view::npos) {
      parts.resize(starPart + 1);
      parts.back() = {parts.back().data(), parts.back().size() + 1};
      inText = static_cast<size_t>(parts.back().data() + parts.back().size() - text.data());
      at = star + 1;
    } else {
      return false;
    }
  }
  for (; at < glob.size() && glob[at] == '*'; ++at) {
    parts.push_back(text.substr(text.size()));
  }
  return at == glob.size();
}

Status renameTensors(const RenameRules &rules, CheckpointIndex &index, const std::string &path) {
  std::vector<bool> used(rules.size());
  std::map<std::string, std::string> before; // new name -> the one in the file
  for (CheckpointTensor &tensor : index.tensors) {
    const std::string old = tensor.name;
    std::vector<std::string_view> parts;
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const auto &each) { return matchGlob(each.first, old, parts); });
    if (rule != rules.end()) {
      used[static_cast<size_t>(rule - rules.begin())] = true;
      tensor.name.clear();
      size_t part = 0;
      for (char letter : rule->second) {
        tensor.name += isWildcard(letter) ? parts[part++] : std::string_view(&letter, 1);
      }
    }
    if (const auto [found, isNew] = before.emplace(tensor.name, old); !isNew) {
      return invalid("--rename makes one name, {}, of {} and {} in {}", tensor.name, found->second, old, path);
    }
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    if (!used[i]) {
      return invalid("--rename {}={} renames nothing: no tensor in {} matches it, or an earlier --rename takes them", rules[i].first,
                     rules[i].second, path);
    }
  }
  return sortTensors(index, path);
}

} // namespace ashlar::rt
