// SPDX-License-Identifier: Apache-2.0
//
// From times to a machine: fits by hand, rates by size, and what is refused.

#include "compiler/cost/calibration.h"
#include "compiler/cost/machine.h"
#include "compiler/job/job.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::test::calibration_test {

using cost::MessageFit;
using cost::MessageSample;

namespace {

// As ashlar-calibrate prints them: 100 GFLOP/s of f32 and 50 of bf16 for large products, half of it for those of size 4, in two lines that
// are added up; 20 GB/s; 30 ns.
constexpr const char *kDevice = "product 4 f32 1000 1e-8\n"
                                "product 4 f32 1000 3e-8\n"
                                "product 4 bf16 1000 4e-8\n"
                                "product 512 f32 1000000 1e-5\n"
                                "product 512 bf16 1000000 2e-5\n"
                                "convolution 1 f32 6000 1e-6\n"
                                "attention 64 f32 9000 1e-6\n"
                                "attention 64 bf16 9000 3e-6\n"
                                "a warning of somebody else\n"
                                "memory 1000000 5e-5\n"
                                "launch 3e-8\n";

// Returns what is wrong with the text.
std::string errorOf(const std::string &text) {
  cost::Measurements measurements;
  if (llvm::Error error = measurements.add(text)) {
    return llvm::toString(std::move(error));
  }
  llvm::Expected<job::Machine> machine = measurements.machine();
  return machine ? "" : llvm::toString(machine.takeError());
}

} // namespace

TEST_CASE("calibration: a fit finds the numbers that samples were made of", "[calibration]") {
  std::vector<MessageSample> samples;
  for (double messages : {1.0, 2.0, 3.0}) {
    for (double bytes : {64.0, 4096.0, 1e6, 16e6}) {
      samples.push_back({messages, bytes, messages * 5e-7 + bytes * 2e-10});
    }
  }
  MessageFit fit = cost::fitMessages(samples);
  CHECK(fit.perMessage == Approx(5e-7).epsilon(1e-9));
  CHECK(fit.perByte == Approx(2e-10).epsilon(1e-9));
  CHECK(fit.deviation < 1e-9);
  // Small messages count as much as large ones: 30 % more for a half of each leaves both numbers between.
  for (size_t i = 0; i < samples.size(); i += 2) {
    samples[i].seconds *= 1.3;
  }
  fit = cost::fitMessages(samples);
  CHECK((fit.perMessage > 5e-7 && fit.perMessage < 6.6e-7));
  CHECK((fit.perByte > 2e-10 && fit.perByte < 2.7e-10));
  CHECK((fit.deviation > 0.05 && fit.deviation < 0.3));
}

TEST_CASE("calibration: no number of a fit is negative", "[calibration]") {
  // Faster than in proportion to the bytes: 64 bytes take nothing, so a message would have to give time back.
  MessageFit fit = cost::fitMessages({{1, 1000, 1e-7}, {1, 10000, 2e-6}, {1, 100000, 4e-5}});
  CHECK(fit.perMessage == 0);
  CHECK(fit.perByte > 0);
  // More bytes in less time.
  fit = cost::fitMessages({{1, 1000, 2e-6}, {1, 100000, 1e-6}});
  CHECK(fit.perByte == 0);
  CHECK((fit.perMessage > 1e-6 && fit.perMessage < 2e-6));
  // One size alone: all of it is messages.
  fit = cost::fitMessages({{2, 1000, 4e-6}});
  CHECK(fit.perMessage == Approx(2e-6));
  CHECK(fit.perByte == 0);
}

