// Matrix products on a GPU: every kind of tile, type, storage and epilogue against the processor's reference, on shapes that no
// tile divides.
#include <fmt/core.h>

#include <list>
#include <map>
#include <set>

#include "ops/matmul/cuda_offer.h"
#include "product_trial.h"

namespace smelt::ops {
namespace {

using matmul::CudaConfig;

struct Gemm {
  DType type = DType::f16;
  Shape a, b;  // as stored
  bool trans_a = false, trans_b = false;
  double alpha = 1;
  std::string program;
  std::vector<Tensor> operands;
};

Shape result_shape(const Gemm& g) {
  Node n;
  n.domain = smelt_domain;
  n.op = "MatMul";
  if (g.trans_a) n.attrs["transA"] = int64_t{1};
  if (g.trans_b) n.attrs["transB"] = int64_t{1};
  n.inputs = {ValueId(0), ValueId(1)};
  n.outputs = {ValueId(2)};
  const TensorDesc in[] = {{g.type, g.a, true, nullptr}, {g.type, g.b, true, nullptr}};
  TensorDesc out;
  infer(n, in, {&out, 1});
  return out.shape;
}

Trial trial(const Gemm& g) {
  Trial t;
  const DType out = begin_product(t, g);
  if (g.alpha != 1) t.node.attrs["alpha"] = static_cast<float>(g.alpha);
  t.result(out, result_shape(g));
  return t;
}

double tolerance(DType type, int64_t k, bool tf32 = false) {
  return product_tolerance(type, tf32 ? off_in_tf32 : off_in_float, k);
}

int64_t depth(const Gemm& g) { return g.a.size() == 1 || !g.trans_a ? g.a.back() : g.a[g.a.size() - 2]; }

/// The `count` candidates of each tactic that rank first agree with the reference; how many of cuBLASLt's there were.
size_t expect_agreement(Trial& t, int64_t k, size_t count) {
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, gpu_machine());
  SCOPED_TRACE(o.problem);
  EXPECT_FALSE(o.candidates.empty());
  const Tensor want = evaluate(t.node, t.inputs)[0];
  std::map<std::string, size_t> done;
  for (const Candidate& c : o.candidates) {
    if (done[c.tactic]++ >= count) continue;
    SCOPED_TRACE(c.tactic + " " + c.config);
    EXPECT_LE(error(run_on_gpu(t, c)[0], want), tolerance(t.bound.outputs[0].type, k));
  }
  return done["cublaslt"];
}

size_t expect(const Gemm& g, size_t count = 2) {
  Trial t = trial(g);
  return expect_agreement(t, depth(g), count);
}

/// One configuration on a problem, whose kernel compiles beside others.
struct ConfigTrial {
  Trial trial;
  std::string name;
  double most = 0;  // error
  std::future<std::unique_ptr<Kernel>> kernel;

