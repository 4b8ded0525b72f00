// The CPU's kernel of recurrent networks against the references.
#include <random>

#include "ops/one_node.h"
#include "ops/rnn/cpu_plan.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

/// A recurrent node under test: what it is, and what of ONNX's contract it uses.
struct Case {
  std::string op = "LSTM";
  DType type = DType::f32;
  int64_t steps = 3, batch = 2, input = 5, hidden = 7;
  std::string direction = "forward";
  bool batch_first = false, bias = true, lengths = false, states = false, peepholes = false, constant = true;
  bool wants[3] = {true, true, true};
  Attributes attributes;
  std::vector<int> threads = {2};
  uint32_t seed = 1;

  int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
  int64_t gates() const { return op == "RNN" ? 1 : op == "GRU" ? 3 : 4; }
  bool quantized() const { return op.starts_with("com.microsoft:"); }
};

struct Problem {
  Node node;
  std::vector<Tensor> inputs;
  BoundNode bound;
};

/// Bytes of every size, or of every other seed small ones but for a few, as a network's are that was trained. Floats small enough that a
/// long row of them does not make the state chaotic, which would magnify every rounding.
Tensor weights(DType type, const Shape& shape, uint32_t seed) {
  if (type == DType::u8 || type == DType::i8) {
    const double middle = type == DType::u8 ? 127.5 : 0, reach = seed % 2 == 0 ? 127.5 : 50;
    Tensor t = random_tensor(type, shape, seed, middle - reach, middle + reach - 1);
    for (int64_t i = 200; reach < 127 && i < t.size(); i += 401)
      for (int64_t e = i - 1; e <= i; ++e) static_cast<uint8_t*>(t.raw())[e] = type == DType::u8 ? 255 : 127;
    return t;
  }
  const double bound = std::min(0.5, 2 / std::sqrt(static_cast<double>(shape.back())));
  return random_tensor(type, shape, seed, -bound, bound);
}

/// `weight_type`: of W and R where they are quantised; `by_column`: they have a scale for each column.
Problem problem(const Case& c, DType weight_type = DType::i8, bool by_column = false) {
  const int64_t d = c.directions(), rows = c.gates() * c.hidden;
  const Shape states = c.batch_first ? Shape{c.batch, d, c.hidden} : Shape{d, c.batch, c.hidden};
  Problem p;
  const auto given = [&](bool is, const Shape& shape, uint32_t seed, double low = -1, double high = 1) {
    return is ? random_tensor(c.type, shape, c.seed * 100 + seed, low, high) : Tensor();
  };
  p.inputs.push_back(given(true, c.batch_first ? Shape{c.batch, c.steps, c.input} : Shape{c.steps, c.batch, c.input}, 1, -2, 2));
  if (c.quantized()) {
    p.inputs.push_back(weights(weight_type, {d, c.input, rows}, c.seed + 2));
    p.inputs.push_back(weights(weight_type, {d, c.hidden, rows}, c.seed + 3));
  } else {
    p.inputs.push_back(weights(c.type, {d, rows, c.input}, c.seed + 2));
    p.inputs.push_back(weights(c.type, {d, rows, c.hidden}, c.seed + 3));
  }
  p.inputs.push_back(given(c.bias, {d, 2 * rows}, 4));
  Tensor lengths;
  if (c.lengths) {
    lengths = Tensor::empty(DType::i32, {c.batch});
    std::mt19937 engine(c.seed);
    for (int32_t& n : lengths.span<int32_t>()) n = static_cast<int32_t>(engine() % static_cast<uint32_t>(c.steps + 1));
  }
  p.inputs.push_back(lengths);
  p.inputs.push_back(given(c.states, states, 5));
  if (c.gates() == 4) {
    p.inputs.push_back(given(c.states, states, 6));
    p.inputs.push_back(given(c.peepholes, {d, 3 * c.hidden}, 7));
  }
  if (c.quantized()) {
    const Shape shape = by_column ? Shape{d, rows} : Shape{d};
    const double low = weight_type == DType::u8 ? 110 : -9, high = weight_type == DType::u8 ? 140 : 9;
    for (uint32_t i : {8u, 9u}) {
      p.inputs.push_back(random_tensor(DType::f32, shape, c.seed + i, 0.002, 0.004));
      p.inputs.push_back(random_tensor(weight_type, shape, c.seed + 10 + i, low, high));
    }
  }
  const size_t outputs = c.gates() == 4 ? 3 : 2;
  p.node = make_node(c.op, p.inputs.size(), c.attributes, outputs);
  p.node.attrs["direction"] = c.direction;
  p.node.attrs["hidden_size"] = c.hidden;
  if (c.batch_first) p.node.attrs["layout"] = int64_t{1};
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    if (!p.inputs[i].valid()) p.node.inputs[i] = ValueId::none;
    BoundTensor t;
    if (p.inputs[i].valid()) {
      t.type = p.inputs[i].type(), t.shape = p.inputs[i].shape();
      if (i > 0 && i != 4 && i != 5 && i != 6 && c.constant) t.constant = p.inputs[i];
    }
    p.bound.inputs.push_back(t);
  }
  const Shape y = c.batch_first ? Shape{c.batch, c.steps, d, c.hidden} : Shape{c.steps, d, c.batch, c.hidden};
  for (size_t o = 0; o < outputs; ++o) {
    if (c.wants[o])
      p.bound.outputs.push_back({c.type, o == 0 ? y : states, Layout::plain, {}, {}});
    else
      p.bound.outputs.push_back({}), p.node.outputs[o] = ValueId::none;
  }
  return p;
}

