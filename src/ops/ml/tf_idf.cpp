// TfIdfVectorizer: n-grams counted in rows of tokens.
#include <algorithm>

#include "base/error.h"
#include "ops/core/list_inputs.h"
#include "ops/ml/ngrams.h"

namespace smelt::ops {
namespace {

void infer_tf_idf(InferContext& c) {
  type_of(c, 0);
  const auto places = c.node.get_ints("ngram_indexes");
  if (places.empty()) fail("ngram_indexes is missing");
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  constexpr int64_t widest = int64_t{1} << 40;
  if (*least < 0 || *most >= widest) fail("ngram_indexes range from {} to {}, expected 0 to {}", *least, *most, widest - 1);
  const int64_t width = *most + 1;
  if (!c.in(0).shape_known) return c.set_type(0, DType::f32);
  const Shape& s = c.shape(0);
  if (s.size() > 2) fail("the input has shape {}, expected [C] or [N, C]", to_string(s));
  c.set(0, DType::f32, s.size() == 2 ? Shape{s[0], width} : Shape{width});
}

template <class T> void count_all(ComputeContext& c, std::span<const T> tokens, const std::vector<T>& pool) {
  const TokenNumbers<T> numbers(pool);
  const Ngrams ngrams(c.node, numbers.of_pool());
  Tensor& y = c.outputs[0];
  const int64_t rows = c.in(0).rank() == 2 ? c.in(0).shape()[0] : 1, width = y.shape().back();
  std::fill_n(y.data<float>(), y.size(), 0.0f);
  std::vector<int32_t> row(rows == 0 ? 0 : tokens.size() / static_cast<size_t>(rows)), counts(ngrams.size());
  for (int64_t r = 0; r < rows; ++r) {
    const auto own = tokens.subspan(static_cast<size_t>(r) * row.size(), row.size());
    std::ranges::transform(own, row.begin(), [&](const T& t) { return numbers.of(t); });
    std::ranges::fill(counts, 0);
    ngrams.count(row, counts.data());
    ngrams.weigh(counts.data(), y.data<float>() + r * width);
  }
}

void run_tf_idf(ComputeContext& c) {
  const Tensor& x = c.in(0);
  if (x.type() == DType::string) return count_all<std::string>(c, std::span(x.strings()), c.node.get_strings("pool_strings"));
  const std::vector<int64_t> numbers = x.to_ints();
  count_all<int64_t>(c, std::span(numbers), c.node.get_ints("pool_int64s"));
}

}  // namespace

std::span<const OpRow> tf_idf_ops() {
  static constexpr OpRow table[] = {
      {{"TfIdfVectorizer", onnx_domain, infer_tf_idf, run_tf_idf}},
  };
  return table;
}

}  // namespace smelt::ops