  ConfigTrial(const CudaConfig& c, const Gemm& g, bool tf32) : trial(ops::trial(g)) {
    trial.bound.node = &trial.node;
    const auto found = matmul::cuda_problem(trial.bound);
    if (!found) {
      ADD_FAILURE() << found.refusal().text;
      return;
    }
    name = matmul::print(found->problem) + " " + c.print();
    most = tolerance(trial.bound.outputs[0].type, depth(g), tf32);
    kernel = std::async(std::launch::async, [p = *found, c] { return matmul::cuda_product(p, c, *test_gpu()); });
  }
  void agrees() {
    SCOPED_TRACE(name);
    ASSERT_TRUE(kernel.valid());
    EXPECT_LE(error(run_on_gpu(trial, *kernel.get())[0], evaluate(trial.node, trial.inputs)[0]), most);
  }
};

void expect_config(const CudaConfig& c, const Gemm& g) { ConfigTrial(c, g, false).agrees(); }

struct TileCase {
  DType type;
  bool tf32;
  int storage;  // bit 0: a transposed, bit 1: b
};

class GpuGemmTiles : public ::testing::TestWithParam<TileCase> {};

TEST_P(GpuGemmTiles, on_extents_that_they_do_not_divide) {
  const auto [type, tf32, storage] = GetParam();
  const bool trans_a = storage & 1, trans_b = storage & 2;
  auto gpu = std::make_shared<Gpu>(*test_gpu());
  gpu->tf32 = tf32;
  Trial wide = trial({.type = type,
                      .a = trans_a ? Shape{2048, 304} : Shape{304, 2048},
                      .b = trans_b ? Shape{304, 2048} : Shape{2048, 304},
                      .trans_a = trans_a,
                      .trans_b = trans_b});
  wide.bound.node = &wide.node;
  const auto found = matmul::cuda_problem(wide.bound);
  std::set<std::string> seen;
  int split = 0;
  const auto configs = matmul::product_configs(*found, *gpu);
  ASSERT_TRUE(configs) << configs.refusal().text;
  std::list<ConfigTrial> trials;
  for (CudaConfig c : *configs) {
    c.splits = 1;
    if (!seen.insert(c.print()).second) continue;  // each tile once
    c.splits = !c.persistent && !c.fed && ++split % 3 == 0 ? 3 : 1;
    const int64_t m = c.tile_m + 24, n = c.tile_n + 40, k = 2 * c.stages * c.tile_k + 24;
    const Gemm g{.type = type,
                 .a = trans_a ? Shape{k, m} : Shape{m, k},
                 .b = trans_b ? Shape{n, k} : Shape{k, n},
                 .trans_a = trans_a,
                 .trans_b = trans_b};
    trials.emplace_back(c, g, tf32);
  }
  for (ConfigTrial& t : trials) t.agrees();
  EXPECT_GE(seen.size(), type == DType::f32 && !tf32 ? 4u : 10u);
}

std::vector<TileCase> tile_cases() {
  std::vector<TileCase> cases;
  for (int storage = 0; storage < 4; ++storage) {
    for (const DType type : {DType::f16, DType::f32}) cases.push_back({type, false, storage});
    cases.push_back({DType::f32, true, storage});
  }
  cases.push_back({DType::bf16, false, 0});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Storages, GpuGemmTiles, ::testing::ValuesIn(tile_cases()), [](const auto& info) {
  const TileCase& c = info.param;
  return fmt::format("{}_{}{}", c.tf32 ? "tf32" : std::string(name(c.type)), c.storage & 1 ? 't' : 'n',
                     c.storage & 2 ? 't' : 'n');
});

TEST(GpuGemm, odd_shapes) {
  const int64_t extents[][3] = {{1, 1, 1},      {1, 300, 7},  {2, 3, 5},       {7, 1, 300},    {17, 31, 13},
                                {33, 65, 129},  {64, 64, 64}, {97, 101, 103},  {127, 130, 60}, {128, 257, 211},
                                {197, 299, 64}, {293, 4, 2},  {300, 300, 300}, {2, 256, 3000}};
  for (const DType type : {DType::f16, DType::bf16, DType::f32})
    for (const auto& [m, n, k] : extents) expect({.type = type, .a = {m, k}, .b = {k, n}}, 1);
}

TEST(GpuGemm, either_operand_transposed_at_every_width_of_copies) {
  for (const DType type : {DType::f16, DType::f32})
    for (const int64_t k : {72, 44, 42, 41})
      for (const bool trans_a : {false, true})
        for (const bool trans_b : {false, true}) {
          const int64_t m = k == 41 ? 67 : 64 + k % 8, n = k == 41 ? 81 : 80 + k % 8;
          expect({.type = type,
                  .a = trans_a ? Shape{k, m} : Shape{m, k},
                  .b = trans_b ? Shape{n, k} : Shape{k, n},
                  .trans_a = trans_a,
                  .trans_b = trans_b},
                 1);
        }
}

TEST(GpuGemm, batches_and_their_broadcast) {
  for (const DType type : {DType::f16, DType::f32}) {
    expect({.type = type, .a = {2, 3, 50, 40}, .b = {2, 3, 40, 70}});
    expect({.type = type, .a = {3, 50, 40}, .b = {2, 1, 40, 70}});
    expect({.type = type, .a = {50, 40}, .b = {2, 3, 40, 70}});
    expect({.type = type, .a = {4, 5, 33, 40}, .b = {40, 48}});
    expect({.type = type, .a = {5, 1, 40}, .b = {40, 48}});
    expect({.type = type, .a = {2, 3, 64, 50}, .b = {2, 3, 64, 70}, .trans_a = true});
    expect({.type = type, .a = {2, 3, 64, 50}, .b = {2, 3, 70, 50}, .trans_b = true, .alpha = 0.125});
    expect({.type = type, .a = {3, 40, 50}, .b = {40, 48}, .trans_a = true});
  }
}

TEST(GpuGemm, vectors) {
  expect({.a = {40}, .b = {40, 70}});
  expect({.a = {50, 40}, .b = {40}});
  expect({.a = {40}, .b = {40}});
  expect({.a = {40}, .b = {3, 40, 70}});
  expect({.a = {2, 50, 40},
          .b = {40},
          .program = "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = cast(%3):f16; return %4 }",
          .operands = {random_tensor(DType::f16, {2, 1}, 4)}});
}

TEST(GpuGemm, every_form_of_an_operand) {
  const std::string add =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; return %5 }";
  for (const Shape& s : {Shape{}, Shape{1}, Shape{72}, Shape{1, 72}, Shape{50, 1}, Shape{50, 72}, Shape{3, 1, 1}, Shape{3, 1, 72},
                         Shape{3, 50, 72}, Shape{2, 1, 50, 1}, Shape{2, 3, 50, 72}}) {
    SCOPED_TRACE(to_string(s));
    expect({.a = {2, 3, 50, 40}, .b = {40, 72}, .program = add, .operands = {random_tensor(DType::f16, s, 5)}});
    expect({.a = {2, 3, 50, 40}, .b = {2, 1, 40, 72}, .program = add, .operands = {random_tensor(DType::f16, s, 5)}}, 1);
  }
  const std::string odd = "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = mul(in0, %2):f32; return %3 }";
  for (const Shape& s : {Shape{71}, Shape{49, 71}, Shape{49, 1}})
    expect({.a = {49, 40}, .b = {40, 71}, .program = odd, .operands = {random_tensor(DType::f16, s, 5)}});
}

