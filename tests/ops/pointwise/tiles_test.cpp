// Sweeps over operands that repeat, in tiles and without, against elements looked up one by one.
#include "ops/pointwise/cpu_tiles.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "ops/core/strides.h"
#include "ops/pointwise/cpu_sweep.h"
#include "support/random.h"

namespace smelt::ops {
namespace {

int64_t pick(std::mt19937& r, std::initializer_list<int64_t> of) {
  return of.begin()[std::uniform_int_distribution<size_t>(0, of.size() - 1)(r)];
}

/// Up to five axes, short ones inside, 40,000 elements at most; an operand repeats along some and may lie in another order.
struct Drawn {
  Shape shape;
  std::vector<Shape> inputs;  // strides
  std::vector<int64_t> sizes;

  Drawn(std::mt19937& r, size_t count) {
    do {
      shape.clear();
      const int64_t rank = pick(r, {1, 2, 3, 3, 4, 5});
      for (int64_t a = 0; a < rank; ++a) shape.push_back(pick(r, {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 65, 260}));
      if (pick(r, {0, 1}) != 0) shape.back() = pick(r, {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17});
    } while (elements(shape) > 40'000);
    for (size_t i = 0; i < count; ++i) {
      Shape own = shape;
      if (pick(r, {0, 1, 2}) != 0)
        for (int64_t& e : own)
          if (pick(r, {0, 0, 1}) != 0) e = 1;
      std::vector<size_t> order;
      for (size_t a = 0; a < own.size(); ++a) order.push_back(a);
      if (pick(r, {0, 0, 0, 1}) != 0) std::shuffle(order.begin(), order.end(), r);
      Shape s(own.size(), 0);
      int64_t step = 1;
      for (size_t k = order.size(); k-- > 0; step *= own[order[k]])
        if (own[order[k]] != 1) s[order[k]] = step;
      inputs.push_back(s);
      sizes.push_back(elements(own));
    }
  }
  int64_t place(size_t input, int64_t element) const {
    int64_t at = 0;
    for (size_t a = shape.size(); a-- > 0; element /= shape[a]) at += element % shape[a] * inputs[input][a];
    return at;
  }
};

void run(const Sweep& sweep, std::span<const Tensor> in, Tensor& y) {
  std::vector<const void*> from;
  for (const Tensor& t : in) from.push_back(t.raw());
  std::vector<char> memory(static_cast<size_t>(sweep.workspace()) + 64);
  void *out = y.raw(), *workspace = memory.data();
  size_t space = memory.size();
  sweep.run(from, std::span(&out, 1), std::align(64, static_cast<size_t>(sweep.workspace()), workspace, space));
}

/// Where(c, x, y) and x > y of one type over random operands.
template <class T> void check_type(uint32_t seed) {
  const DType type = dtype_of<T>::value;
  std::mt19937 r(seed);
  for (int trial = 0; trial < 150; ++trial) {
    const bool compares = pick(r, {0, 1}) != 0;
    expr::Program p;
    const expr::Ref first = p.input(compares ? type : DType::boolean), second = p.input(type);
    p.output(compares ? p.call(expr::Fn::greater, first, second) : p.call(expr::Fn::select, first, second, p.input(type)));
    const Drawn d(r, compares ? 2 : 3);
    std::vector<Tensor> in;
    for (size_t i = 0; i < d.inputs.size(); ++i) {
      const bool chooses = !compares && i == 0;
      in.push_back(random_tensor(chooses ? DType::u8 : type, {d.sizes[i]}, seed + static_cast<uint32_t>(i), 0, chooses ? 2 : 9));
    }
    std::vector<Shape> strides = d.inputs;
    strides.push_back(smelt::strides(d.shape));
    const auto threads = static_cast<int>(pick(r, {1, 1, 3}));
    SCOPED_TRACE(testing::Message() << name(type) << (compares ? " greater " : " select ") << to_string(d.shape) << ", trial "
                                    << trial);
    Tensor y = Tensor::zeros(compares ? DType::u8 : type, d.shape);
    run(Sweep(p, d.shape, strides, threads), in, y);
    const auto at = [&](size_t i, int64_t e) { return in[i].data<T>()[d.place(i, e)]; };
    for (int64_t e = 0; e < y.size(); ++e) {
      if (compares)
        ASSERT_EQ(y.data<uint8_t>()[e], at(0, e) > at(1, e)) << e;
      else
        ASSERT_EQ(y.data<T>()[e], in[0].data<uint8_t>()[d.place(0, e)] ? at(1, e) : at(2, e)) << e;
    }
  }
}

TEST(Tiles, sweeps_over_random_operands_find_their_elements) {
  check_type<uint8_t>(1);
  check_type<int16_t>(2);
  check_type<float>(3);
  check_type<int64_t>(4);
}

TEST(Tiles, cover_every_element_once_and_gather_what_lies_apart) {
  std::mt19937 r(5);
  for (int trial = 0; trial < 300; ++trial) {
    const Drawn d(r, 2);
    std::vector<Shape> strides = d.inputs;
    strides.push_back(smelt::strides(d.shape));
    const Views views = merged(d.shape, strides, 2);
    const Tiles tiles(views.extents, views.strides, {4, 4}, pick(r, {64, 256, 1024}));
    std::vector<int> seen(static_cast<size_t>(elements(d.shape)), 0);
    std::vector<int64_t> memory(static_cast<size_t>(Tiles::Place::bytes(tiles)) / 8);
    Tiles::Place place(tiles, 0, memory.data());
    std::vector<int32_t> from(40'000), to(1024);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int32_t>(i);
    for (int64_t t = 0; t < tiles.count(); ++t, place.next()) {
      std::vector<int64_t> again(memory.size());
      const Tiles::Place direct(tiles, t, again.data());
      for (size_t k = 0; k < 3; ++k) ASSERT_EQ(direct.offset(k), place.offset(k));
      for (int64_t e = 0; e < place.elements(); ++e) ++seen[static_cast<size_t>(place.offset(2) + e)];
      for (size_t i = 0; i < 2; ++i) {
        tiles.gather(i, place.entries(), from.data() + place.offset(i), to.data());
        for (int64_t e = 0; e < place.elements(); ++e) {
          const int64_t want = d.place(i, place.offset(2) + e);
          ASSERT_EQ(to[static_cast<size_t>(e)], want) << to_string(d.shape) << ", input " << i;
          if (tiles.lies(i) == Tiles::Lies::as_the_output) {
            ASSERT_EQ(want, place.offset(i) + e);
          }
          if (tiles.lies(i) == Tiles::Lies::one_element) {
            ASSERT_EQ(want, place.offset(i));
          }
        }
      }
    }
    for (const int n : seen) ASSERT_EQ(n, 1) << to_string(d.shape);
  }
}

// Where(c[16, 1, 31, 31], x[16, 1, 31, 1], y[16, 63, 31, 31]): x is spread once for all tiles of an image.
TEST(Tiles, what_repeats_is_gathered_once) {
  const Shape shape = {16, 63, 31, 31};
  const Tiles tiles(shape, {{961, 0, 31, 1}, {31, 0, 1, 0}, {60543, 961, 31, 1}, {60543, 961, 31, 1}}, {1, 1, 1}, 1024);
  EXPECT_EQ(tiles.lies(0), Tiles::Lies::as_the_output);
  EXPECT_EQ(tiles.lies(1), Tiles::Lies::apart);
  EXPECT_EQ(tiles.serves(1), 63);
  // Rows that repeat over the outermost axis: it becomes the innermost loop.
  const Tiles outer({40, 100, 30}, {{0, 30, 1}, {0, 1, 0}, {3000, 30, 1}}, {4, 4}, 1024);
  EXPECT_EQ(outer.serves(1), 40);
}

}  // namespace
}  // namespace smelt::ops
