// Eager normalisation on the processor, against the operator's reference.
#include "run/eager_norm.h"

#include <cstring>

#include "base/error.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

Tensor reference(const EagerNorm& how, const std::vector<Tensor>& inputs, size_t output) {
  Node node;
  node.domain = smelt_domain;
  node.op = "Norm";
  node.attrs["kind"] = std::string(how.centre ? "layer" : "rms");
  node.attrs["epsilon"] = how.epsilon;
  for (size_t i = 0; i < inputs.size(); ++i)
    node.inputs.push_back(inputs[i].valid() ? ValueId{static_cast<int32_t>(i)} : ValueId::none);
  node.outputs = {ValueId{8}, ValueId{9}};
  return ops::evaluate(node, inputs)[output];
}

void expect_close(const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.shape(), expected.shape());
  const std::vector<double> a = found.to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

TEST(EagerNorms, is_what_the_operator_is_on_the_processor) {
  for (const bool centre : {false, true}) {
    for (const Shape& shape : {Shape{7}, Shape{5, 64}, Shape{2, 3, 33}}) {
      const EagerNorm how{centre, 1e-3f};
      const Tensor x = random_tensor(shape, 1), weight = random_tensor({shape.back()}, 2),
                   bias = centre ? random_tensor({shape.back()}, 3) : Tensor();
      for (const bool residual : {false, true}) {
        const Tensor r = residual ? random_tensor(shape, 4) : Tensor();
        Tensor y = Tensor::empty(DType::f32, shape), sum = residual ? Tensor::empty(DType::f32, shape) : Tensor();
        for (int again = 0; again < 2; ++again) {
          std::memset(y.raw(), 0xff, static_cast<size_t>(y.nbytes()));
          eager_norm(how, x, r, weight, bias, y, sum, nullptr);
          expect_close(y, reference(how, {x, r, weight, bias}, 0), 1e-5);
        }
        if (residual) expect_close(sum, reference(how, {x, r, weight, bias}, 1), 1e-6);
      }
    }
  }
}

TEST(EagerNorms, of_halves_and_of_unaligned_memory_is_the_same) {
  const Tensor x = random_tensor({5, 65}, 1).cast(DType::bf16), weight = random_tensor({64}, 2);
  const Tensor rows = Tensor::borrow(DType::bf16, {5, 64}, static_cast<char*>(const_cast<void*>(x.raw())) + 2);
  Tensor y = Tensor::empty(DType::bf16, {5, 64}), none;
  eager_norm({}, rows, {}, weight, {}, y, none, nullptr);
  expect_close(y, reference({}, {rows, {}, weight, {}}, 0), 0.04);
}

TEST(EagerNorms, says_what_does_not_fit) {
  const Tensor x = random_tensor({5, 64}, 1);
  Tensor y = Tensor::empty(DType::f32, {5, 64}), narrow = Tensor::empty(DType::f16, {5, 64}), none;
  const auto message = [&](const Tensor& of, const Tensor& residual, const Tensor& weight, Tensor& to) -> std::string {
    try {
      eager_norm({}, of, residual, weight, {}, to, none, nullptr);
    } catch (const Error& e) {
      return e.code() == ExitCode::usage ? e.what() : "";
    }
    return "";
  };
  EXPECT_NE(message(x, {}, random_tensor({63}, 2), y).find("weight has shape [63], expected [64]"), std::string::npos);
  EXPECT_NE(message(x, random_tensor({64}, 2), {}, y).find("the residual has shape"), std::string::npos);
  EXPECT_NE(message(x, {}, {}, narrow).find("y is f16, x is f32"), std::string::npos);
  EXPECT_NE(message(Tensor::scalar(1.f), {}, {}, y).find("x is a scalar"), std::string::npos);
  EXPECT_NE(message(Tensor::of<int32_t>({2}, {1, 2}), {}, {}, y).find("x is i32"), std::string::npos);
}

}  // namespace
}  // namespace smelt::run