TEST(GpuGemm, gated_with_residual_and_several_types) {
  // silu(x) * up + residual, a bias of another type.
  const std::string gated =
      "(in0:f32, in1:f32, in2:bf16, in3:bf16) { %4 = add(in0, in1):f32; %5 = silu(%4):f32; %6 = cast(in2):f32; %7 = mul(%5, "
      "%6):f32; "
      "%8 = cast(in3):f32; %9 = add(%7, %8):f32; %10 = cast(%9):bf16; return %10 }";
  for (const int64_t m : {2, 130})
    expect({.type = DType::bf16,
            .a = {m, 512},
            .b = {512, 136},
            .program = gated,
            .operands = {random_tensor(DType::f32, {136}, 3), random_tensor(DType::bf16, {m, 136}, 4),
                         random_tensor(DType::bf16, {m, 136}, 5)}},
           4);
  const std::string quantized =
      "(in0:f32) { %1 = const(3):f32; %2 = mul(in0, %1):f32; %3 = round(%2):f32; %4 = cast(%3):i8; return %4 }";
  Trial t = trial({.a = {70, 64}, .b = {64, 90}, .program = quantized});
  EXPECT_FALSE(agree_on_gpu(t, evaluate(t.node, t.inputs), 1.0 / 16).empty());  // one quantum where a sum lies at a half
}