TEST_CASE("calibration: rates by size and links by kind, as a job reads them", "[calibration]") {
  cost::Measurements measurements;
  // Permutes of 2 ranks: 1 message; all-reduces: 2 messages, and as many bytes as the operand has. 4 ranks: 4 messages, 1.5 times the
  // bytes.
  const std::string links = "collective PERMUTE 2 1000 1.5e-6\ncollective PERMUTE 2 100000 51e-6\n"
                            "collective ALL_REDUCE 2 1000 5e-6\ncollective ALL_REDUCE 2 1000000 1004e-6\n"
                            "collective ALL_REDUCE 4 1000 9.5e-6\ncollective ALL_REDUCE 4 1000000 1508e-6\n";
  REQUIRE(!measurements.add(kDevice + links));
  llvm::Expected<job::Machine> machine = measurements.machine();
  REQUIRE(static_cast<bool>(machine));
  std::string text;
  llvm::raw_string_ostream out(text);
  cost::writeMachine(out, measurements, *machine, /*ranks=*/4);
  INFO(text);
  llvm::Expected<job::Job> job = job::parseJobText(text, "machine.txtpb");
  REQUIRE(static_cast<bool>(job));
  REQUIRE(!job::checkJob(*job));
  CHECK(job->machine().SerializeAsString() == machine->SerializeAsString()); // nothing is lost in the text
  const cost::Machine read = cost::machineOf(*job);
  CHECK(read.device.flopsPerUs == 100000);
  CHECK(read.device.narrowFlopsPerUs == 50000);
  CHECK(read.device.bytesPerUs == 20000);
  CHECK(read.device.launchNs == 30);
  REQUIRE((read.device.products.size() == 2 && read.device.convolutions.size() == 1 && read.device.attentions.size() == 1));
  CHECK((read.device.products[0].from == 4 && read.device.products[0].flopsPerUs == 50000)); // 2000 operations in 40 ns
  CHECK((read.device.products[0].narrowFlopsPerUs == 25000 && read.device.products[1].from == 512));
  CHECK((read.device.convolutions[0].flopsPerUs == 6000 && read.device.convolutions[0].narrowFlopsPerUs == 6000)); // as f32
  CHECK((read.device.attentions[0].from == 64 && read.device.attentions[0].flopsPerUs == 9000));
  CHECK(read.device.attentions[0].narrowFlopsPerUs == 3000);
  CHECK((read.intraHost.of(CollectiveKind::Permute) == analysis::MessageCost{1000, 2000}));
  CHECK((read.intraHost.of(CollectiveKind::AllReduce) == analysis::MessageCost{2000, 1000}));
  CHECK((read.intraHost.of(CollectiveKind::Halo) == analysis::MessageCost{1000, 2000})); // not measured: as a permute
  CHECK_FALSE(job->machine().has_inter_host());
  CHECK(text.find("4 ranks at once") != std::string::npos);
  CHECK(text.find("ALL_REDUCE latency_us: 2 bandwidth_gb_per_s: 1 }  # 4 times, half of them within 0 % of this") != std::string::npos);
}

TEST_CASE("calibration: one rank has no links", "[calibration]") {
  cost::Measurements measurements;
  REQUIRE(!measurements.add(kDevice));
  llvm::Expected<job::Machine> machine = measurements.machine();
  REQUIRE(static_cast<bool>(machine));
  CHECK_FALSE(machine->has_intra_host());
  std::string text;
  llvm::raw_string_ostream out(text);
  cost::writeMachine(out, measurements, *machine, /*ranks=*/1);
  CHECK(text.find("by one rank on one thread") != std::string::npos);
  CHECK(text.find("and, with one rank, links within a host (intra_host)") != std::string::npos);
}

TEST_CASE("calibration: what is no measurement is refused", "[calibration]") {
  CHECK(errorOf(kDevice).empty());
  CHECK(errorOf("") == "ashlar-calibrate printed no rates of the device; run it again");
  CHECK(errorOf("launch 1e-8\nmemory 1 1\n") == "ashlar-calibrate printed no rates of the device; run it again");
  for (const char *line : {"launch 0", "launch -1", "launch nan", "launch inf", "launch x", "launch", "memory 3", "memory x 1e-9",
                           "product 4 f32 1000", "product x f32 1000 1e-9", "collective PERMUTE 2 1000", "collective PERMUTE 1 1000 1e-9",
                           "collective SLICE 2 1000 1e-9", "collective GATHER 2 1000 1e-9", "collective PERMUTE 2 0 1e-9"}) {
    CHECK(errorOf(line) == "ashlar-calibrate printed \"" + std::string(line) + "\", which is no measurement");
  }
}

} // namespace ashlar::test::calibration_test
