#include "ops/ml/ngrams.h"

#include <algorithm>

#include "base/error.h"

namespace smelt::ops {

Ngrams::Ngrams(const Node& node, std::span<const int32_t> pool)
    : places_(node.get_ints("ngram_indexes")),
      shortest_(node.get_int("min_gram_length", 1)),
      longest_(node.get_int("max_gram_length", 1)),
      skips_(node.get_int("max_skip_count", 0)) {
  const std::string mode = node.get_string("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") fail("mode is '{}', expected 'TF', 'IDF' or 'TFIDF'", mode);
  is_capped_ = mode == "IDF";
  const auto weights = node.get_floats("weights", std::vector<float>(places_.size(), 1.0f));
  if (weights.size() != places_.size()) fail("{} weights for {} n-grams", weights.size(), places_.size());
  if (mode != "TF") weights_ = weights;
  for (const int32_t t : pool) tokens_ = std::max<int64_t>(tokens_, t + 1);
  const auto starts = node.get_ints("ngram_counts");
  const auto size = static_cast<int64_t>(pool.size());
  first_.push_back(none);
  next_.resize(places_.size(), none);
  size_t ngram = 0;  // over all lengths
  for (size_t g = 0; g < starts.size(); ++g) {
    const int64_t n = static_cast<int64_t>(g) + 1, begin = starts[g], end = g + 1 < starts.size() ? starts[g + 1] : size;
    if (begin < 0 || end < begin || end > size || (end - begin) % n != 0)
      fail("ngram_counts {} does not divide a pool of {} tokens", to_string(starts), pool.size());
    for (int64_t at = begin; at < end; at += n, ++ngram) {
      if (ngram >= places_.size()) fail("the pool has more n-grams than ngram_indexes has entries ({})", places_.size());
      if (n < shortest_ || n > longest_) continue;
      int32_t place = 0;
      for (int64_t i = 0; i < n; ++i) place = add_child(place, pool[static_cast<size_t>(at + i)]);
      next_[ngram] = first_[static_cast<size_t>(place)];
      first_[static_cast<size_t>(place)] = static_cast<int32_t>(ngram);
    }
  }
  constexpr int64_t little = 1 << 20;
  if (static_cast<int64_t>(first_.size()) * tokens_ <= little) make_dense(tokens_);
}

int32_t Ngrams::add_child(int32_t node, int32_t token) {
  const auto [it, is_new] =
      children_.emplace(static_cast<uint64_t>(node) << 32 | static_cast<uint32_t>(token), static_cast<int32_t>(first_.size()));
  if (is_new) first_.push_back(none);
  return it->second;
}

void Ngrams::make_dense(int64_t tokens) {
  dense_.assign(first_.size() * static_cast<size_t>(tokens), none);
  for (const auto& [key, child] : children_)
    dense_[static_cast<size_t>(key >> 32) * static_cast<size_t>(tokens) + static_cast<size_t>(key & 0xffffffff)] = child;
}

int32_t Ngrams::child(int32_t node, int32_t token) const {
  if (!dense_.empty()) return dense_[static_cast<size_t>(node * tokens_ + token)];
  const auto it = children_.find(static_cast<uint64_t>(node) << 32 | static_cast<uint32_t>(token));
  return it == children_.end() ? none : it->second;
}

void Ngrams::count(std::span<const int32_t> tokens, int32_t* counts) const {
  const auto length = static_cast<int64_t>(tokens.size());
  for (int64_t skip = 0; skip <= std::min(skips_, length); ++skip)
    for (int64_t first = 0; first < length; ++first) {
      int32_t node = 0;
      int64_t n = 1;
      for (int64_t at = first; at < length; at += skip + 1, ++n) {
        const int32_t token = tokens[static_cast<size_t>(at)];
        if (token < 0 || (node = child(node, token)) == none) break;
        if (n == 1 && skip > 0) continue;  // one token skips none: it was counted
        for (int32_t g = first_[static_cast<size_t>(node)]; g != none; g = next_[static_cast<size_t>(g)]) ++counts[g];
      }
    }
}

void Ngrams::weigh(const int32_t* counts, float* y) const {
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto count = static_cast<float>(is_capped_ ? std::min(counts[i], 1) : counts[i]);
    y[places_[i]] += weights_.empty() ? count : count * weights_[i];
  }
}

}  // namespace smelt::ops
