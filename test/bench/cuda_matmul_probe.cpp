// SPDX-License-Identifier: Apache-2.0
//
// The table: types, layouts, epilogues and sizes of which programs have products. Products of the largest sizes are looked at in a few
// rows.

#include "test/bench/cuda_matmul_probe.h"

#include "runtime/kernels/cuda/matmul.h"
#include "test/bench/cuda_probe.h"

namespace ashlar::bench {
namespace {

using namespace rt;

struct Types {
  const char *name;
  uint32_t in, out;
  bool tf32;
};

constexpr Types kTypes[] = {{"f32", ASHLAR_RT_F32, ASHLAR_RT_F32, false},          {"f32 tf32", ASHLAR_RT_F32, ASHLAR_RT_F32, true},
                            {"bf16->bf16", ASHLAR_RT_BF16, ASHLAR_RT_BF16, false}, {"bf16->f32", ASHLAR_RT_BF16, ASHLAR_RT_F32, false},
                            {"f16->f16", ASHLAR_RT_F16, ASHLAR_RT_F16, false},     {"f16->f32", ASHLAR_RT_F16, ASHLAR_RT_F32, false}};

struct Epilogue {
  const char *name;
  uint32_t bias, activation, sums, auxiliary = ASHLAR_RT_AUXILIARY_NONE;
};

constexpr Epilogue kEpilogues[] = {{"none", 0, ASHLAR_RT_EPILOGUE_NONE, ASHLAR_RT_SUM_OF_NONE},
                                   {"bias", 1, ASHLAR_RT_EPILOGUE_NONE, ASHLAR_RT_SUM_OF_NONE},
                                   {"relu", 0, ASHLAR_RT_EPILOGUE_RELU, ASHLAR_RT_SUM_OF_NONE},
                                   {"relu+bias", 1, ASHLAR_RT_EPILOGUE_RELU, ASHLAR_RT_SUM_OF_NONE},
                                   {"gelu", 0, ASHLAR_RT_EPILOGUE_GELU_TANH, ASHLAR_RT_SUM_OF_NONE},
                                   {"gelu+bias", 1, ASHLAR_RT_EPILOGUE_GELU_TANH, ASHLAR_RT_SUM_OF_NONE},
                                   {"sums A", 0, ASHLAR_RT_EPILOGUE_NONE, ASHLAR_RT_SUM_OF_A},
                                   {"sums B", 0, ASHLAR_RT_EPILOGUE_NONE, ASHLAR_RT_SUM_OF_B},
                                   {"relu aux", 0, ASHLAR_RT_EPILOGUE_RELU, ASHLAR_RT_SUM_OF_NONE, ASHLAR_RT_AUXILIARY_WRITTEN},
                                   {"relu+bias aux", 1, ASHLAR_RT_EPILOGUE_RELU, ASHLAR_RT_SUM_OF_NONE, ASHLAR_RT_AUXILIARY_WRITTEN},
                                   {"gelu aux", 0, ASHLAR_RT_EPILOGUE_GELU_TANH, ASHLAR_RT_SUM_OF_NONE, ASHLAR_RT_AUXILIARY_WRITTEN},
                                   {"gelu+bias aux", 1, ASHLAR_RT_EPILOGUE_GELU_TANH, ASHLAR_RT_SUM_OF_NONE, ASHLAR_RT_AUXILIARY_WRITTEN},
                                   {"relu slope", 0, ASHLAR_RT_EPILOGUE_RELU, ASHLAR_RT_SUM_OF_NONE, ASHLAR_RT_AUXILIARY_READ},
                                   {"gelu slope", 0, ASHLAR_RT_EPILOGUE_GELU_TANH, ASHLAR_RT_SUM_OF_NONE, ASHLAR_RT_AUXILIARY_READ}};

struct Size {
  int64_t batch, m, n, k;
};

// Classifier of mlp and its gradient, a small vocabulary, attention, a weight gradient and a half batch of the wide layer of GPT-2.
constexpr Size kSizes[] = {{1, 256, 10, 512},     {1, 10, 512, 256},     {1, 64, 50, 32},
                           {192, 1024, 64, 1024}, {1, 3072, 768, 16384}, {1, 8192, 3072, 768}};
constexpr Size kSmallSizes[] = {{1, 16, 10, 32}, {1, 10, 32, 16}, {1, 8, 50, 12}, {3, 16, 4, 16}, {1, 12, 8, 64}, {1, 9, 136, 24}};

// Rows of out that are compared, and numbers of each.
constexpr int64_t kRows = 4, kColumns = 8, kSums = 16;

// How far gelu may be from the formula, for a library that approximates tanh.
constexpr double kGeluError = 2e-3;

class Probe {
public:
  explicit Probe(bool small) {
    for (const Size &size : small ? kSmallSizes : kSizes) {
      sizes.push_back(size);
    }
  }

