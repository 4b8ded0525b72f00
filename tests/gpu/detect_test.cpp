// NonMaxSuppression and RoiAlign on the GPU against the processor's references.
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

class GpuNms : public GpuBatch {};
class GpuRoiAlign : public GpuBatch {};

/// Boxes with sides up to 2 in a square of `spread`, as corners in any order or as centre and extent. Coarse: in whole numbers,
/// so that many are equal, touch at an edge or have no area.
Tensor boxes(int64_t items, int64_t count, float spread, bool centered, bool coarse, uint32_t seed) {
  Tensor t = Tensor::empty(DType::f32, {items, count, 4});
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> at(0, spread), side(0, 2);
  for (int64_t i = 0; i < items * count; ++i) {
    float v[4] = {at(random), at(random), side(random), side(random)};
    if (coarse)
      for (float& x : v) x = std::floor(x * 1.5f);
    if (!centered) v[2] += v[0], v[3] += v[1];
    if (!centered && random() % 2) std::swap(v[0], v[2]);
    if (!centered && random() % 2) std::swap(v[1], v[3]);
    std::copy_n(v, 4, t.data<float>() + i * 4);
  }
  return t;
}

Tensor scores(int64_t items, int64_t classes, int64_t count, bool coarse, uint32_t seed) {
  Tensor t = random_tensor(DType::f32, {items, classes, count}, seed, -1, 1);
  if (coarse) t = random_tensor(DType::f32, {items, classes, count}, seed, -3, 6).cast(DType::i64).cast(DType::f32);
  return t;
}

Tensor limit(int64_t n) { return Tensor::of<int64_t>({1}, {n}); }
Tensor number(float x) { return Tensor::of<float>({1}, {x}); }

TEST_F(GpuNms, any_number_of_boxes_classes_and_items_with_and_without_ties) {
  for (const int64_t centered : {0, 1})
    for (const bool coarse : {false, true}) {
      const auto add = [&](int64_t items, int64_t classes, int64_t count, float spread, int64_t most, float overlap,
                           float lowest) {
        expect(finding_trial("NonMaxSuppression",
                             {boxes(items, count, spread, centered, coarse, 1), scores(items, classes, count, coarse, 2),
                              limit(most), number(overlap), number(lowest)},
                             {{"center_point_box", centered}}));
      };
      add(1, 1, 1, 2, 10, 0.5f, -1);
      add(2, 3, 37, 3, 10, 0.5f, -0.5f);
      add(2, 2, 257, 6, 1000, 0.3f, -0.9f);
      add(1, 80, 1000, 40, 100, 0.5f, 0.2f);
      add(1, 3, 4097, 60, 4097, 0.6f, -1);  // most are kept: more than one tile of them
      add(1, 2, 9001, 4, 9001, 0.45f, -1);  // most are suppressed; three runs are merged
      add(1, 1, 3000, 1, 3000, 0, -1);      // everything touches
      add(1, 2, 17000, 90, 500, 0.5f, -1);  // more than one block sorts
      add(1, 2, 300, 5, 3, 0.5f, -1);
      add(3, 2, 300, 5, 30, 0.5f, 10);  // no candidate
    }
}

TEST_F(GpuNms, optional_inputs_and_a_limit_that_only_the_run_knows) {
  const Tensor b = boxes(2, 300, 6, false, false, 3), s = scores(2, 4, 300, false, 4);
  expect(finding_trial("NonMaxSuppression", {b, s, limit(20)}));
  expect(finding_trial("NonMaxSuppression", {b, s, limit(20), number(0.4f)}));
  expect(finding_trial("NonMaxSuppression", {b, s, limit(20), Tensor(), number(0.1f)}));
  for (const int64_t most : {-5, 0, 7, 100000})
    expect(finding_trial("NonMaxSuppression", {b, s, limit(most), number(0.4f), number(0)}, {}, 5));
}

TEST_F(GpuNms, nan_and_infinite_boxes_and_scores) {
  Tensor b = boxes(1, 400, 4, false, false, 5), s = scores(1, 2, 400, true, 6);
  for (int i = 0; i < 1600; i += 37) b.data<float>()[i] = i % 2 ? NAN : INFINITY;
  for (int i = 0; i < 800; i += 29) s.data<float>()[i] = i % 2 ? NAN : -INFINITY;
  for (int i = 0; i < 800; i += 31) s.data<float>()[i] = i % 2 ? 0.f : -0.f;
  for (const int64_t centered : {0, 1})
    expect(finding_trial("NonMaxSuppression", {b, s, limit(400), number(0.3f)}, {{"center_point_box", centered}}));
}

/// Boxes of side 1 in a row, each over 0.6 of the one before and 0.2 of the one before that, as corners; item by item.
Tensor row_of_boxes(int64_t count) {
  Tensor t = Tensor::empty(DType::f32, {1, count, 4});
  for (int64_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(i) * 0.4f, v[4] = {0, x, 1, x + 1};
    std::copy_n(v, 4, t.data<float>() + i * 4);
  }
  return t;
}

