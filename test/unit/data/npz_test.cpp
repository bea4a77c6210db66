// SPDX-License-Identifier: Apache-2.0
//
// .npz archives: members as numpy writes them, in archives that are put together here; forged and damaged archives are refused in one line.

#include "runtime/data/dataset.h"
#include "runtime/data/formats/npy.h"
#include "runtime/data/formats/zip.h"
#include "test/unit/data/read_sample.h"
#include "test/unit/data/temporary_folder.h"

#include <cstring>
#include <numeric>
#include <sstream>

#include <catch2/catch.hpp>
#include <zlib.h>

namespace ashlar::test::npz_test {

using namespace ashlar::rt;
using ashlar::test::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

template <typename T> std::string number(uint64_t value) {
  const T narrow = static_cast<T>(value);
  return std::string(reinterpret_cast<const char *>(&narrow), sizeof(T));
}

std::string deflated(const std::string &bytes) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// An archive in the making. Numbers can be forged before it is put together.
struct Archive {
  struct Member {
    std::string name, stored;
    uint64_t bytes = 0, storedBytes = 0, offset = 0;
    uint32_t checksum = 0;
    uint16_t method = 0, flags = 0;
  };
  std::string data, comment;
  std::vector<Member> members;
  bool isLarge = false; // zip64 everywhere
  uint64_t extraMembers = 0;

  Archive &add(const std::string &name, const std::string &bytes, bool isDeflated = false, size_t padding = 0) {
    Member member;
    member.name = name;
    member.stored = isDeflated ? deflated(bytes) : bytes;
    member.bytes = bytes.size();
    member.storedBytes = member.stored.size();
    member.checksum = crc32(0, reinterpret_cast<const Bytef *>(bytes.data()), static_cast<uInt>(bytes.size()));
    member.method = isDeflated ? 8 : 0;
    member.offset = data.size();
    // numpy has zip64's field in each member's own header; here it is `padding` bytes.
    data += number<uint32_t>(0x04034b50) + number<uint16_t>(20) + number<uint16_t>(0) + number<uint16_t>(member.method) +
            std::string(4, '\0') + number<uint32_t>(member.checksum) + number<uint32_t>(member.storedBytes) +
            number<uint32_t>(member.bytes) + number<uint16_t>(name.size()) + number<uint16_t>(padding) + name + std::string(padding, 'p') +
            member.stored;
    members.push_back(member);
    return *this;
  }

