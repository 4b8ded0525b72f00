// What holds of every offer: each refusal says why, and problems of one key have the same kernels. Over the forms that are compiled
// for GPUs, and over each of them with one tensor at a time that lies in memory otherwise or is computed; nothing runs.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/cuda/forms.h"
#include "ops/cuda/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

/// The tensor as a slice of one that has an element more along an axis.
BoundTensor sliced(BoundTensor t, size_t axis) {
  BoundTensor whole = t;
  whole.strides.clear();
  ++whole.shape[axis];
  t.strides = memory_strides(whole);
  return t;
}

/// A form, and what of it was changed.
struct Variant {
  std::string what;
  Form form;
};

/// The form as it is, and with one tensor at a time changed.
std::vector<Variant> variants(const Form& f) {
  std::vector<Variant> list{{"as it is", f}};
  for (const bool outputs : {false, true}) {
    const std::vector<BoundTensor>& tensors = outputs ? f.bound.outputs : f.bound.inputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const BoundTensor& t = tensors[i];
      if (t.type == DType::undefined) continue;
      const std::string name = fmt::format("{} {}", outputs ? "output" : "input", i);
      const auto add = [&](std::string what, BoundTensor changed) {
        Variant v{name + " " + std::move(what), f};
        (outputs ? v.form.bound.outputs : v.form.bound.inputs)[i] = std::move(changed);
        list.push_back(std::move(v));
      };
      if (t.constant.valid()) {
        BoundTensor computed = t;
        computed.constant = {};
        add("computed", computed);
        if (t.type == DType::f32 && t.constant.size() <= 16) {
          BoundTensor other = t;
          other.constant = Tensor::empty(DType::f32, t.shape);
          for (size_t e = 0; e < t.constant.span<float>().size(); ++e)
            other.constant.data<float>()[e] = t.constant.span<float>()[e] * 1.001f;
          add("of other numbers", other);
        }
        continue;
      }
      BoundTensor narrow = t;
      narrow.alignment = std::max<int64_t>(1, bytes(t.type, 1));
      add("aligned to an element", narrow);
      for (size_t axis = 0; axis < t.shape.size() && bits(t.type) >= 8; ++axis)
        add(fmt::format("sliced along {}", axis), sliced(t, axis));
    }
  }
  return list;
}

Machine processor() {
  Machine machine;
  machine.threads = 2;
  machine.isa = "avx2";
  return machine;
}

/// A GPU whose compiler only notes the sources.
Machine noting_gpu(std::string_view arch, std::string& sources) {
  const auto gpu = std::make_shared<Gpu>(*gpu_of_arch(arch));
  gpu->cubins = std::make_shared<device::cuda::CubinStore>(
      std::filesystem::path(), [&sources](const device::cuda::Source& source, std::string_view) {
        sources += fmt::format("{} {}\n", source.code, fmt::join(source.options, " "));
        return uncompiled(source);
      });
  Machine machine;
  machine.gpu = gpu;
  return machine;
}

/// Nothing where the node cannot be as this variant has it.
std::optional<Offer> offered(Form& f, const Machine& machine) {
  f.bound.node = &f.node;
  try {
    return offer(f.bound, machine);
  } catch (const Error&) {
    return std::nullopt;
  }
}

TEST(Offers, refuse_each_tactic_for_a_reason_said_once) {
  std::string sources;
  std::map<Reason, int> seen;
  for (const Machine& machine : {processor(), noting_gpu("sm_75", sources), noting_gpu("sm_90a", sources)}) {
    for (const Form& form : all_forms()) {
      for (Variant& v : variants(form)) {
        const auto o = offered(v.form, machine);
        if (!o) continue;
        SCOPED_TRACE(o->problem + ", " + v.what);
        std::set<std::pair<std::string, std::string>> said;
        for (const RefusedTactic& r : o->refused) {
          EXPECT_FALSE(r.why.text.empty()) << r.tactic;
          EXPECT_TRUE(said.emplace(r.tactic, r.why.text).second) << r.tactic << ": " << r.why.text;
          EXPECT_EQ(r.why.blocker, NodeId::none) << r.tactic;
          ++seen[r.why.reason];
        }
      }
    }
  }
  for (const Reason r : {Reason::wrong_type, Reason::wrong_layout, Reason::wrong_machine, Reason::not_constant})
    EXPECT_GT(seen[r], 0) << name(r);
}

/// The candidates but for the reference, which is offered for dense row-major tensors only, and on a GPU their kernels' sources.
std::string kernels_of(const Offer& o, std::string& sources) {
  std::string all;
  for (const Candidate& c : o.candidates) {
    if (c.tactic == "reference") continue;
    all += fmt::format("{} {}\n", c.tactic, c.config);
    if (c.tactic != "cuda" && c.tactic != "hopper") continue;
    sources.clear();
    c.prepare();
    all += sources;
  }
  return all;
}

