// Matrix products by Hopper's own instructions against the processor's reference: every tile and storage on extents that no tile
// divides, batches, epilogues and splits. Each kernel runs twice, and both runs must agree bit for bit.
#include "hopper_gemm.h"
#include "device/cuda/graph.h"
#include "ops/matmul/gated_product.h"

namespace smelt::ops::hopper {
namespace {

TEST_F(GpuHopperGemm, every_tile_and_storage_on_extents_that_they_do_not_divide) {
  for (const DType type : {DType::f16, DType::bf16})
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true})
        for (const int64_t m : {331, 48, 30, 16, 7}) {
          if (type == DType::bf16 && trans_a != trans_b) continue;
          const int64_t n = 328, k = 456, lines = trans_a ? (m + 7) / 8 * 8 : m;  // of f16: 16 bytes from line to line
          const size_t tiles = expect_each_tile({.type = type,
                                                 .a = trans_a ? Shape{k, lines} : Shape{m, k},
                                                 .b = trans_b ? Shape{n, k} : Shape{k, n},
                                                 .trans_a = trans_a,
                                                 .trans_b = trans_b,
                                                 .y = {lines, n},
                                                 .k = k});
          EXPECT_GE(tiles, m > 64 ? 30u : 2u);
        }
}

TEST_F(GpuHopperGemm, constants_that_are_kept_transposed) {
  for (const DType type : {DType::f16, DType::bf16})
    for (const int64_t k : {456, 77}) {
      const int64_t m = 331, n = 328;
      Trial t = trial({.type = type, .a = {m, k}, .b = {k, n}, .y = {m, n}, .k = k});
      if (k % 8 != 0) t.bound.inputs[0].strides = {80, 1};
      t.bound.inputs[1].constant = t.inputs[1];
      EXPECT_GE(expect(
                    t, k, [](const HopperConfig& c) { return c.transposed; }, 2 * few),
                5u);
    }
}

TEST_F(GpuHopperGemm, constants_that_are_kept_as_stages) {
  for (const DType type : {DType::f16, DType::bf16})
    for (const int64_t m : {9, 30, 34, 64})
      for (const int64_t k : {456, 77, 64 * 29 + 8})
        for (const int64_t n : {328, 72}) {
          Trial t = trial({.type = type, .a = {m, k}, .b = {k, n}, .y = {m, n}, .k = k});
          if (k % 8 != 0) t.bound.inputs[0].strides = {80, 1};
          t.bound.inputs[1].constant = t.inputs[1];
          EXPECT_GE(expect(
                        t, k, [](const HopperConfig& c) { return c.packed; }, few),
                    2u);
        }
}

TEST_F(GpuHopperGemm, extents_that_are_odd_behind_whole_lines) {
  Trial t = trial({.a = {51, 77}, .b = {77, 83}, .y = {51, 83}, .k = 77});
  t.bound.inputs[0].strides = {80, 1};
  t.bound.inputs[1].strides = {88, 1};
  EXPECT_GE(expect(t, 77, [](const HopperConfig& c) { return c.splits == 1; }), 3u);
  Trial one = trial({.a = {1, 264}, .b = {264, 8}, .y = {1, 8}, .k = 264});
  EXPECT_GE(expect(one, 264, [](const HopperConfig&) { return true; }), 2u);
}

TEST_F(GpuHopperGemm, batches_their_broadcast_and_heads_of_a_sequence) {
  const auto all = [](const HopperConfig&) { return true; };
  Trial plain = trial({.a = {2, 3, 50, 40}, .b = {2, 3, 40, 72}, .y = {2, 3, 50, 72}, .k = 40});
  EXPECT_GE(expect(plain, 40, all), 2u);
  Trial left = trial({.a = {3, 50, 40}, .b = {2, 1, 40, 72}, .y = {2, 3, 50, 72}, .k = 40});
  EXPECT_GE(expect(left, 40, all), 2u);
  Trial none = trial({.a = {70, 40}, .b = {2, 3, 40, 72}, .y = {2, 3, 70, 72}, .k = 40});
  EXPECT_GE(expect(none, 40, all), 2u);
  Trial heads =
      trial({.type = DType::bf16, .a = {2, 4, 50, 64}, .b = {2, 4, 64, 64}, .trans_b = true, .y = {2, 4, 50, 64}, .k = 64});
  heads.bound.inputs[0].strides = {50 * 256, 64, 256, 1};
  heads.bound.inputs[1].strides = {64 * 256, 64, 256, 1};
  heads.bound.outputs[0].strides = {50 * 4 * 64, 64, 4 * 64, 1};
  EXPECT_GE(expect(heads, 64, all), 2u);
}

