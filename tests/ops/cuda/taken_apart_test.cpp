// What a GPU's kernels take by way of others: transposed convolutions phase by phase, windows that are runs of memory as rows of a
// product, images whose zero point is computed as copies, computed weights by cuDNN's engines; and states that clusters of 16 hold.
// Offers alone; nothing is compiled or run.
#include <gmock/gmock.h>

#include "ops/cuda/forms.h"
#include "ops/cuda/gpu.h"

namespace smelt::ops {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Ints = std::vector<int64_t>;

/// "TACTIC CONFIGURATION" of each candidate.
std::vector<std::string> ways(Form f, std::string_view arch = "sm_90a") {
  Machine machine;
  machine.gpu = gpu_of_arch(arch);
  f.bound.node = &f.node;
  std::vector<std::string> names;
  for (const Candidate& c : offer(f.bound, machine).candidates) names.push_back(c.tactic + " " + c.config);
  return names;
}

Form conv(const char* op, DType type, Shape x, const Shape& w, Shape y, std::map<std::string, Attribute> attributes,
          Layout layout) {
  Form f(op, "", std::move(attributes));
  return f.in(type, std::move(x), layout).in(Tensor::zeros(type, w)).out(type, std::move(y), layout);
}

TEST(TakenApart, transposed_convolutions_whose_windows_overlap) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const auto of = [&](DType type, Layout layout) {
      return ways(conv("ConvTranspose", type, {1, 64, 14, 14}, {64, 32, 4, 4}, {1, 32, 28, 28},
                       {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}, layout),
                  arch);
    };
    EXPECT_THAT(of(DType::f16, Layout::nhwc), Contains(StartsWith("walked phases")));
    EXPECT_THAT(of(DType::f32, Layout::nhwc), AllOf(Contains(StartsWith("cuda implicit")),  // all phases in one launch
                                                    Not(Contains(StartsWith("cuda phases implicit")))));
    EXPECT_THAT(ways(conv("ConvTranspose", DType::f32, {1, 64, 14, 14}, {64, 32, 3, 3}, {1, 32, 27, 27},
                          {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}, Layout::nhwc),
                     arch),
                Contains(StartsWith("cuda phases implicit")))
        << "phases that differ";
    EXPECT_THAT(of(DType::f32, Layout::plain), Contains(StartsWith("cuda phases direct")));
  }
  EXPECT_THAT(ways(conv("ConvTranspose", DType::f16, {1, 512, 200}, {512, 256, 16}, {1, 256, 1600},
                        {{"strides", Ints{8}}, {"pads", Ints{4, 4}}}, Layout::nhwc)),
              Contains(StartsWith("hopper phases")));
  EXPECT_THAT(ways(conv("ConvTranspose", DType::f16, {1, 64, 14, 14}, {64, 32, 2, 2}, {1, 32, 28, 28}, {{"strides", Ints{2, 2}}},
                        Layout::nhwc)),
              Not(Contains(HasSubstr("phases"))));
}

TEST(TakenApart, windows_that_are_runs_of_memory) {
  const auto signal = [](DType type, std::map<std::string, Attribute> attributes, int64_t places) {
    return ways(conv("Conv", type, {1, 1, 8000}, {258, 1, 400}, {1, 258, places}, std::move(attributes), Layout::plain));
  };
  EXPECT_THAT(signal(DType::f32, {{"strides", Ints{160}}}, 48), Contains(StartsWith("cuda lines implicit fma")));
  EXPECT_THAT(signal(DType::f16, {{"strides", Ints{160}}}, 48), Contains(StartsWith("walked lines")));
  EXPECT_THAT(signal(DType::f32, {{"strides", Ints{160}}, {"pads", Ints{200, 200}}}, 51), Contains(StartsWith("cuda lines")));
  EXPECT_THAT(signal(DType::f32, {{"strides", Ints{160}}, {"dilations", Ints{2}}}, 46), Not(Contains(HasSubstr("lines"))));
  EXPECT_THAT(ways(conv("Conv", DType::f32, {1, 1, 56, 56}, {8, 1, 3, 3}, {1, 8, 54, 54}, {}, Layout::plain)),
              Not(Contains(HasSubstr("lines"))));
}

TEST(TakenApart, images_of_integers_whose_zero_point_is_computed) {
  const auto integers = [](bool computed, DType weights, Layout layout) {
    Form f("ConvInteger", "", {{"pads", Ints{1, 1, 1, 1}}});
    f.in(DType::u8, {1, 64, 14, 14}, layout).in(Tensor::zeros(weights, {64, 64, 3, 3}));
    computed ? f.in(DType::u8, {}) : f.in(Tensor::scalar<uint8_t>(7));
    return ways(f.in(Tensor::zeros(weights, {1})).out(DType::i32, {1, 64, 14, 14}, layout));
  };
  for (const Layout layout : {Layout::plain, Layout::nhwc}) {
    EXPECT_THAT(integers(true, DType::i8, layout), Contains(StartsWith("walked")));
    EXPECT_THAT(integers(false, DType::i8, layout), Contains(StartsWith("walked")));
    EXPECT_THAT(integers(true, DType::u8, layout), Contains(StartsWith("cuda direct")));  // of more than 8 bits
  }
}

TEST(TakenApart, states_that_8_blocks_do_not_hold) {
  const auto gru = [](int64_t hidden, std::string_view arch) {
    return ways(Form("GRU", "")
                    .in(DType::f32, {9, 1, 64})
                    .in(DType::f32, {1, 3 * hidden, 64})
                    .in(DType::f32, {1, 3 * hidden, hidden})
                    .out(DType::f32, {9, 1, 1, hidden}),
                arch);
  };
  EXPECT_THAT(gru(600, "sm_90a"), Contains(StartsWith("cuda resident b16")));
  EXPECT_THAT(gru(128, "sm_90a"), Not(Contains(HasSubstr("b16"))));   // they do
  EXPECT_THAT(gru(600, "sm_120a"), Not(Contains(HasSubstr("b16"))));  // a cluster has no more
}

/// Whether a card has so many multiprocessors in one group only the card says: where it is not here they are no first choice.
TEST(TakenApart, states_on_16_blocks_are_no_estimate_of_a_card_that_is_not_here) {
  Machine machine;
  machine.gpu = gpu_of_arch("sm_90a");
  Form f = Form("GRU", "").in(DType::f32, {9, 1, 64}).in(DType::f32, {1, 1800, 64}).in(DType::f32, {1, 1800, 600});
  f = f.out(DType::f32, {9, 1, 1, 600});
  f.bound.node = &f.node;
  const Offer o = offer(f.bound, machine);
  const auto first = std::ranges::min_element(o.candidates, {}, &Candidate::estimate_us);
  ASSERT_NE(first, o.candidates.end());
  EXPECT_THAT(first->config, Not(HasSubstr("b16")));
}

TEST(TakenApart, grouped_convolutions_by_their_own_kernels_first) {
  Machine machine;
  machine.gpu = gpu_of_arch("sm_90a");
  Form f = conv("Conv", DType::f32, {1, 96, 120, 160}, {96, 1, 7, 7}, {1, 96, 120, 160},
                {{"pads", Ints{3, 3, 3, 3}}, {"group", int64_t{96}}}, Layout::nhwc);
  f.bound.node = &f.node;
  const Offer o = offer(f.bound, machine);
  const auto first = std::ranges::min_element(o.candidates, {}, &Candidate::estimate_us);
  ASSERT_NE(first, o.candidates.end());
  EXPECT_THAT(first->config, StartsWith("depthwise"));
}

}  // namespace
}  // namespace smelt::ops
