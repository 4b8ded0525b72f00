// TfIdfVectorizer: its tree of n-grams against loops from the definition.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

using Ints = std::vector<int64_t>;

struct Pool {
  Ints tokens, counts, indexes;
  std::vector<float> weights;
  int64_t shortest, longest, skips;
  std::string mode;
};

/// Every n-gram of the pool at every place of every row.
std::vector<double> by_definition(const Pool& p, const Ints& x, int64_t rows, int64_t width) {
  std::vector<double> y(static_cast<size_t>(rows * width));
  const int64_t length = std::ssize(x) / rows;
  for (int64_t r = 0; r < rows; ++r) {
    size_t ngram = 0;
    for (size_t g = 0; g < p.counts.size(); ++g) {
      const int64_t n = static_cast<int64_t>(g) + 1, end = g + 1 < p.counts.size() ? p.counts[g + 1] : std::ssize(p.tokens);
      for (int64_t at = p.counts[g]; at < end; at += n, ++ngram) {
        if (n < p.shortest || n > p.longest) continue;
        int64_t count = 0;
        for (int64_t skip = 0; skip <= (n == 1 ? 0 : p.skips); ++skip)
          for (int64_t first = 0; first + (n - 1) * (skip + 1) < length; ++first) {
            bool equal = true;
            for (int64_t i = 0; i < n; ++i)
              equal &= x[static_cast<size_t>(r * length + first + i * (skip + 1))] == p.tokens[static_cast<size_t>(at + i)];
            count += equal;
          }
        if (p.mode == "IDF") count = std::min<int64_t>(count, 1);
        y[static_cast<size_t>(r * width + p.indexes[ngram])] +=
            static_cast<double>(count) * (p.mode == "TF" ? 1.0 : static_cast<double>(p.weights[ngram]));
      }
    }
  }
  return y;
}

/// So many n-grams of one, two and three tokens, some of them twice.
Pool pool(int64_t of_each, int64_t tokens, int64_t shortest, int64_t longest, int64_t skips, const std::string& mode) {
  Pool p{{}, {0, of_each, 3 * of_each}, {}, {}, shortest, longest, skips, mode};
  p.tokens = random_tensor(DType::i64, {6 * of_each}, 3, 0, static_cast<double>(tokens) - 0.01).to_ints();
  for (int64_t i = 0; i < 3 * of_each; ++i) {
    p.indexes.push_back((i * 7) % (3 * of_each));
    p.weights.push_back(0.5f + static_cast<float>(i % 5));
  }
  return p;
}

void agrees(const Pool& p, DType type, const Shape& shape, int64_t tokens, bool strings) {
  const Tensor x = random_tensor(type, shape, 5, -1, static_cast<double>(tokens) - 0.01);
  const int64_t rows = shape.size() == 2 ? shape[0] : 1, width = *std::ranges::max_element(p.indexes) + 1;
  Trial t;
  t.node.op = "TfIdfVectorizer";
  t.node.attrs = {
      {"mode", p.mode},           {"min_gram_length", p.shortest}, {"max_gram_length", p.longest}, {"max_skip_count", p.skips},
      {"ngram_counts", p.counts}, {"ngram_indexes", p.indexes},    {"weights", p.weights}};
  const auto texts = [](const Ints& from) {
    std::vector<std::string> all;
    for (const int64_t v : from) all.push_back("token " + std::to_string(v));
    return all;
  };
  if (strings)
    t.node.attrs["pool_strings"] = texts(p.tokens);
  else
    t.node.attrs["pool_int64s"] = p.tokens;
  t.add(strings ? Tensor::of_strings(shape, texts(x.to_ints())) : x, false);
  const Tensor y = expected(t);
  const std::vector<double> want = by_definition(p, x.to_ints(), rows, width);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(y.to_doubles()[i], want[i]) << i;
  if (strings) return;
  t.result(DType::f32, y.shape());
  EXPECT_THAT(check(t, 0, 3), ElementsAre("cpu"));
}

TEST(TfIdf, counts_what_its_definition_does) {
  for (const char* mode : {"TF", "IDF", "TFIDF"})
    for (const auto& [shortest, longest] : {std::pair(1, 3), std::pair(1, 1), std::pair(2, 3), std::pair(3, 3)})
      for (const int64_t skips : {0, 1, 5}) {
        const Pool p = pool(9, 6, shortest, longest, skips, mode);
        for (const Shape& shape : {Shape{40}, Shape{7, 13}, Shape{3, 1}})
          for (const DType type : {DType::i32, DType::i64}) agrees(p, type, shape, 7, false);
        agrees(p, DType::i64, {3, 11}, 7, true);
      }
}

TEST(TfIdf, takes_pools_of_many_tokens) { agrees(pool(3000, 40'000, 1, 3, 1, "TFIDF"), DType::i64, {2, 400}, 40'000, false); }

}  // namespace
}  // namespace smelt::ops
