// SPDX-License-Identifier: Apache-2.0
//
// list, show and verify: what there is, and whether it is whole.

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/folder.h"
#include "tools/ashlar_ckpt/commands.h"

#include <algorithm>
#include <cstdio>

namespace ashlar::ckpt {

using namespace ashlar::rt;

namespace {

using Row = std::vector<std::string>;

// Prints rows with columns of one width; those with a bit in `right` are numbers.
void printTable(const std::vector<Row> &rows, unsigned right) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row &row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const Row &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? "" : "  ";
      line += (right >> i & 1) != 0 ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
    }
    printLine(line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

// Returns "4 (dp=2 tp=2)".
std::string ranksText(const CheckpointIndex &index) {
  return index.mesh.empty() ? fmt::format("{}", index.ranks) : fmt::format("{} ({})", index.ranks, index.mesh);
}

uint64_t bytesOnDisk(const CheckpointIndex &index) {
  uint64_t bytes = 0;
  for (const CheckpointFile &file : index.files) {
    bytes += file.bytes;
  }
  return bytes;
}

// Returns "[0:128,0:784]".
std::string rangesText(const CheckpointPiece &piece) {
  std::string text;
  for (size_t dim = 0; dim < piece.start.size(); ++dim) {
    text += fmt::format("{}{}:{}", dim == 0 ? "" : ",", piece.start[dim], piece.start[dim] + piece.size[dim]);
  }
  return "[" + text + "]";
}

} // namespace

void printLine(std::string line) {
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  std::fputs((line + "\n").c_str(), stdout);
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape) {
    text += fmt::format("{}{}", text.empty() ? "" : "x", size);
  }
  return "[" + text + "]";
}

// Which part of all pieces it has.
std::string stateText(const CheckpointIndex &index) {
  const std::string before = index.parts == 1 ? "" : fmt::format(" and {} before it", index.parts - 1);
  return index.hosts == 0 ? "whole" : fmt::format("the part of host {}{} of {}", index.host, before, index.hosts);
}

Status list(const std::string &directory) {
  std::vector<CheckpointName> found;
  ASHLAR_RETURN_IF_ERROR(listCheckpoints(directory, found));
  if (found.empty()) {
    printLine(fmt::format("no checkpoint in {}", directory));
    return Status();
  }
  std::vector<Row> rows = {{"name", "steps done", "ranks", "bytes", "state"}};
  for (const CheckpointName &read : found) {
    CheckpointIndex index;
    const Status whole = readIndex(directory + "/" + read.name, index);
    rows.push_back(
        whole.ok() ? Row{read.name, std::to_string(index.stepsDone), ranksText(index), std::to_string(bytesOnDisk(index)), stateText(index)}
                   : Row{read.name, "", "", "", "not whole: " + whole.message()});
  }
  printTable(rows, 0b01010);
  return Status();
}

Status show(const std::string &checkpoint, bool pieces) {
  CheckpointIndex index;
  ASHLAR_RETURN_IF_ERROR(readIndex(checkpoint, index));
  uint64_t bytes = 0;
  for (const CheckpointTensor &tensor : index.tensors) {
    bytes += tensor.bytes();
  }
  printTable({{"model", index.model},
              {"target", index.target},
              {"ranks", ranksText(index)},
              {"state", stateText(index)},
              {"position", fmt::format("epoch {}, step {}; {} steps done", index.epoch, index.step, index.stepsDone)},
              {"samples", fmt::format("{}, {} a step", index.samples, index.samplesAStep)},
              {"seed", std::to_string(index.seed)},
              {"tensors", fmt::format("{}, {} bytes in {} files", index.tensors.size(), bytes, index.files.size())}},
             0);
  std::vector<Row> rows = {{"name", "dtype", "shape", "bytes", "state of"}};
  for (const CheckpointTensor &tensor : index.tensors) {
    rows.push_back({tensor.name, dtypeName(tensor.dtype), shapeText(tensor.shape), std::to_string(tensor.bytes()), tensor.stateOf});
    for (size_t i = 0; pieces && i < tensor.pieces.size(); ++i) {
      const CheckpointPiece &piece = tensor.pieces[i];
      rows.push_back({"  " + index.files[piece.file].name, "", rangesText(piece),
                      std::to_string(countElements(piece.size) * dtypeBytes(tensor.dtype)), fmt::format("from byte {} on", piece.offset)});
    }
  }
  printLine("");
  printTable(rows, 0b01000);
  return Status();
}

Status verify(const std::vector<std::string> &checkpoints, bool &isDamaged) {
  uint64_t bytes = 0;
  size_t whole = 0;
  for (const std::string &checkpoint : checkpoints) {
    CheckpointReader reader;
    std::vector<std::string> lines;
    if (Status opened = reader.open(checkpoint); !opened.ok()) {
      lines.push_back(opened.message());
    } else {
      lines = reader.verify();
    }
    for (const std::string &line : lines) {
      printLine(line);
    }
    bytes += reader.bytesVerified();
    whole += lines.empty() ? 1 : 0;
  }
  printLine(fmt::format("{} of {} whole; {} bytes verified", whole, checkpoints.size(), bytes));
  isDamaged = whole != checkpoints.size();
  return Status();
}

} // namespace ashlar::ckpt
