// SPDX-License-Identifier: Apache-2.0
//
// Lines -> sums and samples -> rates and fits -> text.

#include "compiler/cost/calibration.h"

#include "passes/analysis/costs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Format.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <cmath>

using llvm::StringRef;

namespace ashlar::cost {

namespace {

using CollectiveRate = job::Machine::CollectiveRate;

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

// Returns the kind by its name in job.proto.
std::optional<CollectiveKind> kindOf(StringRef name) {
  return symbolizeCollectiveKind(name.lower());
}

// Rounded to four digits: more are not repeatable, and the ranges of job.proto hold what is left.
double rounded(double number, double least, double most) {
  const double digits = number > 0 ? std::pow(10, 3 - std::floor(std::log10(number))) : 1;
  return std::clamp(std::round(number * digits) / digits, least, most);
}
double roundedRate(double gflop) {
  return rounded(gflop, 1e-3, 1e9);
}
double roundedBandwidth(double gigabytes) {
  return rounded(gigabytes, 1e-3, 1e6);
}
double roundedMicroseconds(double us) {
  return std::round(std::clamp(us, 0.0, 1e6) * 1e3) / 1e3;
} // a nanosecond is the least that counts

template <typename Given> void setLinks(Given &given, const MessageFit &fit) {
  given.set_latency_us(roundedMicroseconds(fit.perMessage * 1e6));
  given.set_bandwidth_gb_per_s(roundedBandwidth(fit.perByte > 0 ? 1e-9 / fit.perByte : 1e6));
}

} // namespace

MessageFit fitMessages(llvm::ArrayRef<MessageSample> samples) {
  // With x = messages / seconds and y = bytes / seconds: the least sum of (x a + y b - 1)^2.
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  for (const MessageSample &sample : samples) {
    const double x = sample.messages / sample.seconds, y = sample.bytes / sample.seconds;
    xx += x * x, xy += x * y, yy += y * y, x1 += x, y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  MessageFit fit;
  if (determinant > 1e-12 * xx * yy) {
    fit.perMessage = (x1 * yy - y1 * xy) / determinant;
    fit.perByte = (y1 * xx - x1 * xy) / determinant;
  }
  if (fit.perByte <= 0) { // also where all samples are of one size: nothing tells bytes from messages
    fit = {x1 / xx, 0, 0};
  } else if (fit.perMessage < 0) {
    fit = {0, y1 / yy, 0};
  }
  std::vector<double> deviations;
  for (const MessageSample &sample : samples) {
    deviations.push_back(std::abs(fit.predict(sample) / sample.seconds - 1));
  }
  fit.deviation = median(std::move(deviations));
  return fit;
}

llvm::Error Measurements::addLine(StringRef line) {
  llvm::SmallVector<StringRef> words;
  line.split(words, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  auto fail = [&] { return llvm::createStringError("ashlar-calibrate printed \"" + line + "\", which is no measurement"); };
  double seconds = 0;
  if (words.back().getAsDouble(seconds) || !(seconds > 0) || std::isinf(seconds)) {
    return fail();
  }
  int64_t number = 0;
  double amount = 0;
  if (words[0] == "launch" && words.size() == 2) {
    launch = seconds;
  } else if (words[0] == "memory" && words.size() == 3 && !words[1].getAsDouble(amount)) {
    memory = {amount, seconds};
  } else if (words.size() == 5 && !words[1].getAsInteger(10, number) && !words[3].getAsDouble(amount) && words[0] != "collective") {
    CallSum &sum = tables[(words[0] + " " + words[2]).str()][number];
    sum.flops += amount;
    sum.seconds += seconds;
  } else if (int64_t ranks = 0, bytes = 0; words.size() == 5 && words[0] == "collective" && !words[2].getAsInteger(10, ranks) &&
                                           !words[3].getAsInteger(10, bytes) && ranks > 1 && bytes > 0) {
    std::optional<CollectiveKind> kind = kindOf(words[1]);
    Kind named;
    if (!kind || !CollectiveRate::Kind_Parse(words[1].str(), &named)) {
      return fail();
    }
    samples[named].push_back({static_cast<double>(analysis::collectiveMessages(*kind, ranks)),
                              static_cast<double>(dist::collectiveBytes(*kind, bytes, ranks)), seconds});
  } else {
    return fail();
  }
  return llvm::Error::success();
}

llvm::Error Measurements::add(StringRef text) {
  llvm::SmallVector<StringRef> lines;
  text.split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    const StringRef word = line.take_until([](char c) { return c == ' '; });
    if (!llvm::is_contained({"product", "convolution", "attention", "memory", "launch", "collective"}, word)) {
      continue;
    }
    if (llvm::Error error = addLine(line)) {
      return error;
    }
  }
  return llvm::Error::success();
}

std::map<Measurements::Kind, std::pair<size_t, MessageFit>> Measurements::fits() const {
  std::map<Kind, std::pair<size_t, MessageFit>> all;
  for (const auto &[kind, list] : samples) {
    all[kind] = {list.size(), fitMessages(list)};
  }
  return all;
}

void Measurements::fillTable(StringRef kind, google::protobuf::RepeatedPtrField<job::Machine::ShapeRate> &rates) const {
  const auto wide = tables.find((kind + " f32").str()), narrow = tables.find((kind + " bf16").str());
  if (wide == tables.end()) {
    return;
  }
  for (const auto &[size, sum] : wide->second) {
    job::Machine::ShapeRate &rate = *rates.Add();
    rate.set_from(size);
    rate.set_gflop_per_s(roundedRate(sum.gflopPerSecond()));
    if (narrow != tables.end() && narrow->second.count(size) != 0) {
      rate.set_narrow_gflop_per_s(roundedRate(narrow->second.at(size).gflopPerSecond()));
    }
  }
}

llvm::Expected<job::Machine> Measurements::machine() const {
  job::Machine machine;
  job::Machine::Device &device = *machine.mutable_device();
  fillTable("product", *device.mutable_products());
  if (device.products().empty() || !device.products().rbegin()->has_narrow_gflop_per_s() || memory.seconds == 0 || launch < 0) {
    return llvm::createStringError("ashlar-calibrate printed no rates of the device; run it again");
  }
  device.set_gflop_per_s(device.products().rbegin()->gflop_per_s());
  device.set_narrow_gflop_per_s(device.products().rbegin()->narrow_gflop_per_s());
  device.set_memory_gb_per_s(roundedBandwidth(memory.gflopPerSecond()));
  device.set_launch_us(roundedMicroseconds(launch * 1e6));
  fillTable("convolution", *device.mutable_convolutions());
  fillTable("attention", *device.mutable_attentions());
  const auto all = fits();
  if (all.empty()) {
    return machine;
  }
  // A permute is a message from each rank to another, so it says what kinds take that were not measured.
  job::Machine::LinkClass &links = *machine.mutable_intra_host();
  const auto plain = all.find(CollectiveRate::PERMUTE);
  setLinks(links, plain == all.end() ? all.begin()->second.second : plain->second.second);
  for (const auto &[kind, fit] : all) {
    if (kind != CollectiveRate::PERMUTE) {
      CollectiveRate &rate = *links.add_collectives();
      rate.set_kind(kind);
      setLinks(rate, fit.second);
    }
  }
  return machine;
}

namespace {

std::string numberText(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.10g", number);
  return text;
}

void writeTable(llvm::raw_ostream &out, StringRef name, const google::protobuf::RepeatedPtrField<job::Machine::ShapeRate> &table) {
  for (const job::Machine::ShapeRate &rate : table) {
    out << "    " << name << " { from: " << rate.from() << " gflop_per_s: " << numberText(rate.gflop_per_s());
    if (rate.has_narrow_gflop_per_s()) {
      out << " narrow_gflop_per_s: " << numberText(rate.narrow_gflop_per_s());
    }
    out << " }\n";
  }
}

} // namespace

void writeMachine(llvm::raw_ostream &out, const Measurements &measurements, const job::Machine &machine, int ranks) {
  const job::Machine::Device &device = machine.device();
  out << "# Measured by ashlarc --calibrate on a host with processors of type " << llvm::sys::getHostCPUName() << ", "
      << (ranks == 1 ? "by one rank on one thread" : std::to_string(ranks) + " ranks at once, each on one thread") << ": docs/machine.md.\n"
      << "machine {\n  device {\n"
      << "    gflop_per_s: " << numberText(device.gflop_per_s()) << "  # of large products\n"
      << "    narrow_gflop_per_s: " << numberText(device.narrow_gflop_per_s()) << "  # the same with operands and result in bf16\n"
      << "    memory_gb_per_s: " << numberText(device.memory_gb_per_s()) << "  # of a copy\n"
      << "    launch_us: " << numberText(device.launch_us()) << "  # of a kernel on a few numbers\n";
  writeTable(out, "products", device.products());
  writeTable(out, "convolutions", device.convolutions());
  writeTable(out, "attentions", device.attentions());
  out << "  }\n";
  if (machine.has_intra_host()) {
    auto comment = [&, fits = measurements.fits()](Measurements::Kind kind) {
      const auto found = fits.find(kind);
      if (found == fits.end()) {
        return std::string();
      }
      std::string text;
      llvm::raw_string_ostream(text) << "  # " << found->second.first << " times, half of them within "
                                     << llvm::format("%.0f", 100 * found->second.second.deviation) << " % of this\n";
      return text;
    };
    out << "  intra_host {\n    latency_us: " << numberText(machine.intra_host().latency_us())
        << "  # of a permute, and of kinds not named below\n    bandwidth_gb_per_s: "
        << numberText(machine.intra_host().bandwidth_gb_per_s()) << comment(CollectiveRate::PERMUTE);
    for (const CollectiveRate &rate : machine.intra_host().collectives()) {
      out << "    collectives { kind: " << CollectiveRate::Kind_Name(rate.kind()) << " latency_us: " << numberText(rate.latency_us())
          << " bandwidth_gb_per_s: " << numberText(rate.bandwidth_gb_per_s()) << " }" << comment(rate.kind());
    }
    out << "  }\n";
  }
  out << "}\n# Not measured: links between hosts (inter_host) and how many ranks a host has (ranks_per_host)"
      << (machine.has_intra_host() ? ".\n" : ", and, with one rank, links within a host (intra_host).\n");
}

} // namespace ashlar::cost
