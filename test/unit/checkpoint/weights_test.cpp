// SPDX-License-Identifier: Apache-2.0
//
// Files of weights as other tools write them: what the Python packages safetensors and onnx wrote is read back, each refusal has its line,
// and names change as rules say.

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/reader.h"
#include "test/unit/checkpoint/written_checkpoint.h"
#include "test/unit/data/temporary_folder.h"

#include <cstring>

#include <catch2/catch.hpp>

namespace ashlar::test::weights_test {

using namespace ashlar::rt;

namespace {

std::string fromHex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// What safetensors.torch.save() made of {"a.f32": [[1.5, -2, nan], [inf, 0.25, -0.0]], "b.f16": [1, 65504, 2^-24, -inf], "c.bf16":
// [3.140625, -1e38], "d.f64": 0.1, "e.i64": [7, -1]}.
std::string torchFile() {
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"e.i64":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},"d.f64":{"dtype":"F64","shape":[],)"
      R"("data_offsets":[16,24]},"a.f32":{"dtype":"F32","shape":[2,3],"data_offsets":[24,48]},"c.bf16":{"dtype":"BF16","shape":[2],)"
      R"("data_offsets":[48,52]},"b.f16":{"dtype":"F16","shape":[4],"data_offsets":[52,60]}}       )";
  return fromHex("5001000000000000") + json +
         fromHex("0700000000000000ffffffffffffffff9a9999999999b93f0000c03f000000c00000c07f0000807f0000803e000000804940"
                 "96fe003cff7b010000fc");
}

// A model of onnx.helper with an initializer of each kind: raw, floats, doubles, halves (int32_data), longs (int64_data), none (empty),
// text (strings), brain (raw bf16), outside (16 bytes from byte 4 of w.bin on).
std::string onnxFile() {
  return fromHex(
      "080812003a95020a100a01780a0372617712017922034164641201672a130802100142037261774a080000c03f000020c02a1a08031001220c0000003f"
      "0000803f000000404206666c6f6174732a15100b4207646f75626c657352089a9999999999b93f2a130802100a2a058078808001420668616c7665732a"
      "0e080110073a010542056c6f6e67732a0c0800100142046e6f6e654a002a0d080110083201734204746578742a11080210104205627261696e4a04803f"
      "00402a3f08020802100142076f7574736964656a110a086c6f636174696f6e1205772e62696e6a0b0a066f66667365741201346a0c0a066c656e677468"
      "1202313670015a0f0a0178120a0a08080112040a020802620f0a0179120a0a08080112040a02080242040a001011");
}

void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// All of a tensor.
template <typename T> std::vector<T> numbersOf(CheckpointReader &reader, const std::string &name) {
  const CheckpointTensor *tensor = reader.index().find(name);
  REQUIRE(tensor != nullptr);
  REQUIRE(sizeof(T) == dtypeBytes(tensor->dtype));
  std::vector<T> numbers(countElements(tensor->shape));
  const std::vector<int64_t> start(tensor->shape.size());
  const Box all = {start.size(), start.data(), tensor->shape.data(), tensor->shape.data()};
  CHECK(reader.read(*tensor, all, reinterpret_cast<char *>(numbers.data())).message().empty());
  return numbers;
}

uint32_t bitsOf(float value) {
  return half::bitsOf(value);
}

// Replaces the one place where a text stands.
std::string replaced(std::string bytes, const std::string &from, const std::string &to) {
  const size_t place = bytes.find(from);
  REQUIRE(place != std::string::npos);
  REQUIRE(bytes.find(from, place + 1) == std::string::npos);
  return bytes.replace(place, from.size(), to);
}

} // namespace