TEST(GpuGemm, cublaslt_fuses_what_it_can_and_leaves_the_rest_to_a_pass) {
  const auto program = [](std::string_view middle, std::string_view last) {
    return fmt::format(
        "(in0:f32, in1:f16, in2:f16) {{ %3 = cast(in1):f32; %4 = add(in0, %3):f32; %5 = cast(in2):f32; {} %9 = cast({}):f16; "
        "return %9 }}",
        middle, last);
  };
  struct Row {
    std::string text;
    bool passes;
  };
  const Row rows[] = {{program("%6 = add(%4, %5):f32; %7 = relu(%6):f32; %8 = abs(%7):f32;", "%7"), false},
                      {program("%6 = add(%4, %5):f32; %7 = gelu_tanh(%6):f32; %8 = abs(%7):f32;", "%7"), false},
                      {program("%6 = add(%4, %5):f32; %7 = gelu(%6):f32; %8 = abs(%7):f32;", "%7"), true},
                      {program("%6 = relu(%4):f32; %7 = add(%6, %5):f32; %8 = abs(%7):f32;", "%7"), true}};
  for (const Row& row : rows) {
    Gemm g{.a = {3, 48, 64},
           .b = {64, 80},
           .program = row.text,
           .operands = {random_tensor(DType::f16, {80}, 4), random_tensor(DType::f16, {3, 48, 80}, 5)}};
    EXPECT_GE(expect(g), 1u);
    Trial t = trial(g);
    t.bound.node = &t.node;
    for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
      if (c.tactic != "cublaslt") continue;
      EXPECT_EQ(c.config.ends_with("+pointwise"), row.passes) << c.config;
    }
  }
}

TEST(GpuGemm, splits_give_the_same_bits_whichever_block_comes_last) {
  for (const int64_t splits : {2, 3, 7}) {
    const CudaConfig c{CudaConfig::Unit::tensor, 16, 64, 64, 1, 4, 4, false, splits};
    expect_config(c, {.a = {5, 64 * 29 + 8}, .b = {64 * 29 + 8, 200}});  // run_on_gpu compares two runs bit for bit
    const CudaConfig large{CudaConfig::Unit::tensor, 64, 64, 64, 2, 2, 4, true, splits};
    expect_config(large, {.type = DType::bf16, .a = {2, 90, 1040}, .b = {2, 1040, 72}});
  }
}

/// More tiles than blocks run at once, of fewer steps of K than the ring has stages, of one and of several times as many.
TEST(GpuGemm, persistent_blocks_go_from_tile_to_tile) {
  CudaConfig c{CudaConfig::Unit::tensor, 128, 256, 64, 2, 4, 3, true, 1};
  c.ring = 4, c.persistent = true;
  const std::string program =
      "(in0:f32, in1:f16, in2:f16) { %3 = cast(in1):f32; %4 = add(in0, %3):f32; %5 = cast(in2):f32; %6 = add(%4, %5):f32; %7 = "
      "relu(%6):f32; %8 = cast(%7):f16; return %8 }";
  const int64_t rows = test_gpu()->info.multiprocessors / 8 + 2, m = 128 * rows - 100, n = 256 * 8 - 216;
  for (c.fed = false;; c.fed = true) {
    for (const int64_t k : {40, 104, 520})
      expect_config(c, {.a = {m, k},
                        .b = {k, n},
                        .program = program,
                        .operands = {random_tensor(DType::f16, {n}, 4), random_tensor(DType::f16, {m, n}, 5)}});
    expect_config(c, {.type = DType::bf16, .a = {3, 5 * 128 * 5, 72}, .b = {3, 484, 72}, .trans_b = true});
    if (c.fed || test_gpu()->info.major < 9) break;
  }
}

/// Stages that tensor maps bring: fewer than the ring has, as many, more; batches that repeat an operand; columns that are no vectors.
TEST(GpuGemm, fed_tiles_have_their_stages_brought_by_tensor_maps) {
  if (test_gpu()->info.major < 9) GTEST_SKIP() << "tensor maps are of Hopper on";
  size_t tiles = 0;
  for (const bool trans_b : {false, true}) {
    Trial wide = trial({.a = {300, 2048}, .b = trans_b ? Shape{304, 2048} : Shape{2048, 304}, .trans_b = trans_b});
    wide.bound.node = &wide.node;
    const auto found = matmul::cuda_problem(wide.bound);
    const auto configs = matmul::product_configs(*found, *test_gpu());
    ASSERT_TRUE(configs) << configs.refusal().text;
    for (const CudaConfig& c : *configs) {
      if (!c.fed) continue;
      ++tiles;
      for (const int64_t k : {int64_t{8}, c.tile_k, c.tile_k * c.stages, c.tile_k * (c.stages + 1) - 8, int64_t{1000}}) {
        expect_config(c, {.a = {77, k}, .b = trans_b ? Shape{304, k} : Shape{k, 304}, .trans_b = trans_b});
        expect_config(c, {.type = DType::bf16,
                          .a = {2, c.tile_m + 1, k},
                          .b = trans_b ? Shape{c.tile_n + 3, k} : Shape{k, c.tile_n + 8},
                          .trans_b = trans_b});
      }
      const Shape many = trans_b ? Shape{3, 40, 136} : Shape{3, 136, 40};
      expect_config(c, {.a = {3, 130, 136}, .b = many, .trans_b = trans_b});
      expect_config(c, {.a = {130, 136}, .b = many, .trans_b = trans_b});
    }
  }
  EXPECT_GE(tiles, 8u);
}

