#include "run/feeds.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace smelt::run {
namespace {

const std::vector<TensorInfo> inputs{{"x", DType::f32, to_sym({1, 3, 224, 224})},
                                     {"mask", DType::boolean, {Dim("batch"), Dim(4)}}};

template <class F> Error usage_error(F&& f) {
  const std::optional<Error> e = error_from(f);
  if (!e) {
    ADD_FAILURE() << "no error";
    return Error("");
  }
  EXPECT_EQ(e->code(), ExitCode::usage);
  return *e;
}

Tensor image(Shape shape = {1, 3, 224, 224}) { return Tensor::zeros(DType::f32, std::move(shape)); }
Tensor mask(int64_t batch) { return Tensor::zeros(DType::boolean, {batch, 4}); }

TEST(Feeds, are_put_into_the_models_order) {
  const auto ordered = order_feeds(inputs, {{"mask", mask(2)}, {"x", image()}});
  EXPECT_EQ(ordered[0].rank(), 4);
  EXPECT_EQ(ordered[1].rank(), 2);
}

TEST(Feeds, wrong_name_suggests_the_nearest_and_lists_the_inputs) {
  const Error e = usage_error([] { order_feeds(inputs, {{"x", image()}, {"maks", mask(1)}}); });
  EXPECT_STREQ(e.what(), "there is no input 'maks'; did you mean 'mask'?");
  EXPECT_NE(e.next().find("x f32[1, 3, 224, 224], mask bool[batch, 4]"), std::string::npos) << e.next();
}

TEST(Feeds, a_name_like_no_other_gets_no_suggestion) {
  EXPECT_STREQ(usage_error([] { order_feeds(inputs, {{"temperature", image()}}); }).what(), "there is no input 'temperature'");
}

TEST(Feeds, missing_input_is_named) {
  EXPECT_STREQ(usage_error([] { order_feeds(inputs, {{"x", image()}}); }).what(), "input 'mask' is missing");
}

TEST(Feeds, wrong_extent_says_found_and_expected) {
  const std::vector<Tensor> t{image({1, 3, 200, 224}), mask(1)};
  EXPECT_STREQ(usage_error([&] { check_inputs(inputs, t); }).what(),
               "input 'x' has shape [1, 3, 200, 224], expected [1, 3, 224, 224]");
}

TEST(Feeds, wrong_rank_says_both_ranks) {
  const std::vector<Tensor> t{image({3, 224, 224}), mask(1)};
  EXPECT_STREQ(usage_error([&] { check_inputs(inputs, t); }).what(),
               "input 'x' has shape [3, 224, 224] (rank 3), expected [1, 3, 224, 224] (rank 4)");
}

TEST(Feeds, wrong_type_says_found_and_expected) {
  const std::vector<Tensor> t{image().cast(DType::f16), mask(1)};
  EXPECT_STREQ(usage_error([&] { check_inputs(inputs, t); }).what(), "input 'x' has type f16, expected f32");
}

TEST(Feeds, symbolic_extents_take_any_size) {
  for (int64_t batch : {0, 1, 7}) {
    const std::vector<Tensor> t{image(), mask(batch)};
    EXPECT_NO_THROW(check_inputs(inputs, t));
  }
}

TEST(Feeds, inputs_of_unknown_rank_take_any_shape) {
  const std::vector<TensorInfo> any{{"x", DType::f32, {}, false}};
  const std::vector<Tensor> t{image()};
  EXPECT_NO_THROW(check_inputs(any, t));
}

TEST(Feeds, number_of_tensors_must_be_that_of_the_inputs) {
  const std::vector<Tensor> t{image()};
  usage_error([&] { check_inputs(inputs, t); });
}

}  // namespace
}  // namespace smelt::run