/// Scores that fall from the first box to the last, or rise.
Tensor in_order(int64_t count, bool falling) {
  Tensor t = Tensor::empty(DType::f32, {1, 1, count});
  for (int64_t i = 0; i < count; ++i) t.data<float>()[i] = static_cast<float>(falling ? count - i : i);
  return t;
}

/// Lines that many blocks share: as many candidates as a chunk of 512, 1024 or 2048 has, one fewer, one more, and several chunks.
TEST_F(GpuNms, counts_around_the_borders_of_chunks) {
  for (const int64_t centered : {0, 1})
    for (const int64_t count : {63, 64, 65, 255, 256, 257, 511, 512, 513, 1024, 1025, 2047, 2048, 2049, 4096, 4097, 6145})
      expect(finding_trial("NonMaxSuppression",
                           {boxes(1, count, 25, centered, count % 2, 11), scores(1, 1, count, count % 3 == 0, 12), limit(count),
                            number(0.3f), number(-1)},
                           {{"center_point_box", centered}}));
}

TEST_F(GpuNms, long_lines_of_which_few_or_most_are_kept) {
  for (const int64_t centered : {0, 1})
    for (const float spread : {12.f, 90.f}) {
      expect(finding_trial("NonMaxSuppression",
                           {boxes(1, 30000, spread, centered, false, 13), scores(1, 1, 30000, false, 14), limit(int64_t{1} << 62),
                            number(0.4f), number(-0.9f)},
                           {{"center_point_box", centered}}));
      expect(finding_trial("NonMaxSuppression",
                           {boxes(1, 8400, spread, centered, true, 15), scores(1, 1, 8400, true, 16), limit(8400), number(0.5f)},
                           {{"center_point_box", centered}}, 5));  // equal scores, and overlaps of the threshold itself
      expect(finding_trial(
          "NonMaxSuppression",
          {boxes(2, 3000, spread, centered, false, 17), scores(2, 45, 3000, false, 18), limit(3000), number(0.5f), number(0.2f)},
          {{"center_point_box", centered}}));  // 90 lines
    }
}

/// Whether a box is taken hangs on the one before it, that on the one before, and so on through all chunks.
TEST_F(GpuNms, rows_of_boxes_that_each_suppress_the_next) {
  for (const int64_t count : {64, 2048, 2500, 7000})
    for (const bool falling : {false, true})
      for (const float overlap : {0.f, 0.3f, 0.5f})  // every third, every second, all are kept
        expect(
            finding_trial("NonMaxSuppression", {row_of_boxes(count), in_order(count, falling), limit(count), number(overlap)}));
}

/// In the first chunk, at its end, behind it; no limit, one below zero, one beyond everything. Computed: nothing is planned by them.
TEST_F(GpuNms, limits_that_are_reached_within_a_chunk_or_never) {
  const Tensor b = boxes(1, 5000, 60, false, false, 19), s = scores(1, 2, 5000, false, 20);
  for (const int64_t most : {-5, 0, 1, 31, 2047, 2048, 2049, 3000, 5000, 100000})
    for (const size_t constants : {size_t{2}, size_t{5}})
      if (constants == 5 || most > 0)
        expect(finding_trial("NonMaxSuppression", {b, s, limit(most), number(0.5f), number(-0.95f)}, {}, constants));
}

TEST_F(GpuNms, thresholds_of_every_kind) {
  for (const int64_t centered : {0, 1}) {
    const Tensor b = boxes(1, 2600, 15, centered, true, 21), s = scores(1, 1, 2600, false, 22);
    for (const float overlap : {0.f, -0.f, -0.5f, 1e-42f, 1 / 3.f, 0.5f, 1.f, 2.f, INFINITY, -INFINITY, NAN})
      for (const size_t constants : {size_t{2}, size_t{5}})
        expect(finding_trial("NonMaxSuppression", {b, s, limit(2600), number(overlap)}, {{"center_point_box", centered}},
                             constants));
  }
}

/// Corners of centres are no floats far from the origin, and overlaps are those that are thresholds but for the last digits.
TEST_F(GpuNms, centres_far_from_the_origin) {
  Tensor b = boxes(1, 3000, 20, true, true, 27);
  for (int64_t i = 0; i < 12000; ++i) b.data<float>()[i] = b.data<float>()[i] * 0.1f + (i % 4 < 2 ? 1000.3f : 0);
  for (const float overlap : {0.3f, 1 / 3.f, 0.5f, 0.9f})
    expect(finding_trial("NonMaxSuppression", {b, scores(1, 1, 3000, false, 28), limit(3000), number(overlap)},
                         {{"center_point_box", int64_t{1}}}));
}

/// Lines without a candidate between others, lines whose candidates end in the first chunk, and scores that are NaN.
TEST_F(GpuNms, lines_of_many_boxes_and_few_candidates) {
  Tensor s = scores(2, 3, 5000, false, 23);
  for (int64_t line = 0; line < 6; ++line)
    for (int64_t i = 0; i < 5000; ++i)
      if (float& x = s.data<float>()[line * 5000 + i]; line % 3 == 1 || (line % 3 == 2 && i % 9 > 0)) x = NAN;
  for (const float lowest : {-1.f, 0.99f, 2.f, NAN})
    expect(
        finding_trial("NonMaxSuppression", {boxes(2, 5000, 40, false, false, 24), s, limit(5000), number(0.4f), number(lowest)}));
}

