// SPDX-License-Identifier: Apache-2.0
//
// index.json: there and back, and each refusal.

#include "test/unit/checkpoint/written_checkpoint.h"
#include "test/unit/data/temporary_folder.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace ashlar::test::index_test {

using namespace ashlar::rt;
using ashlar::test::randomTensor;

namespace {

std::string textOf(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A checkpoint of two tensors in two files, and its folder.
struct Written {
  ashlar::test::TemporaryFolder folder;
  CheckpointIndex index = ashlar::test::writeCheckpoint(
      folder.path(), {randomTensor("a", ASHLAR_RT_F32, {4, 6}, 1), randomTensor("b", ASHLAR_RT_I64, {}, 2)}, 2, /*seed=*/5);

  // What is said of this index, without the folder.
  std::string refusal(const std::string &text) {
    folder.write(kIndexFile, text);
    CheckpointIndex read;
    const Status status = readIndex(folder.path(), read);
    CHECK_FALSE(status.ok());
    std::string message = status.message();
    for (size_t at; (at = message.find(folder.path() + "/")) != std::string::npos;) {
      message.erase(at, folder.path().size() + 1);
    }
    return message;
  }
  std::string refusal(const std::function<void(CheckpointIndex &)> &change) {
    CheckpointIndex changed = index;
    change(changed);
    return refusal(writeIndex(changed));
  }

  // Of an index whose text was changed by who knows how its checksum is made.
  std::string refusalOfJson(const std::function<void(nlohmann::json &)> &change) {
    nlohmann::json json = nlohmann::json::parse(writeIndex(index));
    json.erase("checksum");
    change(json);
    const std::string text = json.dump();
    json["checksum"] = checksumText({checksumOf(text.data(), text.size())});
    return refusal(json.dump());
  }
};

const std::string kNotMadeUp = "index.json: the pieces of a do not make it up; the checkpoint is damaged";

} // namespace

TEST_CASE("checkpoint index: is read as it was written", "[checkpoint][index]") {
  Written written;
  CheckpointIndex &index = written.index, read;
  index.tensors[0].stateOf = "some\n\"parameter";
  index.tensors[0].name = "moment \xc3\xa9";
  written.folder.write(kIndexFile, writeIndex(index));
  REQUIRE(readIndex(written.folder.path(), read).message().empty());
  CHECK((read.model == "net" && read.target == "cpu" && read.mesh == "dp=2" && read.ranks == 2));
  CHECK((read.epoch == 2 && read.step == 3 && read.stepsDone == 13 && read.samplesAStep == 32 && read.samples == 320));
  CHECK(read.seed == UINT64_MAX);
  REQUIRE(read.files.size() == 2);
  CHECK((read.files[1].name == "rank-00001.safetensors" && read.files[1].bytes == index.files[1].bytes));
  REQUIRE(read.tensors.size() == 2);
  CHECK(read.find("a") == nullptr);
  CHECK(read.find("b") == &read.tensors[0]); // by name
  const CheckpointTensor *tensor = read.find("moment \xc3\xa9");
  REQUIRE(tensor != nullptr);
  CHECK((tensor->dtype == ASHLAR_RT_F32 && tensor->stateOf == "some\n\"parameter" && tensor->bytes() == 96));
  CHECK(tensor->shape == std::vector<int64_t>{4, 6});
  REQUIRE(tensor->pieces.size() > 1);
  REQUIRE(tensor->pieces.size() == index.tensors[0].pieces.size());
  for (size_t i = 0; i < tensor->pieces.size(); ++i) {
    const CheckpointPiece &one = tensor->pieces[i], &other = index.tensors[0].pieces[i];
    CHECK((one.file == other.file && one.offset == other.offset && one.start == other.start && one.size == other.size));
    CHECK(one.checksums == other.checksums);
  }
  CHECK(writeIndex(read) != writeIndex(index)); // the other order
  std::swap(index.tensors[0], index.tensors[1]);
  CHECK(writeIndex(read) == writeIndex(index));
}

TEST_CASE("checkpoint index: any byte that is another is noticed, or says the same", "[checkpoint][index]") {
  Written written;
  const std::string text = textOf(written.folder.file(kIndexFile));
  size_t refused = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    written.folder.write(kIndexFile, changed);
    CheckpointIndex read;
    const bool isRefused = !readIndex(written.folder.path(), read).ok();
    refused += isRefused ? 1 : 0;
    if (!isRefused) {
      INFO("byte " << i);
      REQUIRE(writeIndex(read) == text);
    }
  }
  CHECK(refused > text.size() / 2);
}

