// Tree ensembles (ai.onnx.ml) as three kernels: tree_walk takes a row down a tree, a thread each; tree_sum adds up the leaves' weights,
// a warp for each score, in an order that depends on the number of trees alone; tree_result makes a row's results of its scores, a
// thread each. Scores are f64, as the processor's are.
#pragma once

#include "common/convert.cuh"
#include "common/warp.cuh"
#include "kernels/ml/trees.h"

constexpr int tree_threads = 256;

/// Launch: a thread for each row of each tree, rows side by side.
template <class T, class X> __device__ __forceinline__ void tree_walk(const TreeWalkArgs<T, X>& a) {
  const u64 i = static_cast<u64>(blockIdx.x) * tree_threads + threadIdx.x;
  if (i >= static_cast<u64>(a.rows) * a.trees) return;
  const u32 row = static_cast<u32>(i % a.rows), tree = static_cast<u32>(i / a.rows);
  const X* const x = a.x + row * a.features;
  i32 at = a.roots[tree];
  while (at < a.first_leaf || at >= a.end_leaf) {
    const TreeNode<T> n = a.nodes[at];
    const T v = static_cast<T>(x[n.feature & 0x7fffffffu]);
    const bool first = v <= n.split || (v != v && n.feature >> 31);
    at = first ? n.child[0] : n.child[1];
  }
  a.leaves[i] = at - a.first_leaf;
}

/// A score while it is added up.
struct TreeScore {
  double value = 0;
  u32 seen = 0, unused = 0;
};
template <TreeConfig C> struct MergeScores {
  __device__ __forceinline__ TreeScore operator()(const TreeScore& a, const TreeScore& b) const {
    if (!a.seen) return b;
    if (!b.seen) return a;
    const double value = C.aggregate == 2   ? (b.value < a.value ? b.value : a.value)
                         : C.aggregate == 3 ? (b.value > a.value ? b.value : a.value)
                                            : a.value + b.value;
    return {value, 1, 0};
  }
};

/// Launch: a warp for each row's score of each target.
template <TreeConfig C> __device__ __forceinline__ void tree_sum(const TreeSumArgs& a) {
  const u64 i = (static_cast<u64>(blockIdx.x) * tree_threads + threadIdx.x) / 32;
  if (i >= static_cast<u64>(a.rows) * a.targets) return;               // the warp's lanes share i
  const u32 row = static_cast<u32>(i / a.targets), target = static_cast<u32>(i % a.targets);
  const MergeScores<C> merge;
  TreeScore score;
  for (u32 tree = threadIdx.x % 32; tree < a.trees; tree += 32) {
    const i32 leaf = a.leaves[static_cast<u64>(tree) * a.rows + row];
    for (i32 w = a.first_weight[leaf]; w < a.first_weight[leaf + 1]; ++w)
      if (a.weights[w].target == static_cast<i32>(target)) score = merge(score, {a.weights[w].weight, 1, 0});
  }
  score = fold_lanes(score, merge);
  if (threadIdx.x % 32 != 0) return;
  if (C.aggregate == 0) score.value /= a.trees;
  if (target < a.bases) score.value += a.base[target];
  a.scores[i] = score.value;
  a.seen[i] = score.seen || (target < a.bases && a.targets > 2);
}

/// ops::post_transform.
template <int Transform> __device__ __forceinline__ void transform_scores(double* s, u32 n) {
  if constexpr (Transform == 2) {
    for (u32 k = 0; k < n; ++k) s[k] = 1 / (1 + exp(-s[k]));
  } else if constexpr (Transform == 4) {
    for (u32 k = 0; k < n; ++k) s[k] = normcdfinv(fmin(fmax(s[k], 0.0), 1.0));
  } else if constexpr (Transform != 0) {
    double largest = s[0], sum = 0;
    for (u32 k = 1; k < n; ++k) largest = s[k] > largest ? s[k] : largest;
    for (u32 k = 0; k < n; ++k) {
      const bool stays = Transform == 3 && fabs(s[k]) <= 1e-7;          // takes no part
      s[k] = stays ? 0 : exp(s[k] - largest);
      sum += s[k];
    }
    const double part = 1 / (sum == 0 ? 1 : sum);  // divided once: a division's rare cases are a call, for which a loop would spill
    for (u32 k = 0; k < n; ++k) s[k] *= part;
  }
}

/// ops::ClassRule::decide.
template <TreeConfig C> __device__ __forceinline__ u32 decide(double* s, const u8* seen, u32 n) {
  if constexpr (C.single) {
    const double score = seen[1] ? s[1] : s[0];
    if (seen[1]) {
      transform_scores<C.transform>(s, n);
    } else {
      s[0] = C.positive && C.transform != 2 ? 1 - score : -score, s[1] = score;
      if (C.transform == 2 || C.transform == 4) transform_scores<C.transform>(s, n);
    }
    return score > (C.positive ? 0.5 : 0.0) ? 1 : 0;
  } else {
    u32 best = 0;
    bool any = false;
    for (u32 k = 0; k < n; ++k) {
      if (!seen[k] || (any && !(s[k] > s[best]))) continue;
      best = k;
      any = true;
    }
    transform_scores<C.transform>(s, n);
    return best;
  }
}

/// Launch: a thread for each row.
template <TreeConfig C, class Y> __device__ __forceinline__ void tree_result(const TreeResultArgs<Y>& a) {
  const u64 row = static_cast<u64>(blockIdx.x) * tree_threads + threadIdx.x;
  if (row >= a.rows) return;
  double* const s = a.scores + row * a.targets;
  if constexpr (C.classifies) {
    const u32 best = decide<C>(s, a.seen + row * a.targets, a.targets);
    if (a.chosen) a.chosen[row] = a.labels[best];
  } else {
    transform_scores<C.transform>(s, a.targets);
  }
  for (u32 k = 0; a.y && k < a.targets; ++k) a.y[row * a.targets + k] = static_cast<Y>(s[k]);
}
