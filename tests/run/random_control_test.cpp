// Random nestings of If and Loop, as plans and by the interpreter.
#include "run/execution.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

/// Adds a node of several outputs, each f32 of rank 1.
std::vector<ValueId> several(Builder& b, const std::string& name, const std::string& op, std::vector<ValueId> inputs,
                             size_t count, std::map<std::string, Attribute> attrs) {
  Node node{.op = op, .name = name, .inputs = std::move(inputs), .attrs = std::move(attrs)};
  for (size_t i = 0; i < count; ++i) node.outputs.push_back(b.g.add_value(name, DType::f32, SymShape{Dim()}));
  const std::vector<ValueId> outputs = node.outputs;
  b.g.add_node(std::move(node));
  return outputs;
}

/// Random nested Ifs and Loops over tensors of rank 1. Conditions are constant, follow from sizes or from data. Branches return
/// what they compute, captured values, constants, and one value twice.
class RandomControl {
 public:
  explicit RandomControl(unsigned seed) : random_(seed) {}

  Graph graph() {
    Builder b;
    std::vector<ValueId> pool{b.input("x", {Dim("n")}), b.input("z", {Dim("m")})};
    grow(b, pool, 3, 8);
    for (int i = 0; i < 3; ++i) b.output(b.node("last", "Identity", {any(pool)}, {Dim()}));
    return std::move(b.g);
  }

 private:
  size_t pick(size_t n) { return random_() % n; }
  ValueId any(const std::vector<ValueId>& pool) { return pool[pick(pool.size())]; }

  ValueId sum(Builder& b, ValueId x) {
    return b.node("sum", "ReduceSum", {x}, SymShape{}, DType::f32, {{"keepdims", int64_t{0}}});
  }

  ValueId condition(Builder& b, ValueId x) {
    switch (pick(5)) {
      case 0: return b.constant("known", Tensor::scalar(pick(2) == 0));
      case 1: {
        const ValueId size = b.node("size", "Size", {x}, SymShape{}, DType::i64);
        const ValueId limit = b.constant("limit", Tensor::scalar<int64_t>(static_cast<int64_t>(pick(8))));
        return b.node("less", "Less", {size, limit}, SymShape{}, DType::boolean);
      }
      case 2: {
        const ValueId size = b.node("size", "Shape", {x}, {1}, DType::i64);
        return b.node("equal", "Equal", {size, b.ints({3})}, {1}, DType::boolean);
      }
      default: return b.node("greater", "Greater", {sum(b, x), b.scalar(0.1)}, SymShape{}, DType::boolean);
    }
  }

  void grow(Builder& b, std::vector<ValueId>& pool, int depth, int nodes) {
    const char* unary[] = {"Relu", "Neg", "Abs", "Tanh"};
    for (int i = 0; i < nodes; ++i) {
      const ValueId x = any(pool);
      switch (depth > 0 ? pick(6) : pick(4)) {
        case 0:
        case 1: pool.push_back(b.node("unary", unary[pick(4)], {x}, {Dim()})); break;
        case 2: pool.push_back(b.node("add", "Add", {x, sum(b, any(pool))}, {Dim()})); break;
        case 3:
          if (joins_++ < 4) pool.push_back(b.node("join", "Concat", {x, any(pool)}, {Dim()}, DType::f32, {{"axis", int64_t{0}}}));
          break;
        case 4: add_if(b, pool, depth - 1); break;
        default: add_loop(b, pool, depth - 1); break;
      }
    }
  }

  std::vector<ValueId> captures(const std::vector<ValueId>& pool) {
    std::vector<ValueId> chosen;
    for (size_t n = 1 + pick(3); n > 0; --n) chosen.push_back(any(pool));
    return chosen;
  }

  GraphPtr branch_of(size_t captured, int depth) {
    Builder b;
    std::vector<ValueId> pool;
    for (size_t i = 0; i < captured; ++i) pool.push_back(b.input("x", {Dim()}));  // the outer name, for something else
    pool.push_back(b.constant("c", Tensor::of<float>({2}, {0.5f, -0.25f})));
    grow(b, pool, depth, static_cast<int>(pick(5)));
    const ValueId once = any(pool);
    b.output(once);
    b.output(pick(3) == 0 ? once : any(pool));
    return std::make_shared<Graph>(std::move(b.g));
  }

  void add_if(Builder& b, std::vector<ValueId>& pool, int depth) {
    std::vector<ValueId> inputs{condition(b, any(pool))};
    const auto captured = captures(pool);
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    for (ValueId v : several(b, "if", "If", inputs, 2,
                             {{"then_branch", branch_of(captured.size(), depth)},
                              {"else_branch", branch_of(captured.size(), depth)},
                              {"captured", static_cast<int64_t>(captured.size())}}))
      pool.push_back(v);
  }

  /// The carried value may grow from one iteration to the next; what is stacked is a number.
  void add_loop(Builder& b, std::vector<ValueId>& pool, int depth) {
    std::vector<ValueId> inputs{b.constant("trips", Tensor::scalar<int64_t>(static_cast<int64_t>(pick(7)))), ValueId::none};
    const auto captured = captures(pool);
    inputs.push_back(any(pool));
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    Builder body;
    body.input("i", SymShape{}, DType::i64);
    const ValueId keep = body.input("keep", SymShape{}, DType::boolean);
    std::vector<ValueId> inner{body.input("carried", {Dim()})};
    for (size_t i = 0; i < captured.size(); ++i) inner.push_back(body.input("captured", {Dim()}));
    grow(body, inner, depth, 1 + static_cast<int>(pick(4)));
    body.output(body.node("again", "Identity", {keep}, SymShape{}, DType::boolean));
    body.output(any(inner));
    body.output(sum(body, any(inner)));
    for (ValueId v :
         several(b, "loop", "Loop", inputs, 2,
                 {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", static_cast<int64_t>(captured.size())}}))
      pool.push_back(v);
  }

  std::mt19937 random_;
  int joins_ = 0;
};

class RandomControlFlow : public ::testing::TestWithParam<unsigned> {};

TEST_P(RandomControlFlow, gives_what_the_interpreter_gives) {
  const Graph g = RandomControl(GetParam()).graph();
  for (const Options& options : {quick(), rewriting(), unfused()}) {
    Session session(Plan::build(clone(g), options));
    unsigned seed = 0;
    for (const auto& [n, m] : {std::pair<int64_t, int64_t>{3, 2}, {1, 5}, {3, 2}, {4, 3}, {3, 2}}) {
      const Tensor x = random_tensor({n}, ++seed), z = random_tensor({m}, ++seed);
      const std::vector<Tensor> expected = ops::evaluate(g, std::vector{x, z});
      const auto found = session.run({{"x", x}, {"z", z}});
      for (size_t i = 0; i < expected.size(); ++i) expect_same(found.at(g.value(g.outputs()[i]).name), expected[i], 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Run, RandomControlFlow, ::testing::Range(0u, 60u));

}  // namespace
}  // namespace smelt::run