TEST(GpuGemm, streams_share_the_last_tiles_by_steps_of_k_and_give_the_same_bits) {
  // Tiles of 16 x 64 and 64 x 64, some with a block each or none; streams of whole tiles, of parts of two, of a step each.
  const CudaConfig narrow{CudaConfig::Unit::tensor, 16, 64, 64, 1, 4, 4, false, 1},
      wide{CudaConfig::Unit::tensor, 64, 64, 64, 2, 2, 4, true, 1}, fma{CudaConfig::Unit::fma, 64, 64, 32, 16, 16, 2, false, 1};
  struct Case {
    CudaConfig config;
    Gemm product;
    int64_t tiles, steps;
  };
  const Case cases[] = {
      {narrow, {.a = {5, 64 * 29 + 8}, .b = {64 * 29 + 8, 200}}, 4, 30},
      {narrow, {.a = {40, 456}, .b = {456, 200}}, 12, 8},
      {wide, {.type = DType::bf16, .a = {2, 90, 1040}, .b = {2, 1040, 72}}, 8, 17},
      {wide, {.a = {130, 640}, .b = {640, 330}}, 18, 10},
      {fma, {.type = DType::f32, .a = {130, 328}, .b = {328, 200}}, 12, 11},
  };
  for (const Case& of : cases)
    for (const int64_t streamed : {int64_t{1}, int64_t{3}, of.tiles})
      for (const int64_t streams : {streamed, streamed + 1, 2 * streamed + 1, streamed * of.steps - 1, streamed * of.steps}) {
        CudaConfig c = of.config;
        c.streamed = streamed, c.streams = streams;
        expect_config(c, of.product);  // run_on_gpu compares two runs bit for bit
      }
}

TEST(GpuGemm, streams_are_candidates_where_the_last_round_is_ragged) {
  const int64_t k = 520, n = 64 * (test_gpu()->info.multiprocessors + 9);
  Trial t = trial({.a = {520, k}, .b = {k, n}});
  t.bound.node = &t.node;
  const auto found = matmul::cuda_problem(t.bound);
  const auto streamed = matmul::streamed_configs(*found, *test_gpu());
  ASSERT_FALSE(streamed.empty());
  const Tensor want = evaluate(t.node, t.inputs)[0];
  for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
    if (c.config.find("stream") == c.config.npos) continue;
    SCOPED_TRACE(c.config);
    EXPECT_LE(error(run_on_gpu(t, c)[0], want), tolerance(DType::f16, k));
  }
}