TEST_F(GpuHopperGemm, epilogues_with_bias_residual_and_gate) {
  const std::string gated =
      "(in0:f32, in1:f32, in2:bf16, in3:bf16) { %4 = add(in0, in1):f32; %5 = silu(%4):f32; %6 = cast(in2):f32; %7 = mul(%5, "
      "%6):f32; %8 = cast(in3):f32; %9 = add(%7, %8):f32; %10 = cast(%9):bf16; return %10 }";
  const std::string gelu =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = gelu(%3):f32; %5 = cast(%4):f16; return %5 }";
  for (const int64_t m : {2, 40, 130})
    for (const int64_t n : {136, 132}) {  // 132: columns that 8 do not divide
      const Shape y{m, n};
      Trial t = trial(
          {.type = DType::bf16,
           .a = {m, 512},
           .b = {n, 512},
           .trans_b = true,
           .y = y,
           .program = gated,
           .operands = {random_tensor(DType::f32, {n}, 3), random_tensor(DType::bf16, y, 4), random_tensor(DType::bf16, y, 5)},
           .k = 512});
      EXPECT_GE(expect(t, 512, [](const HopperConfig&) { return true; }), 1u);
      Trial erf = trial({.a = {m, 256},
                         .b = {n, 256},
                         .trans_b = true,
                         .y = y,
                         .program = gelu,
                         .operands = {random_tensor(DType::f16, {m, 1}, 3)},
                         .k = 256});
      EXPECT_GE(expect(erf, 256, [](const HopperConfig&) { return true; }), 1u);
    }
}

TEST_F(GpuHopperGemm, splits_and_blocks_over_several_tiles) {
  for (const int64_t m : {5, 90}) {
    const int64_t k = 64 * 29 + 8;
    Trial t = trial({.a = {2, m, k}, .b = {2, k, 200}, .y = {2, m, 200}, .k = k});
    EXPECT_GE(expect(t, k, [](const HopperConfig& c) { return c.splits > 1; }), 4u);
  }
  Trial few = trial({.a = {2, 64 * 80}, .b = {64 * 80, 64}, .y = {2, 64}, .k = 64 * 80});
  EXPECT_GE(expect(few, 64 * 80, [](const HopperConfig& c) { return c.splits > 8 && !c.cluster(); }), 2u);
}

/// Blocks of a cluster finish shares of a tile: few rows, whose columns are those that are shared, and many; with what lies as y does.
TEST_F(GpuHopperGemm, shares_of_tiles_that_blocks_of_a_cluster_finish) {
  const std::string residual =
      "(in0:f32, in1:f32, in2:f16) { %3 = add(in0, in1):f32; %4 = cast(in2):f32; %5 = add(%3, %4):f32; %6 = cast(%5):f16; return "
      "%6 }";
  for (const int64_t m : {30, 200, 700})
    for (const int64_t k : {64 * 8, 64 * 29 + 8}) {
      const Shape y{m, 328};
      Trial t = trial({.a = {m, k},
                       .b = {k, 328},
                       .y = y,
                       .program = residual,
                       .operands = {random_tensor(DType::f32, {328}, 3), random_tensor(DType::f16, y, 4)},
                       .k = k});
      EXPECT_GE(expect(t, k, [](const HopperConfig& c) { return c.shares && c.splits == 2; }), 4u);
      EXPECT_GE(expect(t, k, [](const HopperConfig& c) { return c.shares && c.splits == 4; }), 2u);
    }
}