  std::string bytes() const {
    std::string directory;
    for (const Member &member : members) {
      const std::string extra = isLarge ? number<uint16_t>(0x5455) + number<uint16_t>(1) + "t" + number<uint16_t>(1) +
                                              number<uint16_t>(24) + number<uint64_t>(member.bytes) + number<uint64_t>(member.storedBytes) +
                                              number<uint64_t>(member.offset)
                                        : "";
      directory += number<uint32_t>(0x02014b50) + number<uint16_t>(20) + number<uint16_t>(20) + number<uint16_t>(member.flags) +
                   number<uint16_t>(member.method) + std::string(4, '\0') + number<uint32_t>(member.checksum) +
                   number<uint32_t>(isLarge ? UINT32_MAX : member.storedBytes) + number<uint32_t>(isLarge ? UINT32_MAX : member.bytes) +
                   number<uint16_t>(member.name.size()) + number<uint16_t>(extra.size()) + number<uint16_t>(0) + std::string(8, '\0') +
                   number<uint32_t>(isLarge ? UINT32_MAX : member.offset) + member.name + extra;
    }
    const uint64_t count = members.size() + extraMembers;
    std::string end;
    if (isLarge) {
      end = number<uint32_t>(0x06064b50) + number<uint64_t>(44) + std::string(12, '\0') + number<uint64_t>(count) +
            number<uint64_t>(count) + number<uint64_t>(directory.size()) + number<uint64_t>(data.size());
      end += number<uint32_t>(0x07064b50) + number<uint32_t>(0) + number<uint64_t>(data.size() + directory.size()) + number<uint32_t>(1);
    }
    end += number<uint32_t>(0x06054b50) + std::string(4, '\0') + number<uint16_t>(isLarge ? 0xffff : count) +
           number<uint16_t>(isLarge ? 0xffff : count) + number<uint32_t>(isLarge ? UINT32_MAX : directory.size()) +
           number<uint32_t>(isLarge ? UINT32_MAX : data.size()) + number<uint16_t>(comment.size()) + comment;
    return data + directory + end;
  }
};

std::string npyOf(const TemporaryFolder &folder, uint32_t element, const std::vector<int64_t> &shape, const void *data) {
  REQUIRE(writeNpy(folder.file("member.npy"), element, shape, data).ok());
  std::ifstream in(folder.file("member.npy"), std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

struct Description {
  ashlar_rt_feature features[2] = {{"x", "x", 0, nullptr, 0, 0, 0}, {"y", "y", 0, nullptr, 0, 0, 0}};
  ashlar_rt_dataset dataset = {};
  Description(const char *train, const char *eval, uint32_t count = 2) {
    dataset.format = "npz";
    dataset.train_files = train;
    dataset.eval_files = eval;
    dataset.num_features = count;
    dataset.features = features;
  }
};

std::string refusal(const TemporaryFolder &folder, const std::string &bytes) {
  folder.write("train.npz", bytes);
  std::unique_ptr<Dataset> dataset;
  const Description description("train.npz", "eval.npz", 1);
  const Status status = openDataset(description.dataset, folder.path(), Split::kTrain, dataset);
  REQUIRE(!status.ok());
  CHECK(status.message().find('\n') == std::string::npos);
  CHECK_THAT(status.message(), Contains("train.npz"));
  return status.message();
}

} // namespace

TEST_CASE("npz: stored and deflated members, at any offset, with and without zip64", "[data][npz]") {
  TemporaryFolder folder;
  std::vector<double> x(5 * 300);
  std::iota(x.begin(), x.end(), 0.5);
  const std::vector<uint8_t> y = {3, 1, 4, 1, 5};
  const std::string xs = npyOf(folder, ASHLAR_RT_F64, {5, 300}, x.data()), ys = npyOf(folder, ASHLAR_RT_U8, {5}, y.data());
  const Description two("train.npz", "eval.npz"), one("mnist.npz", "mnist.npz");
  int aligned = 0;
  for (const bool isDeflated : {false, true}) {
    for (const bool isLarge : {false, true}) {
      for (size_t padding = 0; padding < 9; ++padding) {
        Archive archive, both;
        archive.isLarge = both.isLarge = isLarge;
        archive.comment = isLarge ? "a comment PK\x05\x06" : "";
        archive.add("x.npy", xs, isDeflated, padding).add("y.npy", ys, !isDeflated);
        both.add("y_test.npy", ys).add("x_train.npy", xs, isDeflated).add("x_test.npy", xs).add("y_train.npy", ys, isDeflated, padding);
        folder.write("train.npz", archive.bytes());
        folder.write("eval.npz", archive.bytes());
        folder.write("mnist.npz", both.bytes());
        for (const Description *description : {&two, &one}) {
          for (const Split split : {Split::kTrain, Split::kEval}) {
            std::unique_ptr<Dataset> dataset;
            const Status status = openDataset(description->dataset, folder.path(), split, dataset);
            INFO(status.message());
            REQUIRE(status.ok());
            REQUIRE(dataset->samples() == 5);
            for (int sample = 0; sample < 5; ++sample) {
              REQUIRE(sampleOf<double>(*dataset, 0, sample) ==
                      std::vector<double>(x.begin() + 300 * sample, x.begin() + 300 * (sample + 1)));
              REQUIRE(sampleOf<uint8_t>(*dataset, 1, sample)[0] == y[sample]);
            }
            aligned += dataset->scratchBytes(0) == 0 ? 1 : 0;
            CHECK(dataset->check().ok());
          }
        }
      }
    }
  }
  CHECK((aligned > 72 && aligned < 144)); // some stored ones are, and all inflated ones
}

TEST_CASE("npz: names of members are any bytes, such as UTF-8", "[data][npz]") {
  TemporaryFolder folder;
  const float first[2] = {1, 2}, second[2] = {3, 4};
  const std::string a = npyOf(folder, ASHLAR_RT_F32, {2}, first), b = npyOf(folder, ASHLAR_RT_F32, {2}, second);
  folder.write("train.npz", Archive().add("\u00e4.npy", a).add("\u00f6.npy", b).bytes());
  Description description("train.npz", "eval.npz");
  description.features[0].column = "\u00f6";
  description.features[1].column = "\u00e4";
  std::unique_ptr<Dataset> dataset;
  const Status status = openDataset(description.dataset, folder.path(), Split::kTrain, dataset);
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK((sampleOf<float>(*dataset, 0, 1)[0] == 4 && sampleOf<float>(*dataset, 1, 0)[0] == 1));
}

TEST_CASE("npz: members that are missing or do not fit are named", "[data][npz]") {
  TemporaryFolder folder;
  const float ones[6] = {1, 1, 1, 1, 1, 1};
  const std::string six = npyOf(folder, ASHLAR_RT_F32, {6}, ones), five = npyOf(folder, ASHLAR_RT_F32, {5}, ones);
  CHECK_THAT(refusal(folder, Archive().add("z.npy", six).bytes()),
             Contains("has no member \"x.npy\" for the column \"x\"; it has \"z.npy\""));
  CHECK_THAT(refusal(folder, Archive().bytes()), Contains("it has none"));
  CHECK_THAT(refusal(folder, Archive().add("x.npy", npyOf(folder, ASHLAR_RT_F32, {}, ones)).bytes()), Contains("has shape ()"));
  CHECK_THAT(refusal(folder, Archive().add("x.npy", six.substr(0, six.size() - 1)).bytes()),
             Contains("train.npz:x.npy\" announces (6,) elements"));
  CHECK_THAT(refusal(folder, Archive().add("x.npy", "hello, world").bytes()), Contains("train.npz:x.npy\" is not a .npy file"));
  folder.write("train.npz", Archive().add("x.npy", six).add("y.npy", five).bytes());
  std::unique_ptr<Dataset> dataset;
  CHECK_THAT(openDataset(Description("train.npz", "eval.npz").dataset, folder.path(), Split::kTrain, dataset).message(),
             Contains("holds 5 samples in \"y.npy\" but 6 in column \"x\""));
}

TEST_CASE("npz: forged and damaged archives are refused", "[data][npz]") {
  TemporaryFolder folder;
  std::vector<float> ones(5000, 1.0f);
  const std::string npy = npyOf(folder, ASHLAR_RT_F32, {5000}, ones.data());
  const std::string good = Archive().add("x.npy", npy, true).bytes();
  CHECK_THAT(refusal(folder, "PK"), Contains("is not a .npz file"));
  CHECK_THAT(refusal(folder, std::string(30, 'x')), Contains("is not a .npz file"));
  for (size_t bytes : {good.size() - 1, good.size() - 22, good.size() / 2}) {
    CHECK_THAT(refusal(folder, good.substr(0, bytes)), Contains("is not a .npz file, or truncated"));
  }
  CHECK_THAT(refusal(folder, good.substr(10)), Contains("is damaged"));
  const auto forged = [&](auto &&change, bool isDeflated = true) {
    Archive archive;
    archive.add("x.npy", npy, isDeflated).add("y.npy", npy, isDeflated);
    change(archive);
    return refusal(folder, archive.bytes());
  };
  CHECK_THAT(forged([](Archive &a) { a.members[0].bytes = uint64_t{1} << 31; }), Contains("announces 2147483648 bytes out of"));
  CHECK_THAT(forged([](Archive &a) { a.members[0].bytes = 4; }, false), Contains("announces 4 bytes out of 20128"));
  CHECK_THAT(forged([](Archive &a) { a.members[0].bytes -= 1; }), Contains("of its 20127 bytes could be inflated"));
  CHECK_THAT(forged([](Archive &a) { a.members[0].bytes += 1; }), Contains("20128 of its 20129 bytes could be inflated"));
  CHECK_THAT(forged([](Archive &a) { a.members[0].storedBytes -= 1; }), Contains("could be inflated"));
  CHECK_THAT(forged([](Archive &a) { a.members[0].checksum ^= 1; }), Contains("its checksum is another one"));
  CHECK_THAT(forged([](Archive &a) { a.members[0].checksum ^= 1; }, false),
             Contains("member \"x.npy\"") && Contains("its checksum is another one"));
  for (const size_t at : {size_t{200}, npy.size() - 1}) { // of the elements
    std::string changed = Archive().add("x.npy", npy).bytes();
    changed[30 + 5 + at] ^= 0x40;
    CHECK_THAT(refusal(folder, changed), Contains("its checksum is another one"));
  }
  CHECK_THAT(forged([](Archive &a) { a.members[1].offset = 0; }), Contains("its members \"x.npy\" and \"y.npy\" overlap"));
  CHECK_THAT(forged([](Archive &a) { a.members[1].name = "x.npy"; }), Contains("has two members \"x.npy\""));
  CHECK_THAT(forged([](Archive &a) { a.members[1].offset += 1; }), Contains("member \"y.npy\" has"));
  CHECK_THAT(forged([](Archive &a) { a.members[1].offset = 0xfffffff0; }), Contains("member \"y.npy\" has"));
  CHECK_THAT(forged([](Archive &a) { a.members[1].storedBytes += 100; }), Contains("but the directory begins at byte"));
  CHECK_THAT(forged([](Archive &a) { a.members[0].flags = 1; }), Contains("is encrypted"));
  CHECK_THAT(forged([](Archive &a) { a.members[0].method = 12; }), Contains("compression method 12"));
  CHECK_THAT(forged([](Archive &a) { a.extraMembers = 1; }),
             Contains("entry 3 of its directory is malformed") || Contains("its directory of 3 members"));
  CHECK_THAT(forged([](Archive &a) { a.extraMembers = 60000; }), Contains("its directory of 60002 members"));
  // Every byte of the directory and of the end, changed: refused or harmless, never a crash.
  for (size_t at = good.size() - 80; at < good.size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string changed = good;
      changed[at] = value;
      folder.write("train.npz", changed);
      std::unique_ptr<Dataset> dataset;
      const Status status = openDataset(Description("train.npz", "eval.npz", 1).dataset, folder.path(), Split::kTrain, dataset);
      if (status.ok()) {
        REQUIRE(sampleOf<float>(*dataset, 0, 4999)[0] == 1);
      }
    }
  }
}

} // namespace ashlar::test::npz_test