TEST(GpuGemm, operands_that_begin_anywhere_and_lie_apart) {
  for (const int64_t alignment : {16, 8, 4, 2}) {
    Trial t = trial({.a = {50, 64}, .b = {64, 80}});
    for (BoundTensor* b : {&t.bound.inputs[0], &t.bound.inputs[1], &t.bound.outputs[0]}) b->alignment = alignment;
    expect_agreement(t, 64, 3);
  }
  Trial rows = trial({.a = {3, 50, 64}, .b = {64, 80}});
  rows.bound.inputs[0].strides = {64 * 90, 72, 1};
  rows.bound.inputs[1].strides = {88, 1};
  rows.bound.outputs[0].strides = {80 * 60, 88, 1};
  expect_agreement(rows, 64, 3);
  Trial heads = trial({.a = {2, 4, 50, 64}, .b = {2, 4, 60, 64}, .trans_b = true});  // [batch, sequence, heads, 64] seen by heads
  heads.bound.inputs[0].strides = {50 * 256, 64, 256, 1};
  heads.bound.inputs[1].strides = {60 * 256, 64, 256, 1};
  heads.bound.outputs[0].strides = {50 * 4 * 60, 60, 4 * 60, 1};
  expect_agreement(heads, 64, 3);
  Trial apart = trial({.a = {50, 33}, .b = {33, 40}});  // neither axis side by side
  apart.bound.inputs[0].strides = {33 * 3, 3};
  apart.bound.inputs[1].strides = {2, 90};
  apart.bound.outputs[0].strides = {90, 2};
  expect_agreement(apart, 33, 3);
}

/// By emulation of random operands: 2.3e-7 in parts of 128 steps, 1.6e-7 with four splits of these; 1.2e-6 and 6e-7 in one chain
/// of additions each.
TEST(GpuGemm, deep_sums_in_float_are_no_chain_of_additions) {
  Trial t = trial({.type = DType::f32, .a = {70, 4608}, .b = {4608, 90}});
  t.bound.node = &t.node;
  const Tensor want = evaluate(t.node, t.inputs)[0];
  const auto found = matmul::cuda_problem(t.bound);
  const auto& p = *found;
  std::set<std::string> seen;
  const auto configs = matmul::product_configs(p, *test_gpu());
  ASSERT_TRUE(configs) << configs.refusal().text;
  for (CudaConfig c : *configs) {
    for (c.splits = 1; c.splits <= 4; c.splits += 3) {
      if (!seen.insert(c.print()).second) continue;
      SCOPED_TRACE(c.print());
      const Candidate candidate{"cuda", c.print(), 0, [&] { return matmul::cuda_product(p, c, *test_gpu()); }};
      EXPECT_LE(rms_error(run_on_gpu(t, candidate)[0], want), 3e-7);
    }
  }
  EXPECT_GE(seen.size(), 12u);
}

/// Products of this length have an error of 3e-7 or less (above); gelu adds a rounding.
TEST(GpuGemm, gelu_in_float_is_as_exact_as_the_product) {
  Trial t = trial({.type = DType::f32,
                   .a = {70, 256},
                   .b = {256, 96},
                   .program = "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = gelu_tanh(%2):f32; return %3 }",
                   .operands = {random_tensor(DType::f32, {96}, 4)}});
  t.bound.node = &t.node;
  const Tensor want = evaluate(t.node, t.inputs)[0];
  size_t by_cublaslt = 0;
  for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
    SCOPED_TRACE(c.tactic + " " + c.config);
    EXPECT_LE(rms_error(run_on_gpu(t, c)[0], want), 4e-7);
    if (c.tactic != "cublaslt") continue;
    ++by_cublaslt;
    EXPECT_TRUE(c.config.ends_with("+pointwise"));
  }
  EXPECT_GE(by_cublaslt, 1u);
}

TEST(GpuGemm, empty_extents) {
  expect({.a = {0, 40}, .b = {40, 8}});
  expect({.a = {4, 0}, .b = {0, 8}});  // zeros
  expect({.a = {0, 4, 8}, .b = {8, 8}});
}

TEST(GpuGemm, onnx_operators) {
  for (const bool trans : {false, true}) {
    Trial t;
    t.node.op = "Gemm";
    t.node.attrs = {{"transB", int64_t{trans}}, {"alpha", 0.5f}, {"beta", 2.0f}};
    t.add(random_tensor(DType::f32, {13, 40}, 1), false);
    t.add(random_tensor(DType::f32, trans ? Shape{19, 40} : Shape{40, 19}, 2), true);
    t.add(random_tensor(DType::f32, {19}, 3), true);
    t.result(DType::f32, {13, 19});
    EXPECT_FALSE(check_on_gpu(t, 2e-6).empty());
  }
}

}  // namespace
}  // namespace smelt::ops
