// Tree ensembles on the processor. Many rows: blocks of rows by threads, each block through one tree after the other. Few rows: parts of
// the forest by threads, eight trees a time; their scores are added up in the parts' order, whatever the number of threads. Kernels of
// one node for several numbers of rows share its forest.
#include <algorithm>
#include <memory>
#include <mutex>

#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/ml/classes.h"
#include "ops/ml/flat_forest.h"
#include "ops/ml/offer.h"
#include "ops/ml/trees.h"

namespace smelt::ops {
namespace {

constexpr int64_t block = 64;       // rows
constexpr int64_t most_parts = 16;  // of a forest

/// A node's trees, read and laid out.
template <class T> struct MadeForest {
  std::shared_ptr<const Node> node;
  Forest forest;
  FlatForest<T> flat;

  explicit MadeForest(std::shared_ptr<const Node> n) : node(std::move(n)), forest(forest_of(*node)), flat(forest) {}
};

bool is_same(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<class V>(const V& v) {
        const V& w = std::get<V>(b);
        if constexpr (std::is_same_v<V, Tensor>)
          return v.type() == w.type() && v.shape() == w.shape() && v.type() != DType::string &&
                 std::equal(static_cast<const char*>(v.raw()), static_cast<const char*>(v.raw()) + v.nbytes(),
                            static_cast<const char*>(w.raw()));
        else
          return v == w;
      },
      a);
}

bool is_same(const Node& a, const Node& b) {
  return a.op == b.op && std::ranges::equal(a.attrs, b.attrs, [](const auto& x, const auto& y) {
           return x.first == y.first && is_same(x.second, y.second);
         });
}

/// The forests of the kernels that are there.
template <class T> class MadeForests {
 public:
  static MadeForests& all() {
    static MadeForests forests;
    return forests;
  }
  /// One of a node with the same attributes; null where there is none.
  std::shared_ptr<const MadeForest<T>> find(const Node& node) {
    const std::lock_guard lock(mutex_);
    std::erase_if(made_, [](const auto& m) { return m.expired(); });
    for (const auto& m : made_)
      if (auto forest = m.lock(); forest && (forest->node.get() == &node || is_same(*forest->node, node))) return forest;
    return nullptr;
  }
  std::shared_ptr<const MadeForest<T>> get(const std::shared_ptr<const Node>& node) {
    if (auto forest = find(*node)) return forest;
    auto forest = std::make_shared<const MadeForest<T>>(node);
    const std::lock_guard lock(mutex_);
    made_.push_back(forest);
    return forest;
  }
  /// The node for as long as a kernel needs it: a forest's own, or a copy.
  std::shared_ptr<const Node> lasting(const Node& node) {
    const auto forest = find(node);
    return forest ? forest->node : std::make_shared<const Node>(node);
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<const MadeForest<T>>> made_;
};

/// T: what features are compared as; X: what they are given as.
template <class T, class X> class TreesKernel final : public Kernel {
 public:
  using Feature = T;
  static constexpr int64_t together = FlatForest<T>::together;

  TreesKernel(const BoundNode& b, const std::shared_ptr<const Node>& node, int threads)
      : made_(MadeForests<T>::all().get(node)),
        forest_(made_->forest),
        flat_(made_->flat),
        features_(features_of(b.inputs[0].shape)),
        rows_(rows_of(b.inputs[0].shape)),
        transform_(ensemble_transform(*b.node)),
        wide_(b.outputs.back().type == DType::f64) {
    check_features(forest_, features_);
    if (b.node->op == "TreeEnsembleClassifier") {
      labels_ = std::make_unique<ClassLabels>(*b.node);
      rule_ = std::make_unique<ClassRule>(*b.node);
    }
    int64_t steps = 1;
    for (const int64_t d : forest_.depths) steps += d + forest_.targets / 4;
    constexpr int64_t a_step = 8;  // a nanosecond, in useful_threads' unit
    threads_ = useful_threads(threads, std::min(rows_, int64_t{1} << 20) * std::min(steps, int64_t{1} << 40) * a_step);
    by_rows_ = rows_ >= 2 * together;
    parts_ = by_rows_ ? 1 : std::clamp<int64_t>(static_cast<int64_t>(flat_.trees()) / (4 * together), 1, most_parts);
  }

  /// The scores of each thread's block, or of each part's rows, and the rows as T.
  int64_t workspace() const override {
    return (by_rows_ ? threads_ * block : parts_ * rows_) * row_bytes() +
           (std::is_same_v<T, X> ? 0
                                 : aligned((by_rows_ ? threads_ * block : rows_) * features_ * static_cast<int64_t>(sizeof(T))));
  }

  void run(const Buffers& b) override { by_rows_ ? run_rows(b) : run_parts(b); }

 private:
  /// A row's scores, and which of them a leaf had a weight for.
  int64_t row_bytes() const { return aligned(forest_.targets * 8) + aligned(forest_.targets); }
  ScoreSum sum(const Buffers& b, int64_t place) const {
    char* own = static_cast<char*>(b.workspace) + place * row_bytes();
    return {forest_, reinterpret_cast<double*>(own), reinterpret_cast<bool*>(own + aligned(forest_.targets * 8))};
  }

  /// Rows from `first` on as T: where they lie, or converted to the workspace from its row `place` on.
  const T* features(const Buffers& b, int64_t first, int64_t count, int64_t place) const {
    const X* x = static_cast<const X*>(b.inputs[0]) + first * features_;
    if constexpr (std::is_same_v<T, X>) {
      return x;
    } else {
      T* to =
          reinterpret_cast<T*>(static_cast<char*>(b.workspace) + (by_rows_ ? threads_ * block : parts_ * rows_) * row_bytes()) +
          place * features_;
      std::transform(x, x + count * features_, to, [](X v) { return static_cast<T>(v); });
      return to;
    }
  }

  void run_rows(const Buffers& b) const {
    parallel_dynamic(threads_, (rows_ + block - 1) / block, [&](int64_t i, int thread) {
      const int64_t first = i * block, count = std::min(block, rows_ - first);
      const T* x = features(b, first, count, thread * block);
      for (int64_t r = 0; r < count; ++r) sum(b, thread * block + r).clear();
      const bool nans = flat_.minds_nans(x, count * features_);
      for (size_t tree = 0; tree < flat_.trees(); ++tree)
        for (int64_t r = 0; r < count; r += together) add_rows(b, tree, x, r, count, thread * block, nans);
      std::vector<double> scores;
      for (int64_t r = 0; r < count; ++r) give(b, first + r, sum(b, thread * block + r), scores);
    });
  }

  void add_rows(const Buffers& b, size_t tree, const T* x, int64_t first, int64_t count, int64_t place, bool nans) const {
    int32_t at[together];
    const T* rows[together];
    for (int64_t k = 0; k < together; ++k) {
      at[k] = flat_.root(tree);
      rows[k] = x + std::min(first + k, count - 1) * features_;
    }
    flat_.walk(at, rows, flat_.depth(tree), nans);
    for (int64_t k = 0; k < std::min(together, count - first); ++k) sum(b, place + first + k).add(static_cast<size_t>(at[k]));
  }

  void run_parts(const Buffers& b) const {
    const T* x = features(b, 0, rows_, 0);
    const bool nans = flat_.minds_nans(x, rows_ * features_);
    const auto trees = static_cast<int64_t>(flat_.trees());
    parallel_dynamic(threads_, parts_, [&](int64_t part, int) {
      const int64_t begin = trees * part / parts_, end = trees * (part + 1) / parts_;
      for (int64_t r = 0; r < rows_; ++r) {
        const ScoreSum s = sum(b, part * rows_ + r);
        s.clear();
        for (int64_t tree = begin; tree < end; tree += together)
          add_trees(tree, std::min(end - tree, together), x + r * features_, s, nans);
      }
    });
    std::vector<double> scores;
    for (int64_t r = 0; r < rows_; ++r) {
      const ScoreSum all = sum(b, r);
      for (int64_t part = 1; part < parts_; ++part) {
        const ScoreSum s = sum(b, part * rows_ + r);
        for (int64_t t = 0; t < forest_.targets; ++t)
          if (s.seen[t]) all.merge(t, s.scores[t]);
      }
      give(b, r, all, scores);
    }
  }

  void add_trees(int64_t first, int64_t count, const T* x, const ScoreSum& s, bool nans) const {
    int32_t at[together];
    const T* rows[together];
    int64_t depth = 0;
    for (int64_t k = 0; k < together; ++k) {
      const auto tree = static_cast<size_t>(first + std::min(k, count - 1));
      at[k] = flat_.root(tree);
      rows[k] = x;
      depth = std::max(depth, flat_.depth(tree));
    }
    flat_.walk(at, rows, depth, nans);
    for (int64_t k = 0; k < count; ++k) s.add(static_cast<size_t>(at[k]));
  }

  void give(const Buffers& b, int64_t row, const ScoreSum& s, std::vector<double>& scores) const {
    s.end();
    scores.assign(s.scores, s.scores + forest_.targets);
    if (!rule_) {
      post_transform(scores, transform_);
    } else {
      const int64_t chosen = rule_->decide(scores, s.seen);
      if (b.outputs[0]) static_cast<int64_t*>(b.outputs[0])[row] = labels_->integer(chosen);
    }
    void* y = rule_ ? (b.outputs.size() > 1 ? b.outputs[1] : nullptr) : b.outputs[0];
    if (!y) return;
    for (size_t t = 0; t < scores.size(); ++t) {
      const size_t at = static_cast<size_t>(row) * scores.size() + t;
      if (wide_)
        static_cast<double*>(y)[at] = scores[t];
      else
        static_cast<float*>(y)[at] = static_cast<float>(scores[t]);
    }
  }

  std::shared_ptr<const MadeForest<T>> made_;
  const Forest& forest_;
  const FlatForest<T>& flat_;
  int64_t features_, rows_;
  PostTransform transform_;
  bool wide_, by_rows_ = true;
  std::unique_ptr<ClassLabels> labels_;
  std::unique_ptr<ClassRule> rule_;
  int64_t parts_ = 1;
  int threads_ = 1;
};

}  // namespace

void offer_trees_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const bool classifies = b.node->op == "TreeEnsembleClassifier";
  const DType type = b.inputs[0].type;
  if (b.outputs[0].type == DType::string) return offer.refuse("cpu", Reason::wrong_type, "labels that are strings");
  const DType result = b.outputs.back().type;
  if (!classifies && result != DType::f32 && result != DType::f64)
    return offer.refuse("cpu", Reason::wrong_type, "results of {}", name(result));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const size_t nodes = b.node->get_ints("nodes_featureids").size();
  // Written out, a forest's attributes are megabytes.
  offer.problem = Key(b.node->op).field(fmt::format("{} nodes", nodes)).field(b.inputs[0]).to(b.outputs.back()).text();
  const double estimate =
      2 + 0.01 * static_cast<double>(rows_of(b.inputs[0].shape)) * (1 + static_cast<double>(nodes) / 64) / machine.threads;
  const auto add = [&]<class K>(const K*) {
    offer.candidates.push_back(
        {"cpu", "", estimate, [b, node = MadeForests<typename K::Feature>::all().lasting(*b.node), threads = machine.threads] {
           BoundNode bound = b;
           bound.node = node.get();
           return std::make_unique<K>(bound, node, threads);
         }});
  };
  switch (type) {
    case DType::f32: return add(static_cast<const TreesKernel<float, float>*>(nullptr));
    case DType::f64: return add(static_cast<const TreesKernel<double, double>*>(nullptr));
    case DType::i32: return add(static_cast<const TreesKernel<float, int32_t>*>(nullptr));
    case DType::i64: return add(static_cast<const TreesKernel<float, int64_t>*>(nullptr));
    default: return offer.refuse("cpu", Reason::wrong_type, "features of {}", name(type));
  }
}

}  // namespace smelt::ops
