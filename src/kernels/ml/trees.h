// The arguments of ml/trees.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// A branch by <=, or a leaf, whose children are itself. T: what features are compared as.
template <class T> struct TreeNode {
  T split;
  u32 feature;         // the highest bit: a NaN takes the first child
  i32 child[2];        // of values at most `split`, and of others
};
static_assert(sizeof(TreeNode<float>) == 16 && sizeof(TreeNode<double>) == 24);

/// X: the type of the features; void on the host, as in the others.
template <class T, class X> struct TreeWalkArgs {
  const X* x;                    // [rows, features]
  const TreeNode<T>* nodes;
  const i32* roots;              // [trees]
  i32* leaves;                   // [trees, rows]
  i64 features;
  u32 rows, trees;
  i32 first_leaf, end_leaf;      // of the nodes: leaf 0, and behind the last
};
static_assert(sizeof(TreeWalkArgs<float, void>) == 56);

struct TreeWeight {
  i32 target;
  double weight;
};
static_assert(sizeof(TreeWeight) == 16);

struct TreeSumArgs {
  const i32* leaves;             // [trees, rows]
  const i32* first_weight;       // by leaf, and one more
  const TreeWeight* weights;
  const double* base;            // [bases], by target
  double* scores;                // [rows, targets]
  u8* seen;                      // [rows, targets]: whether a leaf had a weight for it
  u32 rows, trees, targets, bases;
};
static_assert(sizeof(TreeSumArgs) == 64);

/// Y: the type of the results.
template <class Y> struct TreeResultArgs {
  double* scores;                // [rows, targets]
  const u8* seen;                // [rows, targets]
  const i64* labels;             // by class
  i64* chosen;                   // [rows]; null: not asked for
  Y* y;                          // [rows, targets]; null: not asked for
  u32 rows, targets;
};
static_assert(sizeof(TreeResultArgs<void>) == 48);

/// The numbers of `aggregate` and `transform` are TreeEnsemble's (ops::Aggregate, ops::PostTransform).
struct TreeConfig {
  i32 aggregate, transform;
  i32 classifies;
  i32 single, positive;          // of a classifier, ops::ClassRule's
};

}  // namespace smelt::kernels
