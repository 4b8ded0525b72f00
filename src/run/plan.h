// The Plan behind session.h: a planner of the rewritten graph, the backend that its kernels run on, and a plan for each body of
// If, Loop and Scan.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/kept_memory.h"
#include "graph/graph.h"
#include "plan/branches.h"
#include "plan/deciding.h"
#include "plan/early_launch.h"
#include "plan/planner.h"
#include "run/platform.h"
#include "smelt/session.h"

namespace smelt::run {

class PlanImpl final : public Plan, public std::enable_shared_from_this<PlanImpl> {
 public:
  PlanImpl(Graph graph, const Platform& platform);

  const std::vector<TensorInfo>& inputs() const override { return inputs_; }
  const std::vector<TensorInfo>& outputs() const override { return outputs_; }
  std::unique_ptr<Execution> execution() const override;
  Tensor place(const Tensor& t) const override;
  const Graph& graph() const override { return planner_.graph(); }
  const Options& options() const override { return context().options; }
  std::vector<std::string> splits() const override { return splits_; }
  BuildInfo build_info() const override;
  const std::vector<StepInfo>& steps() const override { return steps_; }
  std::string device() const override;

  const plan::Planner& planner() const { return planner_; }
  plan::Context& context() const { return planner_.context(); }
  Backend& backend() const { return *backend_; }
  /// The plan of a body that a node of this graph has as an attribute.
  std::shared_ptr<const PlanImpl> body(const Graph& g) const;
  /// The same where what the body says of its inputs' shapes does not hold: PaddlePaddle's exporter gives what a loop carries the
  /// shape of a later iteration. It takes inputs of any shape, and is made when first asked for.
  std::shared_ptr<const PlanImpl> body_of_any_shape(const Graph& g) const;
  /// The plan for inputs of these shapes, and of these values where they are given (valid), where they decide branches of Ifs: those
  /// branches are part of its graph. Null where they decide none. What decides alike shares one.
  std::shared_ptr<const PlanImpl> decided(std::span<const Shape> shapes, std::span<const Tensor> values = {}) const;
  bool has_if() const { return has_if_; }
  /// What can decide Ifs; nothing where branches stay where they are.
  const plan::Deciding& deciding() const { return deciding_; }
  /// Bytes of the graph's constants, those of bodies included.
  int64_t constant_bytes() const { return constant_bytes_; }
  /// Throws Error where a file of weights that kernels read in place has been written to since the model was read.
  void check_weights() const;
  /// Plans the first segment now, so that its kernels are chosen and measured at build time: for the inputs' shapes where all are
  /// static, else for those of Options::profiles. Throws Error (usage) for a profile that does not fit the inputs.
  void prepare();
  struct Prepared {
    std::vector<Shape> shapes;
    std::unique_ptr<plan::PlannedSegment> segment;
  };
  /// What prepare() planned, for the first Execution that asks; empty afterwards.
  std::vector<Prepared> take_prepared() const;
  void put_prepared(std::vector<Prepared> prepared) const;
  /// Whether its recordings let kernels begin early; asked for by --tactics, until choose_early_launch().
  const plan::EarlyLaunch& early_launch() const { return early_launch_; }
  /// Gives the steps of what was prepared those of their finalists that the model is fastest with.
  void choose_in_model();
  void choose_early_launch(const std::optional<plan::EarlyLaunch>& carried);
  /// Whether shapes that an Execution meets first may be measured.
  plan::Measure measures_new_shapes() const { return options().tune_new_shapes ? plan::Measure::yes : plan::Measure::no; }
  /// Notes that planning a shape took so much longer than a run of it; the log says so once.
  void note_cost(double plan_s, double run_s) const;

 private:
  KeepsMemory keeps_memory_;  // for the results of run after run; ends behind all else
  plan::Planner planner_;
  Platform platform_;
  std::shared_ptr<Backend> backend_;
  std::vector<std::shared_ptr<const MappedFile>> mapped_;  // weights, where the processor reads them
  std::vector<TensorInfo> inputs_, outputs_;
  std::vector<std::string> splits_;
  bool has_if_ = false;
  plan::Deciding deciding_;
  std::map<const Graph*, std::shared_ptr<const PlanImpl>> bodies_;
  int64_t constant_bytes_ = 0;
  std::vector<StepInfo> steps_;
  plan::EarlyLaunch early_launch_;
  mutable std::mutex mutex_;
  mutable plan::DecidedGraphs decided_graphs_;
  mutable std::map<plan::Decisions, std::shared_ptr<const PlanImpl>> decided_;
  mutable std::map<const Graph*, std::shared_ptr<const PlanImpl>> of_any_shape_;  // bodies
  mutable std::vector<Prepared> prepared_;
  mutable std::atomic<bool> said_cost_ = false;

  /// A plan of a body of one of this graph's nodes; without `claims` nothing is known of its shapes.
  std::shared_ptr<const PlanImpl> plan_of_body(const Graph& body, const Node& node, bool claims) const;
  void prepare(std::vector<Shape> shapes, plan::Measure measure = plan::Measure::yes) const;
  /// The same in each form that values of inputs may decide.
  void prepare_decided(const std::vector<Shape>& shapes) const;
};

}  // namespace smelt::run