/// The kernel's outputs, twice over in the same memory.
std::vector<Tensor> run_kernel(Problem& p, int threads) {
  p.bound.node = &p.node;
  Machine machine;
  machine.threads = threads;
  const Offer o = offer(p.bound, machine);
  EXPECT_EQ(o.candidates[0].tactic, "cpu") << (o.refused.empty() ? "" : o.refused[0].why.text);
  if (o.candidates[0].tactic != "cpu") return {};
  const std::unique_ptr<Kernel> kernel = o.candidates[0].prepare();
  std::vector<const void*> in;
  for (size_t i = 0; i < p.inputs.size(); ++i)
    in.push_back(p.inputs[i].valid() && (kernel->reads(i) || !p.bound.constant(i)) ? p.inputs[i].raw() : nullptr);
  std::vector<Tensor> outputs;
  std::vector<void*> out;
  for (const BoundTensor& t : p.bound.outputs) {
    outputs.push_back(t.type == DType::undefined ? Tensor() : Tensor::empty(t.type, t.shape));
    out.push_back(outputs.back().valid() ? outputs.back().raw() : nullptr);
    if (out.back()) std::memset(out.back(), 0xff, static_cast<size_t>(outputs.back().nbytes()));
  }
  std::vector<uint8_t> workspace(static_cast<size_t>(kernel->workspace()) + 64, 0xff);
  for (int i = 0; i < 2; ++i) kernel->run({in, out, aligned(workspace)});
  return outputs;
}

void expect_agreement(const Case& c, double tolerance, DType weight_type = DType::i8, bool by_column = false) {
  Problem p = problem(c, weight_type, by_column);
  const std::vector<Tensor> want = evaluate(p.node, p.inputs);
  for (int threads : c.threads) {
    SCOPED_TRACE(testing::Message() << threads << " threads");
    const std::vector<Tensor> got = run_kernel(p, threads);
    ASSERT_EQ(got.size(), want.size());
    for (size_t o = 0; o < want.size(); ++o) {
      if (!c.wants[o]) continue;
      EXPECT_LE(error(got[o], want[o]), tolerance) << "output " << o;
    }
  }
}

/// Any combination of what ONNX allows, small; the same for the same seed.
Case any_case(const std::string& op, uint32_t seed) {
  std::mt19937 engine(seed);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint32_t>(high - low + 1));
  };
  const auto flip = [&] { return engine() % 2 == 0; };
  constexpr const char* directions[] = {"forward", "reverse", "bidirectional"};
  Case c;
  c.op = op, c.seed = seed;
  c.steps = pick(1, 6), c.batch = pick(1, 11), c.input = pick(1, 40), c.hidden = pick(1, 40);
  c.direction = directions[pick(0, 2)];
  c.batch_first = flip() && !c.quantized(), c.bias = flip(), c.lengths = flip(), c.states = flip();
  c.peepholes = c.gates() == 4 && flip(), c.constant = flip();
  for (bool& wanted : c.wants) wanted = pick(0, 3) > 0;
  if (!c.wants[0] && !c.wants[1] && !c.wants[2]) c.wants[1] = true;
  if (c.gates() < 4 && !c.wants[0] && !c.wants[1]) c.wants[1] = true;
  if (pick(0, 2) == 0) c.attributes["clip"] = 0.6f;
  if (c.op == "GRU" && flip()) c.attributes["linear_before_reset"] = int64_t{1};
  if (c.gates() == 4 && pick(0, 2) == 0) c.attributes["input_forget"] = int64_t{1};
  c.threads = {static_cast<int>(pick(1, 3))};
  return c;
}

