// SPDX-License-Identifier: Apache-2.0
//
// Prompts from files, and what is wrong with others; new tokens to files.

#include "runtime/data/formats/npy.h"
#include "runtime/run/generate/texts.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace ashlar::test::texts_test {
namespace {

using namespace ashlar::rt;

struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("ashlar_texts_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string &name) const { return (path / name).string(); }
  std::string write(const std::string &text) const {
    std::ofstream(file("prompts.txt")) << text;
    return file("prompts.txt");
  }

  std::filesystem::path path;
};

std::vector<std::vector<int64_t>> promptsOf(const std::string &path) {
  std::vector<Text> texts;
  Status status = readPrompts(path, /*context=*/8, /*vocabulary=*/100, texts);
  INFO(status.message());
  REQUIRE(status.ok());
  std::vector<std::vector<int64_t>> prompts;
  for (const Text &text : texts) {
    prompts.push_back(text.prompt);
  }
  return prompts;
}

std::string faultOf(const std::string &path) {
  std::vector<Text> texts;
  const Status status = readPrompts(path, /*context=*/8, /*vocabulary=*/100, texts);
  CHECK(!status.ok());
  return status.message();
}

bool has(const std::string &text, const std::string &part) {
  UNSCOPED_INFO(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("texts: a prompt is a line of ids, or a row of a .npy file", "[runtime][texts]") {
  Folder folder;
  using Prompts = std::vector<std::vector<int64_t>>;
  CHECK(promptsOf(folder.write("5 6,7\r\n\n  99\t0 \n")) == Prompts{{5, 6, 7}, {99, 0}});
  CHECK(promptsOf(folder.write("3")) == Prompts{{3}});
  const int64_t wide[] = {1, 2, 3, 4, 5, 6};
  REQUIRE(writeNpy(folder.file("a.npy"), ASHLAR_RT_I64, {2, 3}, wide).ok());
  CHECK(promptsOf(folder.file("a.npy")) == Prompts{{1, 2, 3}, {4, 5, 6}});
  const int64_t padded[] = {1, -1, -1, 4, 5, -1};
  REQUIRE(writeNpy(folder.file("c.npy"), ASHLAR_RT_I64, {2, 3}, padded).ok());
  CHECK(promptsOf(folder.file("c.npy")) == Prompts{{1}, {4, 5}});
  const int32_t narrow[] = {7, 8};
  REQUIRE(writeNpy(folder.file("b.npy"), ASHLAR_RT_I32, {2}, narrow).ok());
  CHECK(promptsOf(folder.file("b.npy")) == Prompts{{7, 8}});
}

TEST_CASE("texts: wrong prompts are reported with the place", "[runtime][texts]") {
  Folder folder;
  CHECK(has(faultOf(folder.write("1 2\n3 x4 5\n")), "line 2: \"x4\" is no token id"));
  CHECK(has(faultOf(folder.write("1 2.5\n")), "\"2.5\" is no token id"));
  CHECK(has(faultOf(folder.write("99999999999999999999\n")), "is no token id"));
  CHECK(has(faultOf(folder.write("\n \n")), "has no prompt"));
  CHECK(has(faultOf(folder.write("1\n1 2 3 4 5 6 7 8 9\n")), "prompt 2 has 9 tokens, but the model has 8 positions"));
  CHECK(has(faultOf(folder.write("1 2\n3 100\n")), "token 2 of prompt 2 is 100, but the vocabulary has 100 tokens"));
  CHECK(has(faultOf(folder.write("-1\n")), "token 1 of prompt 1 is -1"));
  CHECK(has(faultOf(folder.file("none.txt")), "none.txt: cannot be opened"));
  const float numbers[] = {1, 2};
  REQUIRE(writeNpy(folder.file("f.npy"), ASHLAR_RT_F32, {2}, numbers).ok());
  CHECK(has(faultOf(folder.file("f.npy")), "this is f32 of 1 dims"));
  REQUIRE(writeNpy(folder.file("e.npy"), ASHLAR_RT_I64, {1, 0}, numbers).ok());
  CHECK(has(faultOf(folder.file("e.npy")), "prompt 1 has 0 tokens"));
}

TEST_CASE("texts: new tokens are lines, or rows filled up with -1", "[runtime][texts]") {
  Folder folder;
  const std::vector<Text> texts = {{{1}, {4, 5, 6}, {}}, {{2}, {}, {}}, {{3}, {7}, {}}};
  TextWriter writer;
  REQUIRE(writer.open(folder.file("out.txt"), /*streams=*/false).ok());
  REQUIRE(writer.finish(texts).ok());
  std::ifstream stream(folder.file("out.txt"));
  CHECK(std::string(std::istreambuf_iterator<char>(stream), {}) == "4 5 6\n\n7\n");
  REQUIRE(writer.open(folder.file("out.npy"), /*streams=*/true).ok());
  REQUIRE(writer.finish(texts).ok());
  NpyFile file;
  REQUIRE(NpyFile::open(folder.file("out.npy"), file).ok());
  CHECK(file.shape() == std::vector<int64_t>{3, 3});
  const int64_t expected[] = {4, 5, 6, -1, -1, -1, 7, -1, -1};
  CHECK(std::memcmp(file.data(), expected, sizeof(expected)) == 0);
  CHECK(!writer.open("/no/such/folder/out.txt", false).ok());
}

} // namespace

} // namespace ashlar::test::texts_test
