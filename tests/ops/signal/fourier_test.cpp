// DFT and STFT: their rules, and their kernels on the processor against the sums of the reference in double.
#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using test::expect_error;
using test::expect_near;
using test::f32;
using test::i64;
using ::testing::ElementsAre;

// tests/ops/tactic_check.h and tests/ops/one_node.h both have a run().
Tensor evaluated(const std::string& op, const std::vector<Tensor>& in, test::Attributes attrs = {}) {
  return test::run(op, in, std::move(attrs));
}

TEST(DFT, of_an_impulse_is_flat) {
  expect_near(evaluated("DFT", {f32({1, 4, 1}, {1, 0, 0, 0})}), {1, 4, 2}, {1, 0, 1, 0, 1, 0, 1, 0});
}

TEST(DFT, one_sided_is_the_first_half_and_its_inverse_the_real_signal) {
  const Tensor x = f32({1, 5, 1}, {1, 2, 3, 4, 7});
  const Tensor half = evaluated("DFT", {x}, {{"onesided", int64_t{1}}});
  EXPECT_EQ(half.shape(), (Shape{1, 3, 2}));
  expect_near(evaluated("DFT", {half, i64({}, {5})}, {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}}), {1, 5, 1},
              {1, 2, 3, 4, 7});
}

TEST(DFT, transforms_any_axis_and_pads_to_its_length) {
  const Tensor x = f32({2, 1, 1}, {1, 1});
  expect_near(evaluated("DFT", {x, i64({}, {4}), i64({}, {0})}), {4, 1, 2}, {2, 0, 1, -1, 0, 0, 1, 1});
  expect_error("the axis is the last", [&] { evaluated("DFT", {x, Tensor(), i64({}, {2})}); });
}

TEST(STFT, transforms_windowed_frames) {
  const Tensor y = evaluated("STFT", {f32({1, 4, 1}, {1, 2, 3, 4}), i64({}, {2}), f32({2}, {1, 1})});
  expect_near(y, {1, 2, 2, 2}, {3, 0, -1, 0, 7, 0, -1, 0});
}

TEST(STFT, takes_signals_of_two_axes_as_real) {
  const Tensor y = evaluated("STFT", {f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), i64({}, {2}), f32({2}, {1, 1})});
  expect_near(y, {2, 2, 2, 2}, {3, 0, -1, 0, 7, 0, -1, 0, 11, 0, -1, 0, 15, 0, -1, 0});
}

TEST(STFT, refuses_windows_and_signals_that_do_not_fit) {
  const Tensor x = f32({1, 4, 1}, {1, 2, 3, 4}), step = i64({}, {2});
  expect_error("window has shape [], expected one axis", [&] { evaluated("STFT", {x, step, f32({}, {1})}); });
  expect_error("window has shape [3], expected [2]", [&] { evaluated("STFT", {x, step, f32({3}, {1, 1, 1}), i64({}, {2})}); });
  expect_error("do not fit a signal of 4", [&] { evaluated("STFT", {x, step, Tensor(), i64({}, {5})}); });
  expect_error("expected [batch, length]", [&] { evaluated("STFT", {f32({4}, {1, 2, 3, 4}), step}); });
  expect_error("no one-sided transform", [&] { evaluated("STFT", {f32({1, 2, 2}, {1, 2, 3, 4}), step}); });
}

/// Declares the result that the rule says.
void declare(Trial& t) {
  Node node = t.node;
  node.outputs = {static_cast<ValueId>(101)};
  std::vector<TensorDesc> in;
  for (const Tensor& x : t.inputs) in.push_back(x.valid() ? TensorDesc{x.type(), x.shape(), true, &x} : TensorDesc());
  TensorDesc y;
  infer(node, in, {&y, 1});
  t.result(y.type, y.shape);
}

/// A DFT of x along `axis`; `length` 0 and `onesided`, `inverse` as ONNX has them.
Trial dft(Tensor x, int64_t axis, int64_t length, bool onesided, bool inverse) {
  Trial t;
  t.node.op = "DFT";
  t.node.opset = 20;
  t.node.attrs = {{"onesided", int64_t{onesided}}, {"inverse", int64_t{inverse}}};
  t.add(std::move(x), false);
  t.add(length ? i64({}, {length}) : Tensor(), true);
  t.add(i64({}, {axis}), true);
  declare(t);
  return t;
}

/// The names of the tactics that ran, each of them within `rms` of the sums in double; behind refused ones, with the reason.
std::vector<std::string> within(Trial& t, double rms, int threads = 2) {
  t.bound.node = &t.node;
  std::vector<Tensor> wide;
  for (const Tensor& x : t.inputs) wide.push_back(x.valid() && x.type() != DType::i64 ? x.cast(DType::f64) : x);
  const Tensor want = evaluate(t.node, wide)[0];
  Machine machine;
  machine.threads = threads;
  std::vector<std::string> names;
  const Offer o = offer(t.bound, machine);
  for (const RefusedTactic& r : o.refused) names.push_back(r.tactic + ": " + r.why.text);
  for (const Candidate& c : o.candidates) {
    if (c.tactic == "reference") continue;
    EXPECT_LE(rms_error(run(t, c), want), rms) << o.problem;
    names.push_back(c.tactic);
  }
  return names;
}

const std::vector<int64_t> lengths = [] {
  std::vector<int64_t> v;
  for (int64_t n = 1; n <= 64; ++n) v.push_back(n);
  v.insert(v.end(), {74, 100, 127, 128, 160, 400, 441, 480, 512, 997, 1000, 1024, 1200, 2048, 4096, 7919});
  return v;
}();

