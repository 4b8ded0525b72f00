#include "run/plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/stop.h"
#include "fuse/precision.h"
#include "fuse/rewriter.h"
#include "import/export.h"
#include "import/import.h"
#include "import/weight_forms.h"
#include "ops/core/expand.h"
#include "ops/core/tactic_names.h"
#include "ops/cuda/gpu.h"
#include "plan/buffers.h"
#include "plan/shapes.h"
#include "plan/step_info.h"
#include "run/early_launch.h"
#include "run/execution.h"
#include "run/in_model.h"

namespace smelt::run {
namespace {

std::vector<TensorInfo> infos(const Graph& g, const std::vector<ValueId>& values) {
  std::vector<TensorInfo> list;
  for (ValueId v : values) {
    const Value& value = g.value(v);
    list.push_back({value.name, value.type, value.shape.value_or(SymShape{}), value.shape.has_value()});
  }
  return list;
}

/// A body of a graph's node, which knows the captured values that are constant: a kernel of it packs weights once.
Graph body_with_constants(const Graph& body, const Graph& around, const Node& node) {
  Graph g = clone(body);
  const auto captured = static_cast<size_t>(node.get_int("captured", 0));
  for (size_t i = 0; i < captured; ++i) {
    const Value& outer = around.value(node.inputs[node.inputs.size() - captured + i]);
    const ValueId inner = g.inputs()[g.inputs().size() - captured + i];
    if (outer.is_constant() && !g.is_output(inner)) g.replace_uses(inner, g.add_constant(outer.name, outer.constant));
  }
  return g;
}

int64_t bytes_of_constants(const Graph& g) {
  int64_t bytes = 0;
  std::set<const void*> counted;
  for (size_t i = 0; i < g.value_count(); ++i) {
    const Value& v = g.value(ValueId{static_cast<int32_t>(i)});
    if (v.is_constant() && counted.insert(v.constant.raw()).second) bytes += v.constant.nbytes();
  }
  return bytes;
}

/// The shapes of all inputs at a profile's opt, min and max.
std::vector<std::vector<Shape>> shapes_of(const ShapeProfile& profile, const std::vector<TensorInfo>& inputs) {
  for (const auto& [name, range] : profile) {
    const auto at = std::ranges::find(inputs, name, &TensorInfo::name);
    if (at == inputs.end()) fail_usage("a profile names an input '{}', which there is not", name);
    for (const Shape* s : {&range.min, &range.opt, &range.max}) {
      bool fits = !at->rank_known || s->size() == at->shape.size();
      for (size_t d = 0; fits && at->rank_known && d < s->size(); ++d)
        fits = (*s)[d] >= 0 && (!at->shape[d].known() || at->shape[d].value == (*s)[d]);
      if (!fits) fail_usage("a profile gives input '{}' the shape {}; it is {}", name, to_string(*s), to_string(at->shape));
    }
    for (size_t d = 0; d < range.opt.size(); ++d)
      if (range.min.size() != range.opt.size() || range.max.size() != range.opt.size() || range.min[d] > range.opt[d] ||
          range.opt[d] > range.max[d])
        fail_usage("a profile of input '{}' ranges from {} over {} to {}", name, to_string(range.min), to_string(range.opt),
                   to_string(range.max));
  }
  std::vector<std::vector<Shape>> all;
  for (const auto member : {&ShapeRange::opt, &ShapeRange::min, &ShapeRange::max}) {
    std::vector<Shape>& shapes = all.emplace_back();
    for (const TensorInfo& i : inputs) {
      const auto at = profile.find(i.name);
      if (at == profile.end() && !(i.rank_known && is_static(i.shape)))
        fail_usage("a profile lacks input '{}', whose shape is {}", i.name, to_string(i.shape));
      shapes.push_back(at == profile.end() ? to_shape(i.shape) : at->second.*member);
    }
  }
  return all;
}

/// The data files whose pages a run reads. A GPU has its own copy.
std::vector<std::shared_ptr<const MappedFile>> mapped_weights(const Graph& g, const Backend& backend) {
  std::vector<std::shared_ptr<const MappedFile>> files;
  if (!backend.is_host()) return files;
  for (const DataRange& r : g.model.data) {
    auto file = MappedFile::holding(r.bytes.get());  // none: a copy, since typed access needs alignment
    if (file && std::ranges::find(files, file) == files.end()) files.push_back(std::move(file));
  }
  return files;
}

/// Operators that run as they are; import expands the others into their function bodies.
bool runs(std::string_view domain, std::string_view op) { return domain == smelt_domain || ops::find(op, domain) != nullptr; }

std::shared_ptr<const Plan> build(Graph graph, const Options& options, std::shared_ptr<plan::StageTimes> stages) {
  check_stop();
  plan::StageClock clock(*stages);
  const auto asked = graph.model.metadata.find("smelt.precision");  // of a plan that was saved
  const bool tf32 = options.precision == "tf32" || (asked != graph.model.metadata.end() && asked->second == "tf32");
  plan::CarriedChoices carried = plan::read_choices(graph.model.metadata);
  const std::string made_on = carried.device;
  const std::optional<plan::EarlyLaunch> early = carried.early;
  plan::EmbeddedKernels embedded = plan::read_kernels(graph.model.metadata);
  if (!options.plan_kernels && !embedded.cubins.empty())
    throw Error(fmt::format("'{}' carries {} compiled kernels, which are not allowed", graph.name, embedded.cubins.size()),
                "Kernels are code that would run: allow them for plans of people whom you trust, or make the plan without "
                "--embed-kernels.",
                ExitCode::usage);
  std::vector<WeightForm> forms = take_weight_forms(graph.model);
  const auto rewritten = graph.model.metadata.extract(plan_rewritten_key);
  const bool has_kernels = !embedded.arch.empty();
  const Platform platform =
      platform_for(options, {.tf32 = tf32, .constant_bytes = bytes_of_constants(graph)}, std::move(embedded), std::move(carried));
  if (platform.backend->is_host())
    for (WeightForm& f : forms) platform.context->weights.offer(f.weight.raw(), std::move(f.name), std::move(f.form));
  platform.context->stages = std::move(stages);
  clock.end("device");
  const fuse::Options fusing = plan::fuse_options(options);
  const fuse::PrecisionSummary done =
      fuse::convert_precision(graph, options.precision, options.keep_fp32, {.fusing = options.optimize ? &fusing : nullptr});
  if (done.converted > 0)
    info("{}: {} nodes compute in {}, {} stay in fp32, {} casts between them", graph.name, done.converted, options.precision,
         done.kept, done.casts);
  // The same rewrites came to rest on the graph, and would find nothing.
  const bool at_rest = done.converted == 0 && rewritten && rewritten.mapped() == fuse::text_of(fusing);
  if (at_rest && options.optimize)
    info("{}: the graph is at rest: it was rewritten by {}", graph.name, rewritten.mapped());
  else if (options.optimize)
    fuse::run(graph, fusing);
  if (const auto shapes = plan::fixed_shapes(graph); shapes && plan::inlines_decided(options)) {
    if (const auto decided = plan::DecidedGraphs().find(graph, *shapes)) {
      graph = clone(*decided->graph);
      fuse::run(graph, fusing);
    }
  }
  auto made = std::make_shared<PlanImpl>(std::move(graph), platform);
  clock.end("rewriting");
  made->prepare();
  made->choose_in_model();
  made->choose_early_launch(made_on == made->device() ? early : std::nullopt);
  if (const std::string here = made->device(); !made_on.empty() && !has_kernels && made_on != here) {
    const BuildInfo done = made->build_info();
    const int64_t measured = done.measured;
    std::string how = measured > 0 ? fmt::format("{} problems were measured again", measured)
                                   : "they are chosen by what was measured here before, or estimated";
    if (done.reused > 0)
      how = fmt::format("{} choices were reused from timings with another number of threads, {} problems were measured again",
                        done.reused, measured);
    if (done.narrowed > 0) how += fmt::format(", {} of them among the fastest there only", done.narrowed);
    const std::string line =
        fmt::format("{}: the plan's kernels were chosen on {}; this is {}: {}", made->graph().name, made_on, here, how);
    measured > 0 ? warn("{}", line) : info("{}", line);
  }
  return made;
}

}  // namespace

PlanImpl::PlanImpl(Graph graph, const Platform& platform)
    : planner_(std::move(graph), platform.context),
      platform_(platform),
      backend_(platform.backend),
      mapped_(mapped_weights(planner_.graph(), *platform.backend)),
      inputs_(infos(planner_.graph(), planner_.graph().inputs())),
      outputs_(infos(planner_.graph(), planner_.graph().outputs())),
      constant_bytes_(bytes_of_constants(planner_.graph())) {
  if (plan::inlines_decided(options())) deciding_ = plan::what_decides(planner_.graph());
  early_launch_.on = backend_->begins_early() && plan::tactic_filter(options()).asks_for(ops::early_launch);
  for (NodeId n : planner_.order()) {
    const Node& node = planner_.graph().node(n);
    if (plan::splits_plan(node)) splits_.push_back(node.name);
    has_if_ = has_if_ || node.is("If");
    for (const GraphPtr& g : plan::bodies_of(node)) {
      const auto body = plan_of_body(*g, node, true);
      constant_bytes_ += body->constant_bytes();
      bodies_.emplace(g.get(), body);
    }
  }
}

std::shared_ptr<const PlanImpl> PlanImpl::body(const Graph& g) const {
  const auto at = bodies_.find(&g);
  if (at == bodies_.end()) fail("graph '{}' is no body of a node of '{}'", g.name, graph().name);
  return at->second;
}

std::shared_ptr<const PlanImpl> PlanImpl::plan_of_body(const Graph& body, const Node& node, bool claims) const {
  Graph copy = body_with_constants(body, graph(), node);
  if (!claims) copy = plan::without_shapes(copy);
  if (options().optimize) fuse::run(copy, plan::fuse_options(options()));
  return std::make_shared<PlanImpl>(std::move(copy), platform_);
}

std::shared_ptr<const PlanImpl> PlanImpl::body_of_any_shape(const Graph& g) const {
  std::lock_guard lock(mutex_);
  auto& made = of_any_shape_[&g];
  if (made) return made;
  for (NodeId n : planner_.order())
    for (const GraphPtr& body : plan::bodies_of(graph().node(n)))
      if (body.get() == &g) return made = plan_of_body(g, graph().node(n), false);
  fail("graph '{}' is no body of a node of '{}'", g.name, graph().name);
}

std::shared_ptr<const PlanImpl> PlanImpl::decided(std::span<const Shape> shapes, std::span<const Tensor> values) const {
  if (!has_if_ || !plan::inlines_decided(options())) return nullptr;
  auto found = decided_graphs_.find(graph(), shapes, values);
  if (!found) return nullptr;
  std::lock_guard lock(mutex_);
  auto& made = decided_[std::move(found->decisions)];
  if (!made) {
    Graph fused = clone(*found->graph);
    fuse::run(fused, plan::fuse_options(options()));
    made = std::make_shared<PlanImpl>(std::move(fused), platform_);
  }
  return made;
}

std::unique_ptr<Execution> PlanImpl::execution() const { return std::make_unique<ExecutionImpl>(shared_from_this()); }

Tensor PlanImpl::place(const Tensor& t) const {
  if (!t.valid() || t.type() == DType::string || backend_->reaches(t.raw())) return t;
  Tensor placed = backend_->allocate(t.type(), t.shape(), "a tensor of the caller's");
  const std::shared_ptr<void> stream = backend_->stream();
  backend_->copy(placed.raw(), t.raw(), t.nbytes(), stream.get());
  backend_->wait(stream.get());
  return placed;
}

void PlanImpl::check_weights() const {
  for (const auto& file : mapped_) file->check_unchanged();
}

void PlanImpl::prepare() {
  if (const auto shapes = planner_.fixed_shapes()) {
    prepare(*shapes, plan::Measure::finalists);
    steps_ = plan::describe_steps(graph(), prepared_.front().segment->segment);
    return;
  }
  for (const ShapeProfile& profile : options().profiles)
    for (std::vector<Shape>& shapes : shapes_of(profile, inputs_)) prepare(std::move(shapes));
}

void PlanImpl::prepare(std::vector<Shape> shapes, plan::Measure measure) const {
  if (std::ranges::find(prepared_, shapes, &Prepared::shapes) != prepared_.end()) return;
  if (deciding_.shapes)
    if (const auto made = decided(shapes)) return made->prepare(std::move(shapes));
  prepare_decided(shapes);
  auto segment = std::make_unique<plan::PlannedSegment>(planner_.first(shapes, measure));
  if (context().target.is_host) plan::check_arena(segment->segment);
  prepared_.push_back({std::move(shapes), std::move(segment)});
}

void PlanImpl::prepare_decided(const std::vector<Shape>& shapes) const {
  if (!context().target.is_host || deciding_.inputs.empty()) return;
  const auto ones = [&](size_t i) { return elements(shapes[i]) == 1; };
  if (!std::ranges::all_of(deciding_.inputs, ones)) return;
  for (size_t form = 0; form < size_t{1} << deciding_.inputs.size(); ++form) {
    std::vector<Tensor> values(shapes.size());
    for (size_t k = 0; k < deciding_.inputs.size(); ++k) {
      const size_t i = deciding_.inputs[k];
      values[i] = Tensor::zeros(DType::boolean, shapes[i]);
      values[i].data<bool>()[0] = (form >> k) % 2 != 0;
    }
    if (const auto made = decided(shapes, values)) made->prepare(shapes);
  }
}

void PlanImpl::note_cost(double plan_s, double run_s) const {
  constexpr double runs = 10;
  if (plan_s < runs * run_s || said_cost_.exchange(true)) return;
  info(
      "{}: planning a shape that was not met before took {:.1f} ms, {:.0f} times its run. Ranges in --shapes "
      "(x:1x3x48x64:320:640) "
      "prepare shapes when the plan is built",
      graph().name, plan_s * 1e3, plan_s / run_s);
}

std::string PlanImpl::device() const { return tune::device_text(context().tuner.machine()); }

BuildInfo PlanImpl::build_info() const {
  const tune::TunerStats s = context().tuner.stats();
  return {options().tuning_level,
          s.problems,
          s.measured,
          s.cached,
          s.seconds,
          context().stages->list(),
          s.clocks,
          s.under_load,
          s.out_of_time,
          context().weights.bytes_made(),
          s.reused,
          s.narrowed};
}

std::vector<PlanImpl::Prepared> PlanImpl::take_prepared() const {
  std::lock_guard lock(mutex_);
  return std::exchange(prepared_, {});
}

void PlanImpl::put_prepared(std::vector<Prepared> prepared) const {
  std::lock_guard lock(mutex_);
  prepared_ = std::move(prepared);
}

void PlanImpl::choose_in_model() {
  if (run::choose_in_model(std::static_pointer_cast<PlanImpl>(shared_from_this())))
    steps_ = plan::describe_steps(graph(), prepared_.front().segment->segment);
}

void PlanImpl::choose_early_launch(const std::optional<plan::EarlyLaunch>& carried) {
  early_launch_ = run::choose_early_launch(std::static_pointer_cast<PlanImpl>(shared_from_this()), carried);
}

}  // namespace smelt::run

