// If and Loop: their bodies run as plans of their own, or as part of the plan around them where the branch is known.
#include "run/execution.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

/// if (sum(x) > 0) x + captured else x * 2
TEST(Session, runs_the_branch_that_the_condition_chooses) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId outer = b.node("outer", "Neg", {x}, {Dim("n")});
  const ValueId sum = b.node("sum", "ReduceSum", {x}, SymShape{}, DType::f32, {{"keepdims", int64_t{0}}});
  const ValueId cond = b.node("cond", "Greater", {sum, b.scalar(0)}, SymShape{}, DType::boolean);
  const auto branch = [](const std::string& op, bool uses_captured) {
    Builder body;
    const ValueId bx = body.input("bx", {Dim("n")}), bo = body.input("bo", {Dim("n")});
    body.output(body.node(op + "_n", op, {bx, uses_captured ? bo : bx}, {Dim("n")}));
    return std::make_shared<Graph>(std::move(body.g));
  };
  b.output(b.node("if", "If", {cond, x, outer}, {Dim("n")}, DType::f32,
                  {{"then_branch", branch("Add", true)}, {"else_branch", branch("Mul", false)}, {"captured", int64_t{2}}}));
  const Graph g = clone(b.g);
  Session session(Plan::build(std::move(b.g), quick()));
  for (const Tensor& in : {Tensor::of<float>({2}, {1, 2}), Tensor::of<float>({3}, {-1, -2, -3})}) {
    expect_same(session.run({{"x", in}}).at("if_out"), ops::evaluate(g, std::vector{in})[0]);
  }
}

/// Sizes that only the run knows: what one run gave stays as it is through the next ones, whichever memory each was made in.
TEST(Session, results_whose_sizes_the_run_finds_are_the_callers_own) {
  Builder b;
  const ValueId n = b.input("n", SymShape{}, DType::i64);
  const ValueId zero = b.g.add_constant("zero", Tensor::scalar<int64_t>(0)),
                one = b.g.add_constant("one", Tensor::scalar<int64_t>(1));
  const ValueId range = b.node("range", "Range", {zero, n, one}, {Dim("k")}, DType::i64);
  const ValueId floats = b.node("floats", "Cast", {range}, {Dim("k")}, DType::f32, {{"to", int64_t{1}}});
  const ValueId three = b.g.add_constant("three", Tensor::scalar<int64_t>(3));
  const ValueId odd = b.node("odd", "Mod", {range, three}, {Dim("k")}, DType::i64);
  const ValueId found = b.node("found", "NonZero", {odd}, {Dim(1), Dim("f")}, DType::i64);
  const ValueId same = b.node("same", "Identity", {range}, {Dim("k")}, DType::i64);
  const ValueId shape = b.node("shape", "Unsqueeze", {n, b.ints({0})}, to_sym({1}), DType::i64);
  const ValueId filled = b.node("filled", "ConstantOfShape", {shape}, {Dim("m")}, DType::f32);
  for (ValueId v : {range, floats, odd, found, same, filled, n, range}) b.output(v);
  const Graph g = clone(b.g);
  Session session(Plan::build(std::move(b.g), quick()));
  std::vector<std::map<std::string, Tensor>> got;
  std::vector<std::vector<Tensor>> want;
  for (int64_t count : {50000, 7, 50000, 60000, 0, 50000}) {
    const Tensor in = Tensor::scalar<int64_t>(count);
    got.push_back(session.run({{"n", in}}));
    want.push_back(ops::evaluate(g, std::vector{in}));
  }
  for (size_t run = 0; run < got.size(); ++run)
    for (size_t i = 0; i < want[run].size(); ++i) expect_same(got[run].at(g.value(g.outputs()[i]).name), want[run][i]);
  for (const auto& [name, t] : got.back())
    for (const auto& [other, u] : got.back())
      if (name != other) {
        EXPECT_FALSE(overlaps(t, u)) << name << " and " << other;
      }
}