TEST_F(GpuHopperGemm, blocks_and_groups_that_alternate_over_several_tiles_with_what_the_next_one_reads) {
  const std::string residual =
      "(in0:f32, in1:f32, in2:f16, in3:f16) { %4 = add(in0, in1):f32; %5 = cast(in2):f32; %6 = add(%4, %5):f32; %7 = "
      "cast(in3):f32; %8 = add(%6, %7):f32; %9 = relu(%8):f32; %10 = cast(%9):f16; return %10 }";
  for (const int64_t k : {72, 64 * 7}) {
    const Shape y{1500, 3000};
    Trial t = trial({.a = {1500, k},
                     .b = {k, 3000},
                     .y = y,
                     .program = residual,
                     .operands = {random_tensor(DType::f32, {3000}, 3), random_tensor(DType::f16, {3000}, 4),
                                  random_tensor(DType::f16, y, 5)},
                     .k = k});
    EXPECT_GE(expect(t, k, [](const HopperConfig& c) { return c.persistent && c.alternate; }), 5u);
    EXPECT_GE(expect(t, k, [](const HopperConfig& c) { return c.persistent && !c.alternate; }), 5u);
  }
}

/// One of each way that blocks and groups wait for each other, on small problems: for compute-sanitizer (scripts/gpu_tests.sh).
TEST_F(GpuHopperGemm, small_problems_whose_blocks_and_groups_wait_for_each_other) {
  for (const int64_t m : {40, 600}) {
    const int64_t n = 520, k = 328;
    Trial t = trial({.a = {m, k}, .b = {k, n}, .y = {m, n}, .k = k});
    std::set<std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, bool>> seen;
    const auto each_way = [&](const HopperConfig& c) {
      return c.tile_m * c.tile_n <= 128 * 192 &&
             seen.emplace(c.across, c.down, c.splits, c.shares, c.swap, c.alternate, c.registers > 0).second;
    };
    EXPECT_GE(expect(t, k, each_way, every), 5u);
  }
}

/// The product of a gate and of what it gates, against one after the other.
TEST_F(GpuHopperGemm, gates_with_what_they_gate) {
  for (const DType type : {DType::f16, DType::bf16})
    for (const int64_t m : {200, 600}) {
      const int64_t n = 448, k = 328;
      const std::string_view name = smelt::name(type);
      // silu(gate + bias) * up + residual
      const std::string program = fmt::format(
          "(in0:f32, in1:{0}, in2:{0}, in3:{0}) {{ %4 = cast(in1):f32; %5 = add(in0, %4):f32; %6 = silu(%5):f32; %7 = "
          "cast(in2):f32; "
          "%8 = mul(%6, %7):f32; %9 = cast(in3):f32; %10 = add(%8, %9):f32; %11 = cast(%10):{0}; return %11 }}",
          name);
      const Tensor x = random_tensor(type, {m, k}, 1, -1, 1), gate = random_tensor(type, {k, n}, 2, -0.3, 0.3),
                   up = random_tensor(type, {k, n}, 3, -0.3, 0.3), bias = random_tensor(type, {n}, 4),
                   residual = random_tensor(type, {m, n}, 5);
      Trial second = trial({.type = type, .a = {m, k}, .b = {k, n}, .y = {m, n}, .k = k});
      Trial first = trial({.type = type,
                           .a = {m, k},
                           .b = {k, n},
                           .y = {m, n},
                           .program = program,
                           .operands = {bias, residual, residual},
                           .k = k});
      const Tensor gated = evaluate(second.node, std::vector{x, up})[0];
      const Tensor want = evaluate(first.node, std::vector{x, gate, bias, gated, residual})[0];
      const Tensor both = matmul::gated_weights(gate, up);
      Trial t = trial(
          {.type = type, .a = {m, k}, .b = {k, 2 * n}, .y = {m, n}, .program = program, .operands = {bias, residual}, .k = k});
      t.node.attrs[matmul::gate_attribute] = int64_t{2};
      t.inputs[0] = x, t.inputs[1] = both;
      t.bound.inputs[1].constant = both;
      EXPECT_GE(expect(
                    t, k, [](const HopperConfig&) { return true; }, want),
                5u);
    }
}

TEST_F(GpuHopperGemm, blocks_of_a_patch_that_share_operands) {
  for (const int64_t m : {40, 331, 1500})
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true}) {
        const int64_t n = 1096, k = 64 * 9 + 8, lines = trans_a ? (m + 7) / 8 * 8 : m;
        Trial t = trial({.a = trans_a ? Shape{k, lines} : Shape{m, k},
                         .b = trans_b ? Shape{n, k} : Shape{k, n},
                         .trans_a = trans_a,
                         .trans_b = trans_b,
                         .y = {lines, n},
                         .k = k});
        EXPECT_GE(expect(t, k, [](const HopperConfig& c) { return c.patch() == 2; }), m == 40 ? 1u : 5u);
        if (m > 64) {
          EXPECT_GE(expect(t, k, [](const HopperConfig& c) { return c.patch() > 2; }), 5u);
        }
      }
}