TEST_CASE("weights: a file that torch wrote", "[checkpoint][weights]") {
  ashlar::test::TemporaryFolder place;
  const std::string path = place.path() + "/w.safetensors";
  writeFile(path, torchFile());
  CheckpointReader reader;
  REQUIRE(reader.openWeights(path, {}).message().empty());
  CHECK(reader.folder() == path);
  CHECK(reader.index().tensors.size() == 5);
  const std::vector<float> a = numbersOf<float>(reader, "a.f32");
  CHECK((a[0] == 1.5f && a[1] == -2 && bitsOf(a[2]) == 0x7fc00000 && bitsOf(a[3]) == 0x7f800000 && a[4] == 0.25f));
  CHECK(bitsOf(a[5]) == 0x80000000);
  CHECK(numbersOf<uint16_t>(reader, "b.f16") == std::vector<uint16_t>{0x3c00, 0x7bff, 0x0001, 0xfc00});
  CHECK(numbersOf<uint16_t>(reader, "c.bf16") == std::vector<uint16_t>{0x4049, 0xfe96});
  CHECK(numbersOf<double>(reader, "d.f64") == std::vector<double>{0.1});
  CHECK(numbersOf<int64_t>(reader, "e.i64") == std::vector<int64_t>{7, -1});
  CHECK(reader.index().find("a.f32")->shape == std::vector<int64_t>{2, 3});
  CHECK(reader.bytesCopied() == 60);
  CHECK(reader.bytesVerified() == 0); // it has no checksums
  CHECK(reader.check().ok());
}

TEST_CASE("weights: the initializers of a model that onnx wrote", "[checkpoint][weights]") {
  ashlar::test::TemporaryFolder place;
  const std::string path = place.path() + "/m.onnx";
  writeFile(path, onnxFile());
  const float outside[] = {8, 0.5f, 1, 2, 4};
  writeFile(place.path() + "/w.bin", std::string(reinterpret_cast<const char *>(outside), sizeof(outside)));
  CheckpointReader reader;
  REQUIRE(reader.openWeights(path, {}).message().empty());
  CHECK(numbersOf<float>(reader, "raw") == std::vector<float>{1.5f, -2.5f});
  CHECK(numbersOf<float>(reader, "floats") == std::vector<float>{0.5f, 1, 2});
  CHECK(numbersOf<double>(reader, "doubles") == std::vector<double>{0.1});
  CHECK(numbersOf<uint16_t>(reader, "brain") == std::vector<uint16_t>{0x3f80, 0x4000});
  CHECK(numbersOf<float>(reader, "outside") == std::vector<float>{0.5f, 1, 2, 4});
  CHECK(numbersOf<float>(reader, "none").empty());
  CHECK(reader.index().find("outside")->shape == std::vector<int64_t>{2, 2});
  CHECK(reader.index().find("raw")->unreadable.empty());
  // What lies as no array in the file is told where it is wanted.
  CHECK(reader.index().find("halves")->unreadable == "its numbers are in int32_data; save the model with them in raw_data");
  CHECK(reader.index().find("longs")->unreadable == "its numbers are in int64_data; save the model with them in raw_data");
  CHECK(reader.index().find("text")->unreadable == "it has ONNX's element type 8, which Ashlar does not have");
}