TEST_CASE("checkpoint index: refused texts", "[checkpoint][index]") {
  Written written;
  CHECK(written.refusal("") == "cannot open \"index.json\": it is empty; a checkpoint is a folder with an index.json");
  CHECK(written.refusal("[]") == "index.json is no JSON object; the checkpoint is damaged");
  CHECK(written.refusal(writeIndex(written.index).substr(0, 100)) == "index.json is no JSON object; the checkpoint is damaged");
  CHECK(written.refusal("{}") == "index.json has format null but this program reads format 1");
  CHECK(written.refusalOfJson([](nlohmann::json &json) { json["format"] = 2; }) ==
        "index.json has format 2 but this program reads format 1");
  CHECK(written.refusalOfJson([](nlohmann::json &json) { json["format"] = 0; }) ==
        "index.json has format 0 but this program reads format 1");
  std::string flipped = writeIndex(written.index);
  const std::string own = nlohmann::json::parse(flipped)["checksum"];
  const std::string other = (own[0] == '0' ? "1" : "0") + own.substr(1);
  flipped.replace(flipped.find(own), own.size(), other);
  CHECK(written.refusal(flipped) == "index.json has the checksum \"" + own + "\" but records \"" + other + "\"; the checkpoint is damaged");
  CHECK(written.refusal(R"({"format":1})").find(" but records null; the checkpoint is damaged") != std::string::npos);
  for (const char *key :
       {"model", "target", "mesh", "ranks", "epoch", "step", "steps_done", "samples_a_step", "samples", "seed", "files", "tensors"}) {
    INFO(key);
    for (bool isMissing : {true, false}) {
      const std::string message = written.refusalOfJson([&](nlohmann::json &json) {
        json[key] = nullptr;
        isMissing ? json.erase(key) : 0;
      });
      CHECK(message.substr(0, 12) == "index.json: ");
      CHECK(message.find("; the checkpoint is damaged") != std::string::npos);
    }
  }
  for (const char *key : {"name", "dtype", "shape", "pieces"}) {
    INFO(key);
    CHECK(written.refusalOfJson([&](nlohmann::json &json) { json["tensors"][0].erase(key); }).find("; the checkpoint is damaged") !=
          std::string::npos);
  }
  CHECK(written.refusalOfJson([](nlohmann::json &json) { json["tensors"][0]["dtype"] = "F7"; }) == kNotMadeUp);
  // A number is a whole one, of a size that steps and bytes have; get() would make some number of each of these.
  const auto wrong = [&](const char *key, const nlohmann::json &value) {
    return written.refusalOfJson([&](nlohmann::json &json) { json[key] = value; });
  };
  for (const char *key : {"steps_done", "epoch", "step", "samples", "samples_a_step", "ranks", "number"}) {
    INFO(key);
    const std::string end = ", not a whole number from 0 to 281474976710656; the checkpoint is damaged";
    CHECK(wrong(key, -1) == fmt::format("index.json: {} is -1{}", key, end));
    CHECK(wrong(key, 1e300) == fmt::format("index.json: {} is 1e+300{}", key, end));
    CHECK(wrong(key, 1.5) == fmt::format("index.json: {} is 1.5{}", key, end));
    CHECK(wrong(key, UINT64_MAX) == fmt::format("index.json: {} is 18446744073709551615{}", key, end));
    CHECK(wrong(key, "7") == fmt::format("index.json: {} is string{}", key, end));
  }
  CHECK(wrong("seed", -1) == "index.json: seed is -1, not a whole number from 0 to 18446744073709551615; the checkpoint is damaged");
  const auto wrongPiece = [&](const char *key, const nlohmann::json &value) {
    return written.refusalOfJson([&](nlohmann::json &json) { json["tensors"][0]["pieces"][0][key] = value; });
  };
  CHECK(wrongPiece("file", 1e300) == "index.json: file is 1e+300, not a whole number from 0 to 4294967295; the checkpoint is damaged");
  CHECK(wrongPiece("file", uint64_t{1} << 32) ==
        "index.json: file is 4294967296, not a whole number from 0 to 4294967295; the checkpoint is damaged");
  CHECK(wrongPiece("offset", 0.5) ==
        "index.json: offset is 0.5, not a whole number from 0 to 9223372036854775807; the checkpoint is damaged");
  CHECK(wrongPiece("size", {1e300, 1}) ==
        "index.json: size is 1e+300, not a whole number from 0 to 9223372036854775807; the checkpoint is damaged");
  CHECK(wrongPiece("start", {-1, 0}) ==
        "index.json: start is -1, not a whole number from 0 to 9223372036854775807; the checkpoint is damaged");
  // What it holds is not printed, whatever lies there, and how deep.
  CHECK(written.refusal(R"({"format":["secret"]})") == "index.json has format unknown but this program reads format 1");
  CHECK(written.refusal(R"({"format":1,"checksum":"secret"})").find("secret") == std::string::npos);
  const std::string deep(1 << 20, '['), end(1 << 20, ']');
  CHECK(written.refusal("{\"format\":1,\"a\":" + deep + end + "}").find("; the checkpoint is damaged") != std::string::npos);
  CHECK(written.refusalOfJson([](nlohmann::json &json) { json["tensors"][0]["pieces"][0]["checksums"] = "12"; }) == kNotMadeUp);
}

