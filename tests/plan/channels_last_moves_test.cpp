// Movement and reductions around channels-last images: random graphs against the references, and how many steps move data.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

using Attributes = std::map<std::string, Attribute>;
using Ints = std::vector<int64_t>;

/// Values with their shapes, made by convolutions and by whatever moves, folds and maps images.
class Images {
 public:
  struct Item {
    ValueId v;
    Shape shape;
  };

  Item input(Shape shape) { return {b_.input("x", to_sym(shape)), shape}; }
  Item make(const std::string& op, std::vector<ValueId> in, Shape shape, Attributes attrs = {}) {
    return {b_.node("n" + std::to_string(b_.g.node_count()), op, std::move(in), to_sym(shape), DType::f32, std::move(attrs)),
            shape};
  }
  Item conv(const Item& x, int64_t channels, int64_t window = 1) {
    Shape w{channels, x.shape[1]}, y = x.shape;
    y[1] = channels;
    Ints pads;
    for (size_t a = 2; a < x.shape.size(); ++a) w.push_back(window);
    for (size_t a = 0; a < 2 * (x.shape.size() - 2); ++a) pads.push_back(window / 2);
    ++constants_;
    const ValueId weights = b_.constant("w" + std::to_string(constants_), random_tensor(w, static_cast<unsigned>(constants_)));
    return make("Conv", {x.v, weights}, y, {{"pads", pads}});
  }
  Item reshape(const Item& x, Shape to) { return make("Reshape", {x.v, b_.ints(to)}, to); }
  Item transpose(const Item& x, const Ints& perm) {
    Shape to;
    for (int64_t a : perm) to.push_back(x.shape[static_cast<size_t>(a)]);
    return make("Transpose", {x.v}, to, {{"perm", perm}});
  }
  Item shuffle(const Item& x, int64_t groups) {
    Shape cut{x.shape[0], groups, x.shape[1] / groups};
    Ints perm{0, 2, 1};
    for (size_t a = 2; a < x.shape.size(); ++a) cut.push_back(x.shape[a]), perm.push_back(static_cast<int64_t>(a) + 1);
    return reshape(transpose(reshape(x, cut), perm), x.shape);
  }
  Item reduce(const std::string& op, const Item& x, const Ints& axes, bool keepdims) {
    Shape to;
    for (size_t a = 0; a < x.shape.size(); ++a) {
      const bool folds = std::ranges::find(axes, static_cast<int64_t>(a)) != axes.end();
      if (!folds || keepdims) to.push_back(folds ? 1 : x.shape[a]);
    }
    return make(op, {x.v, b_.ints(axes)}, to, {{"keepdims", int64_t{keepdims}}});
  }
  std::vector<Item> split(const Item& x, int64_t axis, int64_t parts) {
    Shape to = x.shape;
    to[static_cast<size_t>(axis)] /= parts;
    std::vector<Item> items;
    std::vector<ValueId> outputs;
    for (int64_t i = 0; i < parts; ++i) {
      const std::string name = "part" + std::to_string(b_.g.node_count()) + "_" + std::to_string(i);
      outputs.push_back(b_.g.add_value(name, DType::f32, to_sym(to)));
      items.push_back({outputs.back(), to});
    }
    b_.g.add_node({.op = "Split",
                   .name = "n" + std::to_string(b_.g.node_count()),
                   .inputs = {x.v},
                   .outputs = outputs,
                   .attrs = {{"axis", axis}, {"num_outputs", parts}}});
    return items;
  }
  Item slice(const Item& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
    Shape to = x.shape;
    to[static_cast<size_t>(axis)] = (end - begin + step - 1) / step;
    return make("Slice", {x.v, b_.ints({begin}), b_.ints({end}), b_.ints({axis}), b_.ints({step})}, to);
  }
  void output(const Item& x) { b_.output(x.v); }
  Builder& builder() { return b_; }

 private:
  Builder b_;
  int constants_ = 0;
};

int64_t moves(const std::vector<std::string>& ops) {
  return std::ranges::count(ops, "ai.smelt.Reorder") + std::ranges::count(ops, "Transpose") + std::ranges::count(ops, "Split") +
         std::ranges::count(ops, "Concat");
}