TEST(Offers, have_other_keys_where_the_kernels_differ) {
  std::string sources;
  for (const bool on_gpu : {false, true}) {
    for (const Form& form : all_forms()) {
      std::map<std::string, std::pair<std::string, std::string>> known;  // by key: the kernels, and what was changed
      for (Variant& v : variants(form)) {
        const Machine machine = on_gpu ? noting_gpu("sm_90a", sources) : processor();  // a new one: it compiles a source once
        const auto o = offered(v.form, machine);
        if (!o) continue;
        const std::string kernels = kernels_of(*o, sources);
        const auto [at, is_new] = known.try_emplace(o->problem, kernels, v.what);
        EXPECT_EQ(at->second.first, kernels) << o->problem << ": " << at->second.second << " and " << v.what;
      }
    }
  }
}

/// A running sum along an axis that is a constant input.
Form running_sum(int64_t axis) {
  return Form("CumSum", "").in(DType::f32, {8, 8}).in(Tensor::scalar<int64_t>(axis)).out(DType::f32, {8, 8});
}

TEST(Offers, name_the_integers_that_decide_what_a_kernel_does) {
  std::string sources;
  const Machine machine = noting_gpu("sm_90a", sources);
  Form first = running_sum(0), last = running_sum(1);
  const auto a = offered(first, machine), b = offered(last, machine);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->problem, "CumSum:f32[8,8],i64[]=0>f32[8,8]");
  EXPECT_EQ(b->problem, "CumSum:f32[8,8],i64[]=1>f32[8,8]");
}

TEST(Offers, have_a_kernel_for_groups_of_every_extent_on_a_gpu) {
  std::string sources;
  for (const Machine& machine : {noting_gpu("sm_75", sources), noting_gpu("sm_90a", sources)})
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      for (const Layout layout : {Layout::plain, Layout::nhwc})
        for (const int64_t channels : {1, 2, 3, 8, 12, 31, 64, 512, 2048})
          for (const int64_t length : {1, 2, 7, 63, 1023, 1025, 3199, 4096, 16001, 130003, 500009})
            for (const int64_t groups : {int64_t{0}, int64_t{1}, channels % 4 == 0 ? channels / 4 : channels}) {
              Form f(groups ? "GroupNormalization" : "InstanceNormalization", "", {{"num_groups", groups}});
              f.in(type, {2, channels, length, 1}, layout).in(type, {channels}).in(type, {channels});
              f.out(type, {2, channels, length, 1}, layout);
              const auto o = offered(f, machine);
              ASSERT_TRUE(o) << name(type) << ' ' << name(layout) << ' ' << channels << 'x' << length << ' ' << groups;
            }
}

/// A convolution of 8-bit integers of `side` x `side` pixels; `blocked`: in blocks of 32 channels.
Form integers(bool blocked, int64_t images, int64_t channels, int64_t side, int64_t outputs, int64_t taps) {
  Form f("QLinearConv", smelt_domain, {{"pads", std::vector<int64_t>(4, taps / 2)}},
         "(in0:f32) { %1 = relu(in0):f32; %2 = round(%1):f32; %3 = const(255):f32; %4 = const(0):f32; "
         "%5 = clip(%2, %4, %3):f32; %6 = cast(%5):u8; return %6 }");
  if (blocked) f.node.attrs["blocked"] = int64_t{1};
  const auto shape = [&](int64_t c) { return blocked ? Shape{images, c / 32, side, side, 32} : Shape{images, c, side, side}; };
  const Layout layout = blocked ? Layout::plain : Layout::nhwc;
  f.in(DType::u8, shape(channels), layout).in(Tensor::zeros(DType::i8, {outputs, channels, taps, taps}));
  f.in(Tensor::zeros(DType::i32, {outputs})).in(Tensor::scalar(0.5f)).in(Tensor::scalar<uint8_t>(3));
  f.in(Tensor::zeros(DType::f32, {outputs})).out(DType::u8, shape(outputs), layout);
  return f;
}

double least_estimate(const Offer& o, bool turned) {
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate& c : o.candidates)
    if (turned == c.config.ends_with("blocks turned")) least = std::min(least, c.estimate_us);
  return least;
}