/// Products in a row, each of the result before it by constant weights: where they begin early the weights come before the result.
TEST_F(GpuHopperGemm, that_begin_early_read_what_the_one_before_wrote) {
  constexpr int64_t n = 512;
  constexpr int products = 12;
  namespace cuda = device::cuda;
  for (const int64_t m : {40, 600}) {
    Trial t = trial({.a = {m, n},
                     .b = {n, n},
                     .y = {m, n},
                     .program = "(in0:f32) { %1 = const(0.07):f32; %2 = mul(in0, %1):f32; %3 = cast(%2):f16; return %3 }",
                     .k = n});
    t.bound.inputs[1].constant = t.inputs[1];
    const auto found = matmul::cuda_problem(t.bound);
    ASSERT_TRUE(found);
    ASSERT_TRUE(found->constant_b);
    const auto device = test_gpu()->device;
    const auto size = static_cast<size_t>(m * n * 2);
    const auto w = device->allocate(n * n * 2, "a test"), even = device->allocate(m * n * 2, "a test"),
               odd = device->allocate(m * n * 2, "a test");
    const cuda::Device::Current current(*device);
    const auto finish = [] { cuda::check(cuda::driver().stream_synchronize(nullptr), "copying"); };
    cuda::check(cuda::driver().copy_to_device(w->address(), t.inputs[1].raw(), n * n * 2, nullptr), "copying");
    int count = 0;
    const auto configs = matmul::hopper_configs(*found, *test_gpu());
    ASSERT_TRUE(configs);
    for (size_t c = 0; c < configs->size(); c += std::max<size_t>(9, configs->size() / 24)) {
      SCOPED_TRACE((*configs)[c].print());
      const auto kernel = matmul::hopper_product(*found, (*configs)[c], *test_gpu());
      const auto workspace = device->allocate(std::max<int64_t>(1, kernel->workspace()), "a test");
      std::vector<std::vector<char>> results;
      for (const bool early : {false, true, true}) {
        const cuda::CapturedGraph graph(
            device,
            [&](cuda::abi::Stream stream) {
              for (int i = 0; i < products; ++i) {
                const void* in[] = {reinterpret_cast<void*>((i % 2 ? odd : even)->address()),
                                    reinterpret_cast<void*>(w->address())};
                void* out[] = {reinterpret_cast<void*>((i % 2 ? even : odd)->address())};
                kernel->run({in, out, reinterpret_cast<void*>(workspace->address()), stream});
              }
            },
            early);
        EXPECT_EQ(graph.early_nodes(), early ? products - 1 : 0u);
        cuda::check(cuda::driver().copy_to_device(even->address(), t.inputs[0].raw(), size, nullptr), "copying");
        finish();
        const cuda::Stream stream(device);
        graph.launch(stream.get());
        stream.synchronize();
        results.emplace_back(size);
        cuda::check(cuda::driver().copy_to_host(results.back().data(), even->address(), size, nullptr), "copying");
        finish();
      }
      EXPECT_TRUE(results[1] == results[0] && results[2] == results[0]);
      ++count;
    }
    EXPECT_GE(count, 3);
  }
}

/// The end of a kernel in every kind: results of 16 bits in vectors, of other types, and of columns that make no vectors.
TEST_F(GpuHopperGemm, finishes_results_of_any_type_and_stride) {
  const auto all = [](const HopperConfig&) { return true; };
  for (const int64_t m : {20, 200}) {
    Trial wide = trial({.a = {m, 200}, .b = {200, 152}, .y = {m, 152}, .program = "(in0:f32) { return in0 }", .k = 200});
    EXPECT_GE(expect(wide, 200, all), 1u);
    Trial apart = trial({.a = {m, 200}, .b = {200, 152}, .y = {m, 152}, .k = 200});
    apart.bound.outputs[0].strides = {160, 1};
    EXPECT_GE(expect(apart, 200, all), 1u);
    Trial odd = trial({.a = {m, 200}, .b = {200, 152}, .y = {m, 152}, .k = 200});
    odd.bound.outputs[0].strides = {153, 1};
    EXPECT_GE(expect(odd, 200, all), 1u);
  }
}

}  // namespace
}  // namespace smelt::ops::hopper