class Recurrent : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Operators, Recurrent, testing::Values("RNN", "GRU", "LSTM"));

TEST_P(Recurrent, agrees_with_the_reference_whatever_options_it_has) {
  for (uint32_t seed = 1; seed <= 120; ++seed) {
    const Case c = any_case(GetParam(), seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": steps " << c.steps << ", batch " << c.batch << ", " << c.direction);
    expect_agreement(c, 1e-5);
  }
}

void expect_agreement_in(DType type, const char* op, uint32_t seeds, double tolerance) {
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << name(type) << ", seed " << seed);
    Case c = any_case(op, seed);
    c.type = type;
    expect_agreement(c, tolerance);
  }
}

TEST_P(Recurrent, computes_16_bit_types_in_f32) {
  expect_agreement_in(DType::f16, GetParam(), 20, 2e-3);
  expect_agreement_in(DType::bf16, GetParam(), 20, 1e-2);
}

TEST_P(Recurrent, multiplies_f64_in_f64) { expect_agreement_in(DType::f64, GetParam(), 60, 1e-12); }

TEST_P(Recurrent, takes_every_named_activation) {
  const std::vector<std::string> names = {"Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
                                          "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus",  "tanh",
                                          "SIGMOID"};
  for (size_t i = 0; i < names.size(); ++i) {
    SCOPED_TRACE(names[i]);
    Case c;
    c.op = GetParam(), c.direction = "bidirectional", c.steps = 2;
    const size_t functions = c.op == "RNN" ? 1 : c.op == "GRU" ? 2 : 3;
    std::vector<std::string> list;
    for (size_t f = 0; f < 2 * functions; ++f) list.push_back(names[(i + f) % names.size()]);
    c.attributes["activations"] = list;
    expect_agreement(c, 1e-5);
    c.attributes["activation_alpha"] = std::vector<float>{0.3f, 0.4f};
    c.attributes["activation_beta"] = std::vector<float>{0.6f};
    expect_agreement(c, 1e-5);
  }
}

// Long enough for threads that share a step (team), several blocks of K, many rows of X, and sums in several pieces.
TEST_P(Recurrent, agrees_where_threads_share_a_step) {
  for (const char* direction : {"reverse", "bidirectional"}) {
    for (bool linear : {false, true}) {
      Case c;
      c.op = GetParam(), c.direction = direction, c.steps = 5, c.batch = 3, c.input = 530, c.hidden = 420;
      c.lengths = c.states = true;
      if (c.op == "GRU") c.attributes["linear_before_reset"] = static_cast<int64_t>(linear);
      c.threads = {1, 2, 3, 4, 5};
      SCOPED_TRACE(direction);
      expect_agreement(c, 2e-5);
    }
  }
}

TEST(RecurrentPlan, runs_directions_in_turn_where_weights_exceed_a_cores_cache) {
  const auto plan = [](int64_t hidden, int threads) {
    Case c;
    c.direction = "bidirectional", c.steps = 20, c.batch = 1, c.input = 512, c.hidden = hidden;
    Problem p = problem(c);
    p.bound.node = &p.node;
    return RecurrentPlan(p.bound, threads);
  };
  const RecurrentPlan large = plan(512, 2), alone = plan(512, 1), small = plan(128, 2);
  EXPECT_TRUE(large.in_turn);
  EXPECT_EQ(large.team, 2);
  EXPECT_FALSE(alone.in_turn);
  EXPECT_LT(alone.turn_panels, alone.panels);  // it reads them back and forth all the same
  EXPECT_FALSE(small.in_turn);
  EXPECT_EQ(small.team, 1);
  EXPECT_EQ(small.turn_panels, 0);
}

TEST_P(Recurrent, agrees_where_threads_share_the_batch) {
  Case c;
  c.op = GetParam(), c.steps = 7, c.batch = 37, c.input = 65, c.hidden = 130;
  c.lengths = c.batch_first = true;
  c.threads = {1, 2, 3, 4};
  expect_agreement(c, 1e-5);
}

TEST_P(Recurrent, names_a_length_beyond_the_steps) {
  Case c;
  c.op = GetParam(), c.lengths = true;
  Problem p = problem(c);
  p.inputs[4].data<int32_t>()[1] = 4;
  expect_error("sequence_lens has 4, expected 0 to 3", [&] { run_kernel(p, 1); });
}