  // Opens the device; fails where there is none.
  Status open() { return gpu.open(); }

  Status run() {
    ASHLAR_RETURN_IF_ERROR(allocate());
    ASHLAR_RETURN_IF_ERROR(matmuls.create(gpu.device, workspace, gpu.stream));
    right = rightNumbers();
    for (const Types &types : kTypes) {
      left = leftNumbers(bitsOf(types.in, types.tf32));
      const size_t width = dtypeBytes(types.in);
      ASHLAR_RETURN_IF_ERROR(gpu.fill(a, mostA * width, stored(left, types.in)));
      ASHLAR_RETURN_IF_ERROR(gpu.fill(b, mostB * width, stored(right, types.in)));
      ASHLAR_RETURN_IF_ERROR(gpu.fill(bias, mostN * dtypeBytes(types.out), stored(right, types.out)));
      for (const Size &size : sizes) {
        for (const Epilogue &epilogue : kEpilogues) {
          for (uint32_t layout = 0; layout < 4; ++layout) {
            ASHLAR_RETURN_IF_ERROR(exists(types, size, epilogue) ? probe(types, size, epilogue, layout) : Status());
          }
        }
      }
    }
    return Status();
  }

  ProbeReport report;

private:
  // Whether the compiler makes such products.
  static bool exists(const Types &types, const Size &size, const Epilogue &epilogue) {
    constexpr int64_t kColumnsMultiple = 8;
    if (epilogue.auxiliary != ASHLAR_RT_AUXILIARY_NONE) {
      return size.batch == 1 && size.n % kColumnsMultiple == 0 && types.in == types.out;
    }
    return epilogue.sums == ASHLAR_RT_SUM_OF_NONE || size.batch == 1;
  }