TEST_CASE("weights: refused ONNX models", "[checkpoint][weights]") {
  ashlar::test::TemporaryFolder place;
  const std::string path = place.path() + "/m.onnx", model = onnxFile();
  auto refusal = [&](const std::string &bytes) {
    writeFile(path, bytes);
    CheckpointReader reader;
    const std::string message = reader.openWeights(path, {}).message();
    const size_t at = message.find(path);
    return at == std::string::npos ? message : std::string(message).replace(at, path.size(), "M");
  };
  CHECK(refusal(model) == "M: initializer outside lies in " + place.path() + "/w.bin, which is not there");
  writeFile(place.path() + "/w.bin", std::string(19, 'x'));
  CHECK(refusal(model) ==
        "M: initializer outside is 16 bytes from byte 4 of w.bin on, which has 19 bytes; it was cut or belongs to another model");
  writeFile(place.path() + "/w.bin", std::string(20, 'x'));
  CHECK(refusal(model).empty());
  const std::string noModel = "M is no ONNX model, or was cut: it cannot be read as fields of protobuf";
  for (size_t length = 1; length < model.size(); ++length) {
    INFO(length);
    const std::string message = refusal(model.substr(0, length));
    // Behind the graph stands the opset, which nobody asks for.
    CHECK((message == noModel || (message.empty() && length == model.size() - 6)));
  }
  CHECK(refusal("a text, not a model") == noModel);
  CHECK(refusal(std::string(64, '\xff')) == noModel);
  CHECK(refusal(fromHex("0808")) == noModel);
  // The size of raw, and its type.
  const std::string raw = fromHex("08021001") + "B" + fromHex("03") + "raw";
  CHECK(refusal(replaced(model, raw, fromHex("08031001") + raw.substr(4))) ==
        "M: initializer raw has 8 bytes but its shape and type need 12");
  CHECK(refusal(replaced(model, raw, fromHex("08021007") + raw.substr(4))) ==
        "M: initializer raw has 8 bytes but its shape and type need 16");
  CHECK(refusal(replaced(model, "floats", "rawraw")).empty());
  CHECK(refusal(replaced(model, "halves", "floats")) == "M has two tensors floats");
  CHECK(refusal(replaced(model, "w.bin", "../xx")) == "M: initializer outside lies in " + place.path() + "/../xx, which is not there");
  std::filesystem::create_directory(place.path() + "/m");
  writeFile(place.path() + "/m/m.onnx", replaced(model, "w.bin", "../w."));
  std::filesystem::copy(place.path() + "/w.bin", place.path() + "/w.");
  CheckpointReader reader;
  CHECK(reader.openWeights(place.path() + "/m/m.onnx", {}).message() ==
        place.path() + "/m/m.onnx: initializer outside lies in \"../w.\", which is not below the model's folder; copy the file there");
  std::filesystem::create_symlink("../w.bin", place.path() + "/m/w.bin");
  writeFile(place.path() + "/m/m.onnx", model);
  CHECK(reader.openWeights(place.path() + "/m/m.onnx", {}).message() ==
        place.path() + "/m/m.onnx: initializer outside lies in \"w.bin\", which is not below the model's folder; copy the file there");
  CHECK(refusal(replaced(model, fromHex("120134"), fromHex("120141"))) ==
        "M: the external data of initializer outside have offset \"A\" and length \"16\" but its shape and type need 16 bytes");
  CHECK(refusal(replaced(model, "16p", "12p")) ==
        "M: the external data of initializer outside have offset \"4\" and length \"12\" but its shape and type need 16 bytes");
}

TEST_CASE("weights: sizes in one field, and more than can be counted", "[checkpoint][weights]") {
  ashlar::test::TemporaryFolder place;
  const std::string path = place.path() + "/m.onnx";
  auto list = [&](const std::string &dims, const std::string &data, CheckpointIndex &index) {
    const std::string tensor = dims + fromHex("1001420177") + data, initializer = fromHex("2a") + static_cast<char>(tensor.size()) + tensor;
    writeFile(path, fromHex("3a") + static_cast<char>(initializer.size()) + initializer);
    return listWeights(path, index);
  };
  CheckpointIndex index;
  CHECK(list(fromHex("0a020201"), fromHex("4a080000803f00000040"), index).message().empty());
  CHECK(index.find("w")->shape == std::vector<int64_t>{2, 1});
  CHECK(list(fromHex("0a0282"), "", index).message() == path + " is no ONNX model, or was cut: it cannot be read as fields of protobuf");
  CHECK(list(fromHex("08ffffffffffffffffff01"), "", index).message() ==
        path + ": initializer w has a size of -1, or too many elements to count");
  CHECK(list(fromHex("088080808080808080400880808080808080808040"), "", index).message().find("too many elements to count") !=
        std::string::npos);
  // Numbers that each are a field, and two arrays.
  CHECK(list(fromHex("0802"), fromHex("250000803f2500000040"), index).message().empty());
  CHECK(index.find("w")->unreadable == "its numbers are in several parts; save the model with them in raw_data");
  CHECK(list(fromHex("0802"), fromHex("22040000803f220400000040"), index).message().empty());
  CHECK(index.find("w")->unreadable == "its numbers are in several parts; save the model with them in raw_data");
}