TEST_CASE("checkpoint index: refused pieces", "[checkpoint][index]") {
  Written written;
  auto withPiece = [&](const std::function<void(CheckpointPiece &)> &change) {
    return written.refusal([&](CheckpointIndex &index) { change(index.tensors[0].pieces[0]); });
  };
  auto withTensor = [&](const std::function<void(CheckpointTensor &)> &change) {
    return written.refusal([&](CheckpointIndex &index) { change(index.tensors[0]); });
  };
  CHECK(withPiece([](CheckpointPiece &piece) { piece.file = 2; }) == kNotMadeUp);
  CHECK(withPiece([](CheckpointPiece &piece) { piece.start.pop_back(); }) == kNotMadeUp);
  CHECK(withPiece([](CheckpointPiece &piece) { piece.size.push_back(1); }) == kNotMadeUp);
  CHECK(withPiece([](CheckpointPiece &piece) { piece.start[0] = 4; }) == kNotMadeUp);
  CHECK(withPiece([](CheckpointPiece &piece) { piece.size[1] = INT64_MAX; }) == kNotMadeUp);
  CHECK(withPiece([](CheckpointPiece &piece) { piece.offset = INT64_MAX; }) == kNotMadeUp);
  CHECK(withPiece([&](CheckpointPiece &piece) { piece.offset = written.index.files[piece.file].bytes; }) == kNotMadeUp);
  CHECK(withPiece([](CheckpointPiece &piece) { piece.checksums.clear(); }) == kNotMadeUp);
  CHECK(withPiece([](CheckpointPiece &piece) { piece.checksums.push_back(0); }) == kNotMadeUp);
  CHECK(withTensor([](CheckpointTensor &tensor) { tensor.pieces.pop_back(); }) == kNotMadeUp);
  CHECK(withTensor([](CheckpointTensor &tensor) { tensor.pieces.push_back(tensor.pieces[0]); }) == kNotMadeUp);
  CHECK(withTensor([](CheckpointTensor &tensor) { // as many elements, and one twice
          tensor.shape = {3, 1};
          CheckpointPiece piece = tensor.pieces[0];
          piece.checksums.resize(1);
          piece.start = {0, 0};
          piece.size = {2, 1};
          tensor.pieces = {piece};
          piece.start = {1, 0};
          piece.size = {1, 1};
          tensor.pieces.push_back(piece);
        }) == kNotMadeUp);
  CHECK(withTensor([](CheckpointTensor &tensor) { tensor.shape[0] = 5; }) == kNotMadeUp);
  CHECK(withTensor([](CheckpointTensor &tensor) { tensor.shape[0] = INT64_MAX; }) == kNotMadeUp);
  CHECK(withTensor([](CheckpointTensor &tensor) { // 2^64 elements, or none
          tensor.shape = {int64_t{1} << 32, int64_t{1} << 32};
          tensor.pieces.clear();
        }) == kNotMadeUp);
  CHECK(withTensor([](CheckpointTensor &tensor) { // of a rank that no program has
          tensor.shape.assign(9, 1);
          tensor.pieces.resize(1);
          tensor.pieces[0].start.assign(9, 0);
          tensor.pieces[0].size.assign(9, 1);
        }) == kNotMadeUp);
  CHECK(withTensor([](CheckpointTensor &tensor) { tensor.name = "b"; }) == "index.json has two tensors b; the checkpoint is damaged");
  // Empty tensors have no pieces.
  CheckpointIndex read;
  written.index.tensors[0].shape[0] = 0;
  written.index.tensors[0].pieces.clear();
  written.folder.write(kIndexFile, writeIndex(written.index));
  CHECK(readIndex(written.folder.path(), read).message().empty());
}