TEST(Offers, price_blocks_of_channels_which_never_cost_less_than_channels_last_images) {
  const auto priced = [](const RefusedTactic& r) {
    return r.why.reason == Reason::not_profitable && r.why.text.starts_with("nchw32: ");
  };
  std::string sources;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const Machine machine = noting_gpu(arch, sources);
    for (const int64_t images : {1, 8, 32})
      for (const int64_t channels : {32, 64, 128, 256, 512, 2048})
        for (const int64_t side : {7, 14, 56})
          for (const int64_t outputs : {32, 64, 256, 1024})
            for (const int64_t taps : {1, 3}) {
              SCOPED_TRACE(fmt::format("{} {}x{}x{} to {}, {}", arch, images, channels, side, outputs, taps));
              Form rows = integers(false, images, channels, side, outputs, taps),
                   blocks = integers(true, images, channels, side, outputs, taps);
              const auto last = offered(rows, machine), blocked = offered(blocks, machine);
              ASSERT_TRUE(last && blocked);
              const double best = least_estimate(*last, false);
              EXPECT_GE(least_estimate(*blocked, false), best);
              EXPECT_GT(least_estimate(*blocked, true), best) << "copies around it cost nothing";
              const auto price = std::ranges::find_if(last->refused, priced);
              ASSERT_NE(price, last->refused.end());
              EXPECT_THAT(price->why.text,
                          testing::HasSubstr(fmt::format("guess is {:.1f} us", least_estimate(*blocked, false))));
              EXPECT_THAT(price->why.text, testing::HasSubstr(fmt::format("guessed at {:.1f} us", best)));
            }
    Form odd = integers(false, 1, 48, 14, 64, 3);
    const auto o = offered(odd, machine);
    ASSERT_TRUE(o);
    EXPECT_TRUE(std::ranges::none_of(o->refused, priced)) << "48 channels are no blocks of 32";
  }
}

/// A convolution of f16 by windows of `taps` pixels, `step` apart, that reads a plain image and writes channels-last.
Form windows(Shape x, Shape w, std::vector<int64_t> steps, int64_t pad = 0, Layout image = Layout::plain) {
  Shape y{x[0], w[0]};
  for (size_t a = 2; a < x.size(); ++a) y.push_back((x[a] + 2 * pad - w[a]) / steps[a - 2] + 1);
  Form f("Conv", "", {{"strides", steps}, {"pads", std::vector<int64_t>(2 * steps.size(), pad)}});
  f.in(DType::f16, std::move(x), image).in(Tensor::zeros(DType::f16, w)).out(DType::f16, std::move(y), Layout::nhwc);
  return f;
}

TEST(Offers, lay_images_out_whose_windows_lie_side_by_side) {
  std::string sources;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const Machine machine = noting_gpu(arch, sources);
    const auto tactics = [&](Form f) {
      std::set<std::string> found;
      const auto o = offered(f, machine);
      for (const Candidate& c : o ? o->candidates : std::vector<Candidate>{})
        if (c.config.starts_with("patches ")) found.insert(c.tactic);
      return found;
    };
    const std::set<std::string> all = std::string_view(arch) == "sm_80" ? std::set<std::string>{"cuda", "walked"}
                                                                        : std::set<std::string>{"cuda", "hopper", "walked"};
    EXPECT_EQ(tactics(windows({1, 3, 224, 224}, {768, 3, 16, 16}, {16, 16})), all);
    EXPECT_EQ(tactics(windows({2, 3, 16, 224, 224}, {768, 3, 2, 16, 16}, {2, 16, 16})), all) << "three axes";
    EXPECT_EQ(tactics(windows({2, 8, 128}, {768, 8, 8}, {8})), all) << "one axis";
    EXPECT_EQ(tactics(windows({1, 3, 224, 224}, {768, 3, 16, 16}, {16, 16}, 0, Layout::nhwc)),
              (std::set<std::string>{"cuda", "walked"}))
        << "whose weights are packed in another order than the model's, which hopper's products read";
    EXPECT_TRUE(tactics(windows({1, 3, 224, 224}, {64, 3, 7, 7}, {4, 4}, 3)).empty()) << "windows that overlap";
    EXPECT_TRUE(tactics(windows({1, 3, 224, 224}, {64, 3, 4, 4}, {4, 4}, 2)).empty()) << "padding";
    EXPECT_TRUE(tactics(windows({1, 64, 56, 56}, {64, 64, 1, 1}, {1, 1})).empty()) << "windows of one pixel";
  }
}

