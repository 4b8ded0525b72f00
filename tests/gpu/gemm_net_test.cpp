// 500 random matrix products on a GPU: extents of 1 to 5000, odd ones and such as tiles divide, either operand transposed, types,
// lines that lie apart, tensors that begin anywhere, programs of up to five operations. What ranks first of every tactic, and one
// candidate more. A block of the results' rows and columns is held against the reference, which computes those alone; all of them
// must have been written, nothing beside them, and two runs must have the same bits. The same of 500 of 8-bit floats.
#include <fmt/core.h>

#include <cmath>
#include <random>
#include <set>

#include "gpu_trial.h"

namespace smelt::ops {
namespace {

constexpr int problems = 500, at_a_time = 32;
constexpr int64_t most_elements = 2'000'000, most_rows = 12, most_columns = 20;  // of a tensor; of what is compared

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(engine_); }
  bool one_in(int64_t n) { return below(n) == 0; }
  /// 1 to 5000, as often from 1 to 70 as from 70 to 5000; a multiple of `step`.
  int64_t extent(int64_t step) {
    const double logarithm = std::uniform_real_distribution<double>(0, std::log(5000.0))(engine_);
    return (static_cast<int64_t>(std::exp(logarithm)) + step - 1) / step * step;
  }
  uint32_t seed() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

/// Up to five operations over the sums, and the operands that they read, which `add` makes: of one value a column, or whole.
expr::Program random_program(Random& random, DType type, const std::function<void(bool whole)>& add) {
  using expr::Fn;
  struct Step {
    Fn fn;
    int operand;  // 0: none, 1: a value a column, 2: whole
  };
  std::vector<Step> steps;
  for (int64_t count = random.below(6); count > 0; --count) {
    constexpr Step all[] = {{Fn::add, 1},  {Fn::add, 2},  {Fn::mul, 1},     {Fn::mul, 2},       {Fn::relu, 0}, {Fn::gelu, 0},
                            {Fn::silu, 0}, {Fn::tanh, 0}, {Fn::sigmoid, 0}, {Fn::gelu_tanh, 0}, {Fn::abs, 0},  {Fn::neg, 0}};
    steps.push_back(all[random.below(std::size(all))]);
  }
  expr::Program p;
  expr::Ref value = p.input(DType::f32);
  std::vector<expr::Ref> operands;
  for (const Step& s : steps)
    if (s.operand != 0) operands.push_back(p.input(type)), add(s.operand == 2);
  size_t next = 0;
  for (const Step& s : steps)
    value = s.operand == 0 ? p.call(s.fn, value) : p.call(s.fn, value, p.cast(operands[next++], DType::f32));
  p.output(p.cast(value, type));
  return p;
}

/// A tensor of two axes whose lines are `apart` elements longer than they have to be.
void lie_apart(BoundTensor& t, int64_t apart) {
  if (apart > 0) t.strides = {t.shape[1] + apart, 1};
}

/// The rows and columns `r` and `c` of a matrix (of a tensor of one axis, its elements c).
Tensor block(const Tensor& t, const std::vector<int64_t>& r, const std::vector<int64_t>& c) {
  const int64_t size = bytes(t.type(), 1), columns = t.shape().back(),
                rows = t.shape().size() == 1 ? 1 : static_cast<int64_t>(r.size());
  Tensor part = Tensor::empty(
      t.type(), t.shape().size() == 1 ? Shape{static_cast<int64_t>(c.size())} : Shape{rows, static_cast<int64_t>(c.size())});
  auto* to = static_cast<char*>(part.raw());
  const auto* from = static_cast<const char*>(t.raw());
  for (int64_t i = 0; i < rows; ++i)
    for (const int64_t j : c) {
      const int64_t row = t.shape().size() == 1 ? 0 : r[static_cast<size_t>(i)];
      std::memcpy(to, from + (row * columns + j) * size, static_cast<size_t>(size)), to += size;
    }
  return part;
}

/// So many numbers below `extent`, the first and the last among them.
std::vector<int64_t> some(Random& random, int64_t extent, int64_t count) {
  std::set<int64_t> chosen{0, extent - 1};
  while (static_cast<int64_t>(chosen.size()) < std::min(extent, count)) chosen.insert(random.below(extent));
  return {chosen.begin(), chosen.end()};
}

std::vector<int64_t> all_of(int64_t extent) {
  std::vector<int64_t> numbers(static_cast<size_t>(extent));
  for (int64_t i = 0; i < extent; ++i) numbers[static_cast<size_t>(i)] = i;
  return numbers;
}

struct Case {
  Trial trial;
  std::string text;
  std::vector<int64_t> rows, columns;
  Tensor want;
  double tolerance = 0;
  std::vector<std::pair<std::string, std::unique_ptr<Kernel>>> kernels;
};

/// What is multiplied: floats of 16 and 32 bits, or 8-bit floats as Hopper's instructions take them: a's lines along K, so b's where
/// it is no constant, all of them at multiples of 16 bytes.
enum class Operands { floats, floats_of_8_bits };

std::unique_ptr<Case> make(uint32_t seed, Operands operands) {
  Random random(seed);
  auto made = std::make_unique<Case>();
  Trial& t = made->trial;
  constexpr DType types[] = {DType::f16, DType::bf16, DType::f32};
  const bool of_8_bits = operands == Operands::floats_of_8_bits;
  const DType type = of_8_bits ? DType::f8e4m3fn : types[random.below(5) / 2];  // f32 half as often
  const DType result = !of_8_bits ? type : random.one_in(3) ? DType::bf16 : DType::f16;
  const int64_t step = random.one_in(2) ? 8 : 1;  // half of them as tensor maps take them
  const int64_t line = of_8_bits ? 16 : step;     // what K is a multiple of
  int64_t m = random.extent(random.one_in(2) ? step : 1), n = random.extent(step), k = random.extent(line);
  while (std::max({m * n, m * k, k * n}) > most_elements) {
    int64_t& largest = m > n ? m > k ? m : k : n > k ? n : k;
    const int64_t whole = &largest == &k ? line : step;
    largest = (largest / 2 + whole - 1) / whole * whole;
  }
  const bool trans_a = !of_8_bits && random.one_in(2), trans_b = random.one_in(2);
  t.node.domain = smelt_domain;
  t.node.op = "MatMul";
  if (trans_a) t.node.attrs["transA"] = int64_t{1};
  if (trans_b) t.node.attrs["transB"] = int64_t{1};
  t.add(random_tensor(type, trans_a ? Shape{k, m} : Shape{m, k}, random.seed()), false);
  t.add(random_tensor(type, trans_b ? Shape{n, k} : Shape{k, n}, random.seed()), of_8_bits ? !trans_b : random.one_in(2));
  t.node.program = random_program(random, result, [&](bool whole) {
    t.add(random_tensor(result, whole ? Shape{m, n} : Shape{n}, random.seed()), false);
  });
  t.result(result, {m, n});
  t.bound.node = &t.node;
  constexpr int64_t steps[] = {0, 0, 0, 1, 3, 8};
  for (BoundTensor* b : {&t.bound.inputs[0], &t.bound.inputs[1], &t.bound.outputs[0]}) {
    if (b->constant.valid()) continue;
    const bool multiplied = b != &t.bound.outputs[0];
    lie_apart(*b, steps[random.below(std::size(steps))] * (multiplied ? line : step));
    if (of_8_bits && multiplied) continue;
    if (step == 1 && random.one_in(6)) b->alignment = bytes(result, 1) << random.below(3);
  }
  made->text = fmt::format("seed {}: {}x{}x{} {}{}{} {}", seed, m, n, k, name(type), trans_a ? " a'" : "", trans_b ? " b'" : "",
                           t.node.program->print());
  // Sums in float and one unit in the last place, as in the other tests of products; a program's operation may add as much again.
  // Tensor cores add products of 8-bit floats with some 14 bits.
  const double last = result == DType::f32 ? 0 : result == DType::f16 ? 1.0 / 1024 : 1.0 / 128;
  made->tolerance = 2 * last + (of_8_bits ? 1.0 / 4096 : 1e-6) * std::sqrt(static_cast<double>(k) + 1);

  made->rows = some(random, m, most_rows), made->columns = some(random, n, most_columns);
  std::vector<Tensor> parts{
      trans_a ? block(t.inputs[0], all_of(k), made->rows) : block(t.inputs[0], made->rows, all_of(k)),
      trans_b ? block(t.inputs[1], made->columns, all_of(k)) : block(t.inputs[1], all_of(k), made->columns)};
  for (size_t i = 2; i < t.inputs.size(); ++i) parts.push_back(block(t.inputs[i], made->rows, made->columns));
  made->want = evaluate(t.node, parts)[0];

  const Offer o = offer(t.bound, gpu_machine());
  std::map<std::string, int64_t> seen;
  const size_t more = o.candidates.empty() ? 0 : static_cast<size_t>(random.below(static_cast<int64_t>(o.candidates.size())));
  for (size_t i = 0; i < o.candidates.size(); ++i) {
    const Candidate& c = o.candidates[i];
    if (c.tactic == "cublaslt" || c.tactic == "reference" || (seen[c.tactic]++ > 0 && i != more)) continue;
    made->kernels.emplace_back(c.tactic + " " + c.config, c.prepare());
  }
  return made;
}

/// How many kernels of each tactic were right and had the same bits each run.
std::map<std::string, int> expect_random_products(Operands operands) {
  std::vector<std::future<std::unique_ptr<Case>>> ahead;
  std::map<std::string, int> by_tactic;
  uint32_t next = 0;
  for (int i = 0; i < problems; ++i) {
    while (next < problems && static_cast<int>(next) < i + at_a_time)
      ahead.push_back(std::async(std::launch::async, make, next++, operands));
    const std::unique_ptr<Case> made = ahead[static_cast<size_t>(i)].get();
    EXPECT_FALSE(made->kernels.empty()) << made->text;
    for (auto& [name, kernel] : made->kernels) {
      SCOPED_TRACE(made->text + " by " + name);
      const Tensor got = run_on_gpu(made->trial, *kernel)[0];  // twice; both must have the same bits
      const std::vector<double> all = got.to_doubles();
      EXPECT_TRUE(std::ranges::none_of(all, [](double x) { return std::isnan(x); })) << "not all of it was written";
      EXPECT_LE(error(block(got, made->rows, made->columns), made->want), made->tolerance);
      ++by_tactic[name.substr(0, name.find(' '))];
    }
  }
  for (const auto& [tactic, count] : by_tactic) fmt::print("{}: {} kernels\n", tactic, count);
  return by_tactic;
}

TEST(GpuGemmNet, random_products_are_right_and_have_the_same_bits_each_run) {
  std::map<std::string, int> by_tactic = expect_random_products(Operands::floats);
  EXPECT_GE(by_tactic["cuda"], problems);
  if (test_gpu()->info.major == 9) {
    EXPECT_GE(by_tactic["hopper"], problems / 5);
  }
}

TEST(GpuGemmNet, random_products_of_floats_of_8_bits_are_right_and_have_the_same_bits_each_run) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "8-bit floats are multiplied on Hopper alone";
  EXPECT_GE(expect_random_products(Operands::floats_of_8_bits)["hopper"], problems);
}

}  // namespace
}  // namespace smelt::ops