TEST(FourierKernel, is_as_exact_as_floats_allow_at_every_length) {
  for (int64_t n : lengths) {
    const int64_t lines = n < 100 ? 11 : 1;
    for (int64_t parts : {1, 2}) {
      Trial t = dft(random_tensor(DType::f32, {lines, n, parts}, 1), 1, 0, false, false);
      EXPECT_THAT(within(t, 1e-6), ElementsAre("cpu")) << n << ' ' << parts;
    }
  }
  Trial t = dft(random_tensor(DType::f32, {1, 16000, 1}, 1), 1, 0, true, false);
  EXPECT_THAT(within(t, 1e-6), ElementsAre("cpu"));
}

TEST(FourierKernel, computes_doubles_in_double) {
  for (int64_t n : lengths) {
    if (n > 2000) continue;
    Trial t = dft(random_tensor(DType::f64, {3, n, 1}, 1), 1, 0, true, false);
    EXPECT_THAT(within(t, 1e-14), ElementsAre("cpu")) << n;
    Trial c = dft(random_tensor(DType::f64, {3, n, 2}, 1), 1, 0, false, true);
    EXPECT_THAT(within(c, 1e-14), ElementsAre("cpu")) << n;
  }
}

TEST(FourierKernel, computes_halves_in_float) {
  for (DType type : {DType::f16, DType::bf16}) {
    for (int64_t parts : {1, 2}) {
      for (int64_t axis : {1, 2}) {
        Trial t = dft(random_tensor(type, {3, 16, 10, parts}, 1), axis, 0, false, false);
        EXPECT_THAT(within(t, type == DType::f16 ? 5e-4 : 4e-3), ElementsAre("cpu")) << parts << ' ' << axis;
      }
    }
  }
}

TEST(FourierKernel, takes_every_form_axis_and_length) {
  for (int64_t n : {1, 2, 3, 4, 9, 12, 16, 21, 74}) {
    for (int64_t length : {int64_t{0}, n - 1, n + 3, 2 * n + 1}) {
      for (int64_t parts : {1, 2}) {
        for (int form = 0; form < 4; ++form) {
          if (n == 1 && length == 0 && form == 3) continue;  // the inverse of one value, of 0
          for (int64_t inner : {1, 3, 8, 11}) {
            const Tensor x = random_tensor(DType::f32, {2, n, inner, parts}, static_cast<uint32_t>(n));
            Trial t = dft(x, 1, length, form % 2 != 0, form >= 2);
            EXPECT_THAT(within(t, 1e-6), ElementsAre("cpu")) << n << ' ' << length << ' ' << parts << ' ' << form << ' ' << inner;
          }
        }
      }
    }
  }
}

TEST(FourierKernel, leaves_unknown_lengths_to_the_reference) {
  Trial t = dft(random_tensor(DType::f32, {1, 8, 1}, 1), 1, 8, false, false);
  t.bound.inputs[1].constant = Tensor();
  EXPECT_THAT(within(t, 1e-6), ElementsAre("cpu: dft_length is computed"));
}

Trial stft(Tensor x, int64_t step, Tensor window, bool constant, int64_t frame, bool onesided) {
  Trial t;
  t.node.op = "STFT";
  t.node.opset = 17;
  t.node.attrs = {{"onesided", int64_t{onesided}}};
  t.add(std::move(x), false);
  t.add(i64({}, {step}), true);
  t.add(std::move(window), constant);
  t.add(frame ? i64({}, {frame}) : Tensor(), true);
  declare(t);
  return t;
}

TEST(StftKernel, takes_windows_steps_and_complex_signals) {
  for (DType type : {DType::f32, DType::f64, DType::f16}) {
    const double rms = type == DType::f32 ? 1e-6 : type == DType::f64 ? 1e-14 : 5e-4;
    for (int64_t frame : {1, 7, 16, 20, 37}) {
      for (int64_t step : {1, 5, 40}) {
        for (bool constant : {false, true}) {
          const Tensor window = random_tensor(type, {frame}, 2, 0.5, 1);
          Trial real = stft(random_tensor(type, {2, 100}, 1), step, window, constant, 0, true);
          EXPECT_THAT(within(real, rms), ElementsAre("cpu")) << frame << ' ' << step;
          Trial twosided = stft(random_tensor(type, {2, 100, 1}, 1), step, window, constant, frame, false);
          EXPECT_THAT(within(twosided, rms), ElementsAre("cpu")) << frame << ' ' << step;
          Trial complex = stft(random_tensor(type, {2, 100, 2}, 1), step, window, constant, frame, false);
          EXPECT_THAT(within(complex, rms), ElementsAre("cpu")) << frame << ' ' << step;
        }
        Trial plain = stft(random_tensor(type, {1, 64}, 1), step, Tensor(), true, frame, true);
        EXPECT_THAT(within(plain, rms), ElementsAre("cpu")) << frame << ' ' << step;
      }
    }
  }
}

TEST(StftKernel, splits_frames_over_threads) {
  Trial t = stft(random_tensor(DType::f32, {3, 8000}, 1), 20, random_tensor(DType::f32, {64}, 2, 0, 1), true, 0, true);
  EXPECT_THAT(within(t, 1e-6, 4), ElementsAre("cpu"));
}

}  // namespace
}  // namespace smelt::ops