/// The configurations of "walked" for an 8-bit convolution of 3 x 3 to so many channels, the best guess first.
std::vector<std::string> walked_configs(int64_t channels) {
  std::string sources;
  const Machine machine = noting_gpu("sm_90a", sources);
  const Tensor scale = Tensor::scalar(0.5f), zero = Tensor::scalar<uint8_t>(0);
  Form f("QLinearConv", "", {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  f.in(DType::u8, {32, 64, 56, 56}, Layout::nhwc).in(scale).in(zero).in(Tensor::zeros(DType::i8, {channels, 64, 3, 3}));
  f.in(Tensor::zeros(DType::f32, {channels})).in(Tensor::zeros(DType::i8, {channels})).in(scale).in(zero);
  f.out(DType::u8, {32, channels, 56, 56}, Layout::nhwc);
  const auto o = offered(f, machine);
  std::vector<std::string> found;
  if (!o) return found;
  for (const Candidate& c : o->candidates)
    if (c.tactic == "walked") found.push_back(c.config);
  return found;
}

/// The widths ("w8") that a lane has of neighbouring channels.
std::set<std::string> widths_of(int64_t channels) {
  std::set<std::string> found;
  for (const std::string& config : walked_configs(channels)) found.insert(config.substr(config.rfind(" w") + 1));
  return found;
}

TEST(Offers, give_lanes_as_many_neighbours_as_a_whole_access_has_and_four_lanes_fill) {
  EXPECT_THAT(widths_of(256), ::testing::AllOf(::testing::Contains("w16"), ::testing::Not(::testing::Contains("w4"))));
  EXPECT_THAT(widths_of(120), ::testing::ElementsAre("w8"));
  EXPECT_THAT(widths_of(16), ::testing::ElementsAre("w4"));
  EXPECT_THAT(widths_of(40), ::testing::ElementsAre("w4"));
  EXPECT_THAT(widths_of(36), ::testing::ElementsAre("w4"));
  EXPECT_THAT(widths_of(6), ::testing::ElementsAre("w2"));
  EXPECT_THAT(widths_of(255), ::testing::ElementsAre("w2"));
}

TEST(Offers, have_narrow_tiles_for_few_channels_first) {
  const auto first = [](int64_t channels) { return walked_configs(channels).at(0); };
  EXPECT_THAT(first(2), ::testing::StartsWith("128x16x64 4x1"));
  EXPECT_THAT(first(16), ::testing::StartsWith("128x16x64 4x1"));
  EXPECT_THAT(first(32), ::testing::StartsWith("128x32x64 4x1"));
  EXPECT_THAT(walked_configs(33), ::testing::Not(::testing::Contains(::testing::HasSubstr("128x32x64"))));
}

TEST(Offers, convolve_one_pixel_of_many_channels_by_tensor_cores_first) {
  std::string sources;
  const Machine machine = noting_gpu("sm_90a", sources);
  const Tensor scale = Tensor::scalar(0.5f), zero = Tensor::scalar<uint8_t>(0);
  for (const int64_t channels : {72, 120, 480}) {
    Form f("QLinearConv", "");  // a squeeze-and-excite block's
    f.in(DType::u8, {1, channels, 1, 1}).in(scale).in(zero).in(Tensor::zeros(DType::i8, {32, channels, 1, 1}));
    f.in(scale).in(Tensor::zeros(DType::i8, {1})).in(scale).in(zero).out(DType::u8, {1, 32, 1, 1});
    const auto o = offered(f, machine);
    ASSERT_TRUE(o);
    ASSERT_FALSE(o->candidates.empty());
    EXPECT_NE(o->candidates.front().tactic, "cuda") << channels << ": " << o->candidates.front().config;
  }
}

/// An 8-bit convolution by so many scales of the weights, with a bias or without.
Form int8_convolution(int64_t scales, bool bias, DType weights = DType::i8) {
  const Tensor scale = Tensor::scalar(0.5f), zero = Tensor::scalar<int64_t>(3).cast(DType::u8);
  Form f("QLinearConv", "", {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  f.in(DType::u8, {1, 64, 8, 8}, Layout::nhwc).in(scale).in(zero).in(Tensor::zeros(weights, {64, 64, 3, 3}));
  f.in(Tensor::zeros(DType::f32, {scales})).in(Tensor::zeros(weights, {1})).in(scale).in(zero);
  if (bias) f.in(Tensor::zeros(DType::i32, {64}));
  return f.out(DType::u8, {1, 64, 8, 8}, Layout::nhwc);
}

TEST(Offers, name_a_bias_and_several_scales_of_8_bit_convolutions_on_a_gpu) {
  std::string sources;
  const Machine machine = noting_gpu("sm_90a", sources);
  std::set<std::string> keys;
  for (const int64_t scales : {1, 64})
    for (const bool bias : {false, true}) {
      Form f = int8_convolution(scales, bias);
      const auto o = offered(f, machine);
      ASSERT_TRUE(o);
      EXPECT_TRUE(keys.insert(o->problem).second) << o->problem;
    }
}

}  // namespace
}  // namespace smelt::ops
