// The layouts of the convolution that is written with CuTe (src/kernels/conv/cute_tile.cuh), evaluated by CuTe itself: what each
// lane's copies write to a stage, what ldmatrix reads of it, what goes into the sums' place and comes out. A warp's access of 16 bytes a
// lane is served in parts of eight lanes, one of 8 bytes in parts of 16: in each, 128 bytes must lie in 32 different banks.
#include <gtest/gtest.h>

#if __has_include(<cute/tensor.hpp>) && __has_include(<cuda/std/tuple>)

#include <set>
#include <vector>

#include "kernels/conv/cute_tile.cuh"
#include "ops/cuda/banks.h"

namespace smelt::ops {
namespace {

/// The place in bytes of element `i` of a thread's part of a tensor that begins at `base`.
template <class Part, class T> uint32_t place(const Part& part, int i, const T* base) {
  return static_cast<uint32_t>((&part(i) - base) * static_cast<std::ptrdiff_t>(sizeof(T)));
}

/// What `threads` threads access by vectors of `vector` elements of their part of a tensor: each vector of a number by all threads at a time.
/// Every part of a warp that is served at once meets no bank twice. All places.
template <class T, class PartOf>
std::vector<uint32_t> expect_no_conflicts(int threads, int vector, const T* base, PartOf&& part_of) {
  const int bytes = vector * static_cast<int>(sizeof(T)), lanes = 128 / bytes;
  std::vector<uint32_t> all;
  const int count = static_cast<int>(cute::size(part_of(0))) / vector;
  for (int first = 0; first < threads; first += lanes) {
    std::vector<std::vector<uint32_t>> addresses(static_cast<size_t>(count));
    for (int t = first; t < first + lanes; ++t) {
      const auto part = part_of(t);
      for (int i = 0; i < count; ++i) {
        const uint32_t at = place(part, i * vector, base);
        for (int e = 1; e < vector; ++e)
          EXPECT_EQ(place(part, i * vector + e, base), at + static_cast<uint32_t>(e) * sizeof(T)) << "not one vector";
        addresses[static_cast<size_t>(i)].push_back(at);
      }
    }
    for (const auto& a : addresses) {
      EXPECT_EQ(busiest(a, static_cast<uint32_t>(bytes)), 1) << "threads from " << first;
      all.insert(all.end(), a.begin(), a.end());
    }
  }
  return all;
}

/// Each of so many vectors of so many bytes is there once.
void expect_each_once(const std::vector<uint32_t>& places, int64_t elements, int64_t size, int64_t vector) {
  const std::set<uint32_t> different(places.begin(), places.end());
  EXPECT_EQ(different.size(), places.size());
  EXPECT_EQ(std::ssize(different), elements / vector);
  EXPECT_EQ(*different.rbegin(), (elements - vector) * size);
}

template <class Tile> class CuteLayouts : public ::testing::Test {};

/// Of four warps and rows of 32 elements, and of eight warps and rows of 64: each tile is half a minute's compilation.
using Tiles =
    ::testing::Types<kernels::CuteTile<cute::half_t, 64, 64, 32, 4>, kernels::CuteTile<cute::bfloat16_t, 128, 128, 64, 3>>;
TYPED_TEST_SUITE(CuteLayouts, Tiles);

TYPED_TEST(CuteLayouts, copies_to_a_stage_meet_each_bank_once_and_fill_it) {
  using Tile = TypeParam;
  using T = typename Tile::Element;
  const auto check = [](auto shared, int rows) {
    std::vector<T> memory(static_cast<size_t>(cute::cosize(shared)));
    for (int stage = 0; stage < Tile::stages; ++stage) {
      const auto tensor = cute::make_tensor(memory.data(), shared)(cute::_, cute::_, stage);
      const T* const base = memory.data() + stage * rows * Tile::tile_k;
      const auto places = expect_no_conflicts(Tile::threads, Tile::vector, base,
                                              [&](int t) { return typename Tile::Copy{}.get_slice(t).partition_D(tensor); });
      expect_each_once(places, rows * Tile::tile_k, sizeof(T), Tile::vector);
    }
  };
  check(typename Tile::SharedA{}, Tile::tile_m);
  check(typename Tile::SharedB{}, Tile::tile_n);
}

/// A lane's vector of ldmatrix is where the lane's row of a matrix lies: eight lanes at a time, a matrix.
TYPED_TEST(CuteLayouts, fragments_are_loaded_without_conflicts_and_are_the_whole_tile) {
  using Tile = TypeParam;
  using T = typename Tile::Element;
  const auto check = [](auto shared, auto load, int rows) {
    std::vector<T> memory(static_cast<size_t>(cute::cosize(shared)));
    const auto tensor = cute::make_tensor(memory.data(), shared)(cute::_, cute::_, 0);
    const auto places = expect_no_conflicts(Tile::threads, Tile::vector, static_cast<const T*>(memory.data()),
                                            [&](int t) { return load.get_slice(t).partition_S(tensor); });
    const std::set<uint32_t> different(places.begin(), places.end());
    EXPECT_EQ(std::ssize(different), rows * Tile::tile_k / Tile::vector);  // each by several warps
  };
  check(typename Tile::SharedA{}, typename Tile::LoadA{}, Tile::tile_m);
  check(typename Tile::SharedB{}, typename Tile::LoadB{}, Tile::tile_n);
}

TYPED_TEST(CuteLayouts, sums_go_in_and_come_out_without_conflicts) {
  using Tile = TypeParam;
  std::vector<float> memory(static_cast<size_t>(cute::cosize(typename Tile::SharedSums{})));
  const auto tensor = cute::make_tensor(memory.data(), typename Tile::SharedSums{});
  const float* const base = memory.data();
  expect_each_once(
      expect_no_conflicts(Tile::threads, 2, base, [&](int t) { return typename Tile::Put{}.get_slice(t).partition_D(tensor); }),
      Tile::tile_m * Tile::tile_n, 4, 2);
  expect_each_once(
      expect_no_conflicts(Tile::threads, 4, base, [&](int t) { return typename Tile::Take{}.get_slice(t).partition_S(tensor); }),
      Tile::tile_m * Tile::tile_n, 4, 4);
}

}  // namespace
}  // namespace smelt::ops

#else

TEST(CuteLayouts, are_evaluated_by_cute) { GTEST_SKIP() << "CuTe's headers, or CUDA's, were not found by the build"; }

#endif
