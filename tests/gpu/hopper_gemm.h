// A product on Hopper's own instructions beside the processor's reference, in some or all of its configurations.
#pragma once

#include <fmt/core.h>

#include <set>

#include "ops/matmul/cuda_hopper.h"
#include "product_trial.h"

namespace smelt::ops::hopper {

using matmul::HopperConfig;

struct Product {
  DType type = DType::f16;
  Shape a, b;  // as stored
  bool trans_a = false, trans_b = false;
  Shape y;
  std::string program;
  std::vector<Tensor> operands;
  int64_t k = 0;
};

inline Trial trial(const Product& g) {
  Trial t;
  const DType out = begin_product(t, g);
  t.result(out, g.y);
  t.bound.node = &t.node;
  return t;
}

/// Floats are multiplied as tf32; tensor cores add products of 8-bit floats with some 14 bits.
inline double tolerance(DType type, DType of_operands, int64_t k) {
  const double each = of_operands == DType::f32 ? off_in_tf32 : of_operands == DType::f8e4m3fn ? 1.0 / 4096 : off_in_float;
  return product_tolerance(type, each, k);
}

/// Floats may be rounded to tf32.
inline std::shared_ptr<const Gpu> gpu_for(DType type) {
  static const std::shared_ptr<const Gpu> rounding = [] {
    auto gpu = std::make_shared<Gpu>(*test_gpu());
    gpu->tf32 = true;
    return gpu;
  }();
  return type == DType::f32 ? rounding : test_gpu();
}

class GpuHopperGemm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  }
  static constexpr size_t few = 16, every = 1000;
  /// `most` of the configurations that `wanted` takes agree with the reference; how many they were.
  static size_t expect(Trial& t, int64_t k, const std::function<bool(const HopperConfig&)>& wanted, size_t most = few) {
    return expect(t, k, wanted, evaluate(t.node, t.inputs)[0], most);
  }
  static size_t expect(Trial& t, int64_t k, const std::function<bool(const HopperConfig&)>& wanted, const Tensor& want,
                       size_t most = few) {
    auto found = matmul::cuda_problem(t.bound);
    if (!found) {
      ADD_FAILURE() << found.refusal().text;
      return 0;
    }
    const auto& p = *found;
    const auto gpu = gpu_for(p.type);
    const auto configs = matmul::hopper_configs(p, *gpu);
    if (!configs) {
      ADD_FAILURE() << configs.refusal().text;
      return 0;
    }
    size_t count = 0;
    std::vector<std::pair<HopperConfig, std::future<std::unique_ptr<Kernel>>>> kernels;
    std::vector<HopperConfig> all;
    std::ranges::copy_if(*configs, std::back_inserter(all), wanted);
    for (size_t i = 0; i < std::min(most, all.size()); ++i) {
      const HopperConfig c = all[i * all.size() / std::min(most, all.size())];
      kernels.emplace_back(c, std::async(std::launch::async, [&p, c, gpu] { return hopper_product(p, c, *gpu); }));
    }
    for (auto& [c, kernel] : kernels) {
      SCOPED_TRACE(matmul::print(p.problem) + " " + c.print());
      EXPECT_LE(error(run_on_gpu(t, *kernel.get())[0], want), tolerance(t.bound.outputs[0].type, p.type, k));
      ++count;
    }
    return count;
  }
  /// Each tile once.
  static size_t expect_each_tile(const Product& g) {
    Trial t = trial(g);
    std::set<std::tuple<int64_t, int64_t, int64_t, bool, bool>> seen;
    return expect(
        t, g.k,
        [&](const HopperConfig& c) {
          return c.splits == 1 && seen.emplace(c.tile_m, c.tile_n, c.groups, c.swap, c.alternate).second;
        },
        every);
  }
};

}  // namespace smelt::ops::hopper