TEST_CASE("weights: the index of several files", "[checkpoint][weights]") {
  ashlar::test::TemporaryFolder place;
  const std::string path = place.path() + "/model.safetensors.index.json";
  auto write = [&](const std::string &name, const std::string &tensor, const std::string &four) {
    writeFile(place.path() + "/" + name, writeSafetensorsHeader({{tensor, ASHLAR_RT_F32, {1}, 0, 4}}, {}) + four);
  };
  write("model-1.safetensors", "a", fromHex("0000803f"));
  write("model-2.safetensors", "b", fromHex("00000040"));
  writeFile(path, R"({"metadata": {"total_size": 8}, "weight_map": {"b": "model-2.safetensors", "a": "model-1.safetensors"}})");
  CheckpointReader reader;
  REQUIRE(reader.openWeights(path, {}).message().empty());
  CHECK(numbersOf<float>(reader, "a") == std::vector<float>{1});
  CHECK(numbersOf<float>(reader, "b") == std::vector<float>{2});
  auto refusal = [&](const std::string &json) {
    writeFile(path, json);
    return reader.openWeights(path, {}).message();
  };
  CHECK(refusal(R"({"weight_map": {"a": "model-1.safetensors", "c": "model-2.safetensors"}})") ==
        place.path() + "/model-2.safetensors has no c, which " + path + " looks for there");
  CHECK(refusal(R"({"weight_map": {"a": "model-3.safetensors"}})") ==
        "cannot open \"" + place.path() + "/model-3.safetensors\": No such file or directory");
  CHECK(refusal(R"({"weight_map": {"a": "../x.safetensors"}})") ==
        path + ": its weight_map has \"../x.safetensors\" for a, which is no name of a file next to it");
  CHECK(refusal(R"({"weight_map": {"a": 1}})") == path + ": its weight_map has 1 for a, which is no name of a file next to it");
  for (const char *json : {"[]", "{", R"({"weight_map": {}})", R"({"files": 1})"}) {
    CHECK(refusal(json) == path + " is no index of safetensors files: it has no weight_map, which names the file of each tensor");
  }
  write("model-2.safetensors", "a", fromHex("00000040"));
  CHECK(refusal(R"({"weight_map": {"a": "model-1.safetensors", "a": "model-2.safetensors"}})").empty()); // JSON keeps the last
  write("model-3.safetensors", "c", fromHex("00000040"));
  writeFile(place.path() + "/model-1.safetensors",
            writeSafetensorsHeader({{"a", ASHLAR_RT_F32, {1}, 0, 4}, {"c", ASHLAR_RT_F32, {1}, 4, 4}}, {}) + std::string(8, '\0'));
  CHECK(refusal(R"({"weight_map": {"a": "model-1.safetensors", "c": "model-3.safetensors"}})") == path + " has two tensors c");
}

TEST_CASE("weights: of a checkpoint, its parameters", "[checkpoint][weights]") {
  ashlar::test::TemporaryFolder place;
  CheckpointIndex index = ashlar::test::writeRankFiles(place.path(),
                                                       {ashlar::test::randomTensor("w", ASHLAR_RT_F32, {3}, 1),
                                                        ashlar::test::randomTensor("w.momentum", ASHLAR_RT_F32, {3}, 2),
                                                        ashlar::test::randomTensor("ashlar.step", ASHLAR_RT_I64, {}, 3)},
                                                       /*ranks=*/2, /*seed=*/1);
  index.tensors[1].stateOf = "w";
  writeFile(place.path() + "/" + kIndexFile, writeIndex(index));
  CheckpointReader reader;
  REQUIRE(reader.openWeights(place.path(), {{"w", "v"}}).message().empty());
  REQUIRE(reader.index().tensors.size() == 1);
  CHECK(reader.index().tensors[0].name == "v");
}