namespace smelt {

std::shared_ptr<const Plan> Plan::build(Graph graph, const Options& options) {
  const MemoryScope memory(plan::account_for(options));
  Stop stop(nullptr, 0, options.stop_when);
  const StopScope stoppable(stop);
  return run::build(std::move(graph), options, std::make_shared<plan::StageTimes>());
}

std::shared_ptr<const Plan> Plan::build(const std::string& path, const Options& options) {
  const MemoryScope memory(plan::account_for(options));
  Stop stop(nullptr, 0, options.stop_when);
  const StopScope stoppable(stop);
  ImportOptions wanted;
  wanted.shapes = options.shapes;
  wanted.supported = [gpu = plan::on_gpu(options)](std::string_view domain, std::string_view op) {
    return run::runs(domain, op) && !(gpu && ops::expanded_on_gpu(domain, op));
  };
  wanted.expand = ops::expand;
  auto stages = std::make_shared<plan::StageTimes>();
  plan::StageClock clock(*stages);
  run::OpeningInBackground opening(options);
  run::begin_code(options, path);
  Graph graph = import_model(path, wanted);
  clock.end("import");
  opening.wait();
  clock.end("device");
  try {
    return run::build(std::move(graph), options, std::move(stages));
  } catch (const Error& e) {
    throw e.code() == ExitCode::usage || e.code() == ExitCode::stopped ? e : e.at(path);
  }
}

}  // namespace smelt
