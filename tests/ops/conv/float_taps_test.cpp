// Direct convolutions of few channels and outputs against their reference, and the lines that each instruction set folds.
#include "ops/conv/simd/float_taps.h"
#include "expr/simd/isa.h"
#include "ops/config_check.h"

namespace smelt::ops::test {
namespace {

struct Case {
  Shape x, w;
  Attributes attributes;
};

std::vector<Case> cases() {
  return {
      {{2, 3, 9, 8}, {4, 3, 3, 3}, {}},
      {{1, 4, 9, 8}, {6, 2, 3, 2}, {{"group", int64_t{2}}, {"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{2, 3}}}},
      {{1, 5, 7, 7}, {5, 1, 3, 3}, {{"group", int64_t{5}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{2, 1}}}},
      {{3, 4, 17}, {3, 4, 5}, {{"pads", Ints{9, 7}}, {"strides", Ints{2}}}},
      {{2, 33, 257}, {33, 33, 3}, {{"pads", Ints{1, 1}}}},
      {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, {{"pads", Ints{0, 1, 0, 1, 1, 2}}, {"strides", Ints{1, 2, 1}}}},
      {{1, 6, 5, 9, 33}, {6, 1, 3, 3, 3}, {{"group", int64_t{6}}, {"pads", Ints{1, 1, 1, 1, 1, 1}}, {"strides", Ints{2, 1, 2}}}},
      {{1, 3, 40, 50}, {2, 3, 1, 1}, {}},
      {{1, 1, 3, 3}, {64, 1, 3, 3}, {{"auto_pad", std::string("SAME_LOWER")}}},
      {{1, 2, 6, 70}, {3, 2, 3, 3}, {{"pads", Ints{40, 40, 40, 40}}, {"dilations", Ints{19, 9}}}},
      {{1, 2, 4, 6}, {2, 1, 3, 3}, {{"group", int64_t{2}}, {"pads", Ints{7, 8, 7, 8}}, {"strides", Ints{3, 5}}}},
      {{1, 40, 300, 61}, {7, 40, 5, 3}, {{"pads", Ints{2, 1, 2, 1}}}},  // lines in chunks
      {{3, 2, 127}, {65, 2, 3}, {{"pads", Ints{1, 1}}}},
  };
}

/// The one candidate by taps is within `most` of the reference.
void taps_agree(Trial& t, int threads, double most) {
  const Tensor want = expected(t);
  t.result(want.type(), want.shape());
  config_agrees(t, "taps", threads, want, most);
}

TEST(FloatTaps, agree_over_axes_groups_strides_pads_and_dilations) {
  for (const Case& c : cases())
    for (DType type : {DType::f32, DType::f16, DType::bf16}) {
      SCOPED_TRACE(to_string(c.x) + to_string(c.w) + std::string(name(type)));
      for (const bool biased : {false, true})
        for (const int threads : {1, 3}) {
          Trial t;
          t.node = make_node("Conv", 0, c.attributes, 0);
          t.add(random_tensor(type, c.x, 1), false);
          t.add(random_tensor(type, c.w, 2), true);
          if (biased) t.add(random_tensor(type, {c.w[0]}, 3), true);
          taps_agree(t, threads, type == DType::f32 ? 1e-5 : type == DType::f16 ? 2e-3 : 1e-2);
        }
    }
}

TEST(FloatTaps, computed_weights_and_bias_are_packed_in_the_run) {
  for (const Case& c : cases())
    for (DType type : {DType::f32, DType::f16, DType::bf16}) {
      SCOPED_TRACE(to_string(c.x) + to_string(c.w) + std::string(name(type)));
      for (const bool constant : {false, true}) {
        Trial t;
        t.node = make_node("Conv", 0, c.attributes, 0);
        t.add(random_tensor(type, c.x, 1), false);
        t.add(random_tensor(type, c.w, 2), constant);
        t.add(random_tensor(type, {c.w[0]}, 3), false);
        taps_agree(t, 2, type == DType::f32 ? 1e-5 : type == DType::f16 ? 2e-3 : 1e-2);
      }
    }
  Trial t;
  t.node = make_node("ConvTranspose", 0, {{"pads", Ints{1, 0, 2, 1}}, {"group", int64_t{2}}}, 0);
  t.add(random_tensor(DType::f32, {1, 4, 5, 9}, 1), false);
  t.add(random_tensor(DType::f32, {4, 3, 3, 2}, 2), false);
  taps_agree(t, 1, 1e-5);
}

TEST(FloatTaps, transposed_ones_of_strides_of_1_agree) {
  const Case some[] = {
      {{2, 3, 5, 4}, {3, 4, 3, 3}, {}},
      {{31, 1, 65, 31}, {1, 17, 2, 3}, {{"pads", Ints{1, 1, 1, 1}}}},
      {{1, 4, 5, 9}, {4, 3, 3, 2}, {{"group", int64_t{2}}, {"pads", Ints{1, 0, 2, 1}}, {"dilations", Ints{2, 3}}}},
      {{3, 2, 40}, {2, 5, 4}, {{"pads", Ints{3, 2}}}},
      {{1, 2, 3, 4, 17}, {2, 3, 2, 2, 3}, {{"pads", Ints{1, 0, 0, 0, 1, 2}}}},
  };
  for (const Case& c : some)
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(to_string(c.x) + to_string(c.w));
      Trial t;
      t.node = make_node("ConvTranspose", 0, c.attributes, 0);
      t.add(random_tensor(DType::f32, c.x, 1), false);
      t.add(random_tensor(DType::f32, c.w, 2), true);
      taps_agree(t, threads, 1e-5);
    }
}

// A thread's copy of the image is cleared once a run: what other chunks, images and runs left in it must not show.
TEST(FloatTaps, random_chunks_and_runs_leave_nothing_behind) {
  std::mt19937 r(3);
  const auto one_of = [&](std::initializer_list<int64_t> of) {
    return of.begin()[std::uniform_int_distribution<size_t>(0, of.size() - 1)(r)];
  };
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t kernel = one_of({1, 2, 3, 5}), h = one_of({3, 9, 40, 120}), w = one_of({3, 17, 66}), group = one_of({1, 2}),
                  stride = one_of({1, 1, 2, 3}), dilation = one_of({1, 2});
    const Ints pads = {one_of({0, 1, 6}), one_of({0, 1, 3}), one_of({0, 2, 7}), one_of({0, 1, 3})};
    if (h + pads[0] + pads[2] < (kernel - 1) * dilation + 1 || w + pads[1] + pads[3] < (kernel - 1) * dilation + 1) continue;
    const Shape x = {one_of({1, 3}), 2 * group, h, w};
    Trial t;
    t.node = make_node(
        "Conv", 0,
        {{"group", group}, {"pads", pads}, {"strides", Ints{stride, one_of({1, 2})}}, {"dilations", Ints{dilation, dilation}}},
        0);
    t.add(random_tensor(DType::f32, x, 1), false);
    t.add(random_tensor(DType::f32, {2 * group, 2, kernel, kernel}, 2), true);
    const Tensor want = expected(t);
    t.result(want.type(), want.shape());
    t.bound.node = &t.node;
    Machine machine;
    machine.threads = static_cast<int>(one_of({1, 4}));
    SCOPED_TRACE(testing::Message() << to_string(x) << ' ' << kernel << ", trial " << trial);
    for (const Candidate& c : offer(t.bound, machine).candidates) {
      if (c.config != "taps") continue;
      Prepared kernel_with_memory(t, c);
      std::vector<Tensor> other = t.inputs;
      other[0] = random_tensor(DType::f32, x, 9, 50, 90);
      kernel_with_memory.run(other);
      EXPECT_LE(error(kernel_with_memory.run(t.inputs)[0], want), 1e-5);
      EXPECT_EQ(kernel_with_memory.beside(), "");
    }
  }
}

TEST(FloatTaps, end_with_an_activation) {
  for (const char* end : {"relu", "clip"}) {
    Trial t;
    t.node.domain = smelt_domain;
    t.node.op = "Conv";
    t.node.attrs["pads"] = Ints{1, 1, 1, 1};
    t.node.attrs["strides"] = Ints{1, 1};
    t.node.attrs["dilations"] = Ints{1, 1};
    t.add(random_tensor(DType::f32, {1, 3, 9, 37}, 1), false);
    t.add(random_tensor(DType::f32, {5, 3, 3, 3}, 2), true);
    t.add(random_tensor(DType::f32, {5}, 3), true);
    expr::Program p;
    const expr::Ref in = p.input(DType::f32);
    p.output(end[0] == 'r' ? p.call(expr::Fn::relu, in)
                           : p.call(expr::Fn::clip, in, p.constant(DType::f32, -0.5), p.constant(DType::f32, 0.75)));
    t.node.program = p;
    t.result(DType::f32, {1, 5, 9, 37});
    const Tensor want = expected(t);
    t.bound.node = &t.node;
    int found = 0;
    for (const Candidate& candidate : offer(t.bound, Machine{}).candidates) {
      if (candidate.config != "taps") continue;
      ++found;
      EXPECT_LE(error(run(t, candidate), want), 1e-5);
    }
    EXPECT_EQ(found, 1) << end;
  }
}

TEST(FloatTaps, every_instruction_set_folds_lines_of_every_length) {
  std::vector<const FloatTaps*> tables = {&base::float_taps()};
  if (simd::best() == simd::Isa::avx2) tables.push_back(&avx2::float_taps());
  if (simd::widest() == simd::Isa::avx512) tables.push_back(&avx512::float_taps());
  for (int64_t results : {1, 2, 3, 4, 5, 7})
    for (int64_t places : {1, 7, 16, 33, 100, 300})
      for (int64_t count : {1, 3, 10}) {
        const Tensor from = random_tensor(DType::f32, {1000 + float_taps_slack}, 1),
                     w = random_tensor(DType::f32, {results, count}, 2);
        std::vector<int64_t> offsets;
        for (int64_t j = 0; j < count; ++j) offsets.push_back(j * 37 % 600);
        std::vector<float> packed;
        for (int64_t m = 0; m < results; m += float_taps_results)
          for (int64_t j = 0; j < count; ++j)
            for (int64_t r = m; r < std::min(results, m + float_taps_results); ++r)
              packed.push_back(w.data<float>()[r * count + j]);
        const int64_t step = (places + float_taps_lanes) / float_taps_lanes * float_taps_lanes + float_taps_lanes;
        Tensor want = Tensor::empty(DType::f64, {results, places});
        for (int64_t r = 0; r < results; ++r)
          for (int64_t o = 0; o < places; ++o) {
            double sum = 0;
            for (int64_t j = 0; j < count; ++j)
              sum += double{w.data<float>()[r * count + j]} * double{from.data<float>()[offsets[static_cast<size_t>(j)] + o]};
            want.data<double>()[r * places + o] = sum;
          }
        for (const FloatTaps* table : tables) {
          std::vector<float> to(static_cast<size_t>(results * step));
          table->fold({from.data<float>(), offsets.data(), packed.data(), count, results, places, to.data(), step});
          Tensor got = Tensor::empty(DType::f32, {results, places});
          for (int64_t r = 0; r < results; ++r) std::copy_n(to.data() + r * step, places, got.data<float>() + r * places);
          EXPECT_LE(error(got, want), 1e-6) << results << " results, " << places << " places, " << count << " taps";
        }
      }
}

}  // namespace
}  // namespace smelt::ops::test
