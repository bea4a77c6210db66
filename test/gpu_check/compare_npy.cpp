// SPDX-License-Identifier: Apache-2.0
//
// compare_npy A B TOLERANCE [finite]: exit status 0 when two .npy files hold the same tensor: every element within TOLERANCE x (1 + the
// larger magnitude), NaN where the other has NaN; with "finite" no element may be infinite or NaN. Prints the worst element and how much of
// the allowance it uses.

#include "runtime/data/formats/npy.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace ashlar::rt;

namespace {

struct Worst {
  int64_t element = 0;
  double a = 0, b = 0, share = 0;
};

// How much of the allowance two elements use.
double shareOf(double a, double b, double tolerance, bool finite) {
  if (finite && !(std::isfinite(a) && std::isfinite(b))) {
    return INFINITY;
  }
  if (a == b || (std::isnan(a) && std::isnan(b))) {
    return 0;
  }
  if (!std::isfinite(a) || !std::isfinite(b)) {
    return INFINITY;
  }
  return std::abs(a - b) / (tolerance * (1 + std::max(std::abs(a), std::abs(b))));
}

std::vector<double> elementsOf(const NpyFile &file) {
  std::vector<double> elements(static_cast<size_t>(numElements(file.shape())));
  convertElements(file.element(), file.data(), ASHLAR_RT_F64, elements.data(), static_cast<int64_t>(elements.size()), /*scale=*/1,
                  /*shift=*/0);
  return elements;
}

int compare(const char *pathA, const char *pathB, double tolerance, bool finite) {
  NpyFile a, b;
  Status status = NpyFile::open(pathA, a);
  if (status.ok()) {
    status = NpyFile::open(pathB, b);
  }
  if (status.ok()) {
    status = b.expect(a.element(), a.shape());
  }
  if (!status.ok()) {
    fmt::print(stderr, "error: {}\n", status.message());
    return 1;
  }
  std::vector<double> first = elementsOf(a), second = elementsOf(b);
  Worst worst;
  for (size_t i = 0; i < first.size(); ++i) {
    double share = shareOf(first[i], second[i], tolerance, finite);
    if (share > worst.share) {
      worst = {static_cast<int64_t>(i), first[i], second[i], share};
    }
  }
  fmt::print("{} elements, worst is {}: {} and {}, {:.3g} of the allowance\n", first.size(), worst.element, worst.a, worst.b, worst.share);
  return worst.share <= 1 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  const bool finite = argc == 5 && std::string(argv[4]) == "finite";
  if (argc != 4 && !finite) {
    fmt::print(stderr, "usage: compare_npy A.npy B.npy TOLERANCE [finite]\n");
    return 1;
  }
  return compare(argv[1], argv[2], std::atof(argv[3]), finite);
}
