// The Plan behind session.h: the rewritten graph, its tuner and packed weights, and a plan for each body of If, Loop and Scan.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "fuse/match/rewrite.h"
#include "graph/graph.h"
#include "ops/core/packed_weights.h"
#include "run/backend.h"
#include "run/buckets.h"
#include "run/carried.h"
#include "run/planned.h"
#include "run/stages.h"
#include "smelt/session.h"
#include "tune/tuner.h"

namespace smelt::run {

/// Whether a plan of these options is a GPU's.
bool on_gpu(const Options& options);
/// How its graph is rewritten.
fuse::Options rewriting(const Options& options);

class PlanImpl final : public Plan, public std::enable_shared_from_this<PlanImpl> {
 public:
  /// What a plan and the plans of its graph's bodies share.
  struct Shared {
    tune::Tuner tuner;
    ops::WeightStore weights;
    Options options;
    std::shared_ptr<Backend> backend;
    std::shared_ptr<Stages> stages = std::make_shared<Stages>();
  };

  PlanImpl(Graph graph, std::shared_ptr<Shared> shared);

  const std::vector<TensorInfo>& inputs() const override { return inputs_; }
  const std::vector<TensorInfo>& outputs() const override { return outputs_; }
  std::unique_ptr<Execution> execution() const override;
  Tensor place(const Tensor& t) const override;
  const Graph& graph() const override { return graph_; }
  const Options& options() const override { return shared_->options; }
  std::vector<std::string> splits() const override { return splits_; }
  BuildInfo build_info() const override;
  const std::vector<StepInfo>& steps() const override { return steps_; }
  std::string device() const override;

  const std::vector<NodeId>& order() const { return order_; }
  Shared& shared() const { return *shared_; }
  BucketChoices& buckets() const { return buckets_; }
  /// The plan of a body that a node of this graph has as an attribute.
  std::shared_ptr<const PlanImpl> body(const Graph& g) const;
  /// Bytes of the graph's constants, those of bodies included.
  int64_t constant_bytes() const { return constant_bytes_; }
  /// Where all inputs are static, plans the first segment now, so that its kernels are chosen at build time.
  void prepare();
  /// What prepare planned, for the first Execution that asks; null afterwards.
  std::unique_ptr<Planned> take_prepared() const;

 private:
  std::shared_ptr<Shared> shared_;
  Graph graph_;
  std::vector<NodeId> order_;
  std::vector<TensorInfo> inputs_, outputs_;
  std::vector<std::string> splits_;
  std::map<const Graph*, std::shared_ptr<const PlanImpl>> bodies_;
  int64_t constant_bytes_ = 0;
  std::vector<StepInfo> steps_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Planned> prepared_;
  mutable BucketChoices buckets_;
};

/// What a plan of these options is to share with its graph's bodies; `tf32`: its model asks for products of f32 that round their
/// operands so; `carried`: what the model brings for a GPU, taken where it is that GPU. Throws Error (usage) for options that are
/// wrong.
std::shared_ptr<PlanImpl::Shared> share(const Options& options, bool tf32, Carried carried = {});

}  // namespace smelt::run