/// Infinite, NaN and inverted boxes among others; coordinates whose areas are beyond a float, or below its numbers.
TEST_F(GpuNms, boxes_at_the_ends_of_what_a_float_holds) {
  for (const int64_t centered : {0, 1})
    for (const float scale : {1.f, 1e-38f, 1e-22f, 1e19f, 1e38f}) {
      Tensor b = boxes(1, 3000, 3, centered, false, 25);
      for (float& x : b.span<float>()) x *= scale;
      const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-42f, 0, -1};
      for (int i = 0; i < 12000; i += 101) b.data<float>()[i] = odd[i % 8];
      for (const float overlap : {0.f, 0.3f, -1.f})
        expect(finding_trial("NonMaxSuppression", {b, scores(1, 1, 3000, false, 26), limit(3000), number(overlap)},
                             {{"center_point_box", centered}}));
    }
}

struct Map {
  int64_t items, channels, height, width;
};

/// Regions around and outside of the map, up to `largest` pixels a side; inverted ones where `inverted`.
Trial roi_align(DType type, const Map& m, int64_t count, std::array<int64_t, 2> bins, int64_t sampling, float scale,
                const char* mode, const char* transformation, float largest, bool inverted = false) {
  Tensor rois = Tensor::empty(DType::f32, {count, 4}), items = Tensor::empty(DType::i64, {count});
  std::mt19937 random(7);
  const auto between = [&](float low, float high) { return std::uniform_real_distribution<float>(low, high)(random) / scale; };
  for (int64_t r = 0; r < count; ++r) {
    float* v = rois.data<float>() + r * 4;
    v[0] = between(-0.2f, 1.1f) * static_cast<float>(m.width), v[1] = between(-0.2f, 1.1f) * static_cast<float>(m.height);
    v[2] = v[0] + between(inverted ? -2 : 0, largest), v[3] = v[1] + between(inverted ? -2 : 0, largest);
    if (inverted)
      for (int i = 0; i < 4; ++i) v[i] = std::floor(v[i]);
    items.data<int64_t>()[r] = static_cast<int64_t>(random() % static_cast<unsigned>(m.items));
  }
  return node_trial("RoiAlign", {random_tensor(type, {m.items, m.channels, m.height, m.width}, 8), rois.cast(type), items},
                    {{"output_height", bins[0]},
                     {"output_width", bins[1]},
                     {"sampling_ratio", sampling},
                     {"spatial_scale", scale},
                     {"mode", std::string(mode)},
                     {"coordinate_transformation_mode", std::string(transformation)}});
}

TEST_F(GpuRoiAlign, every_mode_type_grid_and_size_of_region) {
  for (const char* mode : {"avg", "max"})
    for (const char* transformation : {"half_pixel", "output_half_pixel"})
      for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        const double allowed = type == DType::f16 ? 1e-3 : type == DType::bf16 ? 8e-3 : type == DType::f32 ? 2e-6 : 1e-12;
        const auto add = [&](const Map& m, int64_t count, std::array<int64_t, 2> bins, int64_t sampling, float scale,
                             float largest, bool inverted = false) {
          expect(roi_align(type, m, count, bins, sampling, scale, mode, transformation, largest, inverted), allowed);
        };
        add({2, 70, 20, 30}, 17, {7, 7}, 0, 0.25f, 10);
        add({2, 5, 20, 30}, 17, {7, 7}, 2, 0.25f, 40);  // samples farther apart than pixels
        add({1, 3, 50, 44}, 9, {14, 14}, 0, 1, 60);
        add({1, 2, 33, 44}, 40, {1, 1}, 0, 0.5f, 12);
        add({1, 2, 33, 44}, 9, {3, 5}, 1, 0.5f, 12, true);
        add({1, 1, 1, 1}, 5, {2, 3}, 0, 1, 3, true);
        add({1, 2, 40, 40}, 4, {2, 2}, 0, 1, 1500);  // lists that no table holds
        add({1, 2, 40, 40}, 4, {14, 9}, 64, 1, 30, true);
        add({1, 2, 40, 40}, 3, {1, 1}, 0, 1, 60000);  // of which the map is a small part
      }
}

TEST_F(GpuRoiAlign, an_item_that_is_not_there_gives_zeros) {
  Trial t = roi_align(DType::f32, {1, 4, 10, 10}, 3, {2, 2}, 2, 1, "avg", "half_pixel", 4);
  std::vector<Tensor> want = evaluate(t.node, t.inputs);
  t.inputs[2] = Tensor::of<int64_t>({3}, {0, 1, -1});
  std::fill_n(want[0].data<float>() + 16, 32, 0.f);
  EXPECT_FALSE(agree_on_gpu(t, want, 2e-6).empty());
}

}  // namespace
}  // namespace smelt::ops