// Boxes that overlap or leave something out, among so many that n * n comparisons are not made.
TEST_CASE("checkpoint index: many pieces are checked in time", "[checkpoint][index]") {
  Written written;
  constexpr int64_t kRows = 1 << 13; // more than boxes that are compared with each other may be
  CheckpointTensor &tensor = written.index.tensors[0];
  tensor.shape = {kRows, 2};
  CheckpointPiece piece = tensor.pieces[0];
  piece.checksums.resize(1);
  tensor.pieces.clear();
  for (int64_t row = 0; row < kRows; ++row) {
    piece.offset = 0;
    piece.start = {row, 0};
    piece.size = {1, 2};
    tensor.pieces.push_back(piece);
  }
  CheckpointIndex read;
  written.folder.write(kIndexFile, writeIndex(written.index));
  CHECK(readIndex(written.folder.path(), read).message().empty());
  tensor.pieces[1].start[0] = 0;
  CHECK(written.refusal(writeIndex(written.index)) == kNotMadeUp);
  tensor.pieces[1].start[0] = 1;
  tensor.pieces[1].size[1] = 1;
  CHECK(written.refusal(writeIndex(written.index)) == kNotMadeUp);
}

TEST_CASE("checkpoint index: refused files", "[checkpoint][index]") {
  Written written;
  CheckpointIndex read;
  CHECK(readIndex("/nowhere", read).message() ==
        "cannot open \"/nowhere/index.json\": No such file or directory; a checkpoint is a folder with an index.json");
  CHECK(written.refusal([](CheckpointIndex &index) { index.files.push_back({"rank-00002.safetensors", 5}); }) ==
        "rank-00002.safetensors is not there but index.json names it; the checkpoint is damaged");
  // An index that never ends, or begins.
  for (const char *kind : {"fifo", "device", "folder"}) {
    INFO(kind);
    ashlar::test::TemporaryFolder other;
    const std::string place = other.file(kIndexFile);
    const int made = kind[1] == 'i'   ? mkfifo(place.c_str(), 0600)
                     : kind[0] == 'd' ? symlink("/dev/zero", place.c_str())
                                      : mkdir(place.c_str(), 0700);
    REQUIRE(made == 0);
    CHECK(readIndex(other.path(), read).message() ==
          "cannot open \"" + place + "\": it is not a regular file; a checkpoint is a folder with an index.json");
    uint64_t number = 0;
    CHECK_FALSE(readNumber(other.path(), number));
  }
  ashlar::test::TemporaryFolder large; // a hole
  large.write(kIndexFile, "{");
  std::filesystem::resize_file(large.file(kIndexFile), uint64_t{1} << 41);
  CHECK_THAT(readIndex(large.path(), read).message(),
             Catch::Contains("it has 2199023255552 bytes, and 1073741824 are the most that are read"));
  written.folder.write("sub", "12345");
  CHECK(written.refusal([](CheckpointIndex &index) { index.files.push_back({"./sub", 5}); }) ==
        "./sub is not there but index.json names it; the checkpoint is damaged");
  const uint64_t bytes = written.index.files[1].bytes;
  written.folder.write(kIndexFile, writeIndex(written.index));
  for (uint64_t other : {bytes - 1, bytes + 1}) {
    std::filesystem::resize_file(written.folder.file("rank-00001.safetensors"), other);
    CHECK(readIndex(written.folder.path(), read).message() ==
          fmt::format("{}/rank-00001.safetensors has {} bytes but index.json records {}; the checkpoint is damaged", written.folder.path(),
                      other, bytes));
  }
}

TEST_CASE("checkpoint index: names of pieces", "[checkpoint][index]") {
  CHECK(pieceName("w", {4, 6}, {0, 0}, {4, 6}) == "w");
  CHECK(pieceName("w", {4, 6}, {2, 0}, {2, 6}) == "w[2:4,0:6]");
  CHECK(pieceName("s", {}, {}, {}) == "s");
}

} // namespace ashlar::test::index_test