/// y = x * 2^trips by doubling, and every intermediate value stacked: the loop's output grows with its trips.
TEST(Session, runs_a_loop_whose_result_grows_with_its_trips) {
  Builder b;
  const ValueId trips = b.input("trips", SymShape{}, DType::i64);
  const ValueId x = b.input("x", {Dim("n")});
  Builder body;
  body.input("i", SymShape{}, DType::i64);
  const ValueId keep = body.input("keep", SymShape{}, DType::boolean);
  const ValueId carried = body.input("carried", {Dim("n")});
  const ValueId again = body.node("again", "Identity", {keep}, SymShape{}, DType::boolean);
  const ValueId twice = body.node("twice", "Add", {carried, carried}, {Dim("n")});
  body.output(again);
  body.output(twice);
  body.output(twice);
  const ValueId go = b.g.add_constant("go", Tensor::scalar(true));
  const ValueId last = b.node("loop", "Loop", {trips, go, x}, {Dim("n")}, DType::f32,
                              {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", int64_t{0}}});
  const NodeId loop = b["loop"];
  const ValueId stacked = b.g.add_value("stacked", DType::f32, SymShape{Dim("trips"), Dim("n")});
  Node node = b.g.node(loop);
  b.g.remove_node(loop);
  node.outputs = {last, stacked};
  b.g.add_node(std::move(node));
  b.output(last);
  b.output(stacked);
  Session session(Plan::build(std::move(b.g), quick()));
  const Tensor in = Tensor::of<float>({2}, {1, -3});
  for (int64_t n : {3, 1, 5, 3}) {
    const auto out = session.run({{"trips", Tensor::scalar<int64_t>(n)}, {"x", in}});
    const float scale = static_cast<float>(int64_t{1} << n);
    expect_same(out.at("loop_out"), Tensor::of<float>({2}, {scale, -3 * scale}));
    ASSERT_EQ(out.at("stacked").shape(), (Shape{n, 2}));
    EXPECT_EQ(out.at("stacked").to_doubles()[0], 2);
    EXPECT_EQ(out.at("stacked").to_doubles()[static_cast<size_t>(2 * n - 2)], scale);
  }
}

/// The states and stacks of a Scan whose body is bound once, along axes in both directions, twice: the sums of columns so far.
TEST(Session, scans_small_elements_along_axes_in_both_directions) {
  constexpr int64_t count = 6;
  for (const int64_t backward : {0, 1}) {
    Builder b;
    const ValueId start = b.input("start", {2}), x = b.input("x", {2, count}), w = b.input("w", {2});
    Builder body;
    const ValueId state = body.input("state", {2}), column = body.input("column", {2}), scale = body.input("scale", {2});
    const ValueId sum = body.node("sum", "Add", {state, body.node("scaled", "Mul", {column, scale}, {2})}, {2});
    body.output(sum);
    body.output(sum);
    body.output(column);
    Node node{.op = "Scan", .name = "scan", .inputs = {start, x, w}};
    node.attrs = {{"body", std::make_shared<Graph>(std::move(body.g))},
                  {"num_scan_inputs", int64_t{1}},
                  {"captured", int64_t{1}},
                  {"scan_input_axes", std::vector<int64_t>{1}},
                  {"scan_input_directions", std::vector<int64_t>{backward}},
                  {"scan_output_axes", std::vector<int64_t>{-1, 0}},
                  {"scan_output_directions", std::vector<int64_t>{backward, 0}}};
    node.outputs = {b.g.add_value("last", DType::f32, to_sym({2})), b.g.add_value("sums", DType::f32, to_sym({2, count})),
                    b.g.add_value("columns", DType::f32, to_sym({count, 2}))};
    const std::vector<ValueId> outputs = node.outputs;
    b.g.add_node(std::move(node));
    for (const ValueId v : outputs) b.output(v);
    Session session(Plan::build(std::move(b.g), quick()));
    for (const uint32_t seed : {1, 2}) {
      const Tensor first = random_tensor({2}, seed), in = random_tensor({2, count}, seed + 2), by = random_tensor({2}, seed + 4);
      const auto out = session.run({{"start", first}, {"x", in}, {"w", by}});
      Tensor last = first.clone(), sums = Tensor::empty(DType::f32, {2, count}), columns = Tensor::empty(DType::f32, {count, 2});
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = backward ? count - 1 - i : i;
        for (int64_t r = 0; r < 2; ++r) {
          last.data<float>()[r] += in.data<float>()[r * count + at] * by.data<float>()[r];
          sums.data<float>()[r * count + at] = last.data<float>()[r];
          columns.data<float>()[i * 2 + r] = in.data<float>()[r * count + at];
        }
      }
      expect_same(out.at("last"), last, 1e-5);
      expect_same(out.at("sums"), sums, 1e-5);
      expect_same(out.at("columns"), columns, 1e-5);
    }
  }
}

GraphPtr branch(const std::string& op, SymShape shape) {
  Builder body;
  body.output(body.node(op + "_in", op, {body.input("bx", shape)}, shape));
  return std::make_shared<Graph>(std::move(body.g));
}

/// if (first extent of x is 2) -x else |x|, then doubled.
Graph decided_by_shape() {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId shape = b.node("shape", "Shape", {x}, {1}, DType::i64);
  const ValueId cond = b.node("cond", "Equal", {shape, b.ints({2})}, {1}, DType::boolean);
  const ValueId y =
      b.node("if", "If", {cond, x}, {Dim("n")}, DType::f32,
             {{"then_branch", branch("Neg", {Dim("n")})}, {"else_branch", branch("Abs", {Dim("n")})}, {"captured", int64_t{1}}});
  b.output(b.node("y", "Add", {y, y}, {Dim("n")}));
  return std::move(b.g);
}

size_t count_ifs(const Execution& e) { return static_cast<size_t>(std::ranges::count(e.steps(), "If", &StepInfo::op)); }

/// What a body says of its inputs' shapes may hold in later iterations only, or never: it runs by the shapes that they have.
TEST(Session, runs_bodies_whose_inputs_are_not_as_they_declare) {
  const SymShape said = {Dim("n"), Dim(4)};  // never: the first iteration's is a scalar, the later ones' are like x
  Builder body;
  body.input("i", SymShape{}, DType::i64);
  const ValueId keep = body.input("keep", SymShape{}, DType::boolean);
  const ValueId carried = body.input("carried", said), x_in = body.input("x_in", {Dim("n")});
  const ValueId one =
      body.node("one", "If", {keep, carried}, said, DType::f32,
                {{"then_branch", branch("Neg", said)}, {"else_branch", branch("Abs", said)}, {"captured", int64_t{1}}});
  body.output(body.node("again", "Identity", {keep}, SymShape{}, DType::boolean));
  body.output(body.node("sum", "Add", {body.node("twice", "Mul", {one, body.scalar(2)}, said), x_in}, said));
  Builder b;
  const ValueId trips = b.input("trips", SymShape{}, DType::i64), start = b.input("start", SymShape{}),
                x = b.input("x", {Dim("n")});
  const ValueId go = b.input("go", SymShape{}, DType::boolean);
  const ValueId loop = b.node("loop", "Loop", {trips, go, start, x}, SymShape{}, DType::f32,
                              {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", int64_t{1}}});
  b.g.set_shape(loop, std::nullopt);
  b.output(loop);
  for (const Options& options : {quick(), rewriting()}) {
    Session session(Plan::build(clone(b.g), options));
    for (const int64_t n : {1, 3, 1, 0, 4}) {
      const Tensor in = random_tensor({3}, 5), first = Tensor::scalar(2.0f), count = Tensor::scalar(n),
                   yes = Tensor::scalar(true);
      double want[3] = {};
      for (int k = 0; k < 3; ++k) {
        want[k] = 2;
        for (int64_t i = 0; i < n; ++i) want[k] = -2 * want[k] + in.to_doubles()[static_cast<size_t>(k)];
      }
      const Tensor got = session.run({{"trips", count}, {"start", first}, {"x", in}, {"go", yes}}).at("loop_out");
      ASSERT_EQ(got.shape(), n == 0 ? Shape{} : Shape{3});
      for (size_t k = 0; k < static_cast<size_t>(got.size()); ++k) EXPECT_NEAR(got.to_doubles()[k], want[k], 1e-4);
    }
  }
}

TEST(Execution, has_no_step_for_an_if_that_the_shapes_decide) {
  const auto execution = Plan::build(decided_by_shape(), rewriting())->execution();
  for (const Shape& shape : {Shape{2}, Shape{3}, Shape{2}}) {
    const Tensor x = random_tensor(shape, 1);
    execution->bind(std::vector{x});
    execution->run();
    EXPECT_EQ(count_ifs(*execution), 0u);
    expect_same(execution->outputs()[0], ops::evaluate(decided_by_shape(), std::vector{x})[0]);
  }
}

TEST(Execution, keeps_the_if_where_inlining_is_left_out) {
  Options options = rewriting();
  options.skip = {"inline_if"};
  const auto execution = Plan::build(decided_by_shape(), options)->execution();
  execution->bind(std::vector{random_tensor({2}, 1)});
  EXPECT_EQ(count_ifs(*execution), 1u);
}

TEST(Execution, keeps_its_binding_where_the_next_does_not_fit) {
  const auto execution = Plan::build(decided_by_shape(), rewriting())->execution();
  const Tensor x = random_tensor({2}, 1);
  execution->bind(std::vector{x});
  EXPECT_THROW(execution->bind(std::vector{random_tensor({2, 2}, 1)}), Error);
  execution->run();
  expect_same(execution->outputs()[0], ops::evaluate(decided_by_shape(), std::vector{x})[0]);
}

/// if (flag) -x else |x|, then doubled.
Graph decided_by_flag() {
  Builder b;
  const ValueId flag = b.input("flag", {1}, DType::boolean);
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId y =
      b.node("if", "If", {flag, x}, {Dim("n")}, DType::f32,
             {{"then_branch", branch("Neg", {Dim("n")})}, {"else_branch", branch("Abs", {Dim("n")})}, {"captured", int64_t{1}}});
  b.output(b.node("y", "Add", {y, y}, {Dim("n")}));
  return std::move(b.g);
}

TEST(Execution, has_no_step_for_an_if_that_a_boolean_decides_where_the_run_follows_at_once) {
  ExecutionImpl execution(std::dynamic_pointer_cast<const PlanImpl>(Plan::build(decided_by_flag(), rewriting())));
  for (const int64_t n : {2, 3, 2}) {
    for (const bool flag : {true, false}) {
      const std::vector in{Tensor::of<bool>({1}, {flag}), random_tensor({n}, 1)};
      expect_same(execution.run_fresh(in)[0], ops::evaluate(decided_by_flag(), in)[0]);
      EXPECT_EQ(count_ifs(execution), 0u);
    }
  }
}

TEST(Execution, follows_a_boolean_that_changes_where_it_is_bound) {
  ExecutionImpl execution(std::dynamic_pointer_cast<const PlanImpl>(Plan::build(decided_by_flag(), rewriting())));
  std::vector in{Tensor::of<bool>({1}, {true}), random_tensor({2}, 1)};
  execution.run_fresh(in);
  execution.bind(in);
  for (const bool flag : {true, false, true}) {
    in[0].data<bool>()[0] = flag;
    execution.run();
    expect_same(execution.outputs()[0], ops::evaluate(decided_by_flag(), in)[0]);
    EXPECT_EQ(count_ifs(execution), 1u);
  }
}

/// if (sum(x) > 0) -x else OTHER(x), then doubled.
Graph decided_by_data(const std::string& other, SymShape shape) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId sum = b.node("sum", "ReduceSum", {x}, SymShape{}, DType::f32, {{"keepdims", int64_t{0}}});
  const ValueId cond = b.node("cond", "Greater", {sum, b.scalar(0)}, SymShape{}, DType::boolean);
  const ValueId y = b.node(
      "if", "If", {cond, x}, {Dim()}, DType::f32,
      {{"then_branch", branch("Neg", {Dim("n")})}, {"else_branch", branch(other, std::move(shape))}, {"captured", int64_t{1}}});
  b.output(b.node("y", "Add", {y, y}, {Dim()}));
  return std::move(b.g);
}

TEST(Execution, does_not_split_behind_an_if_whose_branches_agree_on_shapes) {
  const Graph g = decided_by_data("Abs", {Dim("n")});
  for (const Options& options : {quick(), rewriting(), unfused()}) {
    const auto execution = Plan::build(clone(g), options)->execution();
    for (const float sign : {1.0f, -1.0f, 1.0f}) {
      const Tensor x = Tensor::of<float>({2}, {sign, 2 * sign});
      execution->bind(std::vector{x});
      EXPECT_EQ(static_cast<ExecutionImpl&>(*execution).segments().size(), 1u);
      EXPECT_TRUE(execution->outputs()[0].valid()) << "its size is known before the run";
      execution->run();
      expect_same(execution->outputs()[0], ops::evaluate(g, std::vector{x})[0]);
    }
  }
}

TEST(Execution, splits_behind_an_if_whose_branches_differ_in_shape) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId sum = b.node("sum", "ReduceSum", {x}, SymShape{}, DType::f32, {{"keepdims", int64_t{0}}});
  const ValueId cond = b.node("cond", "Greater", {sum, b.scalar(0)}, SymShape{}, DType::boolean);
  Builder twice;
  const ValueId bx = twice.input("bx", {Dim("n")});
  twice.output(twice.node("twice", "Concat", {bx, bx}, {Dim()}, DType::f32, {{"axis", int64_t{0}}}));
  const ValueId y = b.node("if", "If", {cond, x}, {Dim()}, DType::f32,
                           {{"then_branch", std::make_shared<Graph>(std::move(twice.g))},
                            {"else_branch", branch("Neg", {Dim("n")})},
                            {"captured", int64_t{1}}});
  b.output(b.node("y", "Add", {y, y}, {Dim()}));
  Session session(Plan::build(clone(b.g), quick()));
  for (const float sign : {1.0f, -1.0f, 1.0f}) {
    const Tensor in = Tensor::of<float>({2}, {sign, 2 * sign});
    expect_same(session.run({{"x", in}}).at("y_out"), ops::evaluate(b.g, std::vector{in})[0]);
  }
}

/// A branch for other sizes of the input fails where they do not fit; it has no say in the shapes of those that do.
TEST(Execution, does_not_split_behind_an_if_of_which_one_branch_cannot_run) {
  Builder fits, other;
  for (Builder* body : {&fits, &other}) {
    const ValueId bx = body->input("bx", {Dim("n")});
    const int64_t size = body == &fits ? 4 : 3;
    body->output(body->node("r", "Reshape", {bx, body->ints({size, 1})}, {Dim(size), Dim(1)}));
  }
  Builder b;
  const ValueId x = b.input("x", {Dim("n")}), cond = b.input("cond", SymShape{}, DType::boolean);
  b.output(b.node("if", "If", {cond, x}, {Dim(), Dim()}, DType::f32,
                  {{"then_branch", std::make_shared<Graph>(std::move(fits.g))},
                   {"else_branch", std::make_shared<Graph>(std::move(other.g))},
                   {"captured", int64_t{1}}}));
  const auto execution = Plan::build(std::move(b.g), quick())->execution();
  for (const int64_t size : {4, 3}) {
    const Tensor in = random_tensor({size}, 1);
    execution->bind(std::vector{in, Tensor::scalar(size == 4)});
    EXPECT_EQ(static_cast<ExecutionImpl&>(*execution).segments().size(), 1u);
    execution->run();
    expect_same(execution->outputs()[0], in.reshaped({size, 1}));
    execution->bind(std::vector{in, Tensor::scalar(size != 4)});
    EXPECT_THROW(execution->run(), Error);
  }
}

/// The Identity is a copy into the output's memory, behind all other steps.
TEST(Execution, gives_a_loop_the_value_that_an_output_is_a_copy_of) {
  Builder body;
  body.input("i", SymShape{}, DType::i64);
  const ValueId keep = body.input("keep", SymShape{}, DType::boolean), carried = body.input("carried", {2});
  body.output(keep);
  body.output(body.node("twice", "Add", {carried, carried}, {2}));
  Builder b;
  const ValueId x = b.input("x", {2});
  const ValueId same = b.node("same", "Identity", {x}, {2});
  const ValueId trips = b.constant("trips", Tensor::scalar<int64_t>(2)), go = b.constant("go", Tensor::scalar(true));
  b.output(same);
  b.output(b.node("loop", "Loop", {trips, go, same}, {2}, DType::f32,
                  {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", int64_t{0}}}));
  Session session(Plan::build(std::move(b.g), quick()));
  for (const float scale : {1.0f, 2.0f}) {
    const auto out = session.run({{"x", Tensor::of<float>({2}, {scale, -scale})}});
    expect_same(out.at("same_out"), Tensor::of<float>({2}, {scale, -scale}));
    expect_same(out.at("loop_out"), Tensor::of<float>({2}, {4 * scale, -4 * scale}));
  }
}

}  // namespace
}  // namespace smelt::run
