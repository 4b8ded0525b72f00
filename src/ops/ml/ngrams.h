// TfIdfVectorizer's n-grams as a tree: a row of tokens costs its own length, however many n-grams there are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/core/facts.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

/// The n-grams of a node, over the numbers that their tokens have here.
class Ngrams {
 public:
  /// `pool`: the tokens' numbers, one n-gram behind the other. Throws Error where ngram_counts does not divide it.
  Ngrams(const Node& node, std::span<const int32_t> pool);

  /// counts[i] += how often n-gram i is in a row of tokens; tokens of no n-gram are below 0.
  void count(std::span<const int32_t> tokens, int32_t* counts) const;
  /// y: a row of zeros. counts: of a row.
  void weigh(const int32_t* counts, float* y) const;

  size_t size() const { return places_.size(); }

 private:
  static constexpr int32_t none = -1;
  int32_t child(int32_t node, int32_t token) const;
  int32_t add_child(int32_t node, int32_t token);
  void make_dense(int64_t tokens);

  std::vector<int64_t> places_;
  std::vector<float> weights_;  // empty: 1 each
  bool is_capped_ = false;      // counts at 1
  int64_t shortest_, longest_, skips_;
  std::unordered_map<uint64_t, int32_t> children_;  // of (node, token)
  std::vector<int32_t> dense_;                      // the same, [nodes][tokens], where that is little
  int64_t tokens_ = 0;
  std::vector<int32_t> first_, next_;  // of a node its first n-gram, of an n-gram the next one that is the same
};

/// Numbers tokens by the order in which they first come.
template <class T> class TokenNumbers {
 public:
  explicit TokenNumbers(const std::vector<T>& pool) {
    for (const T& t : pool) numbers_.push_back(known_.emplace(t, static_cast<int32_t>(known_.size())).first->second);
    if constexpr (std::is_integral_v<T>)
      for (const auto& [token, number] : known_) {
        constexpr T most = 1 << 14;
        if (token < 0 || token >= most) continue;
        if (static_cast<size_t>(token) >= small_.size()) small_.resize(static_cast<size_t>(token) + 1, -1);
        small_[static_cast<size_t>(token)] = number;
      }
  }
  std::span<const int32_t> of_pool() const { return numbers_; }
  int32_t of(const T& token) const {
    if constexpr (std::is_integral_v<T>)
      if (token >= 0 && token < static_cast<T>(small_.size())) return small_[static_cast<size_t>(token)];
    const auto it = known_.find(token);
    return it == known_.end() ? -1 : it->second;
  }

 private:
  std::unordered_map<T, int32_t> known_;
  std::vector<int32_t> numbers_, small_;
};

std::span<const OpRow> tf_idf_ops();
void offer_tf_idf_cpu(const BoundNode& b, const Machine& machine, Offer& offer);  // "cpu": cpu_tf_idf.cpp

}  // namespace smelt::ops