TEST_CASE("weights: what the wildcards of a glob stand for", "[checkpoint][weights]") {
  using Parts = std::vector<std::string_view>;
  Parts parts;
  CHECK((matchGlob("a.b", "a.b", parts) && parts.empty()));
  CHECK_FALSE(matchGlob("a.b", "a.bc", parts));
  CHECK_FALSE(matchGlob("a.bc", "a.b", parts));
  CHECK((matchGlob("*", "", parts) && parts == Parts{""}));
  CHECK_FALSE(matchGlob("?", "", parts));
  CHECK((matchGlob("h.*.attn.*", "h.11.attn.c.weight", parts) && parts == Parts{"11", "c.weight"}));
  CHECK((matchGlob("*.weight", "a.weight.weight", parts) && parts == Parts{"a.weight"}));
  CHECK((matchGlob("*.*", "a.b.c", parts) && parts == Parts{"a", "b.c"}));
  CHECK((matchGlob("l?.*b?", "l1.abxbz", parts) && parts == Parts{"1", "abx", "z"}));
  CHECK((matchGlob("a*?b*", "aaab", parts) && parts == Parts{"a", "a", ""}));
  CHECK((matchGlob("**x", "aax", parts) && parts == Parts{"", "aa"}));
  CHECK_FALSE(matchGlob("*a*b*c", "xaxbx", parts));
  CHECK_FALSE(matchGlob(std::string(200, '*') + "b", std::string(5000, 'a'), parts)); // in no time
  CHECK(countWildcards("a*b?c") == 2);
}

TEST_CASE("weights: renamed", "[checkpoint][weights]") {
  auto indexOf = [](const std::vector<std::string> &names) {
    CheckpointIndex index;
    for (const std::string &name : names) {
      index.tensors.emplace_back().name = name;
    }
    return index;
  };
  auto namesOf = [](const CheckpointIndex &index) {
    std::vector<std::string> names;
    for (const CheckpointTensor &tensor : index.tensors) {
      names.push_back(tensor.name);
    }
    return names;
  };
  CheckpointIndex index = indexOf({"h.0.attn.weight", "h.10.mlp.bias", "wpe", "wte"});
  // The first that matches; the rest stay.
  CHECK(renameTensors({{"h.0.*", "first.*"}, {"h.*.*.*", "layers.*.*.of_*"}, {"w?e", "embed.?"}}, index, "F").message().empty());
  CHECK(namesOf(index) == std::vector<std::string>{"embed.p", "embed.t", "first.attn.weight", "layers.10.mlp.of_bias"});
  index = indexOf({"a", "b"});
  CHECK(renameTensors({{"a", "b"}, {"b", "a"}}, index, "F").message().empty());
  CHECK(namesOf(index) == std::vector<std::string>{"a", "b"});
  index = indexOf({"a.x", "b.x"});
  CHECK(renameTensors({{"*.x", "x"}}, index, "F").message() == "--rename makes one name, x, of a.x and b.x in F");
  index = indexOf({"a", "b"});
  CHECK(renameTensors({{"a", "b"}}, index, "F").message() == "--rename makes one name, b, of a and b in F");
  index = indexOf({"a"});
  const std::string nothing = " renames nothing: no tensor in F matches it, or an earlier --rename takes them";
  CHECK(renameTensors({{"c", "b"}}, index, "F").message() == "--rename c=b" + nothing);
  CHECK(renameTensors({{"*", "x.*"}, {"a", "b"}}, index, "F").message() == "--rename a=b" + nothing);
}

} // namespace ashlar::test::weights_test