TEST(ChannelsLastMoves, every_reduction_reads_the_image_as_it_lies) {
  const std::vector<Ints> axes = {{2, 3}, {3, 2}, {1}, {2}, {3}, {0}, {1, 2, 3}, {0, 2, 3}, {1, 3}, {0, 1, 2, 3}};
  for (const char* op :
       {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"}) {
    for (const Ints& list : axes) {
      for (const bool keepdims : {false, true}) {
        Images n;
        n.output(n.reduce(op, n.conv(n.input({2, 8, 5, 7}), 12, 3), list, keepdims));
        const auto ops = run_and_compare(std::move(n.builder().g));
        // The image's result lies as the graph has it: only what folds the image before is to write it otherwise.
        EXPECT_EQ(std::ranges::count(ops, "ai.smelt.Reorder"), 1) << op << " " << to_string(list) << keepdims;
      }
    }
  }
}

TEST(ChannelsLastMoves, a_shuffle_of_groups_is_one_copy) {
  for (const int64_t images : {1, 2}) {
    Images n;
    auto x = n.conv(n.input({images, 8, 6, 5}), 24, 3);
    x = n.conv(n.shuffle(x, 3), 16, 3);
    n.output(n.reduce("ReduceMean", x, {2, 3}, false));
    EXPECT_LE(moves(run_and_compare(std::move(n.builder().g))), 2) << "the input's reorder and the shuffle";
  }
}

TEST(ChannelsLastMoves, an_image_as_rows_and_rows_as_an_image_are_views) {
  Images n;
  auto x = n.conv(n.input({2, 8, 6, 5}), 24, 3);
  x = n.transpose(n.reshape(x, {2, 24, 30}), {0, 2, 1});
  x = n.make("Softmax", {x.v}, x.shape, {{"axis", int64_t{-1}}});
  x = n.conv(n.reshape(n.transpose(x, {0, 2, 1}), {2, 24, 6, 5}), 8, 3);
  x = n.transpose(x, {0, 2, 3, 1});
  x = n.make("Softmax", {x.v}, x.shape, {{"axis", int64_t{-1}}});
  x = n.conv(n.transpose(x, {0, 3, 1, 2}), 8, 3);
  n.output(n.transpose(x, {0, 2, 3, 1}));
  EXPECT_LE(moves(run_and_compare(std::move(n.builder().g))), 1);
}

TEST(ChannelsLastMoves, parts_of_a_single_image_stay_channels_last) {
  Images n;
  const auto x = n.conv(n.input({1, 8, 6, 5}), 16, 3);
  const auto parts = n.split(x, 1, 2);
  const auto y = n.conv(parts[1], 8, 3);
  auto z = n.make("Concat", {parts[0].v, y.v}, x.shape, {{"axis", int64_t{1}}});
  z = n.conv(n.shuffle(z, 2), 8, 3);
  n.output(n.reduce("ReduceMean", z, {2, 3}, true));
  const auto ops = run_and_compare(std::move(n.builder().g));
  EXPECT_LE(std::ranges::count(ops, "ai.smelt.Reorder"), 1);
}

TEST(ChannelsLastMoves, what_also_leaves_the_graph_is_plain_there) {
  Images n;
  const auto x = n.conv(n.input({2, 8, 6, 5}), 16, 3);
  const auto flat = n.reshape(x, {2, 16, 30});
  const auto cut = n.reshape(x, {2, 4, 4, 6, 5});
  const auto turned = n.transpose(cut, {0, 2, 1, 3, 4});
  for (const auto& item : {x, flat, cut, turned, n.reshape(turned, x.shape), n.transpose(flat, {0, 2, 1})}) n.output(item);
  run_and_compare(std::move(n.builder().g));
}

TEST(ChannelsLastMoves, the_largest_of_each_pixel_or_line_is_found_as_the_image_lies) {
  for (const int64_t axis : {0, 1, 2, 3}) {
    for (const bool keepdims : {false, true}) {
      Images n;
      const auto x = n.conv(n.input({2, 8, 5, 7}), 12, 3);
      Shape to = x.shape;
      if (keepdims)
        to[static_cast<size_t>(axis)] = 1;
      else
        to.erase(to.begin() + axis);
      n.output(
          {n.builder().node("arg", "ArgMax", {x.v}, to_sym(to), DType::i64, {{"axis", axis}, {"keepdims", int64_t{keepdims}}}),
           to});
      const auto ops = run_and_compare(std::move(n.builder().g));
      if (axis == 1) {
        EXPECT_EQ(std::ranges::count(ops, "ai.smelt.Reorder"), 1);
      }
    }
  }
}

/// A random graph of images: every value may meet every operator, and some leave the graph.
Graph random_images(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  Images n;
  const size_t rank = 3 + static_cast<size_t>(pick(3));
  Shape shape{1 + pick(2), 4 * (1 + pick(3))};
  while (shape.size() < rank) shape.push_back(1 + pick(5));
  std::vector<Images::Item> pool{n.input(shape)};
  const char* folds[] = {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceLogSumExp"};
  for (int i = 0; i < 14; ++i) {
    const Images::Item x =
        pool[pool.size() - 1 - static_cast<size_t>(pick(std::min<int64_t>(4, static_cast<int64_t>(pool.size()))))];
    const size_t r = x.shape.size();
    const bool image = r >= 3 && r <= 5;
    const auto axis = pick(static_cast<int64_t>(std::max<size_t>(r, 1)));
    const int64_t extent = r == 0 ? 1 : x.shape[static_cast<size_t>(axis)];
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
        if (image) pool.push_back(n.conv(x, 4 * (1 + pick(3)), 1 + 2 * pick(2)));
        break;
      case 3: pool.push_back(n.make("Tanh", {x.v}, x.shape)); break;
      case 4: {
        if (r < 2) break;
        Ints axes;
        for (size_t a = 0; a < r; ++a)
          if (pick(2)) axes.push_back(static_cast<int64_t>(a));
        if (axes.empty()) axes.push_back(axis);
        pool.push_back(n.reduce(folds[pick(6)], x, axes, pick(2) == 1));
        break;
      }
      case 5:
        if (image && x.shape[1] % 2 == 0 && r < 5) pool.push_back(n.shuffle(x, x.shape[1] % 4 == 0 && pick(2) ? 4 : 2));
        break;
      case 6: {
        if (r < 2) break;
        Ints perm;
        for (size_t a = 0; a < r; ++a) perm.push_back(static_cast<int64_t>(a));
        if (pick(2))
          std::ranges::shuffle(perm, random);
        else if (pick(2))
          std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
        else
          std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
        pool.push_back(n.transpose(x, perm));
        break;
      }
      case 7: {
        if (!image || r < 4) break;
        const auto flat = n.reshape(x, {x.shape[0], x.shape[1], elements(x.shape) / x.shape[0] / x.shape[1]});
        pool.push_back(pick(2) ? n.transpose(flat, {0, 2, 1}) : flat);
        break;
      }
      case 8:
        if (r > 0 && extent % 2 == 0)
          for (const auto& part : n.split(x, axis, 2)) pool.push_back(part);
        break;
      case 9:
        if (r > 0 && extent > 1) pool.push_back(n.slice(x, axis, 1, extent, 1 + pick(2)));
        break;
      case 10: {
        const Images::Item y = pool[static_cast<size_t>(pick(static_cast<int64_t>(pool.size())))];
        if (y.shape == x.shape) pool.push_back(n.make("Add", {x.v, y.v}, x.shape));
        if (y.shape != x.shape || r == 0 || elements(x.shape) > 20000) break;
        Shape both = x.shape;
        both[static_cast<size_t>(axis)] *= 2;
        pool.push_back(n.make("Concat", {x.v, y.v}, both, {{"axis", axis}}));
        break;
      }
      default:
        if (r > 0) pool.push_back(n.make("Softmax", {x.v}, x.shape, {{"axis", axis}}));
    }
    if (pick(6) == 0) n.output(pool.back());
  }
  n.output(pool.back());
  return std::move(n.builder().g);
}

TEST(ChannelsLastMoves, random_graphs_agree_with_the_references) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    run_and_compare(random_images(seed));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace smelt::plan
