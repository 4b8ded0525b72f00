// Every candidate of every family's random problems, against the reference. A build's tests run the same few cases of each family
// every time; before a release, and after a change to kernels or to oneDNN, thousands:
//
//   SMELT_SCAN_CASES=2000 SMELT_SCAN_SEED=7 build/test_ops_scan --gtest_filter='*byte_conv'
//   ONEDNN_MAX_CPU_ISA=AVX2 … ; LD_PRELOAD=avx2.so … (bench/avx2.c): as on other processors
//
// What is found is printed with the smallest case that is still wrong.
#include "ops/scan/scan.h"

#include <cstdlib>
#include <iostream>

#include "ops/scan/conv_cases.h"
#include "ops/scan/data_cases.h"
#include "ops/scan/model_cases.h"
#include "ops/scan/product_cases.h"
#include "ops/scan/row_cases.h"
#include "ops/scan/window_cases.h"

namespace smelt::ops::scan {

std::vector<Family> families() {
  return {{"conv", conv},
          {"transposed_conv", transposed_conv},
          {"byte_conv", byte_conv},
          {"integer_conv", integer_conv},
          {"product", product},
          {"byte_product", byte_product},
          {"scaled_product", scaled_product},
          {"attention", attention},
          {"pool", pool},
          {"byte_mean", byte_mean},
          {"resize", resize},
          {"softmax", softmax},
          {"norm", norm},
          {"reduction", reduction},
          {"choice", choice},
          {"recurrent", recurrent},
          {"elementwise", elementwise},
          {"region", region},
          {"byte_region", byte_region},
          {"quantization", quantization},
          {"movement", movement},
          {"reorder", reorder},
          {"support_vectors", support_vectors}};
}

void PrintTo(const Family& f, std::ostream* out) { *out << f.name; }

namespace {

class Scan : public testing::TestWithParam<Family> {};

int64_t option(const char* name, int64_t otherwise) {
  const char* given = std::getenv(name);
  return given ? std::atoll(given) : otherwise;
}

TEST_P(Scan, every_candidate_agrees_with_the_reference) {
  const int64_t count = option("SMELT_SCAN_CASES", 20);
  int64_t ran = 0;
  EXPECT_EQ(scan(GetParam(), static_cast<uint64_t>(option("SMELT_SCAN_SEED", 1)), count, ran), "");
  if (HasFailure()) return;
  EXPECT_GE(ran, count / 2) << "of " << count << " cases few have a candidate";
  RecordProperty("candidates", std::to_string(ran));
}

INSTANTIATE_TEST_SUITE_P(Families, Scan, testing::ValuesIn(families()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace smelt::ops::scan