TEST(RecurrentOffer, multiplies_doubles_as_matrices) {
  Case c;
  c.type = DType::f64;
  Problem p = problem(c);
  p.bound.node = &p.node;
  const Offer o = offer(p.bound, Machine{});
  EXPECT_EQ(o.candidates[0].config, "products");
}

// The state is quantised anew in every step, so a value at the border of two levels may fall to either side.
TEST(DynamicQuantizeLSTM, agrees_with_the_reference_whatever_options_it_has) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const Case c = any_case("com.microsoft:DynamicQuantizeLSTM", seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << c.direction);
    expect_agreement(c, 4e-3, seed % 3 == 0 ? DType::u8 : DType::i8, seed % 2 == 0);
  }
}

TEST(DynamicQuantizeLSTM, is_close_to_the_lstm_of_its_weights) {
  Case c;
  c.op = "com.microsoft:DynamicQuantizeLSTM", c.steps = 12, c.batch = 1, c.input = 96, c.hidden = 80,
  c.direction = "bidirectional";
  for (DType type : {DType::u8, DType::i8}) {
    Problem q = problem(c, type);
    std::vector<Tensor> plain(q.inputs.begin(), q.inputs.begin() + 8);
    for (size_t i : {size_t{1}, size_t{2}}) {
      const Tensor &w = q.inputs[i], &scale = q.inputs[i == 1 ? 8 : 10], &zero = q.inputs[i == 1 ? 9 : 11];
      const Shape& s = w.shape();
      Tensor t = Tensor::empty(DType::f32, {s[0], s[2], s[1]});
      const std::vector<double> from = w.to_doubles(), by = scale.to_doubles(), less = zero.to_doubles();
      for (int64_t d = 0; d < s[0]; ++d)
        for (int64_t k = 0; k < s[1]; ++k)
          for (int64_t n = 0; n < s[2]; ++n)
            t.data<float>()[(d * s[2] + n) * s[1] + k] =
                static_cast<float>((from[static_cast<size_t>((d * s[1] + k) * s[2] + n)] - less[static_cast<size_t>(d)]) *
                                   by[static_cast<size_t>(d)]);
      plain[i] = t;
    }
    Node node = q.node;
    node.op = "LSTM", node.domain = "", node.inputs.resize(8);
    const std::vector<Tensor> want = evaluate(node, plain), got = run_kernel(q, 2);
    ASSERT_EQ(got.size(), 3u);
    for (size_t o = 0; o < 3; ++o) EXPECT_LE(error(got[o], want[o]), 0.03) << "output " << o;
  }
}

TEST(DynamicQuantizeLSTM, quantises_the_inputs_with_one_range_and_the_state_with_its_own) {
  // W: bytes 2 at scale 0.5; R: 0. One step of x = [1, -0.3]: range [-0.3, 1], so x is 1 - 0.3 to within half a level each.
  const Tensor x = f32({1, 1, 2}, {1, -0.3f}), w = i8({1, 2, 4}, {2, 2, 2, 2, 2, 2, 2, 2}), r = i8({1, 1, 4}, {0, 0, 0, 0});
  const Tensor scale = f32({1}, {0.5f}), zero = i8({1}, {0});
  const auto y = run_all("com.microsoft:DynamicQuantizeLSTM",
                         {x, w, r, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), scale, zero, scale, zero}, {}, 3);
  const double level = 1.3 / 255, sum = std::nearbyint(1 / level) * level + std::nearbyint(-0.3 / level) * level;
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double cell = sigmoid(sum) * std::tanh(sum);
  expect_near(y[2], {1, 1, 1}, {cell}, 1e-6);
  expect_near(y[1], {1, 1, 1}, {sigmoid(sum) * std::tanh(cell)}, 1e-6);
}

TEST(DynamicQuantizeLSTM, names_a_scale_of_the_wrong_shape) {
  const Tensor x = f32({1, 1, 1}, {1}), w = i8({1, 1, 4}, {1, 1, 1, 1}), scale = f32({3}, {1, 1, 1}), zero = i8({1}, {0});
  expect_error("W_scale has shape [3], expected [1] or [1, 4]", [&] {
    run("com.microsoft:DynamicQuantizeLSTM",
        {x, w, w, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), scale, zero, scale, zero});
  });
}

}  // namespace
}  // namespace smelt::ops::test