  Status allocate() {
    size_t mostOut = 0, mostSums = 0;
    for (const Size &size : sizes) {
      mostA = std::max(mostA, static_cast<size_t>(size.batch * size.m * size.k));
      mostB = std::max(mostB, static_cast<size_t>(size.batch * size.k * size.n));
      mostN = std::max(mostN, static_cast<size_t>(size.n));
      mostOut = std::max(mostOut, static_cast<size_t>(size.batch * size.m * size.n));
      mostSums = std::max(mostSums, static_cast<size_t>(std::max(size.m, size.n)));
    }
    ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(4 * mostA, "A", a));
    ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(4 * mostB, "B", b));
    ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(4 * mostN, "the bias", bias));
    ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(4 * mostOut, "out", out));
    ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(4 * mostOut, "the auxiliary tensor", auxiliary)); // a mask of 32 numbers and more is smaller
    ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(4 * mostSums, "the sums", sums));
    return gpu.device.allocate(kMatmulWorkspaceBytes, "the workspace", workspace);
  }

  // Sorts one product into the report. Fails when the device or the library does.
  Status probe(const Types &types, const Size &size, const Epilogue &epilogue, uint32_t layout) {
    ashlar_rt_gemm_desc desc = {size.batch, size.m, size.n, size.k};
    desc.transpose_a = layout >> 1;
    desc.transpose_b = layout & 1;
    desc.addend = epilogue.bias ? ASHLAR_RT_ADDEND_BIAS : ASHLAR_RT_ADDEND_NONE;
    desc.epilogue = epilogue.activation;
    desc.operand_sum = epilogue.sums;
    desc.allow_tf32 = types.tf32;
    const bool hasAuxiliary = epilogue.auxiliary != ASHLAR_RT_AUXILIARY_NONE;
    desc.auxiliary = epilogue.auxiliary;
    desc.auxiliary_row =
        !hasAuxiliary ? 0 : static_cast<uint32_t>(epilogue.activation == ASHLAR_RT_EPILOGUE_RELU ? (size.n + 127) / 128 * 128 : size.n);
    const bool hasSums = epilogue.sums != ASHLAR_RT_SUM_OF_NONE;
    MatmulOperands at{a, b, epilogue.bias != 0 ? bias : 0, out, hasSums ? sums : 0, types.in, types.out, hasAuxiliary ? auxiliary : 0};
    std::string name = fmt::format("{:10} {}{} {:13} {:3} x {} x {} x {}", types.name, "NT"[desc.transpose_a], "NT"[desc.transpose_b],
                                   epilogue.name, size.batch, size.m, size.n, size.k);
    size_t number = 0, activation = 0;
    Status prepared = matmuls.prepare(desc, at, "product", number);
    const bool isSlope = epilogue.auxiliary == ASHLAR_RT_AUXILIARY_READ; // of the same product, whose activation comes first
    if (prepared.ok() && isSlope) {
      desc.auxiliary = ASHLAR_RT_AUXILIARY_WRITTEN;
      prepared = matmuls.prepare(desc, at, "activation", activation);
      desc.auxiliary = ASHLAR_RT_AUXILIARY_READ;
    }
    prepared.update(prepared.ok() ? matmuls.settle() : Status());
    if (!prepared.ok()) {
      ASHLAR_RETURN_IF_ERROR(gpu.wait()); // else the device is lost, and more than a refusal
      report.refused.push_back(fmt::format("refused {}  nothing replaces it: {}", name, prepared.message()));
      return Status();
    }
    const size_t width = dtypeBytes(types.out);
    ASHLAR_RETURN_IF_ERROR(gpu.spoil(out, static_cast<size_t>(size.batch * size.m * size.n) * width));
    ASHLAR_RETURN_IF_ERROR(gpu.spoil(sums, static_cast<size_t>(std::max(size.m, size.n)) * width));
    ASHLAR_RETURN_IF_ERROR(isSlope ? matmuls.enqueue(activation, gpu.stream) : Status());
    ASHLAR_RETURN_IF_ERROR(matmuls.enqueue(number, gpu.stream));
    std::string fault;
    ASHLAR_RETURN_IF_ERROR(compare(desc, types, fault));
    note(name, fault, matmuls.refusal(number), matmuls.algorithmPlace(number));
    return Status();
  }

  void note(const std::string &name, const std::string &fault, const std::string &refusal, int place) {
    if (!refusal.empty()) {
      report.refused.push_back(fmt::format("refused {}  {}; what replaces it is {}", name, refusal, fault.empty() ? "right" : "wrong"));
    }
    if (!fault.empty()) {
      report.wrong.push_back(fmt::format("wrong   {}  {}{}", name, fault, refusal.empty() ? "" : " (of what replaces it)"));
    } else if (refusal.empty()) {
      ++report.right;
    }
    if (place != 0) {
      report.noted.push_back(fmt::format("later   {}  runs algorithm {} of the heuristic; those before it do not run", name, place));
    }
  }

  // Compares some rows of out, and some sums. `fault` names the first number that is wrong.
  Status compare(const ashlar_rt_gemm_desc &desc, const Types &types, std::string &fault) {
    std::vector<char> row(static_cast<size_t>(desc.n) * dtypeBytes(types.out));
    for (int64_t i = 0; i < kRows && fault.empty(); ++i) {
      const int64_t last = desc.batch * desc.m - 1, at = i == 0 ? 0 : i == 1 ? last : hashOf(i) % (last + 1);
      ASHLAR_RETURN_IF_ERROR(gpu.download(out + static_cast<size_t>(at) * row.size(), row));
      for (int64_t c = 0; c < kColumns && fault.empty(); ++c) {
        const int64_t column = c == 0 ? 0 : c == 1 ? desc.n - 1 : hashOf(c + 100 * i) % desc.n;
        const double exact = outAt(desc, at / desc.m, at % desc.m, column);
        check(loaded(row.data(), static_cast<size_t>(column), types.out), exact, types.out, desc.epilogue,
              fmt::format("out[{}, {}, {}]", at / desc.m, at % desc.m, column), fault);
      }
    }
    ASHLAR_RETURN_IF_ERROR(compareOperand(desc, types, fault));
    const int64_t count = desc.operand_sum == ASHLAR_RT_SUM_OF_NONE ? 0 : desc.operand_sum == ASHLAR_RT_SUM_OF_A ? desc.m : desc.n;
    std::vector<char> all(static_cast<size_t>(count) * dtypeBytes(types.out));
    ASHLAR_RETURN_IF_ERROR(count == 0 ? Status() : gpu.download(sums, all));
    for (int64_t i = 0; i < std::min(count, kSums) && fault.empty(); ++i) {
      const int64_t at = i == 0 ? 0 : i == 1 ? count - 1 : hashOf(i) % count;
      check(loaded(all.data(), static_cast<size_t>(at), types.out), sumAt(desc, at), types.out, ASHLAR_RT_EPILOGUE_NONE,
            fmt::format("sums[{}]", at), fault);
    }
    return Status();
  }

  // Compares the first and the last row of the auxiliary tensor of a gelu; masks show in what reads them.
  Status compareOperand(const ashlar_rt_gemm_desc &desc, const Types &types, std::string &fault) {
    if (desc.auxiliary != ASHLAR_RT_AUXILIARY_WRITTEN || desc.epilogue != ASHLAR_RT_EPILOGUE_GELU_TANH) {
      return Status();
    }
    ashlar_rt_gemm_desc operand = desc;
    operand.epilogue = ASHLAR_RT_EPILOGUE_NONE;
    operand.auxiliary = ASHLAR_RT_AUXILIARY_NONE;
    std::vector<char> row(static_cast<size_t>(desc.n) * dtypeBytes(types.out));
    for (int64_t at : {int64_t{0}, desc.m - 1}) {
      ASHLAR_RETURN_IF_ERROR(gpu.download(auxiliary + static_cast<size_t>(at) * row.size(), row));
      for (int64_t column = 0; column < desc.n && fault.empty(); column += 1 + desc.n / kColumns) {
        check(loaded(row.data(), static_cast<size_t>(column), types.out), outAt(operand, /*batch=*/0, at, column), types.out,
              ASHLAR_RT_EPILOGUE_NONE, fmt::format("auxiliary[{}, {}]", at, column), fault);
      }
    }
    return Status();
  }

  static void check(double got, double exact, uint32_t dtype, uint32_t epilogue, const std::string &where, std::string &fault) {
    const double allowed = allowance(dtype, exact) + (epilogue == ASHLAR_RT_EPILOGUE_GELU_TANH ? kGeluError * (1 + std::fabs(exact)) : 0);
    if (!(std::fabs(got - exact) <= allowed)) { // also of NaN
      fault = fmt::format("{} is {}, not {}", where, got, exact);
    }
  }

  // A walk over the numbers of an operand along k.
  struct Walk {
    Walk(const std::vector<float> &numbers, int64_t first, int64_t stride)
        : numbers(numbers), at(first % kPeriod), stride(stride % kPeriod) {}

    double next() {
      const double value = static_cast<double>(numbers[static_cast<size_t>(at)]);
      at += stride;
      at -= at >= kPeriod ? kPeriod : 0;
      return value;
    }

    const std::vector<float> &numbers;
    int64_t at, stride;
  };

  Walk ofA(const ashlar_rt_gemm_desc &desc, int64_t batch, int64_t row) const {
    const bool flip = desc.transpose_a != 0;
    return Walk(left, batch * desc.m * desc.k + (flip ? row : row * desc.k), flip ? desc.m : 1);
  }

  Walk ofB(const ashlar_rt_gemm_desc &desc, int64_t batch, int64_t column) const {
    const bool flip = desc.transpose_b != 0;
    return Walk(right, batch * desc.k * desc.n + (flip ? column * desc.k : column), flip ? 1 : desc.n);
  }

  double outAt(const ashlar_rt_gemm_desc &desc, int64_t batch, int64_t row, int64_t column) const {
    Walk one = ofA(desc, batch, row), other = ofB(desc, batch, column);
    double sum = 0;
    for (int64_t i = 0; i < desc.k; ++i) {
      sum += one.next() * other.next();
    }
    sum += desc.addend == ASHLAR_RT_ADDEND_BIAS ? static_cast<double>(right[static_cast<size_t>(column)]) : 0;
    const bool isSlope = desc.auxiliary == ASHLAR_RT_AUXILIARY_READ;
    constexpr double kRoot = 0.7978845608028654, kCubic = 0.044715;
    switch (desc.epilogue) {
    case ASHLAR_RT_EPILOGUE_RELU: // times the slope the same
      return std::max(sum, 0.0);
    case ASHLAR_RT_EPILOGUE_GELU_TANH: {
      const double t = std::tanh(kRoot * (sum + kCubic * sum * sum * sum));
      const double slope = 0.5 * (1 + t) + 0.5 * sum * (1 - t * t) * kRoot * (1 + 3 * kCubic * sum * sum);
      return sum * (isSlope ? slope : 0.5 * (1 + t));
    }
    default:
      return sum;
    }
  }

  double sumAt(const ashlar_rt_gemm_desc &desc, int64_t at) const {
    Walk walk = desc.operand_sum == ASHLAR_RT_SUM_OF_A ? ofA(desc, /*batch=*/0, at) : ofB(desc, /*batch=*/0, at);
    double sum = 0;
    for (int64_t i = 0; i < desc.k; ++i) {
      sum += walk.next();
    }
    return sum;
  }

  ProbeDevice gpu;
  Matmuls matmuls; // dies before the device
  std::vector<Size> sizes;
  std::vector<float> left, right;
  size_t mostA = 0, mostB = 0, mostN = 0;
  CUdeviceptr a = 0, b = 0, bias = 0, out = 0, auxiliary = 0, sums = 0, workspace = 0;
};

} // namespace

int probeMatmuls(bool small) {
  Probe probe(small);
  return runProbe(probe);
}

} // namespace ashlar::bench
