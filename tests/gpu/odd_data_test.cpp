// What only a run knows and a kernel may not trust: lengths beyond an axis, indices outside of one, axes of extent 0. The processor's
// kernels refuse such data; a GPU's cannot, and stay within their tensors (the memory around each is checked).
#include <limits>

#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

class GpuOddData : public GpuBatch {
 protected:
  /// Every candidate gives what the reference makes of the inputs as they are, also where input `i` is `odd` instead.
  static void expect_as_before(Trial t, size_t i, Tensor odd, double tolerance = 0) {
    const std::vector<Tensor> want = evaluate(t.node, t.inputs);
    t.inputs[i] = std::move(odd);
    t.bound.inputs[i].constant = Tensor();
    EXPECT_FALSE(agree_on_gpu(t, want, tolerance).empty());
  }
};

constexpr int64_t far = int64_t{1} << 40;

TEST_F(GpuOddData, lengths_beyond_the_steps_of_a_recurrence_are_all_or_none) {
  for (const auto& [op, gates] : {std::pair{"RNN", 1}, std::pair{"GRU", 3}, std::pair{"LSTM", 4}})
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      const int64_t d = direction[0] == 'b' ? 2 : 1, hidden = 33;
      expect_as_before(
          node_trial(op,
                     {random_tensor(DType::f32, {5, 3, 7}, 1), random_tensor(DType::f32, {d, gates * hidden, 7}, 2, -0.2, 0.2),
                      random_tensor(DType::f32, {d, gates * hidden, hidden}, 3, -0.2, 0.2), Tensor(),
                      Tensor::of<int32_t>({3}, {5, 0, 5})},
                     {{"direction", std::string(direction)}, {"hidden_size", hidden}}, gates == 4 ? 3 : 2),
          4, Tensor::of<int32_t>({3}, {std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min(), 6}), 1e-5);
    }
}

TEST_F(GpuOddData, lengths_of_a_reversal_beyond_its_steps_are_all_or_none) {
  for (const int64_t batch_axis : {0, 1})
    expect_as_before(
        node_trial("ReverseSequence", {random_tensor(DType::f32, {4, 4, 6}, 1), Tensor::of<int64_t>({4}, {4, 1, 4, 2})},
                   {{"batch_axis", batch_axis}, {"time_axis", 1 - batch_axis}}),
        1, Tensor::of<int64_t>({4}, {far, -far, 5, 2}));
}

TEST_F(GpuOddData, attention_counts_no_keys_beyond_those_there_are) {
  const auto x = [&](const Shape& s, uint32_t seed) { return random_tensor(DType::f32, s, seed); };
  expect_as_before(node_trial("Attention", {x({2, 2, 3, 8}, 1), x({2, 2, 8, 8}, 2), x({2, 2, 8, 8}, 3), Tensor(), Tensor(),
                                            Tensor(), Tensor::of<int64_t>({2}, {8, 8})}),
                   6, Tensor::of<int64_t>({2}, {far, 9}), 2e-6);
}

TEST_F(GpuOddData, indices_outside_are_not_written_to) {
  const Tensor data = random_tensor(DType::f32, {6, 5}, 1), updates = random_tensor(DType::f32, {2, 5}, 2);
  for (const char* reduction : {"none", "add"}) {
    // Both rows go outside, so that nothing changes: as a scatter of no rows.
    Trial t =
        node_trial("ScatterND", {data, Tensor::of<int64_t>({2, 1}, {0, 1}), updates}, {{"reduction", std::string(reduction)}});
    t.inputs[1] = t.bound.inputs[1].constant = Tensor::of<int64_t>({2, 1}, {6, -far});
    EXPECT_FALSE(agree_on_gpu(t, {data}, 0).empty());
    Trial e = node_trial("ScatterElements", {data, Tensor::of<int64_t>({2, 5}, std::vector<int64_t>(10, 0)), updates},
                         {{"reduction", std::string(reduction)}});
    e.inputs[1] = e.bound.inputs[1].constant =
        Tensor::of<int64_t>({2, 5}, {6, far, -7, -far, 100, std::numeric_limits<int64_t>::max(), 7, 8, 9, -8});
    EXPECT_FALSE(agree_on_gpu(e, {data}, 0).empty());
  }
}

TEST_F(GpuOddData, labels_that_are_no_classes_do_not_count) {
  const Tensor scores = random_tensor(DType::f32, {4, 3}, 1);
  expect_as_before(node_trial("SoftmaxCrossEntropyLoss", {scores, Tensor::of<int64_t>({4}, {0, 2, 1, 1})},
                              {{"reduction", std::string("sum")}, {"ignore_index", int64_t{1}}}),
                   1, Tensor::of<int64_t>({4}, {0, 2, far, -1}), 1e-5);
}

TEST_F(GpuOddData, slices_backwards_of_an_empty_axis_are_empty) {
  for (const Shape& shape : {Shape{0}, Shape{0, 4096}, Shape{3, 0, 2}}) {
    const int64_t axis = shape.size() == 3 ? 1 : 0;
    expect(node_trial("Slice", {Tensor::empty(DType::f32, shape), Tensor::of<int64_t>({1}, {-1}),
                                Tensor::of<int64_t>({1}, {std::numeric_limits<int64_t>::min()}), Tensor::of<int64_t>({1}, {axis}),
                                Tensor::of<int64_t>({1}, {-1})}));
  }
}

TEST_F(GpuOddData, places_of_nan_and_infinities_are_within_the_image) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor image = random_tensor(DType::f32, {1, 2, 3, 4}, 1);
  const Tensor grid = Tensor::of<float>({1, 1, 5, 2}, {nan, 0, inf, 0, -inf, inf, 1e38f, -1e38f, 0.1f, 0.2f});
  const Tensor regions = Tensor::of<float>({3, 4}, {nan, nan, nan, nan, -inf, 0, inf, 2, -1e30f, -1e30f, 1e30f, 1e30f}),
               items = Tensor::of<int64_t>({3}, {0, 0, 0});
  for (const char* padding : {"zeros", "border", "reflection"})
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      Trial t = node_trial("GridSample", {image, Tensor::zeros(DType::f32, {1, 1, 5, 2})},
                           {{"padding_mode", std::string(padding)}, {"mode", std::string(mode)}});
      t.inputs[1] = t.bound.inputs[1].constant = grid;
      t.bound.node = &t.node;
      for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) EXPECT_NO_THROW(run_on_gpu(t, c));
    }
  for (const char* mode : {"avg", "max"}) {
    Trial t = node_trial("RoiAlign", {image, Tensor::zeros(DType::f32, {3, 4}), items},
                         {{"mode", std::string(mode)}, {"output_height", int64_t{2}}, {"output_width", int64_t{2}}});
    t.inputs[1] = t.bound.inputs[1].constant = regions;
    t.bound.node = &t.node;
    for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) EXPECT_NO_THROW(run_on_gpu(t, c));
    t.inputs[2] = t.bound.inputs[2].constant = Tensor::of<int64_t>({3}, {1, -1, far});  // no such images: zeros
    for (const Candidate& c : offer(t.bound, gpu_machine()).candidates)
      EXPECT_EQ(error(run_on_gpu(t, c)[0], Tensor::zeros(DType::f32, {3, 2, 2, 2})), 0);
  }
}

}  // namespace
}  // namespace smelt::ops
